"""How many brokers an event needs at the least, block by block of event space.

Subscribers around a block want every event in it, and each is served by one broker of its class that has room. So this
is a covering problem, and three numbers are never above its optimum:

* Classes whose brokers are disjoint need a broker each, or as many as those who can be served there and nowhere else
  fill.
* All subscribers together need as many brokers as the largest capacities say.
* Let every class have a *price*. If what a broker can serve, within its room, never has prices of more than 1 in sum,
  the prices of all subscribers in sum are no more than the brokers (duality of linear programmes). Prices are found by
  multiplicative weights: those who share the dearest broker get cheaper, over and over. Any prices make a valid bound,
  so that rounding errors and early stopping only weaken it.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel

ROUNDS = 80
LESS = 0.15  # by which prices fall in a round
EXACTNESS = 1e-6


@kernel
def demand_of(block: Array, rectangles: Array, counts: Array) -> Array:
    """By class: the subscribers that want all of a block."""
    demand = np.zeros(counts.shape[1], np.int64)
    for each in range(len(rectangles)):
        inside = rectangles[each, 0] <= block[0] and rectangles[each, 1] >= block[1]
        if inside and rectangles[each, 2] <= block[2] and rectangles[each, 3] >= block[3]:
            demand += counts[each]
    return demand


@kernel
def signatures(blocks: Array, rectangles: Array) -> Array:
    """A number for the rectangles around each block: blocks within the same ones have the same."""
    found = np.zeros(len(blocks), np.uint64)
    for at in range(len(blocks)):
        for each in range(len(rectangles)):
            inside = rectangles[each, 0] <= blocks[at, 0] and rectangles[each, 1] >= blocks[at, 1]
            if inside and rectangles[each, 2] <= blocks[at, 2] and rectangles[each, 3] >= blocks[at, 3]:
                mixed = (np.uint64(each) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
                mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
                found[at] += mixed ^ (mixed >> np.uint64(32))
    return found


@kernel
def brokers_needed(
    blocks: Array, rectangles: Array, counts: Array, words: Array, order: Array, capacity: Array
) -> Array:
    """By block. ``counts`` is by rectangle and class, ``order`` of classes, those with the fewest brokers first; who
    has no brokers is not asked about."""
    found = np.zeros(len(blocks), np.int64)
    sizes = np.sort(capacity)[::-1]
    for at in range(len(blocks)):
        demand = demand_of(blocks[at], rectangles, counts)
        for which in range(len(words)):
            if not _any(words[which]):
                demand[which] = 0
        used = np.zeros(words.shape[1], np.uint64)
        disjoint, total = 0, 0
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
        if found[at]:
            found[at] = max(found[at], _priced(words, demand, capacity, False), _priced(words, demand, capacity, True))
    return found


@kernel
def _any(words: Array) -> bool:
    for word in words:
        if word:
            return True
    return False


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
        if _has(inside, leaf):
            largest = max(largest, capacity[leaf])
    return max(-(-total // largest), 1)


@kernel
def _has(words: Array, leaf: int) -> bool:
    return (words[leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1) != np.uint64(0)


@kernel
def _priced(words: Array, demand: Array, capacity: Array, by_number: bool) -> int:
    """The bound of prices, rounded up. They begin equal for all classes, or equal for all subscribers; a broker then
    serves at most its room of them, at no more than 1 each."""
    classes, best = np.flatnonzero(demand), 0.0
    prices = demand[classes].astype(np.float64) if by_number else np.ones(len(classes))
    room = capacity.astype(np.float64) if by_number else np.full(len(capacity), np.inf)
    reach, sums = _reached(words, classes, prices, len(capacity))
    for _ in range(ROUNDS):
        dearest, most = 0, 0.0
        for leaf in range(len(capacity)):
            if min(sums[leaf], room[leaf]) > most:
                dearest, most = leaf, min(sums[leaf], room[leaf])
        if most <= 0.0:
            break
        best = max(best, prices.sum() / most)
        for at in range(len(classes)):
            if reach[at, dearest]:
                less = LESS * prices[at]
                prices[at] -= less
                for leaf in range(len(capacity)):
                    if reach[at, leaf]:
                        sums[leaf] -= less
    return int(np.ceil(best * (1.0 - EXACTNESS) - EXACTNESS))


@kernel
def _reached(words: Array, classes: Array, prices: Array, leaves: int) -> tuple[Array, Array]:
    """By class and broker whether it may go there; and by broker the prices of all who may."""
    reach, sums = np.zeros((len(classes), leaves), np.bool_), np.zeros(leaves)
    for at in range(len(classes)):
        for leaf in range(leaves):
            if _has(words[classes[at]], leaf):
                reach[at, leaf] = True
                sums[leaf] += prices[at]
    return reach, sums
