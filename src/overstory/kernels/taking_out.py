"""Whom an attempt of the search takes out of an assignment, and which ways of doing so are worth their work.

1. All items of a few leaves that serve a common class, all items of one box, those that reach beyond a cut near one
   side of a box, or those around one place in event space at a few leaves. Filters are drawn tight around the rest.
2. Ways that take out much cost many times as much work as others, and hardly ever save anything once an assignment is
   good. So each way is given work by what its work has saved of late, and none is forgotten (adaptive large
   neighbourhood search, Ropke and Pisinger 2006).
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.chaining import Chains, cover
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.fitting import fit
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.recreating import Reach
from overstory.kernels.served import Items, Out, Served, part, remember
from overstory.kernels.volumes import union_weight

LEAF, TWO_LEAVES, LEAVES, BOX, SIDE, MARGIN, PLACE, WAYS = range(8)
DEEP, SHALLOW = 1, 3  # exponents: cuts are at a part of a side that is drawn and raised to this
WIDER = 4.0  # times the rectangle of an item, at most, is what is taken out around it
REMEMBERED = 0.99  # of what a way has saved before, at each of its attempts
FLOOR = 0.05  # of the best way's rate counts for every way
USUAL_SAVING, USUAL_WORK = 1e-4, 1e4  # of an attempt, of the whole cost, before anything is known
LEAST_SAVED = 1e-200  # of a way, so that where nothing is saved for long, or nothing costs anything, all are drawn


class Ways(NamedTuple):
    """What attempts have saved of late, the work that they took, and how many they were, by way."""

    saved: Array
    work: Array
    tries: Array


@kernel
def ways_for(cost: float) -> Ways:
    begun = 1.0 / (1.0 - REMEMBERED) / 10
    saved = max(begun * USUAL_SAVING * cost, LEAST_SAVED)
    return Ways(np.full(WAYS, saved), np.full(WAYS, begun * USUAL_WORK), np.full(WAYS, begun))


@kernel
def drawn_way(ways: Ways) -> int:
    """Ways are drawn so that each gets work in proportion to what its work saves."""
    rates = ways.saved / ways.work
    chances = (rates + FLOOR * rates.max()) * ways.tries / ways.work
    drawn = np.random.random() * chances.sum()
    for way in range(WAYS - 1):
        drawn -= chances[way]
        if drawn < 0.0:
            return way
    return WAYS - 1


@borrowing
def learn(ways: Ways, way: int, saved: float, work: float) -> None:
    ways.saved[way] = max(REMEMBERED * ways.saved[way] + saved, LEAST_SAVED)
    ways.work[way] = REMEMBERED * ways.work[way] + work
    ways.tries[way] = REMEMBERED * ways.tries[way] + 1.0


@kernel
def take_out(ground: Ground, reach: Reach, items: Items, state: State, chains: Chains, out: Out, way: int) -> int:
    """Returns how many items were looked at, beside those that are out."""
    first = np.random.randint(len(items.rectangle))
    leaf, looked = state.leaf[first], 0
    changed = np.zeros(len(ground.capacity), np.bool_)
    changed[leaf] = True
    if way in (BOX, SIDE, MARGIN):
        number = _box_of(ground, items, state, leaf, first)
        looked = _beyond(ground, items, state, chains.served, leaf, number, way, out)
        _draw_tight(ground, items, state, chains.served, leaf)
    else:
        more = np.random.randint(1, 4) if way == PLACE else np.random.randint(2, 4) if way == LEAVES else way
        start, end = reach.offsets[items.which[first]], reach.offsets[items.which[first] + 1]
        for _ in range(more):
            changed[reach.leaves[np.random.randint(start, end)]] = True
        wider = 1.0 + (WIDER - 1.0) * np.random.random()
        for each in range(len(changed)):
            if changed[each] and way == PLACE:
                looked += _around(ground, items, state, chains.served, each, items.rectangle[first], wider, out)
                _draw_tight(ground, items, state, chains.served, each)
            elif changed[each]:
                _all_of(state, chains, each, out)
                state.filters.counts[each], state.filters.weights[each] = 0, 0.0
    for each in range(len(changed)):
        if changed[each]:
            cover(chains, ground, items, state, state.filters.boxes[each], state.filters.counts[each], each)
    _refit_above(ground, reach, state, changed)
    return looked


@borrowing
def _around(
    ground: Ground, items: Items, state: State, served: Served, leaf: int, rectangle: int, wider: float, out: Out
) -> int:
    """Takes out the items of a leaf whose rectangles have their middles within one that is wider than a given one.
    Returns of how many."""
    ends, looked = ground.rectangles, served.counts[leaf]
    twice_x, twice_y = ends[rectangle, 0] + ends[rectangle, 1], ends[rectangle, 2] + ends[rectangle, 3]
    far_x = wider * (ends[rectangle, 1] - ends[rectangle, 0])
    far_y = wider * (ends[rectangle, 3] - ends[rectangle, 2])
    for place in range(looked - 1, -1, -1):
        item, its = served.members[leaf, place, 0], served.members[leaf, place, 1]
        near_x = abs(ends[its, 0] + ends[its, 1] - twice_x) <= far_x
        if near_x and abs(ends[its, 2] + ends[its, 3] - twice_y) <= far_y:
            _take(items, state, served, leaf, item, out)
    return looked


@borrowing
def _take(items: Items, state: State, served: Served, leaf: int, item: int, out: Out) -> None:
    remember(out, item, leaf)
    part(served, leaf, item)
    state.load[leaf] -= items.size[item]
    state.leaf[item] = NONE


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
    ground: Ground, items: Items, state: State, served: Served, leaf: int, number: int, way: int, out: Out
) -> int:
    """Takes out the items of a box, or those that reach beyond a cut. Returns of how many."""
    box = state.filters.boxes[leaf, number]
    axis, upper = np.random.randint(2), np.random.random() < 0.5
    low, high = box[2 * axis], box[2 * axis + 1]
    depth = np.random.random() ** (DEEP if way == SIDE else SHALLOW)
    cut = int(high - depth * (high - low)) if upper else int(low + depth * (high - low))
    looked = served.counts[leaf]
    for place in range(looked - 1, -1, -1):
        item, rectangle = served.members[leaf, place, 0], served.members[leaf, place, 1]
        beyond = (
            ground.rectangles[rectangle, 2 * axis + 1] > cut if upper else ground.rectangles[rectangle, 2 * axis] < cut
        )
        if (way == BOX or beyond) and _box_of(ground, items, state, leaf, item) == number:
            _take(items, state, served, leaf, item, out)
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
