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


class Ascent(NamedTuple):
    incoming: Incoming
    work: Work
    links: Array  # the number in the graph of each incoming link
    numbers: Array  # of the next instance, and of the last search


@kernel
def new_ascents(offsets: Array, targets: Array, whole: Array) -> Ascent:
    """``whole`` are the prices as integers."""
    incoming = incoming_of(offsets, targets, whole)
    places, links = incoming.offsets[:-1].copy(), np.empty(len(targets), np.int64)
    for link in range(len(targets)):
        links[places[targets[link]]] = link
        places[targets[link]] += 1
    size = len(offsets) - 1
    return Ascent(incoming, new_ascent(size, len(targets), size), links, np.zeros(2, np.int64))


@kernel
def ascend_and_open(graph: Graph, ascent: Ascent, search: Search, root: int, ends: Array) -> int:
    """Opens the saturated links alone. Returns the bound."""
    incoming, work, links, numbers = ascent
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
