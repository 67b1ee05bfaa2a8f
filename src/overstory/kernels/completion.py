"""From a forest to a spanning tree: everything else attached by cheapest paths."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


@kernel
def attach_rest(offsets: Array, targets: Array, prices: Array, kept: Array, start: int, by: Array) -> None:
    """Sets ``by`` to the link that leads to each broker that can be reached from ``start``, NONE there. ``kept`` says
    which links are of the forest, in both directions; prices are the same in both.

    The tree of ``start`` comes first. Each other broker hangs on the cheapest path to the nearest broker of a tree; a
    path that meets another tree of the forest brings it in whole."""
    count = len(offsets) - 1
    distance, settled = np.full(count, np.inf), np.zeros(count, np.bool_)
    heap, queue = np.empty((2, len(targets) + 1)), np.empty(count, np.int64)
    by[:] = NONE
    distance[start] = 0.0
    size = push(heap, 0, 0.0, start)
    while size:
        here = int(heap[1, 0])
        size = pop(heap, size)
        if settled[here]:
            continue
        size = _settle(offsets, targets, prices, kept, here, queue, distance, settled, by, heap, size)


@kernel
def _settle(
    offsets: Array,
    targets: Array,
    prices: Array,
    kept: Array,
    here: int,
    queue: Array,
    distance: Array,
    settled: Array,
    by: Array,
    heap: Array,
    size: int,
) -> int:
    """A broker and the tree of the forest that it is in. Returns the size of the heap then."""
    queue[0], settled[here], first, last = here, True, 0, 1
    while first < last:
        node = queue[first]
        first += 1
        for link in range(offsets[node], offsets[node + 1]):
            there = targets[link]
            if kept[link] and not settled[there]:
                queue[last], settled[there], by[there] = there, True, link
                last += 1
    for at in range(last):
        node = queue[at]
        if last > 1:
            distance[node] = 0.0  # in a tree
        for link in range(offsets[node], offsets[node + 1]):
            there, price = targets[link], distance[node] + prices[link]
            if not settled[there] and price < distance[there]:
                distance[there], by[there] = price, link
                size = push(heap, size, price, there)
    return size
