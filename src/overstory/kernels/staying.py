"""Search for better assignments that moves few: as ``ruining``, but to be away from home costs a price.

Everybody has a home, the leaf where he is when the search begins; whoever has only just come has none yet. What is
sought is the least cost of filters plus the price for each subscriber who is away from home. So an item goes back to
its home if that holds it and has room. Else it goes where its move, the growth of filters and the chain of moves that
makes room for it cost least together.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.bits import WORD, bit_of, lowest
from overstory.kernels.borrowing import borrowing
from overstory.kernels.chaining import Chains, chains_for, cover, make_room, note, open_up
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, grown_for, let_in_path, path_cost
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.recreating import (
    AT_LEAST,
    EXACT,
    LEAVES_TRIED,
    LOOKED,
    OPENED,
    UNKNOWN,
    Prices,
    Reach,
    by_rectangle,
    close_full_ones,
    forget,
    total_cost,
)
from overstory.kernels.ruining import ATTEMPT, copied, copy_filters, undo
from overstory.kernels.served import Items, Out, join, nothing_out
from overstory.kernels.taking_out import drawn_way, learn, take_out, ways_for

NOBODY_AHEAD = 0  # chains move no more than they have to


class Home(NamedTuple):
    leaf: Array  # by item, NONE of those who have just come
    moved: Array  # one number: subscribers who are away from home
    price: float  # of each of them
    most: int  # of them
    prices: Prices  # of the rectangle that is being put back


def home_of(leaf: Array, filters: Filters, leaves: int, price: float, most: int) -> Home:
    prices = Prices(np.empty(leaves), np.zeros(leaves, np.int8), grown_for(filters.boxes.shape[1]))
    return Home(leaf, np.zeros(1, np.int64), price, most, prices)


@kernel
def improve_near(
    ground: Ground, reach: Reach, items: Items, state: State, home: Home, budget: int, seed: int
) -> tuple[float, int]:
    """Changes the state into the best that was found. Returns what its filters cost, and how many are away from home.
    ``budget`` is work, as in ``ruining.improve``."""
    np.random.seed(seed)
    out = nothing_out(len(items.size), len(ground.rectangles))
    chains = chains_for(ground, items, state, len(ground.capacity), NOBODY_AHEAD)
    filters, load = copied(state.filters), state.load.copy()
    cost = total_cost(ground, state) + home.price * home.moved[0]
    spent, ways = 0, ways_for(cost)
    while spent < budget:
        before, begun, had, way = home.moved[0], spent, cost, drawn_way(ways)
        looked = take_out(ground, reach, items, state, chains, out, way)
        home.moved[0] -= _away(items, home, out.leaf, out)
        spent += 2 * (out.count[0] + looked) + ATTEMPT
        distinct = by_rectangle(ground, reach, items, out)
        placed, work = put_back_near(ground, items, state, chains, out, distinct, home, cost)
        spent += work
        if placed:
            home.moved[0] = before + _away_now(items, home, state, out) - _away(items, home, out.leaf, out)
            now = total_cost(ground, state) + home.price * home.moved[0]
            placed = now <= cost and home.moved[0] <= max(home.most, before)
        if placed:
            cost = now
            copy_filters(state.filters, filters)
            load[:] = state.load
        else:
            home.moved[0] = before
            undo(ground, items, state, out, chains, filters)
            state.load[:] = load
        learn(ways, way, had - cost, spent - begun)
        for at in range(out.count[0]):
            out.is_out[out.items[at]] = False
        out.count[0] = 0
    return total_cost(ground, state), home.moved[0]


@borrowing
def _away(items: Items, home: Home, leaf: Array, out: Out) -> int:
    """Subscribers, of those who are out, who were away from home: ``leaf`` is by place in ``out``."""
    away = 0
    for at in range(out.count[0]):
        item = out.items[at]
        if home.leaf[item] != NONE and leaf[at] != home.leaf[item]:
            away += items.size[item]
    return away


@borrowing
def _away_now(items: Items, home: Home, state: State, out: Out) -> int:
    away = 0
    for at in range(out.count[0]):
        item = out.items[at]
        if home.leaf[item] != NONE and state.leaf[item] != home.leaf[item]:
            away += items.size[item]
    return away


@kernel
def put_back_near(
    ground: Ground, items: Items, state: State, chains: Chains, out: Out, distinct: int, home: Home, limit: float
) -> tuple[bool, int]:
    """Returns whether all items have found a place without filters and moves costing more than the limit, and the work
    that it took. Items that had to make room are out then as well, and ``moved`` counts them as new moves."""
    work, placed, prices, cost = 4 * distinct, True, home.prices, total_cost(ground, state)
    for rectangle in out.rectangles[:distinct][np.argsort(out.keys[:distinct])]:
        item, out.first[rectangle] = out.first[rectangle], NONE
        prices.known[:] = UNKNOWN
        while item != NONE and placed:
            leaf, size = home.leaf[item], items.size[item]
            if leaf == NONE or not _holds(state, rectangle, leaf) or state.load[leaf] + size > ground.capacity[leaf]:
                most = limit - cost - home.price * home.moved[0]
                leaf, looked = _nearest(ground, items, state, chains, out, home, item, most)
                work += looked
            placed = leaf != NONE
            if placed:
                if not _holds(state, rectangle, leaf):
                    box = ground.rectangles[rectangle]
                    let_in_path(ground.sums, ground.parent, state.filters, leaf, box, prices.grown)
                    cost = total_cost(ground, state)
                    cover(chains, ground, items, state, state.filters.boxes[leaf], state.filters.counts[leaf], leaf)
                    forget(prices, leaf, len(ground.prices) > len(ground.capacity))
                state.leaf[item] = leaf
                state.load[leaf] += size
                join(chains.served, items, leaf, item)
                note(chains, ground, items, state, item, leaf)
                home.moved[0] += size if home.leaf[item] != NONE and home.leaf[item] != leaf else 0
                placed = cost + home.price * home.moved[0] <= limit
            item = out.after[item]
    return placed, work


@borrowing
def _holds(state: State, rectangle: int, leaf: int) -> bool:
    return state.covered[rectangle, leaf // WORD] & bit_of(leaf) != 0


@borrowing
def _nearest(
    ground: Ground,
    items: Items,
    state: State,
    chains: Chains,
    out: Out,
    home: Home,
    item: int,
    most: float,
) -> tuple[int, int]:
    """The leaf where an item costs least, with room for it now, NONE if it costs more than ``most`` everywhere; and the
    work."""
    size, work = items.size[item], 0
    for word in range(len(chains.refused)):
        chains.refused[word] = 0
    for tried in range(LEAVES_TRIED):
        open_up(chains, state.load, ground.capacity, min(size, chains.usual))
        if tried == LEAVES_TRIED - 1:
            close_full_ones(chains, state.load, ground.capacity, size)
        leaf, looked = _cheapest_near(ground, items, state, chains, home, item, most)
        work += len(state.load) // OPENED + looked
        if leaf == NONE or state.load[leaf] + size <= ground.capacity[leaf]:
            return leaf, work
        found, looked = make_room(chains, ground, items, state, out, leaf, size)
        work += looked // LOOKED
        if found:
            for at in range(chains.moves[0]):
                one = chains.moved[at]
                if home.leaf[one] == chains.source[at]:
                    home.moved[0] += items.size[one]
            return leaf, work
        chains.refused[leaf // WORD] |= bit_of(leaf)
    return NONE, work


@borrowing
def _cheapest_near(
    ground: Ground, items: Items, state: State, chains: Chains, home: Home, item: int, most: float
) -> tuple[int, int]:
    """Of the open leaves the one where an item costs least, NONE if that is more than ``most``; and the work. Of leaves
    that are as good it is the one whose filter weighs least."""
    rectangle, weights = items.rectangle[item], state.filters.weights
    box = ground.rectangles[rectangle]
    best, least, lightest, work, costs, known = NONE, most, np.inf, 0, home.prices.costs, home.prices.known
    for word in range(len(chains.open)):
        bits = ground.words[items.which[item], word] & chains.open[word] & state.covered[rectangle, word]
        while bits:
            leaf = WORD * word + lowest(bits)
            bits &= bits - np.uint64(1)
            cost = home.price * _moved(ground, items, state, chains, home, item, leaf)
            if cost < least or (cost == least and weights[leaf] < lightest):
                best, least, lightest = leaf, cost, weights[leaf]
    for word in range(len(chains.open)):
        bits = ground.words[items.which[item], word] & chains.open[word] & ~state.covered[rectangle, word]
        while bits:
            leaf = WORD * word + lowest(bits)
            bits &= bits - np.uint64(1)
            moves = home.price * _moved(ground, items, state, chains, home, item, leaf)
            if moves >= least or (known[leaf] == AT_LEAST and moves + costs[leaf] >= least):
                continue
            if known[leaf] != EXACT:
                cost = path_cost(
                    ground.sums, ground.coarse, ground.prices, ground.parent, state.filters, leaf, box,
                    home.prices.grown, least - moves,
                )  # fmt: skip
                work += 1
                costs[leaf] = min(cost, least - moves)
                known[leaf] = EXACT if cost <= least - moves else AT_LEAST
            if known[leaf] == EXACT and moves + costs[leaf] < least:
                best, least, lightest = leaf, moves + costs[leaf], weights[leaf]
    return best, work


@borrowing
def _moved(ground: Ground, items: Items, state: State, chains: Chains, home: Home, item: int, leaf: int) -> int:
    """The subscribers that move if an item goes to an open leaf: its own, if that is not its home, and those of the
    chain that makes room. Of a leaf that has more than its capacity all that is too much is sent on."""
    more, steps = items.size[item], 0
    moved = more if home.leaf[item] != NONE and home.leaf[item] != leaf else 0
    while chains.next[leaf] >= 0 and steps < len(chains.next):
        more = max(state.load[leaf] + more - ground.capacity[leaf], 0)
        moved += more
        leaf = chains.next[leaf]
        steps += 1
    return moved
