"""Putting items back where they cost least, one rectangle after the other.

An item goes to a leaf that serves it as it is. Those who want the same rectangle and are left go together: to the leaf
whose filters, there and on the way up, grow least, or least for as many of them as can go there. That a leaf is full
does not matter if some of its items can go elsewhere (``chaining``): what they leave is room as good as any. Filters
only grow meanwhile, so that as soon as the whole costs more than it may, the rest need not be put back.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.bits import WORD, bit_of, lowest
from overstory.kernels.borrowing import borrowing
from overstory.kernels.chaining import Chains, cover, make_room, note, open_up
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Grown, let_in_path, path_cost
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items, Out, join

UNKNOWN, AT_LEAST, EXACT = 0, 1, 2  # what is known of a cost: nothing, that it is above a number, the number
OPENED = 8  # leaves of which one can find out whether they are open for one unit of work
LOOKED = 16  # items that can be looked at for one unit of work
LEAVES_TRIED = 5  # for an item; the last time only leaves that have room as they are


class Reach(NamedTuple):
    """The leaves of class i are between offsets i and i + 1; the children of node i between child_offsets i and i + 1,
    of which only nodes that are no leaves have some."""

    offsets: Array
    leaves: Array
    child_offsets: Array
    children: Array


class Prices(NamedTuple):
    """What a rectangle costs, as far as it is known."""

    costs: Array  # by leaf
    known: Array  # by leaf: UNKNOWN, AT_LEAST or EXACT
    grown: Grown


class Waiting(NamedTuple):
    """Those who want a rectangle and have no place yet."""

    items: Array
    could: Array  # by leaf: how many of them could go there


class Attempt(NamedTuple):
    """All that putting back looks at and changes."""

    ground: Ground
    items: Items
    state: State
    chains: Chains
    out: Out
    prices: Prices
    waiting: Waiting
    sharing: float  # how much it counts that several who wait can go to one leaf: 0 not at all, 1 in full


@borrowing
def total_cost(ground: Ground, state: State) -> float:
    total = 0.0
    for node in range(len(ground.prices)):
        total += ground.prices[node] * state.filters.weights[node]
    return total


@kernel
def put_back(
    ground: Ground, items: Items, state: State, chains: Chains, out: Out, distinct: int, grown: Grown, limit: float
) -> tuple[bool, int]:
    """Returns whether all items have found a place without the whole costing more than the limit, and the work that it
    took. Items that had to make room are out then as well."""
    leaves, work, cost = len(ground.capacity), 4 * distinct, total_cost(ground, state)
    prices = Prices(np.empty(leaves), np.zeros(leaves, np.int8), grown)
    waiting = Waiting(np.empty(out.count[0], np.int64), np.empty(leaves, np.int64))
    attempt = Attempt(ground, items, state, chains, out, prices, waiting, np.random.random())
    for rectangle in out.rectangles[:distinct][np.argsort(out.keys[:distinct])]:
        item, out.first[rectangle] = out.first[rectangle], NONE
        if cost <= limit:
            count = _put_for_nothing(attempt, item)
            cost, looked = _put_together(attempt, rectangle, count, cost, limit)
            work += looked
    return cost <= limit, work


@borrowing
def _put_for_nothing(attempt: Attempt, item: int) -> int:
    """Puts items of a rectangle where there is room under filters as they are. Returns how many others wait."""
    ground, items, state, count = attempt.ground, attempt.items, attempt.state, 0
    while item != NONE:
        leaf = _tightest(ground, items, state, item)
        if leaf != NONE:
            _put(attempt, item, leaf)
        else:
            attempt.waiting.items[count] = item
            count += 1
        item = attempt.out.after[item]
    return count


@borrowing
def _put(attempt: Attempt, item: int, leaf: int) -> None:
    attempt.state.leaf[item] = leaf
    attempt.state.load[leaf] += attempt.items.size[item]
    join(attempt.chains.served, attempt.items, leaf, item)
    note(attempt.chains, attempt.ground, attempt.items, attempt.state, item, leaf)


@borrowing
def _put_together(attempt: Attempt, rectangle: int, count: int, cost: float, limit: float) -> tuple[float, int]:
    """Puts all who wait for a rectangle at one leaf after the other. Returns what the whole costs then, which is
    infinite if somebody finds no place, and the work."""
    ground, state, chains = attempt.ground, attempt.state, attempt.chains
    work, failed = 0, 0
    for word in range(len(chains.refused)):
        chains.refused[word] = 0
    forget(attempt.prices, NONE, True)
    while count and cost <= limit:
        open_up(chains, state.load, ground.capacity, chains.usual)
        if failed >= LEAVES_TRIED:
            close_full_ones(chains, state.load, ground.capacity, 1)
        _count_who_could(attempt, count)
        leaf, looked = _serving(attempt, rectangle), count
        if leaf == NONE:
            leaf, looked = _cheapest(attempt, rectangle, limit - cost)
        work += len(ground.capacity) // OPENED + count + looked
        if leaf == NONE:
            return np.inf, work
        left, looked = _put_at(attempt, rectangle, count, leaf)
        work += looked // LOOKED
        failed += left == count
        count, cost = left, total_cost(ground, state)
    return cost, work


@borrowing
def _put_at(attempt: Attempt, rectangle: int, count: int, leaf: int) -> tuple[int, int]:
    """Puts those who wait at a leaf, while there is room or some can be made. Its filter grows before the first.
    Returns how many still wait, and the work."""
    ground, items, state, chains, waiting = (
        attempt.ground, attempt.items, attempt.state, attempt.chains, attempt.waiting.items,
    )  # fmt: skip
    word, bit, left, work, full = leaf // WORD, bit_of(leaf), 0, 0, False
    for at in range(count):
        item = waiting[at]
        fits = not full and ground.words[items.which[item], word] & bit != 0
        if fits and state.load[leaf] + items.size[item] > ground.capacity[leaf]:
            fits, looked = make_room(chains, ground, items, state, attempt.out, leaf, items.size[item])
            work += looked
            full = not fits
        if not fits:
            waiting[left] = item
            left += 1
            continue
        if not state.covered[rectangle, word] & bit:
            box = ground.rectangles[rectangle]
            let_in_path(ground.sums, ground.parent, state.filters, leaf, box, attempt.prices.grown)
            cover(chains, ground, items, state, state.filters.boxes[leaf], state.filters.counts[leaf], leaf)
            forget(attempt.prices, leaf, len(ground.prices) > len(ground.capacity))
        _put(attempt, item, leaf)
    if full:
        chains.refused[word] |= bit
    return left, work


@borrowing
def forget(prices: Prices, leaf: int, levels: bool) -> None:
    """What a rectangle costs at a leaf whose filter has grown, and with brokers above it at any leaf."""
    if levels:
        for each in range(len(prices.known)):
            prices.known[each] = UNKNOWN
    else:
        prices.known[leaf] = UNKNOWN


@borrowing
def _tightest(ground: Ground, items: Items, state: State, item: int) -> int:
    """Of the leaves with room that serve an item as they are the one whose filter weighs least, NONE if there is none:
    the room of leaves with wide filters is left to those who want wide rectangles."""
    load, weights, size = state.load, state.filters.weights, items.size[item]
    best, least, which, rectangle = NONE, np.inf, items.which[item], items.rectangle[item]
    for word in range(ground.words.shape[1]):
        bits = ground.words[which, word] & state.covered[rectangle, word]
        while bits:
            leaf = WORD * word + lowest(bits)
            bits &= bits - np.uint64(1)
            if weights[leaf] < least and load[leaf] + size <= ground.capacity[leaf]:
                best, least = leaf, weights[leaf]
    return best


@borrowing
def close_full_ones(chains: Chains, load: Array, capacity: Array, size: int) -> None:
    for leaf in range(len(load)):
        if load[leaf] + size > capacity[leaf]:
            chains.open[leaf // WORD] &= ~bit_of(leaf)


@borrowing
def _count_who_could(attempt: Attempt, count: int) -> None:
    """Counts by open leaf those of the waiting who may go there."""
    could, opened = attempt.waiting.could, attempt.chains.open
    for leaf in range(len(could)):
        could[leaf] = 0
    for at in range(count):
        item = attempt.waiting.items[at]
        for word in range(len(opened)):
            bits = attempt.ground.words[attempt.items.which[item], word] & opened[word]
            while bits:
                could[WORD * word + lowest(bits)] += attempt.items.size[item]
                bits &= bits - np.uint64(1)


@borrowing
def _serving(attempt: Attempt, rectangle: int) -> int:
    """Of the leaves where some of the waiting could go, and whose filters hold their rectangle, the one with the
    tightest filter; NONE if there is none."""
    state, best, least = attempt.state, NONE, np.inf
    for leaf in range(len(attempt.waiting.could)):
        serves = attempt.waiting.could[leaf] > 0 and state.covered[rectangle, leaf // WORD] & bit_of(leaf) != 0
        if serves and state.filters.weights[leaf] < least:
            best, least = leaf, state.filters.weights[leaf]
    return best


@borrowing
def _cheapest(attempt: Attempt, rectangle: int, most: float) -> tuple[int, int]:
    """The leaf where the rectangle costs least for as many as could go there, the least loaded of several; NONE if it
    costs more than ``most`` everywhere. And the work."""
    ground, state, costs, known = attempt.ground, attempt.state, attempt.prices.costs, attempt.prices.known
    best, least, lightest, work = NONE, np.inf, np.inf, 0
    for leaf in range(len(costs)):
        could, room = attempt.waiting.could[leaf], ground.capacity[leaf] - state.load[leaf]
        if could == 0:
            continue
        parts = (min(could, room) if room > 0 else could) ** attempt.sharing
        allowed = min(most, least * parts)
        if known[leaf] == AT_LEAST and costs[leaf] >= allowed:
            continue
        if known[leaf] != EXACT:
            cost = path_cost(
                ground.sums, ground.coarse, ground.prices, ground.parent, state.filters, leaf,
                ground.rectangles[rectangle], attempt.prices.grown, allowed,
            )  # fmt: skip
            work += 1
            costs[leaf], known[leaf] = (allowed, AT_LEAST) if cost > allowed else (cost, EXACT)
            if cost > allowed:
                continue
        score, load = costs[leaf] / parts, state.load[leaf] / ground.shares[leaf]
        if costs[leaf] <= most and (score < least or (score == least and load < lightest)):
            best, least, lightest = leaf, score, load
    return best, work


@borrowing
def by_rectangle(ground: Ground, reach: Reach, items: Items, out: Out) -> int:
    """Lists the items of each rectangle, and gives rectangles keys: chance, the widest first, the fewest leaves first,
    or along one dimension. Returns how many rectangles there are."""
    distinct = 0
    way, shift, noise = np.random.randint(5), np.random.randint(1 << 20), 0.3 * np.random.random()
    for at in range(out.count[0] - 1, -1, -1):
        item = out.items[at]
        rectangle = items.rectangle[item]
        if out.first[rectangle] == NONE:
            out.rectangles[distinct] = rectangle
            out.keys[distinct] = _key(ground.rectangles, rectangle, way, shift, noise)
            distinct += 1
        out.after[item] = out.first[rectangle]
        out.first[rectangle] = item
    if way == 2:
        for at in range(distinct):
            item, fewest = out.first[out.rectangles[at]], len(ground.capacity)
            while item != NONE:
                which = items.which[item]
                fewest = min(fewest, reach.offsets[which + 1] - reach.offsets[which])
                item = out.after[item]
            out.keys[at] += fewest
    return distinct


@borrowing
def _key(rectangles: Array, rectangle: int, way: int, shift: int, noise: float) -> float:
    chance = ((rectangle + shift) * 2654435761 % 4294967296) / 4294967296.0
    low_x, high_x = rectangles[rectangle, 0], rectangles[rectangle, 1]
    low_y, high_y = rectangles[rectangle, 2], rectangles[rectangle, 3]
    if way == 1:
        return -(high_x - low_x) * (high_y - low_y) * (1.0 + noise * chance)
    if way == 3:
        return low_x + high_x + noise * 100 * chance
    if way == 4:
        return low_y + high_y + noise * 100 * chance
    return chance
