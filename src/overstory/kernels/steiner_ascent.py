"""Trees from what dual ascent leaves behind: over saturated links alone, which lead from the root to all terminals.

Links of trees that are close to the bound have used up their price; few others have. So a tree that grows over these
links is good where prices differ. (Where all cost the same, so many links are saturated that they say little.)
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.ascent import Incoming, Work, ascend, incoming_of, new_ascent, room_for_searches
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.steiner_nodes import Nodes
from overstory.kernels.steiner_search import Search, grow_by_search


class Ascents(NamedTuple):
    """What all ascents of all instances write on."""

    work: Work
    numbers: Array  # of the next ascent, and of the last search


class Ascent(NamedTuple):
    """On one network."""

    incoming: Incoming
    links: Array  # the number in the graph of each incoming link
    work: Work
    numbers: Array


@kernel
def new_ascents(size: int, links: int) -> Ascents:
    return Ascents(new_ascent(size, links, size), np.zeros(2, np.int64))


@kernel
def ascent_on(graph: Graph, whole: Array, ascents: Ascents) -> Ascent:
    """``whole`` are the prices as integers."""
    incoming = incoming_of(graph.offsets, graph.targets, whole)
    places, links = incoming.offsets[:-1].copy(), np.empty(len(graph.targets), np.int64)
    for link in range(len(graph.targets)):
        links[places[graph.targets[link]]] = link
        places[graph.targets[link]] += 1
    return Ascent(incoming, links, ascents.work, ascents.numbers)


@kernel
def ascend_and_open(graph: Graph, ascent: Ascent, search: Search, root: int, ends: Array) -> int:
    """Opens the saturated links alone. Returns the bound."""
    incoming, links, work, numbers = ascent
    instance = numbers[0]
    numbers[1] = room_for_searches(work, numbers[1])
    bound, numbers[1], _ = ascend(incoming, work, instance, root, ends, numbers[1], True)
    numbers[0] += 1
    search.is_open[:] = False
    for node in range(len(graph.offsets) - 1):
        if work.nodes[node].known == instance:
            for place in range(incoming.offsets[node], incoming.offsets[node + 1]):
                if work.left[place] == 0:
                    search.is_open[links[place]] = True
    return bound


@kernel
def grow_over_saturated(
    graph: Graph, ascent: Ascent, nodes: Nodes, search: Search, root: int, ends: Array
) -> tuple[int, bool]:
    """A tree from the root to all ends. Returns the bound, and whether there is such a tree; there is one unless an end
    cannot be reached at all."""
    bound = ascend_and_open(graph, ascent, search, root, ends)
    return bound, grow_by_search(graph, nodes, search, root, len(ends))
