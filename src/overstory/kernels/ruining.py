"""Large-neighbourhood search for assignments: some subscribers are taken out, and put back where they cost least.

An *item* is some subscribers with one rectangle and one class, who are served together. What is taken out is either all
items of a few leaves that serve a common class, all items of one box, or those that reach beyond a cut near one side of
a box. Filters are drawn tight around what is left. A new assignment is taken if it is cheaper than the last, or at most
a little dearer than the best (record-to-record travel, Dueck 1993); how little falls to nothing as the budget is spent.
Work is counted in items and leaves that are looked at, never in seconds, so that a seed gives one result. What leaves
cover is not kept up to date here.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown, let_in_path, path_cost
from overstory.kernels.fitting import fit
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.volumes import holds, hull, union_weight

LEAVES, BOX, SIDE = 0, 1, 2  # what is taken out


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


@kernel
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
    count, leaves = len(items.rectangle), len(ground.capacity)
    out, keys, changed = np.empty(count, np.int64), np.empty(count), np.zeros(leaves, np.bool_)
    cost = total_cost(ground, state)
    best, spent, attempts = cost, 0, 0
    now, record = _copied(state), _copied(state)
    while spent < budget:
        attempts += 1
        taken = _take_out(ground, reach, items, state, out, changed)
        if taken == 0:
            spent += count // 8 + 1
            continue
        _order(ground, reach, items, out, taken, keys)
        placed, work = _put_back(ground, reach, items, state, grown, out[np.argsort(keys[:taken])])
        spent += work + count // 64 + 100
        new = total_cost(ground, state) if placed else np.inf
        if new < cost or new <= best * (1.0 + slack * (1.0 - spent / budget)):
            cost = new
            _copy(state, now)
            if new < best * (1.0 - 1e-12):
                best = new
                _copy(state, record)
        else:
            _copy(now, state)
    _copy(record, state)
    return best, attempts


@kernel
def _copied(state: State) -> State:
    filters = state.filters
    kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
    return State(kept, state.covered, state.load.copy(), state.leaf.copy())


@kernel
def _copy(one: State, other: State) -> None:
    other.filters.boxes[:] = one.filters.boxes
    other.filters.counts[:] = one.filters.counts
    other.filters.weights[:] = one.filters.weights
    other.load[:] = one.load
    other.leaf[:] = one.leaf


@kernel
def _take_out(ground: Ground, reach: Reach, items: Items, state: State, out: Array, changed: Array) -> int:
    """Returns how many items are out."""
    first = np.random.randint(len(items.rectangle))
    leaf = state.leaf[first]
    way = np.random.randint(4)
    changed[:] = False
    changed[leaf] = True
    if way <= 1:
        start, end = reach.offsets[items.which[first]], reach.offsets[items.which[first] + 1]
        for _ in range(np.random.randint(1, 4)):
            changed[reach.leaves[np.random.randint(start, end)]] = True
        taken = _all_of(items, state, changed, out)
        for each in range(len(changed)):
            if changed[each]:
                state.filters.counts[each], state.filters.weights[each] = 0, 0.0
    else:
        number = _box_of(ground, items, state, first)
        taken = _beyond(ground, items, state, leaf, number, BOX if way == 2 else SIDE, out)
        _draw_tight(ground, items, state, leaf)
    _refit_above(ground, reach, state, changed)
    return taken


@kernel
def _all_of(items: Items, state: State, changed: Array, out: Array) -> int:
    taken = 0
    for item in range(len(items.rectangle)):
        if changed[state.leaf[item]]:
            out[taken] = item
            taken += 1
            state.load[state.leaf[item]] -= items.size[item]
            state.leaf[item] = NONE
    return taken


@kernel
def _box_of(ground: Ground, items: Items, state: State, item: int) -> int:
    leaf = state.leaf[item]
    for number in range(state.filters.counts[leaf]):
        if holds(state.filters.boxes[leaf, number], ground.rectangles[items.rectangle[item]]):
            return number
    return NONE


@kernel
def _beyond(ground: Ground, items: Items, state: State, leaf: int, number: int, what: int, out: Array) -> int:
    """Takes out the items of a box, or those that reach beyond a cut."""
    box = state.filters.boxes[leaf, number]
    axis, upper = np.random.randint(2), np.random.random() < 0.5
    low, high = box[2 * axis], box[2 * axis + 1]
    depth = np.random.random() ** 2
    cut = int(high - depth * (high - low)) if upper else int(low + depth * (high - low))
    taken = 0
    for item in range(len(items.rectangle)):
        if state.leaf[item] != leaf or _box_of(ground, items, state, item) != number:
            continue
        rectangle = ground.rectangles[items.rectangle[item]]
        if what == SIDE:
            if upper and rectangle[2 * axis + 1] <= cut:
                continue
            if not upper and rectangle[2 * axis] >= cut:
                continue
        out[taken] = item
        taken += 1
    for at in range(taken):
        state.load[leaf] -= items.size[out[at]]
        state.leaf[out[at]] = NONE
    return taken


@kernel
def _draw_tight(ground: Ground, items: Items, state: State, leaf: int) -> None:
    """The boxes of a leaf around the items that it still has."""
    count, boxes = state.filters.counts[leaf], state.filters.boxes[leaf]
    tight, used = np.empty((count, 4), np.int64), np.zeros(count, np.bool_)
    for item in range(len(items.rectangle)):
        if state.leaf[item] == leaf:
            number = _box_of(ground, items, state, item)
            rectangle = ground.rectangles[items.rectangle[item]]
            if used[number]:
                hull(tight[number].copy(), rectangle, tight[number])
            else:
                tight[number], used[number] = rectangle, True
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


@kernel
def _order(ground: Ground, reach: Reach, items: Items, out: Array, taken: int, keys: Array) -> None:
    """By one of: chance, the widest first, the fewest leaves first, and along one dimension. Equal rectangles follow
    each other, so that the first opens the way for the rest."""
    way = np.random.randint(5)
    shift = np.random.randint(1 << 20)
    noise = 0.3 * np.random.random()
    for at in range(taken):
        rectangle = ground.rectangles[items.rectangle[out[at]]]
        chance = ((items.rectangle[out[at]] + shift) * 2654435761 % 4294967296) / 4294967296.0
        if way == 0:
            keys[at] = chance
        elif way == 1:
            size = (rectangle[1] - rectangle[0]) * (rectangle[3] - rectangle[2])
            keys[at] = -size * (1.0 + noise * chance)
        elif way == 2:
            which = items.which[out[at]]
            keys[at] = reach.offsets[which + 1] - reach.offsets[which] + chance
        else:
            axis = 2 * (way - 3)
            keys[at] = rectangle[axis] + rectangle[axis + 1] + noise * 100 * chance


@kernel
def _put_back(ground: Ground, reach: Reach, items: Items, state: State, grown: Grown, order: Array) -> tuple[bool, int]:
    """Returns whether all items have found room, and the work that it took. What a rectangle costs at a leaf is kept
    until the next rectangle, or until a filter grows there or above."""
    leaves, work, before = len(ground.capacity), 0, NONE
    costs, known = np.empty(leaves), np.zeros(leaves, np.bool_)
    levels = len(ground.prices) > leaves
    for item in order:
        rectangle = items.rectangle[item]
        if rectangle != before:
            known[:], before = False, rectangle
        leaf, covers, looked = _best(ground, reach, items, state, grown, item, costs, known)
        work += looked
        if leaf == NONE:
            return False, work
        state.leaf[item] = leaf
        state.load[leaf] += items.size[item]
        if not covers:
            let_in_path(ground.sums, ground.parent, state.filters, leaf, ground.rectangles[rectangle], grown)
            work += 4
            if levels:
                known[:] = False
            else:
                known[leaf] = False
    return True, work


@kernel
def _best(
    ground: Ground, reach: Reach, items: Items, state: State, grown: Grown, item: int, costs: Array, known: Array
) -> tuple[int, bool, int]:
    """The leaf with room where an item costs least, the least loaded of several; whether it costs nothing there; and
    the work."""
    box, size = ground.rectangles[items.rectangle[item]], items.size[item]
    mine = reach.leaves[reach.offsets[items.which[item]] : reach.offsets[items.which[item] + 1]]
    best, lightest = NONE, np.inf
    for leaf in mine:
        if state.load[leaf] + size <= ground.capacity[leaf] and state.load[leaf] / ground.shares[leaf] < lightest:
            for number in range(state.filters.counts[leaf]):
                if holds(state.filters.boxes[leaf, number], box):
                    best, lightest = leaf, state.load[leaf] / ground.shares[leaf]
                    break
    if best != NONE:
        return best, True, 1
    least, work = np.inf, 1
    for leaf in mine:
        if state.load[leaf] + size > ground.capacity[leaf]:
            continue
        if not known[leaf]:
            costs[leaf] = path_cost(ground.sums, ground.prices, ground.parent, state.filters, leaf, box, grown)
            known[leaf] = True
            work += 3
        load = state.load[leaf] / ground.shares[leaf]
        if costs[leaf] < least or (costs[leaf] == least and load < lightest):
            best, least, lightest = leaf, costs[leaf], load
    return best, False, work
