"""python -m overstory.planners: compiles the kernels of planners, so that the first plan does not have to wait."""

import numpy as np

from overstory.model.network import Network
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.demand import Demand, Rows
from overstory.planners.trees.geo_mult import best_groups
from overstory.planners.trees.mult import compute_multiple_trees_2
from overstory.planners.trees.mult2 import compute_multiple_trees_1
from overstory.planners.trees.tree_search import search


def small_demand() -> Demand:
    """A ring of four brokers, two filters, two events."""
    here, there = np.arange(4), np.roll(np.arange(4), -1)
    ends = np.concatenate([here, there]), np.concatenate([there, here])
    network = Network.between(here, *ends, np.ones(8), np.ones(8))
    rows = Rows(np.array([0, 1]), np.array([0, 2, 4]), np.array([0, 1, 1, 2]), np.array([1, 1]))
    items = np.arange(3)
    return Demand(network, items, np.array([1, 2, 3]), np.array([0, 0, 1]), rows, rows)


if __name__ == "__main__":
    demand = small_demand()
    ground = ground_of(demand, demand.fit)
    search(demand, True, 10, "choose")
    compute_multiple_trees_2(ground, demand, [0])
    compute_multiple_trees_1(ground, demand, demand.item_predicate, [0])
    best_groups(demand, ("filter", "subscription"), [1, 2], 0)
