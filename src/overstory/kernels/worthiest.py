"""The boxes that are worth most beyond what they cost: the pricing of the programme over all rectangles.

A box is worth what the subscriptions within it are worth, and costs its weight times a price. Its ends are ends of
subscriptions. Left and right ends are tried pair by pair. For each pair the lower end is swept downwards, and a tree
over the upper ends has at its root the best of all of them: a subscription adds its worth to every upper end at or
above its own, and the weight of a box is the difference of two numbers, one for each end.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel


class Wanted(NamedTuple):
    """Subscriptions, by falling lower end."""

    boxes: Array
    worth: Array
    upper: Array  # the distinct upper ends
    at_upper: Array  # by subscription


class Sweep(NamedTuple):
    """A tree over the upper ends: what all below a node add, and the most that the first ones of them add."""

    totals: Array
    bests: Array
    size: int


@kernel
def worthiest(sums: Array, price: float, boxes: Array, worth: Array, least: float) -> tuple[Array, Array]:
    """For each left end the box that is worth most beyond its cost, where that is more than ``least``, which is not
    below 0; and how much it is. Only subscriptions of some worth are given."""
    falling = np.argsort(-boxes[:, 2], kind="mergesort")
    upper = np.unique(boxes[:, 3])
    wanted = Wanted(boxes[falling], worth[falling], upper, np.searchsorted(upper, boxes[falling, 3]))
    size = 1
    while size < len(upper):
        size *= 2
    sweep = Sweep(np.zeros(2 * size), np.full(2 * size, -np.inf), size)
    left, right = np.unique(boxes[:, 0]), np.unique(boxes[:, 1])
    found, gains, count = np.empty((len(left), 4), np.int64), np.empty(len(left)), 0
    for first in left:
        best = least
        for last in right[right > first]:
            if _within(wanted, first, last) <= best:
                continue
            gain, low, high = _best_ends(sums, price, wanted, sweep, first, last)
            if gain > best:
                best, gains[count] = gain, gain
                found[count, 0], found[count, 1], found[count, 2], found[count, 3] = first, last, low, high
        count += best > least
    return found[:count], gains[:count]


@kernel
def _within(wanted: Wanted, first: int, last: int) -> float:
    total = 0.0
    for one in range(len(wanted.boxes)):
        if wanted.boxes[one, 0] >= first and wanted.boxes[one, 1] <= last:
            total += wanted.worth[one]
    return total


@kernel
def _best_ends(
    sums: Array, price: float, wanted: Wanted, sweep: Sweep, first: int, last: int
) -> tuple[float, int, int]:
    """The most that a box between two ends is worth beyond its cost, and its two other ends."""
    boxes, upper, active = wanted.boxes, wanted.upper, len(wanted.upper)
    sweep.totals[:], sweep.bests[:] = 0.0, -np.inf
    best, best_low, best_high = -np.inf, 0, 0
    for one in range(len(boxes)):
        if boxes[one, 0] < first or boxes[one, 1] > last:
            continue
        low = boxes[one, 2]
        while active > 0 and upper[active - 1] > low:
            active -= 1
            below = upper[active - 1] if active > 0 else 0
            slab = sums[last, upper[active]] - sums[first, upper[active]] - sums[last, below] + sums[first, below]
            _add(sweep, active, -price * slab)
        _add(sweep, wanted.at_upper[one], wanted.worth[one])
        below = upper[active - 1] if active > 0 else 0
        gain = sweep.bests[1] + price * (sums[last, low] - sums[first, low] - sums[last, below] + sums[first, below])
        if gain > best:
            best, best_low, best_high = gain, low, upper[_best_place(sweep)]
    return best, best_low, best_high


@kernel
def _add(sweep: Sweep, place: int, more: float) -> None:
    """Adds to an upper end and to all beyond it. An upper end is possible from the first time on."""
    node = sweep.size + place
    sweep.totals[node] += more
    sweep.bests[node] = sweep.totals[node]
    while node > 1:
        node //= 2
        one, other = 2 * node, 2 * node + 1
        sweep.totals[node] = sweep.totals[one] + sweep.totals[other]
        sweep.bests[node] = max(sweep.bests[one], sweep.totals[one] + sweep.bests[other])


@kernel
def _best_place(sweep: Sweep) -> int:
    node = 1
    while node < sweep.size:
        one, other = 2 * node, 2 * node + 1
        node = one if sweep.bests[one] >= sweep.totals[one] + sweep.bests[other] else other
    return node - sweep.size
