"""Which items each leaf serves, as lists: an item leaves one and joins another in a step, however many there are."""

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
    first: Array  # by leaf: one of its items, NONE if it has none
    after: Array  # by item: the next one of its leaf, NONE after the last
    before: Array  # by item: the one before, NONE before the first


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
def served_by(leaf: Array, leaves: int) -> Served:
    found = Served(np.full(leaves, NONE), np.full(len(leaf), NONE), np.full(len(leaf), NONE))
    for item in range(len(leaf) - 1, -1, -1):
        join(found, leaf[item], item)
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
def join(served: Served, leaf: int, item: int) -> None:
    first = served.first[leaf]
    served.after[item], served.before[item] = first, NONE
    if first != NONE:
        served.before[first] = item
    served.first[leaf] = item


@borrowing
def part(served: Served, leaf: int, item: int) -> None:
    before, after = served.before[item], served.after[item]
    if before == NONE:
        served.first[leaf] = after
    else:
        served.after[before] = after
    if after != NONE:
        served.before[after] = before


@borrowing
def remember(out: Out, item: int, leaf: int) -> None:
    """Notes where an item was, unless that is known already."""
    if not out.is_out[item]:
        at = out.count[0]
        out.items[at], out.leaf[at], out.is_out[item] = item, leaf, True
        out.count[0] += 1
