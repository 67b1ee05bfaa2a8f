"""Filters of at most α boxes on a tree of brokers, and the least enlargement that lets one more box in.

1. A filter is the union of its boxes; what it costs is the weight of events in it, times the price of its broker.
2. To let a box in, a filter takes the cheapest of: nothing, if one of its boxes holds it; a new box, if it has fewer
   than α; one of its boxes enlarged; two of its boxes joined, and a new one.
3. Every box of a broker is within one box of its parent. So what changes at a leaf is let into its parent, and so on.

Nodes are brokers without the root: leaves first, and each before its parent, which is -1 below the root.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.volumes import holds, hull, union_weight, weight, weight_at_least, weight_of, weight_of_three

HELD = -2  # instead of the number of a box: one of them holds what is let in


class Filters(NamedTuple):
    """By node: its boxes, how many they are, and their weight."""

    boxes: Array  # by node and number, of four ends each
    counts: Array
    weights: Array


class Grown(NamedTuple):
    """Room for what letting a box into a filter comes to."""

    boxes: Array  # those of the filter afterwards
    changed: Array  # of these the ones that are new or larger
    trial: Array
    wanted: Array  # boxes on their way up


def grown_for(alpha: int) -> Grown:
    return Grown(*(np.empty((count, 4), np.int64) for count in (alpha, 2, alpha, max(alpha, 2))))


def no_filters(nodes: int, alpha: int) -> Filters:
    return Filters(np.zeros((nodes, alpha, 4), np.int64), np.zeros(nodes, np.int64), np.zeros(nodes))


@borrowing
def let_in(sums: Array, boxes: Array, count: int, before: float, box: Array, grown: Grown) -> tuple[float, int, int]:
    """The least added weight that lets a box into a filter, how many boxes it has then, and how many of them changed:
    they are in ``grown``."""
    added, one, other = least_added(sums, sums[:0], boxes, count, before, box, grown, np.inf)
    if added == 0.0 and one == HELD:
        return 0.0, count, 0
    return added, _written(boxes, count, box, one, other, grown), 2 if other != NONE else 1


@borrowing
def least_added(
    sums: Array, coarse: Array, boxes: Array, count: int, before: float, box: Array, grown: Grown, most: float
) -> tuple[float, int, int]:
    """The least added weight that lets a box into a filter, and how: HELD if nothing changes, NONE for a new box, else
    the number of the box that is enlarged; a second number is that of the box that the first is joined with. What adds
    more than ``most`` need not be looked at: the result is then some number above it. ``coarse`` are the sums of every
    COARSE-th cell, which tell that in few and near numbers; without rows they tell nothing."""
    for at in range(count):
        if boxes[at, 0] <= box[0] and boxes[at, 1] >= box[1] and boxes[at, 2] <= box[2] and boxes[at, 3] >= box[3]:
            return 0.0, HELD, NONE
    if len(boxes) <= 3:
        return _added_to_few(sums, coarse, boxes, count, before, box[0], box[1], box[2], box[3], most)
    return _added_to_many(sums, boxes, count, before, box, grown, most)


@borrowing
def _added_to_few(
    sums: Array, coarse: Array, boxes: Array, count: int, before: float, b0: int, b1: int, b2: int, b3: int, most: float
) -> tuple[float, int, int]:
    """Of filters of at most three boxes. To enlarge a box instead of adding one is never cheaper, and no union weighs
    less than one of its boxes, so that most ways are soon out of the question."""
    e0, e1, e2, e3 = 0, 0, 0, 0  # the box that is neither of the two looked at
    if count < len(boxes):
        f0, f1, f2, f3 = 0, 0, 0, 0
        if count > 0:
            e0, e1, e2, e3 = boxes[0, 0], boxes[0, 1], boxes[0, 2], boxes[0, 3]
        if count > 1:
            f0, f1, f2, f3 = boxes[1, 0], boxes[1, 1], boxes[1, 2], boxes[1, 3]
        return weight_of_three(sums, b0, b1, b2, b3, e0, e1, e2, e3, f0, f1, f2, f3) - before, NONE, NONE
    best, one, other, limit = np.inf, NONE, NONE, before + most
    for first in range(count):
        a0, a1, a2, a3 = boxes[first, 0], boxes[first, 1], boxes[first, 2], boxes[first, 3]
        h0, h1, h2, h3 = min(a0, b0), max(a1, b1), min(a2, b2), max(a3, b3)
        second, third = (first + 1) % 3, (first + 2) % 3
        c0, c1, c2, c3 = 0, 0, 0, 0
        if second < count:
            c0, c1, c2, c3 = boxes[second, 0], boxes[second, 1], boxes[second, 2], boxes[second, 3]
        e0, e1, e2, e3 = 0, 0, 0, 0
        if third < count:
            e0, e1, e2, e3 = boxes[third, 0], boxes[third, 1], boxes[third, 2], boxes[third, 3]
        if weight_at_least(coarse, h0, h1, h2, h3) <= limit and weight(sums, h0, h1, h2, h3) <= limit:
            added = weight_of_three(sums, h0, h1, h2, h3, c0, c1, c2, c3, e0, e1, e2, e3) - before
            if added < best:
                best, one, other, limit = added, first, NONE, min(limit, before + added)
        if second < count and (count == 3 or first == 0):
            h0, h1, h2, h3 = min(a0, c0), max(a1, c1), min(a2, c2), max(a3, c3)
            if weight_at_least(coarse, h0, h1, h2, h3) <= limit and weight(sums, h0, h1, h2, h3) <= limit:
                added = weight_of_three(sums, h0, h1, h2, h3, e0, e1, e2, e3, b0, b1, b2, b3) - before
                if added < best:
                    best, one, other, limit = added, first, second, min(limit, before + added)
    return best, one, other


@borrowing
def _added_to_many(
    sums: Array, boxes: Array, count: int, before: float, box: Array, grown: Grown, most: float
) -> tuple[float, int, int]:
    """As of few boxes, of any number of them."""
    best, one, other, trial, limit = np.inf, NONE, NONE, grown.trial, before + most
    for at in range(count):
        _set(trial[at], boxes[at])
    if count < len(boxes):
        _set(trial[count], box)
        return union_weight(sums, trial, count + 1) - before, NONE, NONE
    for first in range(count):
        hull(boxes[first], box, trial[first])
        if weight_of(sums, trial[first]) <= limit:
            added = union_weight(sums, trial, count) - before
            if added < best:
                best, one, other, limit = added, first, NONE, min(limit, before + added)
        for second in range(first + 1, count):
            hull(boxes[first], boxes[second], trial[first])
            if weight_of(sums, trial[first]) <= limit:
                _set(trial[second], box)
                added = union_weight(sums, trial, count) - before
                if added < best:
                    best, one, other, limit = added, first, second, min(limit, before + added)
                _set(trial[second], boxes[second])
        _set(trial[first], boxes[first])
    return best, one, other


@borrowing
def _set(box: Array, other: Array) -> None:
    for end in range(4):
        box[end] = other[end]


@borrowing
def _written(boxes: Array, count: int, box: Array, one: int, other: int, grown: Grown) -> int:
    for at in range(count):
        _set(grown.boxes[at], boxes[at])
    if one == NONE:
        _set(grown.boxes[count], box)
        _set(grown.changed[0], box)
        return count + 1
    if other == NONE:
        hull(boxes[one], box, grown.boxes[one])
        _set(grown.changed[0], grown.boxes[one])
        return count
    hull(boxes[one], boxes[other], grown.boxes[one])
    _set(grown.boxes[other], box)
    _set(grown.changed[0], grown.boxes[one])
    _set(grown.changed[1], box)
    return count


@borrowing
def path_cost(
    sums: Array,
    coarse: Array,
    prices: Array,
    parent: Array,
    filters: Filters,
    leaf: int,
    box: Array,
    grown: Grown,
    most: float,
) -> float:
    """What letting a box in at a leaf adds, there and on the way up. If that is more than ``most``, it is some number
    above it: not all of the way is looked at then."""
    price, boxes, count = prices[leaf], filters.boxes[leaf], filters.counts[leaf]
    allowed = most / price if price > 0.0 else np.inf
    added, one, other = least_added(sums, coarse, boxes, count, filters.weights[leaf], box, grown, allowed)
    node, total = parent[leaf], price * added
    if node == NONE or one == HELD or total > most:
        return total
    _written(boxes, count, box, one, other, grown)
    for end in range(4):
        grown.wanted[0, end], grown.wanted[1, end] = grown.changed[0, end], grown.changed[1, end]
    total += _up(sums, coarse, prices, parent, filters, node, grown.wanted[0], grown, most - total)
    if other != NONE and total <= most:
        total += _up(sums, coarse, prices, parent, filters, node, grown.wanted[1], grown, most - total)
    return total


@borrowing
def _up(
    sums: Array,
    coarse: Array,
    prices: Array,
    parent: Array,
    filters: Filters,
    node: int,
    wanted: Array,
    grown: Grown,
    most: float,
) -> float:
    """What letting one box in costs from a node up; where two boxes are joined only the larger one is followed."""
    total = 0.0
    while node != NONE:
        price, boxes, count = prices[node], filters.boxes[node], filters.counts[node]
        allowed = (most - total) / price if price > 0.0 else np.inf
        added, one, other = least_added(sums, coarse, boxes, count, filters.weights[node], wanted, grown, allowed)
        total += price * added
        if one == HELD or total > most:
            break
        _written(boxes, count, wanted, one, other, grown)
        for end in range(4):
            wanted[end] = grown.changed[0, end]
        node = parent[node]
    return total


@borrowing
def let_in_path(sums: Array, parent: Array, filters: Filters, leaf: int, box: Array, grown: Grown) -> None:
    """Lets a box in at a leaf and on the way up."""
    node, waiting = leaf, 1
    _set(grown.wanted[0], box)
    while node != NONE and waiting:
        boxes, is_changed = filters.boxes[node], False
        for at in range(waiting):
            count, before = filters.counts[node], filters.weights[node]
            _, count, changed = let_in(sums, boxes, count, before, grown.wanted[at], grown)
            if changed:
                for number in range(count):
                    _set(boxes[number], grown.boxes[number])
                filters.counts[node], filters.weights[node] = count, union_weight(sums, boxes, count)
                is_changed = True
        node, waiting = parent[node], filters.counts[node] if is_changed else 0
        for at in range(waiting):
            _set(grown.wanted[at], boxes[at])


@kernel
def mark_covered(rectangles: Array, filters: Filters, leaf: int, covered: Array) -> None:
    """Sets in ``covered``, by rectangle and word, the bit of a leaf where one of its boxes holds the rectangle."""
    word, bit = leaf // 64, np.uint64(1) << np.uint64(leaf % 64)
    count, boxes = filters.counts[leaf], filters.boxes[leaf]
    for at in range(len(rectangles)):
        inside = False
        for number in range(count):
            if holds(boxes[number], rectangles[at]):
                inside = True
                break
        if inside:
            covered[at, word] |= bit
        else:
            covered[at, word] &= ~bit
