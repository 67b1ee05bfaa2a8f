"""Volumes of rectangles and of their unions, under the distribution of events.

Event space is a grid of cells, and a box is the cells from ``box[0]`` up to ``box[1]`` in one dimension and from
``box[2]`` up to ``box[3]`` in the other, the last ones not within. ``sums`` holds in [i, j] the weight of all cells
before i and before j, so the weight of a box takes four numbers.
"""

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel

FEW = 4  # boxes, of which inclusion and exclusion takes the union; more are swept


@inlined
def weight(sums: Array, low_x: int, high_x: int, low_y: int, high_y: int) -> float:
    return sums[high_x, high_y] - sums[low_x, high_y] - sums[high_x, low_y] + sums[low_x, low_y]


@kernel
def union_weight(sums: Array, boxes: Array, count: int) -> float:
    """Of the union of the first ``count`` boxes."""
    if count <= FEW:
        return _included_and_excluded(sums, boxes, count)
    return _swept(sums, boxes, count)


@kernel
def _included_and_excluded(sums: Array, boxes: Array, count: int) -> float:
    total = 0.0
    for some in range(1, 1 << count):
        low_x, low_y, high_x, high_y, sign = 0, 0, 1 << 30, 1 << 30, -1.0
        for at in range(count):
            if some >> at & 1:
                low_x, high_x = max(low_x, boxes[at, 0]), min(high_x, boxes[at, 1])
                low_y, high_y = max(low_y, boxes[at, 2]), min(high_y, boxes[at, 3])
                sign = -sign
        if low_x < high_x and low_y < high_y:
            total += sign * weight(sums, low_x, high_x, low_y, high_y)
    return total


@kernel
def _swept(sums: Array, boxes: Array, count: int) -> float:
    """Slab by slab between neighbouring ends of boxes."""
    cuts = np.empty(2 * count, np.int64)
    for at in range(count):
        cuts[2 * at], cuts[2 * at + 1] = boxes[at, 0], boxes[at, 1]
    cuts.sort()
    order = np.argsort(boxes[:count, 2])
    total = 0.0
    for slab in range(2 * count - 1):
        first, last, done = cuts[slab], cuts[slab + 1], -1
        if first == last:
            continue
        for place in range(count):
            at = order[place]
            if boxes[at, 0] <= first and boxes[at, 1] >= last and boxes[at, 3] > done:
                total += weight(sums, first, last, max(boxes[at, 2], done), boxes[at, 3])
                done = boxes[at, 3]
    return total


@kernel
def holds(box: Array, other: Array) -> bool:
    """Whether the first box contains the second."""
    return box[0] <= other[0] and box[1] >= other[1] and box[2] <= other[2] and box[3] >= other[3]


@kernel
def hull(one: Array, other: Array, into: Array) -> None:
    into[0], into[1] = min(one[0], other[0]), max(one[1], other[1])
    into[2], into[3] = min(one[2], other[2]), max(one[3], other[3])
