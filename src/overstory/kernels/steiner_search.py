"""Trees grown by a search, where no table of distances holds: at other prices, or over some of the links only.

One search of Dijkstra's from the whole tree: as soon as it comes upon an end that the tree lacks, the way there joins
the tree, and the search goes on from it.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.heaps import longer, sift_down, sift_up
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes, forget, take_in


class Search(NamedTuple):
    """By node, unless said otherwise."""

    far: Array  # how far it is from the tree
    sources: Array  # where the way from the tree comes from
    links: Array  # the link from there
    reached: Array  # a list of the nodes whose distance is known
    is_open: Array  # by link: whether a tree may use it


@kernel
def new_search(nodes: int, links: int) -> Search:
    return Search(
        np.full(nodes, np.inf),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.ones(links, np.bool_),
    )


@kernel
def grow_by_search(graph: Graph, nodes: Nodes, search: Search, start: int, count: int) -> bool:
    """A tree from the start to all of so many ends, over open links. Returns whether they can be reached."""
    far, reached, known = search.far, search.reached, 1
    prices, items = np.empty(1024), np.empty(1024, np.int64)
    forget(nodes)
    take_in(nodes, start)
    nodes.parents[start], nodes.links[start] = NONE, NONE
    missing = count - 1 if nodes.is_end[start] else count
    far[start], reached[0] = 0.0, start
    prices[0], items[0], size = 0.0, start, 1
    while missing and size:
        price, here = prices[0], items[0]
        size -= 1
        sift_down(prices, items, size)
        if price > far[here]:
            continue
        if nodes.is_end[here] and not nodes.inside[here]:
            missing -= 1
            while size + nodes.count[0] + len(reached) >= len(prices):
                prices, items = longer(prices), longer(items)
            size = _join(nodes, search, here, prices, items, size)
            continue
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there, farther = graph.targets[link], price + graph.prices[link]
            if farther < far[there] and search.is_open[link]:
                if far[there] == np.inf:
                    reached[known] = there
                    known += 1
                far[there], search.sources[there], search.links[there] = farther, here, link
                if size == len(prices):
                    prices, items = longer(prices), longer(items)
                sift_up(prices, items, size, farther, there)
                size += 1
    for at in range(known):
        far[reached[at]] = np.inf
    return missing == 0


@kernel
def _join(nodes: Nodes, search: Search, end: int, prices: Array, items: Array, size: int) -> int:
    """Takes in the way to an end, and goes on from it. Returns how many entries the heap has."""
    node = end
    while not nodes.inside[node]:
        take_in(nodes, node)
        nodes.parents[node], nodes.links[node] = search.sources[node], search.links[node]
        search.far[node] = 0.0
        sift_up(prices, items, size, 0.0, node)
        size += 1
        node = search.sources[node]
    return size
