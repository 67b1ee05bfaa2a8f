"""Groups of boxes that become one box each, improved by moving one box at a time: simulated annealing.

A group lets through the events that its hull holds. Of each attribute that is what any of its boxes allows, if all of
them constrain it in the same kind of way, and else everything. Events are bits. A box stands in one slice of the
events, and only the bits of that slice count for it; groups do not reach across slices. What is counted are the events
of a slice that any group of it lets through, and that are wasted on the host.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE

ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE, TWO, FOUR, LAST = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
PAIRS, NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
BYTES, SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


class Sides(NamedTuple):
    """What each box allows by each attribute."""

    kind: Array  # by box and attribute; sets of one kind have a union, NONE: the box does not constrain it
    inside: Array  # by box and attribute, the events as words of 64 bits
    slices: Array  # by box
    spans: Array  # by slice where its words begin, and where the last one's end


class Draws(NamedTuple):
    """Attempts, drawn ahead: a box goes to a group, if that wastes no more than the heat says."""

    boxes: Array
    groups: Array
    heat: Array


@kernel
def ones(word: np.uint64) -> int:
    """How many bits of a word are set."""
    word = word - ((word >> ONE) & PAIRS)
    word = (word & NIBBLES) + ((word >> TWO) & NIBBLES)
    return np.int64((((word + (word >> FOUR)) & BYTES) * SUM) >> LAST)


@kernel
def hull_of(sides: Sides, group: Array, number: int, without: int, also: int, found: Array) -> None:
    """Puts the events that a group lets through into ``found``: without one of its boxes, or with another one also."""
    sample = also
    for box in range(len(group)):
        if group[box] == number and box != without:
            sample = box
            break
    if sample == NONE:
        found[:] = 0
        return
    first, last = sides.spans[sides.slices[sample]], sides.spans[sides.slices[sample] + 1]
    held, union = found[first:last], np.empty(last - first, np.uint64)
    held[:] = ALL_BITS
    for attribute in range(sides.kind.shape[1]):
        kind, alike = sides.kind[sample, attribute], True
        union[:] = 0
        for box in range(len(group)):
            if (group[box] == number and box != without) or box == also:
                if sides.kind[box, attribute] != kind or kind == NONE:
                    alike = False
                    break
                allowed = sides.inside[box, attribute, first:last]
                for word in range(len(union)):
                    union[word] |= allowed[word]
        if alike:
            for word in range(len(union)):
                held[word] &= union[word]


@kernel
def wasted_in(sides: Sides, hulls: Array, home: Array, wasted: Array, place: int) -> int:
    """The events of a slice that its groups let through in vain."""
    first, last = sides.spans[place], sides.spans[place + 1]
    held = np.zeros(last - first, np.uint64)
    for number in range(len(home)):
        if home[number] == place:
            through = hulls[number, first:last]
            for word in range(len(held)):
                held[word] |= through[word]
    count, vain = 0, wasted[first:last]
    for word in range(len(held)):
        count += ones(held[word] & vain[word])
    return count


@kernel
def exchange(one: Array, other: Array, first: int, last: int) -> None:
    """Exchanges some words of two rows."""
    for word in range(first, last):
        one[word], other[word] = other[word], one[word]


@kernel
def regroup(sides: Sides, wasted: Array, group: Array, most: int, draws: Draws) -> int:
    """Changes the group of each box, a number below ``most``, to the best that was met. Returns how many events that
    wastes. No box leaves its slice; a group that has become empty may be taken by another slice."""
    words = sides.inside.shape[2]
    hulls, aside = np.zeros((most, words), np.uint64), np.zeros((2, words), np.uint64)
    size, home = np.zeros(most, np.int64), np.full(most, NONE)
    for box in range(len(group)):
        size[group[box]] += 1
        home[group[box]] = sides.slices[box]
    for number in range(most):
        hull_of(sides, group, number, NONE, NONE, hulls[number])
    now = np.zeros(len(sides.spans) - 1, np.int64)
    for place in range(len(now)):
        now[place] = wasted_in(sides, hulls, home, wasted, place)
    least, best = now.sum(), group.copy()
    for attempt in range(len(draws.boxes)):
        box, to = draws.boxes[attempt], draws.groups[attempt]
        left, place, before = group[box], sides.slices[box], home[to]
        if to == left or before not in (NONE, place) or (before == NONE and size[left] == 1):
            continue
        first, last = sides.spans[place], sides.spans[place + 1]
        hull_of(sides, group, left, box, NONE, aside[0, :])
        hull_of(sides, group, to, NONE, box, aside[1, :])
        exchange(hulls[left], aside[0], first, last)
        exchange(hulls[to], aside[1], first, last)
        home[to] = place
        home[left] = place if size[left] > 1 else NONE
        count = wasted_in(sides, hulls, home, wasted, place)
        if count - now[place] > draws.heat[attempt]:
            home[left], home[to] = place, before
            exchange(hulls[left], aside[0], first, last)
            exchange(hulls[to], aside[1], first, last)
            continue
        group[box], now[place] = to, count
        size[left] -= 1
        size[to] += 1
        if now.sum() < least:
            least = now.sum()
            best[:] = group
    group[:] = best
    return least
