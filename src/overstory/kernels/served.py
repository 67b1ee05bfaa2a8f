"""Which items each leaf serves: an item leaves one and joins another in a step, however many there are.

The items of a leaf stand side by side, with what they want, so that looking at all of them takes little; when one
leaves, the last one takes its place. So whoever takes items out while looking goes from the last one to the first.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Items(NamedTuple):
    """Some subscribers each, with one rectangle and one class."""

    rectangle: Array
    which: Array  # class
    size: Array  # subscribers


class Served(NamedTuple):
    counts: Array  # by leaf
    members: Array  # by leaf and place: item, rectangle, class. Only as many rows as are used take memory
    places: Array  # by item


class Out(NamedTuple):
    """The items that an attempt takes out or moves, where they were, and the items of each rectangle as a list."""

    count: Array  # one number: how many there are
    items: Array
    leaf: Array  # by place in ``items``
    is_out: Array  # by item
    rectangles: Array  # distinct ones
    keys: Array  # by place in ``rectangles``: the order in which they are put back
    first: Array  # by rectangle: an item, NONE between attempts
    after: Array  # by item


@kernel
def served_by(items: Items, leaf: Array, leaves: int) -> Served:
    count = len(leaf)
    found = Served(np.zeros(leaves, np.int64), np.empty((leaves, count, 3), np.int32), np.full(count, NONE))
    for item in range(count):
        if leaf[item] != NONE:
            join(found, items, leaf[item], item)
    return found


@kernel
def nothing_out(items: int, rectangles: int) -> Out:
    return Out(
        np.zeros(1, np.int64),
        np.empty(items, np.int64),
        np.empty(items, np.int64),
        np.zeros(items, np.bool_),
        np.empty(rectangles, np.int64),
        np.empty(rectangles),
        np.full(rectangles, NONE),
        np.empty(items, np.int64),
    )


@borrowing
def join(served: Served, items: Items, leaf: int, item: int) -> None:
    place = served.counts[leaf]
    served.members[leaf, place, 0] = item
    served.members[leaf, place, 1] = items.rectangle[item]
    served.members[leaf, place, 2] = items.which[item]
    served.places[item] = place
    served.counts[leaf] = place + 1


@borrowing
def part(served: Served, leaf: int, item: int) -> None:
    place, last = served.places[item], served.counts[leaf] - 1
    for column in range(3):
        served.members[leaf, place, column] = served.members[leaf, last, column]
    served.places[served.members[leaf, place, 0]] = place
    served.counts[leaf] = last


@borrowing
def pass_on(served: Served, leaf: int, there: int, item: int) -> None:
    """An item leaves one leaf for another."""
    place, last, end = served.places[item], served.counts[leaf] - 1, served.counts[there]
    for column in range(3):
        served.members[there, end, column] = served.members[leaf, place, column]
        served.members[leaf, place, column] = served.members[leaf, last, column]
    served.places[served.members[leaf, place, 0]] = place
    served.places[item] = end
    served.counts[leaf], served.counts[there] = last, end + 1


@borrowing
def remember(out: Out, item: int, leaf: int) -> None:
    """Notes where an item was, unless that is known already."""
    if not out.is_out[item]:
        at = out.count[0]
        out.items[at], out.leaf[at], out.is_out[item] = item, leaf, True
        out.count[0] += 1
