"""Algorithm 1 of Majumder et al.: one tree for everything, a low-stretch tree of the union of all Steiner trees.

The multiplicities are those of the whole part to fit, from Spark; the sample only says which of several low-stretch
trees is the cheapest.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from overstory.kernels.steiner import PLAN
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.clusters import Ground, ground_of
from overstory.planners.trees.compute_tree import low_stretch, spanning, union_of
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.parameters import count_of, seeds_of
from overstory.planners.trees.spanning import Tree, as_tables, cost_on


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    crossed = pipeline.multiplicities(scenario, base["attachments"], PLAN)
    tree = single_tree(ground_of(demand, demand.fit), demand, crossed, seeds_of(parameters, seed))
    return as_tables(scenario, demand, np.zeros(demand.items, np.int64), [tree])


def single_tree(ground: Ground, demand: Demand, crossed: Ints, seeds: Sequence[int]) -> Tree:
    """From what crosses each directed link. Links that lead only there may be crossed, but no tree has them."""
    m = np.zeros(len(ground.edges.one), np.int64)
    np.add.at(m, ground.edges.of_link, crossed[ground.network.back >= 0])
    union = union_of(ground, m)
    trees = [spanning(ground, union.edges[low_stretch(union, seed)]) for seed in seeds]
    instances = demand.instances(ground.rows, np.zeros(demand.items, np.int64), 1)
    return min(trees, key=lambda tree: cost_on(tree, ground.rows, instances))
