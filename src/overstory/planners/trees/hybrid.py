"""Algorithm 3 of Majumder et al. down to some groups, then Algorithm 2: they suggest it, and leave open how many."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.configuration import with_trees
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.dendrogram import dendrogram
from overstory.planners.trees.mult2 import compute_multiple_trees_1
from overstory.planners.trees.parameters import count_of, seeds_of
from overstory.planners.trees.spanning import as_tables


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    ground, seeds = ground_of(demand, demand.fit), seeds_of(parameters, seed)
    start = most_similar(demand, count_of(parameters, "groups"))
    cluster = compute_multiple_trees_1(ground, demand, start, seeds[:1])
    return as_tables(scenario, demand, *with_trees(ground, demand, cluster, seeds))


def most_similar(demand: Demand, groups: int) -> Ints:
    """The group of each item, from 0 on. Clusters that match no event merge last, and are not counted."""
    tree = dendrogram(demand)
    idle = tree.leaves - len(np.unique(tree.leaf_of[demand.fit.items]))
    merged = min(max(tree.leaves - idle - groups, 0), len(tree.merges))
    _, group = np.unique(tree.clusters_after(merged)[tree.leaf_of], return_inverse=True)
    return group
