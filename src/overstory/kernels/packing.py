"""How many leaf brokers an event needs at the least, block by block of event space.

Subscribers around a block want every event in it. Classes of such subscribers whose brokers are disjoint need a broker
each, or as many as those who can be served there and nowhere else fill. And all of them together need as many brokers
as the largest capacities say.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel


@kernel
def brokers_needed(
    blocks: Array, rectangles: Array, counts: Array, words: Array, order: Array, capacity: Array
) -> Array:
    """By block. ``counts`` is by rectangle and class, ``order`` of classes, those with the fewest brokers first."""
    found, classes = np.zeros(len(blocks), np.int64), len(words)
    sizes = np.sort(capacity)[::-1]
    for at in range(len(blocks)):
        demand, total = np.zeros(classes, np.int64), 0
        for each in range(len(rectangles)):
            inside = rectangles[each, 0] <= blocks[at, 0] and rectangles[each, 1] >= blocks[at, 1]
            if inside and rectangles[each, 2] <= blocks[at, 2] and rectangles[each, 3] >= blocks[at, 3]:
                demand += counts[each]
        used = np.zeros(words.shape[1], np.uint64)
        disjoint = 0
        for which in order:
            total += demand[which]
            if demand[which] and not _meet(words[which], used):
                used |= words[which]
                disjoint += _needed(words, demand, words[which], capacity)
        enough = 0
        while enough < len(sizes) and total > 0:
            total -= sizes[enough]
            enough += 1
        found[at] = max(disjoint, enough)
    return found


@kernel
def _meet(one: Array, other: Array) -> bool:
    for at in range(len(one)):
        if one[at] & other[at]:
            return True
    return False


@kernel
def _needed(words: Array, demand: Array, inside: Array, capacity: Array) -> int:
    """Brokers of a set that its own subscribers, those who have no other, fill."""
    total, largest = 0, 1
    for which in range(len(words)):
        if demand[which]:
            own = True
            for at in range(len(inside)):
                if words[which, at] & ~inside[at]:
                    own = False
                    break
            if own:
                total += demand[which]
    for leaf in range(len(capacity)):
        if inside[leaf // 64] >> np.uint64(leaf % 64) & np.uint64(1):
            largest = max(largest, capacity[leaf])
    return max(-(-total // largest), 1)
