"""Trees from cores: everything outside of a core is attached to it by cheapest ways."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


@kernel
def hang_on_cores(
    offsets: Array, targets: Array, inward: Array, tops: Array, core_offsets: Array, core_links: Array, parents: Array
) -> None:
    """Sets row i of ``parents`` to a spanning tree: the links of core i, between its two offsets, lead away from its
    top, and every other broker's parent is next on its cheapest way to the core. ``inward`` is by link the price of the
    one that leads back."""
    sources = np.empty(len(targets), np.int64)
    for node in range(len(offsets) - 1):
        sources[offsets[node] : offsets[node + 1]] = node
    inside = np.zeros(len(offsets) - 1, np.bool_)
    for i in range(len(tops)):
        parent = parents[i]
        parent[:] = NONE
        inside[:] = False
        inside[tops[i]] = True
        for link in core_links[core_offsets[i] : core_offsets[i + 1]]:
            parent[targets[link]] = sources[link]
            inside[targets[link]] = True
        _attach(offsets, targets, inward, parent, inside)


@kernel
def _attach(offsets: Array, targets: Array, inward: Array, parent: Array, inside: Array) -> None:
    count = len(parent)
    distance, settled = np.full(count, np.inf), np.zeros(count, np.bool_)
    heap = np.empty((2, len(targets) + count))
    size = 0
    for node in range(count):
        if inside[node]:
            distance[node] = 0.0
            size = push(heap, size, 0.0, node)
    while size:
        here = int(heap[1, 0])
        size = pop(heap, size)
        if settled[here]:
            continue
        settled[here] = True
        for link in range(offsets[here], offsets[here + 1]):
            there, price = targets[link], distance[here] + inward[link]
            if not inside[there] and not settled[there] and price < distance[there]:
                distance[there], parent[there] = price, here
                size = push(heap, size, price, there)
