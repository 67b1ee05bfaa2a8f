"""Sets of ordered values as sorted tuples of cuts: numbers and strings share this algebra.

A *cut* lies between values. The cuts of a set are the places where membership changes, in ascending order,
starting outside: a value is inside iff an odd number of cuts lies at or below it. An odd number of cuts in all
means that the set is unbounded above. The representation is canonical: equal sets have equal tuples.

A number's cuts are ``(v, 0)`` just below v and ``(v, 1)`` just above it, so open and closed ends need no
cases. Strings are not dense, the next one after s being s + U+0000; a string's cut is the least string above it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, TypeAlias

Cut: TypeAlias = Any  # (number, 0 | 1) or str: whatever can be ordered among its own kind
Cuts: TypeAlias = tuple[Cut, ...]

EMPTY: Cuts = ()


def contains(cuts: Cuts, key: Cut) -> bool:
    """Whether a value is inside. ``key`` is the cut just below the value."""
    return bisect_right(cuts, key) % 2 == 1


def is_subset(inner: Cuts, outer: Cuts) -> bool:
    count = len(outer)
    for i in range(0, len(inner), 2):
        above = bisect_right(outer, inner[i])
        if above % 2 == 0:
            return False
        if above < count and (i + 1 == len(inner) or inner[i + 1] > outer[above]):
            return False
    return True


def overlap(a: Cuts, b: Cuts) -> bool:
    """Whether some value is inside both: each interval of the shorter one is looked up in the longer one."""
    if len(a) > len(b):
        a, b = b, a
    for start, stop in intervals(a):
        above = bisect_right(b, start)
        if above % 2 == 1 or (above < len(b) and (stop is None or b[above] < stop)):
            return True
    return False


def intervals(cuts: Cuts) -> Iterator[tuple[Cut, Cut | None]]:
    """The intervals as pairs of start and stop. The last stop is None if the set is unbounded above."""
    return zip_longest(cuts[::2], cuts[1::2])


def union(a: Cuts, b: Cuts) -> Cuts:
    return _combine(a, b, lambda in_a, in_b: in_a or in_b)


def intersection(a: Cuts, b: Cuts) -> Cuts:
    if len(a) <= 2 and len(b) <= 2 and a and b:  # one interval each: by far the most common case
        start = max(a[0], b[0])
        stops = a[1:] + b[1:]
        if not stops:
            return (start,)
        stop = min(stops)
        return (start, stop) if start < stop else EMPTY
    return _combine(a, b, lambda in_a, in_b: in_a and in_b)


def difference(a: Cuts, b: Cuts) -> Cuts:
    return _combine(a, b, lambda in_a, in_b: in_a and not in_b)


def is_subset_of_union(inner: Cuts, sets: Sequence[Cuts]) -> bool:
    """Whether all of ``inner`` is in the union of the sets. One sweep over all intervals, in order of their starts."""
    if set(map(len, sets)) == {2}:  # each is one interval already
        pieces = sorted(sets)
    else:
        pieces = sorted(chain.from_iterable(map(intervals, sets)), key=itemgetter(0))
    i = 0
    reached: Cut | None = None  # everything from some start on is inside up to here
    for start, stop in intervals(inner):
        if reached is None or reached < start:
            reached = start
        while stop is None or reached < stop:
            if i == len(pieces) or pieces[i][0] > reached:
                return False
            end = pieces[i][1]
            if end is None:
                return True  # what starts later is inside as well
            reached = max(reached, end)
            i += 1
    return True


def _combine(a: Cuts, b: Cuts, keep: Callable[[bool, bool], bool]) -> Cuts:
    result: list[Cut] = []
    i = j = 0
    inside = False
    while i < len(a) or j < len(b):
        take_a = j == len(b) or (i < len(a) and a[i] <= b[j])
        cut = a[i] if take_a else b[j]
        if i < len(a) and a[i] == cut:
            i += 1
        if j < len(b) and b[j] == cut:
            j += 1
        if keep(i % 2 == 1, j % 2 == 1) != inside:
            inside = not inside
            result.append(cut)
    return tuple(result)
