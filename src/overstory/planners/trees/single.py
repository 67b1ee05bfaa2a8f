"""Algorithm 1 of Majumder et al.: one tree for everything, a low-stretch tree of the union of all Steiner trees."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.clusters import clusters_of, ground_of
from overstory.planners.trees.compute_tree import compute_tree, spanning
from overstory.planners.trees.demand import demand_of
from overstory.planners.trees.parameters import count_of, seeds_of
from overstory.planners.trees.spanning import as_tables


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    ground = ground_of(demand, demand.fit)
    one_group = np.zeros(demand.items, np.int64)
    [everything] = clusters_of(ground, demand, one_group, 1)
    forest = compute_tree(ground, everything, seeds_of(parameters, seed))
    return as_tables(scenario, demand, one_group, [spanning(ground, forest.edges)])
