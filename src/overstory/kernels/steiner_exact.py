"""Cheapest Steiner trees, for few terminals: the subset dynamic programme of Erickson, Monma and Veinott (1987).

What the cheapest tree from a node to a set of terminals costs is known for smaller sets. It either parts at the node,
into trees for two sets that make up the whole; or it begins with a link, and goes on from there. So for each set all
partings are looked at, and then one search of Dijkstra's goes against the links. Prices may be directed.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.heaps import longer, sift_down, sift_up
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_search import Search

MOST_STEPS = 10**8  # about a second
LINK_STEPS = 4  # a link in a search takes as long as so many partings


class Entering(NamedTuple):
    """The links that enter node v stand between offsets v and v + 1."""

    offsets: Array
    sources: Array
    links: Array  # their numbers in the graph


@kernel
def steps_of(graph: Graph, terminals: int) -> float:
    """How long it takes for so many terminals besides the root."""
    nodes, links = float(len(graph.offsets) - 1), float(len(graph.targets))
    return 3.0**terminals * nodes + 2.0**terminals * LINK_STEPS * (links + nodes)


@kernel
def entering_of(graph: Graph) -> Entering:
    size = len(graph.offsets) - 1
    offsets = np.zeros(size + 1, np.int64)
    for target in graph.targets:
        offsets[target + 1] += 1
    offsets = np.cumsum(offsets)
    places, sources, links = (
        offsets.copy(),
        np.empty(len(graph.targets), np.int64),
        np.empty(len(graph.targets), np.int64),
    )
    for node in range(size):
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            place = places[graph.targets[link]]
            places[graph.targets[link]] += 1
            sources[place], links[place] = node, link
    return Entering(offsets, sources, links)


@kernel
def open_cheapest(graph: Graph, search: Search, root: int, terminals: Array) -> float:
    """Opens the links of a cheapest tree alone, and returns what it costs.

    Terminals can be reached, and differ from each other and from the root.
    """
    size, sets = len(graph.offsets) - 1, 1 << len(terminals)
    entering = entering_of(graph)
    costs = np.full((sets, size), np.inf)
    choices = np.full((sets, size), NONE, np.int64)  # the part that goes one way; or, from ``sets`` on, a link
    for number in range(len(terminals)):
        costs[1 << number, terminals[number]] = 0.0
    for group in range(1, sets):
        here, chosen = costs[group], choices[group]
        part = (group - 1) & group
        while part > group ^ part:
            one, other = costs[part], costs[group ^ part]
            for node in range(size):
                if one[node] + other[node] < here[node]:
                    here[node], chosen[node] = one[node] + other[node], part
            part = (part - 1) & group
        _spread(graph, entering, here, chosen, sets)
    search.is_open[:] = False
    _open(graph, search, choices, sets, root)
    return float(costs[sets - 1, root])


@kernel
def _spread(graph: Graph, entering: Entering, costs: Array, chosen: Array, sets: int) -> None:
    """Dijkstra's search, from all nodes with a cost at once, against the links."""
    prices, items = np.empty(1024), np.empty(1024, np.int64)
    size = 0
    for node in range(len(costs)):
        if costs[node] < np.inf:
            if size == len(prices):
                prices, items = longer(prices), longer(items)
            sift_up(prices, items, size, costs[node], node)
            size += 1
    while size:
        price, node = prices[0], items[0]
        size -= 1
        sift_down(prices, items, size)
        if price > costs[node]:
            continue
        for place in range(entering.offsets[node], entering.offsets[node + 1]):
            source, link = entering.sources[place], entering.links[place]
            if price + graph.prices[link] < costs[source]:
                costs[source], chosen[source] = price + graph.prices[link], sets + link
                if size == len(prices):
                    prices, items = longer(prices), longer(items)
                sift_up(prices, items, size, costs[source], source)
                size += 1


@kernel
def _open(graph: Graph, search: Search, choices: Array, sets: int, root: int) -> None:
    """Follows what was chosen, from the root and all terminals on."""
    groups, nodes = np.empty(sets + 1, np.int64), np.empty(sets + 1, np.int64)
    groups[0], nodes[0], waiting = sets - 1, root, 1
    while waiting:
        waiting -= 1
        group, node = groups[waiting], nodes[waiting]
        while choices[group, node] >= sets:
            link = choices[group, node] - sets
            search.is_open[link] = True
            node = graph.targets[link]
        part = choices[group, node]
        if part != NONE:
            groups[waiting], nodes[waiting] = part, node
            groups[waiting + 1], nodes[waiting + 1] = group ^ part, node
            waiting += 2
