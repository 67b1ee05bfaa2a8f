"""Large-neighbourhood search for assignments: some subscribers are taken out, and put back where they cost least.

What is taken out is either all items of a few leaves that serve a common class, all items of one box, or those that
reach beyond a cut near one side of a box. Filters are drawn tight around what is left, and items are put back as
``recreating`` says. A new assignment is taken if it is cheaper than the last, or at most a little dearer than the best
(record-to-record travel, Dueck 1993); how little falls to nothing as the budget is spent.

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
from overstory.kernels.fitting import fit
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.recreating import Reach, by_rectangle, put_back, total_cost
from overstory.kernels.served import Items, Out, Served, join, nothing_out, part, remember
from overstory.kernels.volumes import union_weight

LEAVES, BOX, SIDE = 0, 1, 2  # what is taken out
ATTEMPT = 100  # work of an attempt, whatever it takes out


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
    while spent < budget:
        attempts += 1
        limit = max(cost, best * (1.0 + slack * (1.0 - spent / budget)))
        looked = take_out(ground, reach, items, state, chains, out)
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


@kernel
def take_out(ground: Ground, reach: Reach, items: Items, state: State, chains: Chains, out: Out) -> int:
    """Returns how many items were looked at, beside those that are out."""
    first = np.random.randint(len(items.rectangle))
    leaf = state.leaf[first]
    way = np.random.randint(4)
    changed = np.zeros(len(ground.capacity), np.bool_)
    changed[leaf] = True
    if way <= 1:
        start, end = reach.offsets[items.which[first]], reach.offsets[items.which[first] + 1]
        for _ in range(np.random.randint(1, 4)):
            changed[reach.leaves[np.random.randint(start, end)]] = True
        for each in range(len(changed)):
            if changed[each]:
                _all_of(state, chains, each, out)
                state.filters.counts[each], state.filters.weights[each] = 0, 0.0
        looked = 0
    else:
        number = _box_of(ground, items, state, leaf, first)
        looked = _beyond(ground, items, state, chains.served, leaf, number, BOX if way == 2 else SIDE, out)
        _draw_tight(ground, items, state, chains.served, leaf)
    for each in range(len(changed)):
        if changed[each]:
            cover(chains, ground, items, state, state.filters.boxes[each], state.filters.counts[each], each)
    _refit_above(ground, reach, state, changed)
    return looked


@borrowing
def _all_of(state: State, chains: Chains, leaf: int, out: Out) -> None:
    for place in range(chains.served.counts[leaf]):
        item = chains.served.members[leaf, place, 0]
        remember(out, item, leaf)
        state.leaf[item] = NONE
    chains.served.counts[leaf] = 0
    for word in range(chains.others.shape[1]):
        chains.others[leaf, word] = 0
    state.load[leaf] = 0


@borrowing
def _box_of(ground: Ground, items: Items, state: State, leaf: int, item: int) -> int:
    """The number of the first box of a leaf that holds an item."""
    boxes, rectangle = state.filters.boxes, items.rectangle[item]
    b0, b1 = ground.rectangles[rectangle, 0], ground.rectangles[rectangle, 1]
    b2, b3 = ground.rectangles[rectangle, 2], ground.rectangles[rectangle, 3]
    for at in range(state.filters.counts[leaf]):
        wide = boxes[leaf, at, 0] <= b0 and boxes[leaf, at, 1] >= b1
        if wide and boxes[leaf, at, 2] <= b2 and boxes[leaf, at, 3] >= b3:
            return at
    return NONE


@borrowing
def _beyond(
    ground: Ground, items: Items, state: State, served: Served, leaf: int, number: int, what: int, out: Out
) -> int:
    """Takes out the items of a box, or those that reach beyond a cut. Returns of how many."""
    box = state.filters.boxes[leaf, number]
    axis, upper = np.random.randint(2), np.random.random() < 0.5
    low, high = box[2 * axis], box[2 * axis + 1]
    depth = np.random.random() ** 2
    cut = int(high - depth * (high - low)) if upper else int(low + depth * (high - low))
    looked = served.counts[leaf]
    for place in range(looked - 1, -1, -1):
        item, rectangle = served.members[leaf, place, 0], served.members[leaf, place, 1]
        beyond = (
            ground.rectangles[rectangle, 2 * axis + 1] > cut if upper else ground.rectangles[rectangle, 2 * axis] < cut
        )
        if (what == BOX or beyond) and _box_of(ground, items, state, leaf, item) == number:
            remember(out, item, leaf)
            part(served, leaf, item)
            state.load[leaf] -= items.size[item]
            state.leaf[item] = NONE
    return looked


@kernel
def _draw_tight(ground: Ground, items: Items, state: State, served: Served, leaf: int) -> None:
    """The boxes of a leaf around the items that it still has."""
    count, boxes = state.filters.counts[leaf], state.filters.boxes[leaf]
    tight, used = np.empty((count, 4), np.int64), np.zeros(count, np.bool_)
    for place in range(served.counts[leaf]):
        item = served.members[leaf, place, 0]
        number, rectangle = _box_of(ground, items, state, leaf, item), items.rectangle[item]
        if used[number]:
            for axis in (0, 2):
                tight[number, axis] = min(tight[number, axis], ground.rectangles[rectangle, axis])
                tight[number, axis + 1] = max(tight[number, axis + 1], ground.rectangles[rectangle, axis + 1])
        else:
            tight[number], used[number] = ground.rectangles[rectangle], True
    left = 0
    for number in range(count):
        if used[number]:
            boxes[left] = tight[number]
            left += 1
    state.filters.counts[leaf], state.filters.weights[leaf] = left, union_weight(ground.sums, boxes, left)


@kernel
def _refit_above(ground: Ground, reach: Reach, state: State, changed: Array) -> None:
    """The filters of all nodes above the leaves that changed, from those below them."""
    leaves, nodes = len(changed), len(ground.prices)
    if nodes == leaves:
        return
    filters, alpha = state.filters, state.filters.boxes.shape[1]
    dirty = np.zeros(nodes, np.bool_)
    for leaf in range(leaves):
        if changed[leaf] and ground.parent[leaf] != NONE:
            dirty[ground.parent[leaf]] = True
    below = np.empty((alpha * nodes, 4), np.int64)
    for node in range(leaves, nodes):
        if not dirty[node]:
            continue
        count = 0
        for child in reach.children[reach.child_offsets[node] : reach.child_offsets[node + 1]]:
            for number in range(filters.counts[child]):
                below[count] = filters.boxes[child, number]
                count += 1
        filters.counts[node], filters.weights[node] = 0, 0.0
        if count:
            boxes = fit(ground.sums, below[:count].copy(), alpha)
            filters.boxes[node, : len(boxes)] = boxes
            filters.counts[node] = len(boxes)
            filters.weights[node] = union_weight(ground.sums, boxes, len(boxes))
        if ground.parent[node] != NONE:
            dirty[ground.parent[node]] = True
