"""Which items each leaf serves, as lists: an item leaves one and joins another in a step, however many there are."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Served(NamedTuple):
    first: Array  # by leaf: one of its items, NONE if it has none
    after: Array  # by item: the next one of its leaf, NONE after the last
    before: Array  # by item: the one before, NONE before the first


@kernel
def served_by(leaf: Array, leaves: int) -> Served:
    found = Served(np.full(leaves, NONE), np.full(len(leaf), NONE), np.full(len(leaf), NONE))
    for item in range(len(leaf) - 1, -1, -1):
        join(found, leaf[item], item)
    return found


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
