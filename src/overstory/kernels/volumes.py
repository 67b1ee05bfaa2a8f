"""Volumes of rectangles and of their unions, under the distribution of events.

Event space is a grid of cells, and a box is the cells from ``box[0]`` up to ``box[1]`` in one dimension and from
``box[2]`` up to ``box[3]`` in the other, the last ones not within. ``sums`` holds in [i, j] the weight of all cells
before i and before j, so the weight of a box takes four numbers.
"""

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, inlined

SHIFT = 4
COARSE = 1 << SHIFT  # cells
FAR = 1 << 30  # beyond any cell
FEW = 4  # boxes, of which inclusion and exclusion takes the union; more are swept


@inlined
def weight(sums: Array, low_x: int, high_x: int, low_y: int, high_y: int) -> float:
    return sums[high_x, high_y] - sums[low_x, high_y] - sums[high_x, low_y] + sums[low_x, low_y]


def coarse_of(sums: Array) -> Array:
    """The sums of every COARSE-th cell: few enough to be near when they are needed."""
    return np.ascontiguousarray(sums[::COARSE, ::COARSE])


@inlined
def weight_at_least(coarse: Array, low_x: int, high_x: int, low_y: int, high_y: int) -> float:
    """What a box weighs at least, by coarse sums; 0 if there are none."""
    first_x, last_x = (low_x + COARSE - 1) >> SHIFT, high_x >> SHIFT
    first_y, last_y = (low_y + COARSE - 1) >> SHIFT, high_y >> SHIFT
    if len(coarse) == 0 or first_x >= last_x or first_y >= last_y:
        return 0.0
    return weight(coarse, first_x, last_x, first_y, last_y)


@borrowing
def weight_of(sums: Array, box: Array) -> float:
    return weight(sums, box[0], box[1], box[2], box[3])


@borrowing
def union_weight(sums: Array, boxes: Array, count: int) -> float:
    """Of the union of the first ``count`` boxes."""
    if count <= FEW:
        return _included_and_excluded(sums, boxes, count)
    return _swept(sums, boxes, count)


@inlined
def _common(sums: Array, low_x: int, high_x: int, low_y: int, high_y: int) -> float:
    """The weight of a box that may be empty."""
    return weight(sums, low_x, high_x, low_y, high_y) if low_x < high_x and low_y < high_y else 0.0


@borrowing
def weight_of_three(
    sums: Array, a0: int, a1: int, a2: int, a3: int, b0: int, b1: int, b2: int, b3: int, c0: int, c1: int, c2: int,
    c3: int,
) -> float:  # fmt: skip
    """Of the union of three boxes, any of which may be empty: inclusion and exclusion, written out, as most filters
    have so many, and numbers need not be handed over in arrays."""
    total = weight(sums, a0, a1, a2, a3) + weight(sums, b0, b1, b2, b3) + weight(sums, c0, c1, c2, c3)
    d0, d1, d2, d3 = max(a0, b0), min(a1, b1), max(a2, b2), min(a3, b3)
    if d0 < d1 and d2 < d3:
        total -= weight(sums, d0, d1, d2, d3) - _common(sums, max(d0, c0), min(d1, c1), max(d2, c2), min(d3, c3))
    total -= _common(sums, max(a0, c0), min(a1, c1), max(a2, c2), min(a3, c3))
    return total - _common(sums, max(b0, c0), min(b1, c1), max(b2, c2), min(b3, c3))


@borrowing
def _included_and_excluded(sums: Array, boxes: Array, count: int) -> float:
    total = 0.0
    for some in range(1, 1 << count):
        low_x, low_y, high_x, high_y, sign = 0, 0, FAR, FAR, -1.0
        for at in range(count):
            if some >> at & 1:
                low_x, high_x = max(low_x, boxes[at, 0]), min(high_x, boxes[at, 1])
                low_y, high_y = max(low_y, boxes[at, 2]), min(high_y, boxes[at, 3])
                sign = -sign
        if low_x < high_x and low_y < high_y:
            total += sign * weight(sums, low_x, high_x, low_y, high_y)
    return total


@borrowing
def _swept(sums: Array, boxes: Array, count: int) -> float:
    """Slab by slab between neighbouring ends of boxes, and in each slab from one box to the next."""
    total, first = 0.0, FAR
    for at in range(count):
        first = min(first, boxes[at, 0])
    while True:
        last = FAR
        for at in range(count):
            for end in range(2):
                if first < boxes[at, end] < last:
                    last = boxes[at, end]
        if last == FAR:
            return total
        done = -1
        while True:
            low, high = FAR, -1
            for at in range(count):
                if boxes[at, 0] <= first and boxes[at, 1] >= last and boxes[at, 3] > done:
                    start = max(boxes[at, 2], done)
                    if start < low or (start == low and boxes[at, 3] > high):
                        low, high = start, boxes[at, 3]
            if low == FAR:
                break
            total += weight(sums, first, last, low, high)
            done = high
        first = last


@borrowing
def holds(box: Array, other: Array) -> bool:
    """Whether the first box contains the second."""
    return box[0] <= other[0] and box[1] >= other[1] and box[2] <= other[2] and box[3] >= other[3]


@borrowing
def hull(one: Array, other: Array, into: Array) -> None:
    into[0], into[1] = min(one[0], other[0]), max(one[1], other[1])
    into[2], into[3] = min(one[2], other[2]), max(one[3], other[3])
