"""At most α boxes around many rectangles, of little weight: the two groups that cost least together are joined, until
α groups are left (agglomerative clustering by smallest enclosing boxes)."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.volumes import holds, hull, weight

MANY = 512  # rectangles; more are first joined with neighbours along one dimension


@kernel
def outermost(rectangles: Array) -> Array:
    """Rectangles that no other one holds, each once, the widest first."""
    size = (rectangles[:, 1] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 2])
    order = np.argsort(-size, kind="mergesort")
    kept, count = np.empty_like(rectangles), 0
    for at in order:
        inside = False
        for other in range(count):
            if holds(kept[other], rectangles[at]):
                inside = True
                break
        if not inside:
            kept[count] = rectangles[at]
            count += 1
    return kept[:count]


@kernel
def _weight_of(sums: Array, box: Array) -> float:
    return weight(sums, box[0], box[1], box[2], box[3])


@kernel
def _joined_weight(sums: Array, one: Array, other: Array, into: Array) -> float:
    hull(one, other, into)
    return weight(sums, into[0], into[1], into[2], into[3])


@kernel
def fit(sums: Array, rectangles: Array, most: int) -> Array:
    """At most so many boxes that hold all rectangles."""
    boxes = outermost(rectangles)
    if len(boxes) > MANY:
        boxes = _chained(boxes)
    count = len(boxes)
    weights, into = np.empty(count), np.empty(4, np.int64)
    for at in range(count):
        weights[at] = _weight_of(sums, boxes[at])
    alive = np.ones(count, np.bool_)
    nearest, added = np.full(count, NONE), np.full(count, np.inf)
    for at in range(count):
        _look(sums, boxes, weights, alive, at, nearest, added, into)
    left = count
    while left > most:
        one = np.argmin(added)
        other = nearest[one]
        hull(boxes[one].copy(), boxes[other], boxes[one])
        weights[one], alive[other], added[other] = _weight_of(sums, boxes[one]), False, np.inf
        left -= 1
        for at in range(count):
            if alive[at] and (at == one or nearest[at] == one or nearest[at] == other):
                _look(sums, boxes, weights, alive, at, nearest, added, into)
            elif alive[at]:
                more = _joined_weight(sums, boxes[at], boxes[one], into) - weights[at] - weights[one]
                if more < added[at]:
                    added[at], nearest[at] = more, one
    return outermost(boxes[alive])


@kernel
def _look(
    sums: Array, boxes: Array, weights: Array, alive: Array, at: int, nearest: Array, added: Array, into: Array
) -> None:
    """The box that is cheapest to join with."""
    added[at], nearest[at] = np.inf, NONE
    for other in range(len(boxes)):
        if alive[other] and other != at:
            more = _joined_weight(sums, boxes[at], boxes[other], into) - weights[at] - weights[other]
            if more < added[at] or nearest[at] == NONE:
                added[at], nearest[at] = more, other


@kernel
def _chained(boxes: Array) -> Array:
    """Fewer boxes: neighbours in strips joined."""
    strips = int(np.sqrt(MANY / 2))
    order = np.argsort(boxes[:, 0] + boxes[:, 1], kind="mergesort")
    size = -(-len(boxes) // strips)
    found, count = np.empty((2 * MANY, 4), np.int64), 0
    for start in range(0, len(boxes), size):
        strip = order[start : start + size]
        strip = strip[np.argsort(boxes[strip, 2] + boxes[strip, 3], kind="mergesort")]
        step = -(-len(strip) // strips)
        for first in range(0, len(strip), step):
            found[count] = boxes[strip[first]]
            for at in strip[first + 1 : first + step]:
                hull(found[count].copy(), boxes[at], found[count])
            count += 1
    return found[:count]


@kernel
def shrunk(rectangles: Array, boxes: Array, count: int) -> Array:
    """Boxes that hold all rectangles, drawn tight around those that each is the first to hold."""
    found = np.empty((count, 4), np.int64)
    used = np.zeros(count, np.bool_)
    for at in range(len(rectangles)):
        for number in range(count):
            if holds(boxes[number], rectangles[at]):
                if used[number]:
                    hull(found[number].copy(), rectangles[at], found[number])
                else:
                    found[number] = rectangles[at]
                used[number] = True
                break
    return found[used]
