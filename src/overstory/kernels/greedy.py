"""The greedy algorithms of Yu, Agarwal and Yang: one subscriber after the other to the broker whose filters, there and
on the way up, it enlarges least; of several as good to the one that is loaded least.

``Gr`` takes subscribers in their order, ``Gr*`` always one of those with the fewest brokers left: subscribers of a
class have the same brokers, so classes are put in order, anew whenever a broker is full. With a flow *ahead* nobody is
assigned so that somebody else could not be any more.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.bits import has_bit
from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown, let_in_path, mark_covered, path_cost
from overstory.kernels.nothing import NONE
from overstory.kernels.reserving import Ahead, reserve

NO_EVICTION, NEXT, LATER = 0, 1, 2
MOST_EVICTIONS = 4  # of each subscriber, on average


class Ground(NamedTuple):
    """What does not change: the weights of events, the tree, the rectangles, the classes."""

    sums: Array
    coarse: Array  # of the sums: see ``volumes``
    prices: Array  # by node
    parent: Array  # by node
    rectangles: Array
    words: Array  # by class: the leaves that are in time, as bits
    shares: Array  # by leaf
    capacity: Array  # by leaf


class State(NamedTuple):
    """What has been decided so far."""

    filters: Filters
    covered: Array  # by rectangle: the leaves whose filters hold it, as bits
    load: Array  # by leaf
    leaf: Array  # by subscriber


@kernel
def choose(
    ground: Ground, state: State, rectangle: int, words: Array, capped: bool, grown: Grown, ahead: Ahead, which: int
) -> int:
    """The best leaf for a subscriber of a class, NONE if all that it may go to are full. It is the least loaded of
    those whose filters hold its rectangle as they are, else one whose filters grow least. ``words`` loses the leaves
    that would leave somebody else without a place; ``ahead`` without classes looks at nobody else."""
    box = ground.rectangles[rectangle]
    while True:
        best = _lightest_around(ground, state, rectangle, words, capped)
        least, lightest = np.inf, np.inf
        if best == NONE:
            for leaf in range(len(ground.capacity)):
                if not has_bit(words, leaf) or (capped and state.load[leaf] >= ground.capacity[leaf]):
                    continue
                cost = path_cost(
                    ground.sums, ground.coarse, ground.prices, ground.parent, state.filters, leaf, box, grown, least
                )
                load = (state.load[leaf] + 1.0) / max(ground.shares[leaf], 1e-300)
                if cost < least or (cost == least and load < lightest):
                    best, least, lightest = leaf, cost, load
        if best == NONE or len(ahead.flow) == 0 or reserve(ahead, which, best):
            return best
        words[best // 64] &= ~(np.uint64(1) << np.uint64(best % 64))


@borrowing
def _lightest_around(ground: Ground, state: State, rectangle: int, words: Array, capped: bool) -> int:
    """Of the leaves whose filters hold a rectangle as they are, the one that is loaded least; NONE if there is none."""
    best, lightest = NONE, np.inf
    for word in range(len(words)):
        bits = words[word] & state.covered[rectangle, word]
        leaf = 64 * word
        while bits:
            if bits & np.uint64(1) and not (capped and state.load[leaf] >= ground.capacity[leaf]):
                load = (state.load[leaf] + 1.0) / max(ground.shares[leaf], 1e-300)
                if load < lightest:
                    best, lightest = leaf, load
            bits >>= np.uint64(1)
            leaf += 1
    return best


@kernel
def put(ground: Ground, state: State, subscriber: int, rectangle: int, leaf: int, grown: Grown) -> None:
    state.leaf[subscriber] = leaf
    state.load[leaf] += 1
    if not has_bit(state.covered[rectangle], leaf):
        let_in_path(ground.sums, ground.parent, state.filters, leaf, ground.rectangles[rectangle], grown)
        mark_covered(ground.rectangles, state.filters, leaf, state.covered)


@kernel
def in_order(
    ground: Ground, state: State, rectangle: Array, which: Array, order: Array, grown: Grown, evict: int, seed: int
) -> int:
    """Gr: returns how many could not be assigned. With eviction some subscribers of the full brokers make room, and are
    assigned next or later."""
    np.random.seed(seed)
    nobody = Ahead(np.zeros((0, 0), np.int32), ground.capacity, ground.capacity, ground.words)
    count, budget, left = len(order), MOST_EVICTIONS * len(order), 0
    waiting = np.empty(count + budget + 1, np.int64)
    waiting[:count] = order
    first, last = 0, count
    members, place = _no_members(len(ground.capacity), len(rectangle) if evict != NO_EVICTION else 0)
    while first < last:
        one = waiting[first]
        first += 1
        words = ground.words[which[one]]
        leaf = choose(ground, state, rectangle[one], words, True, grown, nobody, which[one])
        if leaf == NONE and evict != NO_EVICTION and budget > 0:
            leaf = choose(ground, state, rectangle[one], words, False, grown, nobody, which[one])
            if leaf != NONE and state.load[leaf] > 0:
                out = members[leaf, np.random.randint(state.load[leaf])]
                _remove(state, members, place, out, leaf)
                budget -= 1
                if evict == NEXT:
                    first -= 1
                    waiting[first] = out
                else:
                    waiting[last] = out
                    last += 1
        if leaf == NONE:
            left += 1
            continue
        put(ground, state, one, rectangle[one], leaf, grown)
        if evict != NO_EVICTION:
            place[one] = state.load[leaf] - 1
            members[leaf, place[one]] = one
    return left


@kernel
def _no_members(leaves: int, subscribers: int) -> tuple[Array, Array]:
    """By leaf the subscribers that it has, and by subscriber its place there."""
    return np.full((leaves, subscribers), np.int32(NONE)), np.full(subscribers, NONE)


@kernel
def _remove(state: State, members: Array, place: Array, one: int, leaf: int) -> None:
    state.load[leaf] -= 1
    moved = members[leaf, state.load[leaf]]
    members[leaf, place[one]], place[moved] = moved, place[one]
    state.leaf[one] = NONE


@kernel
def fewest_first(
    ground: Ground, state: State, rectangle: Array, offsets: Array, members: Array, grown: Grown, ahead: Ahead
) -> int:
    """Gr*: returns how many could not be assigned. The subscribers of class i are between offsets i and i + 1."""
    classes, leaves = len(offsets) - 1, len(ground.capacity)
    words = ground.words.copy()
    at, left = offsets[:-1].copy(), 0
    while True:
        which = _fewest(words, state.load, ground.capacity, at, offsets)
        if which == NONE:
            return left
        full = np.sum(state.load >= ground.capacity)
        while at[which] < offsets[which + 1]:
            one = members[at[which]]
            leaf = choose(ground, state, rectangle[one], words[which], True, grown, ahead, which)
            at[which] += 1
            if leaf == NONE:
                left += 1
                continue
            put(ground, state, one, rectangle[one], leaf, grown)
            if state.load[leaf] >= ground.capacity[leaf] and np.sum(state.load >= ground.capacity) > full:
                break
    return left if classes and leaves else 0


@borrowing
def _fewest(words: Array, load: Array, capacity: Array, at: Array, offsets: Array) -> int:
    """The class with the fewest brokers left, the first of several; NONE if no class has subscribers left."""
    best, fewest = NONE, len(capacity) + 1
    for which in range(len(at)):
        if at[which] == offsets[which + 1]:
            continue
        count = 0
        for leaf in range(len(capacity)):
            if load[leaf] < capacity[leaf] and has_bit(words[which], leaf):
                count += 1
        if count < fewest:
            best, fewest = which, count
    return best


@kernel
def regardless(ground: Ground, state: State, rectangle: Array, which: Array, grown: Grown) -> None:
    """Assigns those who have no place yet, whatever the loads: the best effort of an algorithm that has failed."""
    nobody = Ahead(np.zeros((0, 0), np.int32), ground.capacity, ground.capacity, ground.words)
    for one in range(len(rectangle)):
        if state.leaf[one] == NONE:
            words = ground.words[which[one]]
            leaf = choose(ground, state, rectangle[one], words, False, grown, nobody, which[one])
            if leaf != NONE:
                put(ground, state, one, rectangle[one], leaf, grown)
