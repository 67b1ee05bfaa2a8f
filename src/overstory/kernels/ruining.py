"""Large-neighbourhood search for assignments: some subscribers are taken out, and put back where they cost least.

An *item* is some subscribers with one rectangle and one class, who are served together. What is taken out is either all
items of a few leaves that serve a common class, all items of one box, or those that reach beyond a cut near one side of
a box. Filters are drawn tight around what is left. A new assignment is taken if it is cheaper than the last, or at most
a little dearer than the best (record-to-record travel, Dueck 1993); how little falls to nothing as the budget is spent.

An attempt touches the items that are taken out and those of their leaves, never all items, so that it takes about as
long with a hundred times as many of them elsewhere. Work is counted in items, rectangles and leaves that are looked at,
never in seconds, so that a seed gives one result. What leaves cover is not kept up to date here.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown, let_in_path, path_cost
from overstory.kernels.fitting import fit
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Served, join, part, served_by
from overstory.kernels.volumes import union_weight

LEAVES, BOX, SIDE = 0, 1, 2  # what is taken out
UNKNOWN, AT_LEAST, EXACT = 0, 1, 2  # what is known of a cost: nothing, that it is above a number, the number
NO, YES = 1, 2  # or of whether a leaf serves a rectangle for nothing
ATTEMPT = 100  # work of an attempt, whatever it takes out


class Items(NamedTuple):
    rectangle: Array
    which: Array  # class
    size: Array  # subscribers


class Reach(NamedTuple):
    """The leaves of class i are between offsets i and i + 1; the children of node i between child_offsets i and i + 1,
    of which only nodes that are no leaves have some."""

    offsets: Array
    leaves: Array
    child_offsets: Array
    children: Array


class Out(NamedTuple):
    """What an attempt takes out: items, where they were, and the items of each rectangle as a list."""

    items: Array
    leaf: Array  # by place in ``items``
    rectangles: Array  # distinct ones
    keys: Array  # by place in ``rectangles``: the order in which they are put back
    first: Array  # by rectangle: an item, NONE between attempts
    after: Array  # by item


class Record(NamedTuple):
    """The best assignment so far; items in ``stale`` may have changed since."""

    filters: Filters
    load: Array
    leaf: Array
    stale: Array
    is_stale: Array


@borrowing
def total_cost(ground: Ground, state: State) -> float:
    total = 0.0
    for node in range(len(ground.prices)):
        total += ground.prices[node] * state.filters.weights[node]
    return total


@kernel
def improve(
    ground: Ground, reach: Reach, items: Items, state: State, grown: Grown, budget: int, slack: float, seed: int
) -> tuple[float, int]:
    """Changes the state, whose ``leaf`` is by item, into the best that was found. Returns its cost, and how many
    attempts were made. ``slack`` is how much dearer than the best an assignment may be at first."""
    np.random.seed(seed)
    served, out = served_by(state.leaf, len(ground.capacity)), _nothing_out(len(items.size), len(ground.rectangles))
    filters, load = _copied(state.filters), state.load.copy()
    record, stale = _record_of(state), 0
    cost = total_cost(ground, state)
    best, spent, attempts = cost, 0, 0
    while spent < budget:
        attempts += 1
        taken, looked = _take_out(ground, reach, items, state, served, out)
        distinct = _by_rectangle(ground, reach, items, out, taken)
        placed, work = _put_back(ground, reach, items, state, served, grown, out, distinct)
        spent += work + 2 * (taken + looked) + ATTEMPT
        new = total_cost(ground, state) if placed else np.inf
        if new < cost or new <= best * (1.0 + slack * (1.0 - spent / budget)):
            cost = new
            _copy(state.filters, filters)
            load[:] = state.load
            stale = _changed(state, out, taken, record, stale)
            if new < best * (1.0 - 1e-12):
                best, stale = new, _keep(state, record, stale)
        else:
            _undo(state, served, out, taken)
            _copy(filters, state.filters)
            state.load[:] = load
    _copy(record.filters, state.filters)
    state.load[:], state.leaf[:] = record.load, record.leaf
    return best, attempts


@kernel
def _nothing_out(items: int, rectangles: int) -> Out:
    return Out(
        np.empty(items, np.int64),
        np.empty(items, np.int64),
        np.empty(rectangles, np.int64),
        np.empty(rectangles),
        np.full(rectangles, NONE),
        np.empty(items, np.int64),
    )


@kernel
def _record_of(state: State) -> Record:
    count = len(state.leaf)
    return Record(
        _copied(state.filters),
        state.load.copy(),
        state.leaf.copy(),
        np.empty(count, np.int64),
        np.zeros(count, np.bool_),
    )


@kernel
def _copied(filters: Filters) -> Filters:
    return Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())


@kernel
def _copy(one: Filters, other: Filters) -> None:
    other.boxes[:], other.counts[:], other.weights[:] = one.boxes, one.counts, one.weights


@borrowing
def _changed(state: State, out: Out, taken: int, record: Record, stale: int) -> int:
    """Notes which items are elsewhere now. Returns how many are noted."""
    for at in range(taken):
        item = out.items[at]
        if state.leaf[item] != out.leaf[at] and not record.is_stale[item]:
            record.is_stale[item] = True
            record.stale[stale] = item
            stale += 1
    return stale


@kernel
def _keep(state: State, record: Record, stale: int) -> int:
    """The state is the best now. Returns that nothing is noted."""
    _copy(state.filters, record.filters)
    record.load[:] = state.load
    for at in range(stale):
        item = record.stale[at]
        record.leaf[item], record.is_stale[item] = state.leaf[item], False
    return 0


@borrowing
def _undo(state: State, served: Served, out: Out, taken: int) -> None:
    """Puts all items back where they were; filters and loads are not its business."""
    for at in range(taken):
        item = out.items[at]
        if state.leaf[item] != out.leaf[at]:
            if state.leaf[item] != NONE:
                part(served, state.leaf[item], item)
            state.leaf[item] = out.leaf[at]
            join(served, out.leaf[at], item)


@kernel
def _take_out(ground: Ground, reach: Reach, items: Items, state: State, served: Served, out: Out) -> tuple[int, int]:
    """Returns how many items are out, and how many were looked at."""
    first = np.random.randint(len(items.rectangle))
    leaf = state.leaf[first]
    way = np.random.randint(4)
    changed = np.zeros(len(ground.capacity), np.bool_)
    changed[leaf] = True
    if way <= 1:
        taken = 0
        start, end = reach.offsets[items.which[first]], reach.offsets[items.which[first] + 1]
        for _ in range(np.random.randint(1, 4)):
            changed[reach.leaves[np.random.randint(start, end)]] = True
        for each in range(len(changed)):
            if changed[each]:
                taken = _all_of(items, state, served, each, out, taken)
                state.filters.counts[each], state.filters.weights[each] = 0, 0.0
        looked = 0
    else:
        number = _box_of(ground, items, state, leaf, first)
        taken, looked = _beyond(ground, items, state, served, leaf, number, BOX if way == 2 else SIDE, out)
        _draw_tight(ground, items, state, served, leaf)
    _refit_above(ground, reach, state, changed)
    return taken, looked


@borrowing
def _all_of(items: Items, state: State, served: Served, leaf: int, out: Out, taken: int) -> int:
    item = served.first[leaf]
    while item != NONE:
        out.items[taken], out.leaf[taken] = item, leaf
        state.leaf[item] = NONE
        taken += 1
        item = served.after[item]
    served.first[leaf] = NONE
    state.load[leaf] = 0
    return taken


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
) -> tuple[int, int]:
    """Takes out the items of a box, or those that reach beyond a cut. Returns how many, and of how many."""
    box = state.filters.boxes[leaf, number]
    axis, upper = np.random.randint(2), np.random.random() < 0.5
    low, high = box[2 * axis], box[2 * axis + 1]
    depth = np.random.random() ** 2
    cut = int(high - depth * (high - low)) if upper else int(low + depth * (high - low))
    taken, looked, item = 0, 0, served.first[leaf]
    while item != NONE:
        looked += 1
        rectangle, after = items.rectangle[item], served.after[item]
        beyond = (
            ground.rectangles[rectangle, 2 * axis + 1] > cut if upper else ground.rectangles[rectangle, 2 * axis] < cut
        )
        if (what == BOX or beyond) and _box_of(ground, items, state, leaf, item) == number:
            out.items[taken], out.leaf[taken] = item, leaf
            taken += 1
            part(served, leaf, item)
            state.load[leaf] -= items.size[item]
            state.leaf[item] = NONE
        item = after
    return taken, looked


@kernel
def _draw_tight(ground: Ground, items: Items, state: State, served: Served, leaf: int) -> None:
    """The boxes of a leaf around the items that it still has."""
    count, boxes = state.filters.counts[leaf], state.filters.boxes[leaf]
    tight, used = np.empty((count, 4), np.int64), np.zeros(count, np.bool_)
    item = served.first[leaf]
    while item != NONE:
        number, rectangle = _box_of(ground, items, state, leaf, item), items.rectangle[item]
        if used[number]:
            for axis in (0, 2):
                tight[number, axis] = min(tight[number, axis], ground.rectangles[rectangle, axis])
                tight[number, axis + 1] = max(tight[number, axis + 1], ground.rectangles[rectangle, axis + 1])
        else:
            tight[number], used[number] = ground.rectangles[rectangle], True
        item = served.after[item]
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


@borrowing
def _by_rectangle(ground: Ground, reach: Reach, items: Items, out: Out, taken: int) -> int:
    """Lists the items of each rectangle, and gives rectangles keys: chance, the widest first, the fewest leaves first,
    or along one dimension. Returns how many rectangles there are."""
    distinct = 0
    way, shift, noise = np.random.randint(5), np.random.randint(1 << 20), 0.3 * np.random.random()
    for at in range(taken - 1, -1, -1):
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


@kernel
def _put_back(
    ground: Ground, reach: Reach, items: Items, state: State, served: Served, grown: Grown, out: Out, distinct: int
) -> tuple[bool, int]:
    """Returns whether all items have found room, and the work that it took. What a rectangle costs at a leaf is kept
    until the next rectangle, or until a filter grows there or above."""
    leaves, work, placed = len(ground.capacity), 4 * distinct, True
    costs, known, inside = np.empty(leaves), np.zeros(leaves, np.int8), np.zeros(leaves, np.int8)
    levels = len(ground.prices) > leaves
    for rectangle in out.rectangles[:distinct][np.argsort(out.keys[:distinct])]:
        item, out.first[rectangle] = out.first[rectangle], NONE
        if not placed:
            continue
        known[:] = UNKNOWN
        inside[:] = UNKNOWN
        while item != NONE:
            leaf = _tightest(ground, reach, items, state, item, inside)
            if leaf == NONE:
                leaf, looked = _cheapest(ground, reach, items, state, grown, item, costs, known)
                work += looked
                if leaf == NONE:
                    placed = False
                    break
                let_in_path(ground.sums, ground.parent, state.filters, leaf, ground.rectangles[rectangle], grown)
                inside[leaf] = YES
                if levels:
                    known[:] = UNKNOWN
            state.leaf[item] = leaf
            state.load[leaf] += items.size[item]
            join(served, leaf, item)
            item = out.after[item]
    return placed, work


@borrowing
def _tightest(ground: Ground, reach: Reach, items: Items, state: State, item: int, inside: Array) -> int:
    """Of the leaves with room that serve an item for nothing the one whose filter weighs least, NONE if there is none:
    the room of leaves with wide filters is left to those who want wide rectangles. What is found out about leaves is
    kept in ``inside``."""
    load, capacity, weights, size = state.load, ground.capacity, state.filters.weights, items.size[item]
    best, least = NONE, np.inf
    for at in range(reach.offsets[items.which[item]], reach.offsets[items.which[item] + 1]):
        leaf = reach.leaves[at]
        if inside[leaf] == NO or load[leaf] + size > capacity[leaf] or weights[leaf] >= least:
            continue
        if inside[leaf] == UNKNOWN:
            inside[leaf] = NO if _box_of(ground, items, state, leaf, item) == NONE else YES
        if inside[leaf] == YES:
            best, least = leaf, weights[leaf]
    return best


@borrowing
def _cheapest(
    ground: Ground, reach: Reach, items: Items, state: State, grown: Grown, item: int, costs: Array, known: Array
) -> tuple[int, int]:
    """The leaf with room where an item costs least, the least loaded of several; and the work."""
    box, size = ground.rectangles[items.rectangle[item]], items.size[item]
    load, capacity, shares = state.load, ground.capacity, ground.shares
    best, least, lightest, work = NONE, np.inf, np.inf, 0
    for at in range(reach.offsets[items.which[item]], reach.offsets[items.which[item] + 1]):
        leaf = reach.leaves[at]
        if load[leaf] + size > capacity[leaf] or (known[leaf] == AT_LEAST and costs[leaf] >= least):
            continue
        if known[leaf] != EXACT:
            cost = path_cost(
                ground.sums, ground.coarse, ground.prices, ground.parent, state.filters, leaf, box, grown, least
            )
            work += 1
            if cost > least:
                costs[leaf], known[leaf] = least, AT_LEAST
                continue
            costs[leaf], known[leaf] = cost, EXACT
        if costs[leaf] < least or (costs[leaf] == least and load[leaf] / shares[leaf] < lightest):
            best, least, lightest = leaf, costs[leaf], load[leaf] / shares[leaf]
    return best, work
