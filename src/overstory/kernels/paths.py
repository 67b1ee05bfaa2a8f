"""Cheapest paths from one broker to all, and forests.

Of several cheapest paths the same one is always taken, so that plans do not depend on chance: brokers are settled in
the order of price, then of number, and the way to one leads over the lowest-numbered neighbour, settled before it,
from which it is cheapest.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


@kernel
def cheapest_paths(
    offsets: Array, targets: Array, prices: Array, sources: Array, distances: Array, before: Array
) -> None:
    """For each source a row of ``distances`` and of the brokers ``before`` on the way; NONE at the source itself.
    Where there is no way, the distance is infinite."""
    count = len(offsets) - 1
    settled = np.empty(count, np.bool_)
    heap = np.empty((2, 64))
    for row in range(len(sources)):
        distance, previous = distances[row], before[row]
        distance[:] = np.inf
        previous[:] = NONE
        settled[:] = False
        distance[sources[row]] = 0.0
        heap[0, 0], heap[1, 0] = 0.0, sources[row]
        size = 1
        while size:
            here = int(heap[1, 0])
            size = pop(heap, size)
            if settled[here]:
                continue
            settled[here] = True
            for link in range(offsets[here], offsets[here + 1]):
                there, price = targets[link], distance[here] + prices[link]
                if settled[there]:
                    continue
                if price < distance[there]:
                    distance[there], previous[there] = price, here
                    if size == heap.shape[1]:
                        larger = np.empty((2, 2 * size))
                        larger[:, :size] = heap
                        heap = larger
                    size = push(heap, size, price, there)
                elif price == distance[there] and here < previous[there]:
                    previous[there] = here


@kernel
def _before(heap: Array, a: int, b: int) -> bool:
    return heap[0, a] < heap[0, b] or (heap[0, a] == heap[0, b] and heap[1, a] < heap[1, b])


@kernel
def _swap(heap: Array, a: int, b: int) -> None:
    price, broker = heap[0, a], heap[1, a]
    heap[0, a], heap[1, a] = heap[0, b], heap[1, b]
    heap[0, b], heap[1, b] = price, broker


@kernel
def push(heap: Array, size: int, price: float, broker: int) -> int:
    """Returns how many the heap then has; there must be room. The least price, then broker, is at 0."""
    heap[0, size], heap[1, size] = price, broker
    at = size
    while at and _before(heap, at, (at - 1) // 2):
        _swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2
    return size + 1


@kernel
def pop(heap: Array, size: int) -> int:
    size -= 1
    heap[0, 0], heap[1, 0] = heap[0, size], heap[1, size]
    at = 0
    while True:
        least = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < size and _before(heap, child, least):
                least = child
        if least == at:
            return size
        _swap(heap, at, least)
        at = least


@kernel
def root_forest(offsets: Array, neighbours: Array, parent: Array, depth: Array) -> int:
    """Parents and depths of the nodes of a forest, each tree from its lowest-numbered node. Returns how many links
    there are beyond those of a forest: 0 if it is one."""
    depth[:] = NONE
    queue = np.empty(len(parent), np.int64)
    trees = 0
    for root in range(len(parent)):
        if depth[root] != NONE:
            continue
        trees += 1
        parent[root], depth[root], queue[0] = NONE, 0, root
        first, last = 0, 1
        while first < last:
            node = queue[first]
            first += 1
            for edge in range(offsets[node], offsets[node + 1]):
                other = neighbours[edge]
                if depth[other] == NONE:
                    parent[other], depth[other], queue[last] = node, depth[node] + 1, other
                    last += 1
    return len(neighbours) // 2 - (len(parent) - trees)
