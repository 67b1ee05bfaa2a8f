"""Putting items back where they cost least, one rectangle after the other.

An item goes to a leaf that serves it as it is, else to the one whose filters, there and on the way up, grow least. That
a leaf is full does not matter if some of its items can go elsewhere (``chaining``): what they leave is room as good as
any. Filters only grow meanwhile, so that as soon as the whole costs more than it may, the rest need not be put back.
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
    took. Items that had to make room are out then as well. What a rectangle costs at a leaf is kept until the next
    rectangle, or until a filter grows there or above."""
    leaves, work, placed = len(ground.capacity), 4 * distinct, True
    prices, cost = Prices(np.empty(leaves), np.zeros(leaves, np.int8), grown), total_cost(ground, state)
    for rectangle in out.rectangles[:distinct][np.argsort(out.keys[:distinct])]:
        item, out.first[rectangle] = out.first[rectangle], NONE
        prices.known[:] = UNKNOWN
        while item != NONE and placed:
            leaf, free = _tightest(ground, items, state, chains, item, False), True
            if leaf == NONE:
                leaf, free, looked = _with_room(ground, items, state, chains, out, prices, item, limit - cost)
                work += looked
            if leaf != NONE and not free:
                let_in_path(ground.sums, ground.parent, state.filters, leaf, ground.rectangles[rectangle], grown)
                cost = total_cost(ground, state)
                cover(chains, ground, items, state, state.filters.boxes[leaf], state.filters.counts[leaf], leaf)
                forget(prices, leaf, len(ground.prices) > leaves)
            placed = leaf != NONE and cost <= limit
            if placed:
                state.leaf[item] = leaf
                state.load[leaf] += items.size[item]
                join(chains.served, items, leaf, item)
                note(chains, ground, items, state, item, leaf)
            item = out.after[item]
    return placed, work


@borrowing
def forget(prices: Prices, leaf: int, levels: bool) -> None:
    """What a rectangle costs at a leaf whose filter has grown, and with brokers above it at any leaf."""
    if levels:
        prices.known[:] = UNKNOWN
    else:
        prices.known[leaf] = UNKNOWN


@borrowing
def _tightest(ground: Ground, items: Items, state: State, chains: Chains, item: int, opened: bool) -> int:
    """Of the leaves with room, or of those that are open, that serve an item as they are the one whose filter weighs
    least, NONE if there is none: the room of leaves with wide filters is left to those who want wide rectangles."""
    load, weights, size = state.load, state.filters.weights, items.size[item]
    best, least, which, rectangle = NONE, np.inf, items.which[item], items.rectangle[item]
    for word in range(ground.words.shape[1]):
        bits = ground.words[which, word] & state.covered[rectangle, word]
        if opened:
            bits &= chains.open[word]
        while bits:
            leaf = WORD * word + lowest(bits)
            bits &= bits - np.uint64(1)
            if weights[leaf] < least and (opened or load[leaf] + size <= ground.capacity[leaf]):
                best, least = leaf, weights[leaf]
    return best


@borrowing
def _with_room(
    ground: Ground, items: Items, state: State, chains: Chains, out: Out, prices: Prices, item: int, most: float
) -> tuple[int, bool, int]:
    """A leaf where there is room for an item now, NONE if there is none that adds at most so much; whether its filter
    holds the item; and the work."""
    size, work = items.size[item], 0
    for word in range(len(chains.refused)):
        chains.refused[word] = 0
    for tried in range(LEAVES_TRIED):
        open_up(chains, state.load, ground.capacity, min(size, chains.usual))
        if tried == LEAVES_TRIED - 1:
            close_full_ones(chains, state.load, ground.capacity, size)
        leaf = _tightest(ground, items, state, chains, item, True)
        free, looked = leaf != NONE, 0
        if not free:
            leaf, looked = _cheapest(ground, items, state, chains, prices, item, most)
        work += len(state.load) // OPENED + looked
        if leaf == NONE or state.load[leaf] + size <= ground.capacity[leaf]:
            return leaf, free, work
        found, looked = make_room(chains, ground, items, state, out, leaf, size)
        work += looked // LOOKED
        if found:
            return leaf, free, work
        chains.refused[leaf // WORD] |= bit_of(leaf)
    return NONE, False, work


@borrowing
def close_full_ones(chains: Chains, load: Array, capacity: Array, size: int) -> None:
    for leaf in range(len(load)):
        if load[leaf] + size > capacity[leaf]:
            chains.open[leaf // WORD] &= ~bit_of(leaf)


@borrowing
def _cheapest(
    ground: Ground, items: Items, state: State, chains: Chains, prices: Prices, item: int, most: float
) -> tuple[int, int]:
    """Of the open leaves the one where an item costs least, the least loaded of several, NONE if it costs more than
    ``most`` everywhere; and the work."""
    box, load, shares = ground.rectangles[items.rectangle[item]], state.load, ground.shares
    best, least, lightest, work, costs, known = NONE, most, np.inf, 0, prices.costs, prices.known
    for word in range(len(chains.open)):
        bits = ground.words[items.which[item], word] & chains.open[word]
        while bits:
            leaf = WORD * word + lowest(bits)
            bits &= bits - np.uint64(1)
            if known[leaf] == AT_LEAST and costs[leaf] >= least:
                continue
            if known[leaf] != EXACT:
                cost = path_cost(
                    ground.sums, ground.coarse, ground.prices, ground.parent, state.filters, leaf, box, prices.grown,
                    least,
                )  # fmt: skip
                work += 1
                if cost > least:
                    costs[leaf], known[leaf] = least, AT_LEAST
                    continue
                costs[leaf], known[leaf] = cost, EXACT
            if costs[leaf] < least or (costs[leaf] == least and load[leaf] / shares[leaf] < lightest):
                best, least, lightest = leaf, costs[leaf], load[leaf] / shares[leaf]
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
