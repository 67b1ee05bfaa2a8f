"""Filters of at most α boxes on a tree of brokers, and the least enlargement that lets one more box in.

1. A filter is the union of its boxes; what it costs is the weight of events in it, times the price of its broker.
2. To let a box in, a filter takes the cheapest of: nothing, if one of its boxes holds it; a new box, if it has fewer
   than α; one of its boxes enlarged; two of its boxes joined, and a new one.
3. Every box of a broker is within one box of its parent. So what changes at a leaf is let into its parent, and so on.

Nodes are brokers without the root: leaves first, and each before its parent, which is -1 below the root.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.volumes import holds, hull, union_weight


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


def grown_for(alpha: int) -> Grown:
    return Grown(np.empty((alpha, 4), np.int64), np.empty((2, 4), np.int64), np.empty((alpha, 4), np.int64))


def no_filters(nodes: int, alpha: int) -> Filters:
    return Filters(np.zeros((nodes, alpha, 4), np.int64), np.zeros(nodes, np.int64), np.zeros(nodes))


@kernel
def let_in(sums: Array, boxes: Array, count: int, before: float, box: Array, grown: Grown) -> tuple[float, int, int]:
    """The least added weight that lets a box into a filter, how many boxes it has then, and how many of them changed:
    they are in ``grown``."""
    alpha = len(boxes)
    for at in range(count):
        if holds(boxes[at], box):
            return 0.0, count, 0
    best, one, other = np.inf, NONE, NONE
    grown.trial[:count] = boxes[:count]
    if count < alpha:
        grown.trial[count] = box
        best = union_weight(sums, grown.trial, count + 1) - before
    for at in range(count):
        hull(boxes[at], box, grown.trial[at])
        added = union_weight(sums, grown.trial, count) - before
        if added < best:
            best, one = added, at
        grown.trial[at] = boxes[at]
    if count == alpha:
        best, one, other = _joined(sums, boxes, count, before, box, grown, best, one)
    return best, _written(boxes, count, box, one, other, grown), 2 if other != NONE else 1


@kernel
def _joined(
    sums: Array, boxes: Array, count: int, before: float, box: Array, grown: Grown, best: float, one: int
) -> tuple[float, int, int]:
    """The best of two boxes joined to make room for a new one, if that is better than the best so far."""
    other = NONE
    for first in range(count):
        for second in range(first + 1, count):
            hull(boxes[first], boxes[second], grown.trial[first])
            grown.trial[second] = box
            added = union_weight(sums, grown.trial, count) - before
            if added < best:
                best, one, other = added, first, second
            grown.trial[second] = boxes[second]
        grown.trial[first] = boxes[first]
    return best, one, other


@kernel
def _written(boxes: Array, count: int, box: Array, one: int, other: int, grown: Grown) -> int:
    grown.boxes[:count] = boxes[:count]
    if one == NONE:
        grown.boxes[count] = box
        grown.changed[0] = box
        return count + 1
    if other == NONE:
        hull(boxes[one], box, grown.boxes[one])
        grown.changed[0] = grown.boxes[one]
        return count
    hull(boxes[one], boxes[other], grown.boxes[one])
    grown.boxes[other] = box
    grown.changed[0], grown.changed[1] = grown.boxes[one], box
    return count


@kernel
def path_cost(
    sums: Array, prices: Array, parent: Array, filters: Filters, leaf: int, box: Array, grown: Grown
) -> float:
    """What letting a box in at a leaf adds, there and on the way up."""
    added, _, changed = let_in(sums, filters.boxes[leaf], filters.counts[leaf], filters.weights[leaf], box, grown)
    total = prices[leaf] * added
    node = parent[leaf]
    if changed == 0 or node == NONE:
        return total
    wanted = grown.changed[0].copy()
    second = grown.changed[1].copy()
    total += _up(sums, prices, parent, filters, node, wanted, grown)
    if changed == 2:
        total += _up(sums, prices, parent, filters, node, second, grown)
    return total


@kernel
def _up(sums: Array, prices: Array, parent: Array, filters: Filters, node: int, wanted: Array, grown: Grown) -> float:
    """What letting one box in costs from a node up; where two boxes are joined only the larger one is followed."""
    total = 0.0
    while node != NONE:
        added, _, changed = let_in(
            sums, filters.boxes[node], filters.counts[node], filters.weights[node], wanted, grown
        )
        total += prices[node] * added
        if changed == 0:
            break
        wanted[:] = grown.changed[0]
        node = parent[node]
    return total


@kernel
def let_in_path(sums: Array, parent: Array, filters: Filters, leaf: int, box: Array, grown: Grown) -> None:
    """Lets a box in at a leaf and on the way up."""
    alpha = filters.boxes.shape[1]
    node, waiting = leaf, 1
    wanted = np.empty((2 * alpha + 2, 4), np.int64)
    further = np.empty((2 * alpha + 2, 4), np.int64)
    wanted[0] = box
    while node != NONE and waiting:
        more = 0
        for at in range(waiting):
            boxes = filters.boxes[node]
            _, count, changed = let_in(sums, boxes, filters.counts[node], filters.weights[node], wanted[at], grown)
            if changed:
                boxes[:count] = grown.boxes[:count]
                filters.counts[node] = count
                filters.weights[node] = union_weight(sums, boxes, count)
                for each in range(changed):
                    further[more] = grown.changed[each]
                    more += 1
        node, waiting = parent[node], min(more, 2 * alpha)
        wanted[:waiting] = further[:waiting]


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
