"""What steering each event costs on rows of a demand, beside one tree: in the units of ``objective``."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import graph_of
from overstory.kernels.steiner_router import Router, ways_of
from overstory.kernels.tree_cost import tree_costs
from overstory.model.network import Floats
from overstory.planners.trees.demand import Demand, Rows
from overstory.planners.trees.spanning import Tree


class RowCosts(NamedTuple):
    """By row: bytes times the prices of links."""

    steered: Floats
    tree: Floats


def steered_costs(demand: Demand, rows: Rows) -> Floats:
    """By row, if each event takes a Steiner tree of its own: those that brokers find on links of either direction."""
    network = demand.network
    found = demand.instances(rows, np.zeros(demand.items, np.int64), 1)
    costs = np.zeros(len(rows.roots))
    if len(found.rows):
        known = network.offsets, network.targets, network.prices
        goals = np.unique(np.concatenate([rows.roots[found.rows], found.terminals]))
        router = Router(ways_of(graph_of(*known), distances_to(*known, goals)))
        trees = router.trees(rows.roots[found.rows], found.terminal_offsets, found.terminals)
        costs[found.rows] = trees.costs
    return costs * rows.bytes


def row_costs(demand: Demand, rows: Rows, tree: Tree) -> RowCosts:
    found = demand.instances(rows, np.zeros(demand.items, np.int64), 1)
    some, costs = np.empty(len(found.rows)), np.zeros(len(rows.roots))
    tree_costs(*tree, rows.roots[found.rows], found.terminal_offsets, found.terminals, some)
    costs[found.rows] = some
    return RowCosts(steered_costs(demand, rows), costs * rows.bytes)
