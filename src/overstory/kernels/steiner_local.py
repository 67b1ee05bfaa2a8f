"""Local search: a Steiner tree is changed for as long as a change gains. Prices are mutual.

Insertions of Steiner vertices and changes of key paths and branches take turns, until neither gains. A tree never
becomes dearer, and each round has to gain something beyond what floats are rounded by.
"""

from typing import NamedTuple

from overstory.kernels.compiling import kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.steiner_insertion import Past, insert_all
from overstory.kernels.steiner_keys import Keys, find_changes, lay_keys, make_changes
from overstory.kernels.steiner_nodes import Nodes, span
from overstory.kernels.steiner_regions import Regions, bridges_of, forget_regions

ENOUGH = 1e-9  # of a tree's cost: what a change must gain


class Bench(NamedTuple):
    """What trees are improved on, one after the other."""

    nodes: Nodes
    past: Past
    keys: Keys
    regions: Regions


@kernel
def insert_and_span(graph: Graph, nodes: Nodes, past: Past, root: int, cost: float) -> float:
    """Inserts Steiner vertices into a spanned tree, until none gains; returns what it costs then."""
    while insert_all(graph, nodes, past, ENOUGH * cost) > 0:
        cost = span(graph, nodes, root)
    return cost


@kernel
def improve(graph: Graph, bench: Bench, root: int, rounds: int, enough: float) -> float:
    """Of the bench's nodes, until they cost less than ``enough``; returns what the tree then costs."""
    nodes, past = bench.nodes, bench.past
    cost = span(graph, nodes, root)
    for _ in range(rounds):
        if cost < enough:
            break
        cost = insert_and_span(graph, nodes, past, root, cost)
        if cost < enough or change_keys(graph, bench, ENOUGH * cost) <= 0:
            break
        cost = span(graph, nodes, root)
    return cost


@kernel
def change_keys(graph: Graph, bench: Bench, least: float) -> float:
    """Returns what was gained. The nodes have to be spanned after that."""
    nodes, keys, regions = bench.nodes, bench.keys, bench.regions
    dearest = lay_keys(nodes, keys)
    bridges, reached = bridges_of(graph, nodes, regions, dearest)
    find_changes(nodes, keys, regions, bridges)
    gained = make_changes(nodes, keys, regions, bridges, least)
    forget_regions(regions, reached)
    return gained
