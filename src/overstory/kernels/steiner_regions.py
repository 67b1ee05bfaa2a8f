"""Which node of a tree is nearest to each node around it, and the ways between these *regions* (Voronoi's diagram).

A *bridge* is a way between two nodes of the tree outside of it, over one link between their regions. If a part of the
tree is taken away, the cheapest way that joins what is left is a bridge, unless it leads over the region of a node that
is gone. Only bridges that cost less than a limit are looked for: both halves of such a way cost less than half as much,
up to the link in its middle, so regions need to be known only as far as that.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.heaps import longer, sift_down, sift_up
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes


class Regions(NamedTuple):
    """By node."""

    bases: Array  # the node of the tree that it is nearest to
    far: Array  # the price of the way between, infinite where no region is known
    before: Array  # the next node on it, towards the base
    settled: Array  # whether a search is done with it
    reached: Array  # a list of all nodes that are settled


class Bridges(NamedTuple):
    """In the order of their price. From the base of ``ones`` to the base of ``others``."""

    prices: Array
    ones: Array  # the ends of the link in the middle
    others: Array


@kernel
def new_regions(size: int) -> Regions:
    return Regions(
        np.full(size, NONE, np.int64),
        np.full(size, np.inf),
        np.full(size, NONE, np.int64),
        np.zeros(size, np.bool_),
        np.empty(size, np.int64),
    )


@kernel
def bridges_of(graph: Graph, nodes: Nodes, regions: Regions, limit: float) -> tuple[Bridges, int]:
    """All bridges that cost less than the limit, and the number of nodes that are settled."""
    reached = (
        _settle_evenly(graph, nodes, regions, limit / 2) if graph.even else _settle(graph, nodes, regions, limit / 2)
    )
    prices, ones, others = np.empty(256), np.empty(256, np.int64), np.empty(256, np.int64)
    offsets, targets, far, bases = graph.offsets, graph.targets, regions.far, regions.bases
    found = 0
    for at in range(reached):
        one = regions.reached[at]
        for link in range(offsets[one], offsets[one + 1]):
            other = targets[link]
            if other <= one or far[other] == np.inf or bases[one] == bases[other]:
                continue
            price = far[one] + graph.prices[link] + far[other]
            if price >= limit or is_in_tree(nodes.inside, nodes.parents, one, other):
                continue
            if found == len(prices):
                prices, ones, others = longer(prices), longer(ones), longer(others)
            prices[found], ones[found], others[found] = price, one, other
            found += 1
    order = np.argsort(prices[:found], kind="mergesort")
    return Bridges(prices[:found][order], ones[:found][order], others[:found][order]), reached


@inlined
def is_in_tree(inside: Array, parents: Array, one: int, other: int) -> bool:
    """Whether the tree has a link between two nodes."""
    return bool(inside[one] and inside[other] and (parents[one] == other or parents[other] == one))


@inlined
def _begin(nodes: Nodes, regions: Regions) -> int:
    """Each node of the tree is its own base. Returns how many there are."""
    for at in range(nodes.count[0]):
        node = nodes.members[at]
        regions.bases[node], regions.far[node], regions.before[node] = node, 0.0, NONE
        regions.reached[at] = node
    return nodes.count[0]


@kernel
def _settle_evenly(graph: Graph, nodes: Nodes, regions: Regions, radius: float) -> int:
    """Where all links cost the same: nodes are settled in the order in which they are reached."""
    bases, far, reached = regions.bases, regions.far, regions.reached
    count = _begin(nodes, regions)
    seen = 0
    while seen < count:
        here = reached[seen]
        seen += 1
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there, price = graph.targets[link], far[here] + graph.prices[link]
            if price >= radius:
                return count
            if far[there] == np.inf:
                far[there], bases[there], regions.before[there] = price, bases[here], here
                reached[count] = there
                count += 1
    return count


@kernel
def _settle(graph: Graph, nodes: Nodes, regions: Regions, radius: float) -> int:
    """Dijkstra's search from all nodes of the tree at once. Returns how many nodes are settled."""
    bases, far, reached = regions.bases, regions.far, regions.reached
    prices, items = np.empty(1024), np.empty(1024, np.int64)
    count = _begin(nodes, regions)
    seen, size = 0, 0
    while True:
        if seen < count:
            here = reached[seen]
        elif size:
            price, here = prices[0], items[0]
            size -= 1
            sift_down(prices, items, size)
            if price > far[here] or regions.settled[here]:
                continue
            regions.settled[here] = True
            reached[count] = here
            count += 1
        else:
            break
        seen += 1
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there, price = graph.targets[link], far[here] + graph.prices[link]
            if price < far[there] and price < radius:
                far[there], bases[there], regions.before[there] = price, bases[here], here
                if size == len(prices):
                    prices, items = longer(prices), longer(items)
                sift_up(prices, items, size, price, there)
                size += 1
    return count


@kernel
def forget_regions(regions: Regions, reached: int) -> None:
    for at in range(reached):
        regions.settled[regions.reached[at]] = False
        regions.far[regions.reached[at]] = np.inf
