"""Tables of distances after some links have gone down: only what led over these links is searched again.

A goal's row is a tree of first links that leads to it. If a link is down, the brokers whose ways led over it are cut
off from that tree, mostly a few; each of them finds the nearest way back to the rest. All other entries stay the same.
What comes of it depends on the first tables and on the links that are down, not on the order in which they went down.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


def distances_without(offsets: Array, targets: Array, prices: Array, known: Distances, down: Array) -> Distances | None:
    """The table of the network without the links that are ``down`` (by a flag for each); first links count as in
    ``known``, with those that are down. None if distances have become too large for the table's numbers."""
    far, first = known.far.copy(), known.first.copy()
    order = np.argsort(targets, kind="stable")
    entering = np.searchsorted(targets[order], np.arange(len(offsets)))
    gone, prices = np.flatnonzero(down), np.asarray(prices, np.float64)
    sources = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kind = far.dtype
    no_way = np.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    goals = np.flatnonzero(known.row_of != NONE)
    network = offsets, targets, prices, sources, np.asarray(down, np.bool_), entering, order

    def search(rows: Array) -> bool:
        return bool(_repair(network, gone, goals[rows], known.row_of, far, first, no_way))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        fits = list(threads.map(search, np.array_split(np.arange(len(goals)), 4 * (os.cpu_count() or 1))))
    return Distances(known.row_of, far, first) if all(fits) else None


@kernel
def _repair(
    network: tuple[Array, Array, Array, Array, Array, Array, Array],
    gone: Array,
    goals: Array,
    row_of: Array,
    far: Array,
    first: Array,
    no_way: float,
) -> bool:
    """Repairs the rows of some goals. Returns whether all distances fit."""
    offsets, targets, prices, sources, down, entering, order = network
    count = len(offsets) - 1
    cut = np.full(count, NONE, np.int64)  # the goal that a broker is cut off from
    found, best, settled = np.empty(count, np.int64), np.empty(count), np.full(count, NONE, np.int64)
    heap = np.empty((2, 64))
    for goal in goals:
        row = row_of[goal]
        total = 0
        for link in gone:
            here = sources[link]
            if here != goal and cut[here] != goal and first[row, here] == link - offsets[here]:
                if far[row, here] < no_way:
                    cut[here], found[total] = goal, here
                    total += 1
        at = 0
        while at < total:
            for each in range(entering[found[at]], entering[found[at] + 1]):
                link = order[each]
                before = sources[link]
                if before != goal and cut[before] != goal and first[row, before] == link - offsets[before]:
                    if far[row, before] < no_way:
                        cut[before], found[total] = goal, before
                        total += 1
            at += 1
        size = 0
        for k in range(total):
            here = found[k]
            best[here] = np.inf
            for link in range(offsets[here], offsets[here + 1]):
                there = targets[link]
                if not down[link] and cut[there] != goal and far[row, there] < no_way:
                    best[here] = min(best[here], prices[link] + far[row, there])
            if best[here] < np.inf:
                heap, size = _pushed(heap, size, best[here], here)
        while size:
            price, here = heap[0, 0], int(heap[1, 0])
            size = pop(heap, size)
            if settled[here] == goal or price > best[here]:
                continue
            settled[here] = goal
            if price >= no_way and no_way < np.inf:
                return False
            far[row, here] = price
            for link in range(offsets[here], offsets[here + 1]):
                there = targets[link]
                is_ahead = cut[there] != goal or settled[there] == goal
                if not down[link] and is_ahead and there != here and far[row, there] < no_way:
                    if _same(prices[link] + far[row, there], price):
                        first[row, here] = link - offsets[here]
                        break
            for each in range(entering[here], entering[here + 1]):
                link = order[each]
                before = sources[link]
                if cut[before] == goal and settled[before] != goal and not down[link]:
                    if price + prices[link] < best[before]:
                        best[before] = price + prices[link]
                        heap, size = _pushed(heap, size, best[before], before)
        for k in range(total):
            if settled[found[k]] != goal:
                far[row, found[k]] = no_way
    return True


@kernel
def _pushed(heap: Array, size: int, price: float, broker: int) -> tuple[Array, int]:
    """The heap with one more, perhaps in a larger array."""
    if size == heap.shape[1]:
        larger = np.empty((2, 2 * size))
        larger[:, :size] = heap
        heap = larger
    return heap, push(heap, size, price, broker)


@kernel
def _same(one: float, other: float) -> bool:
    """Whether two sums are the same, as far as floats of 32 bits can tell."""
    return abs(one - other) <= 1e-6 * abs(other)
