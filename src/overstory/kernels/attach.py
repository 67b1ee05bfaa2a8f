"""From a forest to a spanning tree: everything outside of it is attached by cheapest ways.

The tree of the start comes first. Each other broker hangs on the cheapest way to the nearest broker of a tree; a way
that meets another tree of the forest brings it in whole. A core is a forest of one tree.
"""

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


@kernel
def attach_rest(graph: Graph, kept: Array, start: int, by: Array) -> None:
    """Sets ``by`` to the link that leads to each broker that can be reached from ``start``, NONE there. ``kept`` says
    which links are of the forest, at least in the direction away from the start. A way costs what the graph says of
    its links, each in the direction away from the tree."""
    offsets, targets, prices, count = graph.offsets, graph.targets, graph.prices, len(graph.offsets) - 1
    distance, settled = np.full(count, np.inf), np.zeros(count, np.bool_)
    queue, heap = np.empty(count, np.int64), np.empty((2, len(targets) + 1))
    by[:] = NONE
    distance[start] = 0.0
    size = push(heap, 0, 0.0, start)
    while size:
        here = int(heap[1, 0])
        size = pop(heap, size)
        if settled[here]:
            continue
        last = _bring_in(offsets, targets, kept, here, settled, queue, by)
        for at in range(last):
            node = queue[at]
            if last > 1:
                distance[node] = 0.0  # in a tree
            for link in range(offsets[node], offsets[node + 1]):
                there, price = targets[link], distance[node] + prices[link]
                if not settled[there] and price < distance[there]:
                    distance[there], by[there] = price, link
                    size = push(heap, size, price, there)


@inlined
def _bring_in(offsets: Array, targets: Array, kept: Array, here: int, settled: Array, queue: Array, by: Array) -> int:
    """Settles a broker and the tree of the forest that it is in, and lists them. Returns how many they are."""
    queue[0], settled[here], first, last = here, True, 0, 1
    while first < last:
        node = queue[first]
        first += 1
        for link in range(offsets[node], offsets[node + 1]):
            there = targets[link]
            if kept[link] and not settled[there]:
                queue[last], settled[there], by[there] = there, True, link
                last += 1
    if last > 1:
        queue[:last].sort()  # of equally cheap ways that from the lowest-numbered broker
    return last


@kernel
def hang_on_cores(graph: Graph, tops: Array, core_offsets: Array, core_links: Array, parents: Array) -> None:
    """Sets row i of ``parents`` to a spanning tree: the links of core i, between its two offsets, lead away from its
    top, and every other broker's parent is next on its cheapest way to the core. The graph's prices are those of the
    ways to it: of each link that of the one that leads back."""
    count = len(graph.offsets) - 1
    sources = np.empty(len(graph.targets), np.int64)
    for node in range(count):
        sources[graph.offsets[node] : graph.offsets[node + 1]] = node
    kept, by = np.zeros(len(graph.targets), np.bool_), np.empty(count, np.int64)
    for i in range(len(tops)):
        core = core_links[core_offsets[i] : core_offsets[i + 1]]
        for link in core:
            kept[link] = True
        attach_rest(graph, kept, tops[i], by)
        for link in core:
            kept[link] = False
        for node in range(count):
            parents[i, node] = NONE if by[node] == NONE else sources[by[node]]
