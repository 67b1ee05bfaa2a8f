"""Large-neighbourhood search for assignments: some subscribers are taken out, and put back where they cost least.

``taking_out`` says who is taken out, ``recreating`` how they are put back. A new assignment is taken if it is cheaper
than the last, or at most a little dearer than the best (record-to-record travel, Dueck 1993); how little falls to
nothing as the budget is spent.

An attempt touches the items that are taken out and those of their leaves, never all items, so that it takes about as
long with a hundred times as many of them elsewhere. Work is counted in items, rectangles and leaves that are looked at,
never in seconds, so that a seed gives one result.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.chaining import AHEAD, Chains, chains_for, cover, note
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.recreating import Reach, by_rectangle, put_back, total_cost
from overstory.kernels.served import Items, Out, join, nothing_out, part
from overstory.kernels.taking_out import drawn_way, learn, take_out, ways_for

ATTEMPT = 100  # work of an attempt, whatever it takes out
NOT_BEST = 0.1  # the part of a saving that counts for the way that made it, without being the best so far


class Record(NamedTuple):
    """The best assignment so far; items in ``stale`` may have changed since."""

    filters: Filters
    load: Array
    leaf: Array
    stale: Array
    is_stale: Array


@kernel
def improve(
    ground: Ground, reach: Reach, items: Items, state: State, grown: Grown, budget: int, slack: float, seed: int
) -> tuple[float, int]:
    """Changes the state, whose ``leaf`` is by item, into the best that was found. Returns its cost, and how many
    attempts were made. ``slack`` is how much dearer than the best an assignment may be at first."""
    np.random.seed(seed)
    out = nothing_out(len(items.size), len(ground.rectangles))
    chains = chains_for(ground, items, state, len(ground.capacity), AHEAD)
    filters, load = copied(state.filters), state.load.copy()
    record, stale = _record_of(state), 0
    cost = total_cost(ground, state)
    best, spent, attempts = cost, 0, 0
    ways = ways_for(cost)
    while spent < budget:
        attempts += 1
        limit = max(cost, best * (1.0 + slack * (1.0 - spent / budget)))
        way, before, begun, least = drawn_way(ways), cost, spent, best
        looked = take_out(ground, reach, items, state, chains, out, way)
        spent += 2 * (out.count[0] + looked) + ATTEMPT
        distinct = by_rectangle(ground, reach, items, out)
        placed, work = put_back(ground, items, state, chains, out, distinct, grown, limit)
        spent += work
        if placed:
            cost = total_cost(ground, state)
            copy_filters(state.filters, filters)
            load[:] = state.load
            stale = _changed(state, out, record, stale)
            if cost < best * (1.0 - 1e-12):
                best, stale = cost, _keep(state, record, stale)
        else:
            undo(ground, items, state, out, chains, filters)
            state.load[:] = load
        learn(ways, way, least - best + NOT_BEST * max(before - cost, 0.0), spent - begun)
        for at in range(out.count[0]):
            out.is_out[out.items[at]] = False
        out.count[0] = 0

    copy_filters(record.filters, state.filters)
    state.load[:], state.leaf[:] = record.load, record.leaf
    return best, attempts


@kernel
def _record_of(state: State) -> Record:
    count = len(state.leaf)
    return Record(
        copied(state.filters),
        state.load.copy(),
        state.leaf.copy(),
        np.empty(count, np.int64),
        np.zeros(count, np.bool_),
    )


@kernel
def copied(filters: Filters) -> Filters:
    return Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())


@kernel
def copy_filters(one: Filters, other: Filters) -> None:
    other.boxes[:], other.counts[:], other.weights[:] = one.boxes, one.counts, one.weights


@borrowing
def _changed(state: State, out: Out, record: Record, stale: int) -> int:
    """Notes which items are elsewhere now. Returns how many are noted."""
    for at in range(out.count[0]):
        item = out.items[at]
        if state.leaf[item] != out.leaf[at] and not record.is_stale[item]:
            record.is_stale[item] = True
            record.stale[stale] = item
            stale += 1
    return stale


@kernel
def _keep(state: State, record: Record, stale: int) -> int:
    """The state is the best now. Returns that nothing is noted."""
    copy_filters(state.filters, record.filters)
    record.load[:] = state.load
    for at in range(stale):
        item = record.stale[at]
        record.leaf[item], record.is_stale[item] = state.leaf[item], False
    return 0


@borrowing
def undo(ground: Ground, items: Items, state: State, out: Out, chains: Chains, filters: Filters) -> None:
    """Puts all items back where they were, and has the filters of then; loads are not its business."""
    for leaf in range(len(ground.capacity)):
        if not _same(filters, state.filters, leaf):
            cover(chains, ground, items, state, filters.boxes[leaf], filters.counts[leaf], leaf)
    copy_filters(filters, state.filters)
    for at in range(out.count[0]):
        item = out.items[at]
        if state.leaf[item] != out.leaf[at]:
            if state.leaf[item] != NONE:
                part(chains.served, state.leaf[item], item)
            state.leaf[item] = out.leaf[at]
            join(chains.served, items, out.leaf[at], item)
        note(chains, ground, items, state, item, out.leaf[at])


@borrowing
def _same(filters: Filters, others: Filters, node: int) -> bool:
    if filters.counts[node] != others.counts[node]:
        return False
    for number in range(filters.counts[node]):
        for end in range(4):
            if filters.boxes[node, number, end] != others.boxes[node, number, end]:
                return False
    return True
