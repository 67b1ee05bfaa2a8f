"""Few items that stand for all: whoever serves them within the loads can nearly serve everybody.

1. Filters that cover a subscriber cover everybody whose rectangle lies within the subscriber's, and who has the
   subscriber's leaves in time, and perhaps more leaves. So filters have to cover the *decisive* pairs of rectangle and
   class alone: those that no other pair stands for. They are a tenth of all pairs, or fewer.
2. Everybody else matters for loads alone. So of the other items every so manieth subscriber is drawn, in the order of
   leaves and rectangles (systematic sampling, with chances that are proportional to sizes), and stands for as many.
   Items that are larger than that are taken as they are.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.greedy import Ground
from overstory.kernels.served import Items
from overstory.model.network import Ints
from overstory.planners.assignment.problem import Problem, Truths

UNITS = 16  # of a subscriber, for what items stand for
TIGHTER = 0.97  # loads of the coreset, as it stands for others by chance
AT_ONCE = 512  # rectangles that are compared with all others


class Groups(NamedTuple):
    """Subscribers with the same rectangle, class and leaf, as items."""

    items: Items
    leaf: Ints  # by item
    of_subscriber: Ints


def grouped(problem: Problem, leaf: Ints) -> Groups:
    leaves, classes = len(problem.fair), len(problem.words)
    keys = (problem.rectangle * classes + problem.which) * leaves + leaf
    distinct, which, size = np.unique(keys, return_inverse=True, return_counts=True)
    pair, at = np.divmod(distinct, leaves)
    return Groups(Items(*np.divmod(pair, classes), size), at, which.reshape(-1))


def coreset(
    ground: Ground, groups: Groups, decisive: Truths, drawn: int, draw: np.random.Generator
) -> tuple[Items, Ints, Ground]:
    """The decisive items, the large ones, and about so many others. Returns the items with what they stand for, in
    finer units, their numbers among all items, and the ground in these units."""
    rectangle, which, size = groups.items
    step = size.sum() / drawn
    sure = decisive[rectangle, which] | (size >= step)
    order = np.lexsort((which, rectangle, groups.leaf))
    order = order[~sure[order]]
    passed = np.floor(np.cumsum(size[order]) / step + draw.random()).astype(np.int64)
    lucky = order[np.diff(passed, prepend=0) > 0]
    mine = np.sort(np.concatenate([np.flatnonzero(sure), lucky]))
    weight = np.where(sure[mine], UNITS * size[mine], round(UNITS * step))
    items = Items(rectangle[mine], which[mine], weight)
    present = np.bincount(groups.leaf[mine], weight, len(ground.capacity)).astype(np.int64)
    room = np.maximum((TIGHTER * UNITS * ground.capacity).astype(np.int64), present)
    return items, mine, ground._replace(capacity=room)


def decisive_pairs(problem: Problem) -> Truths:
    """By rectangle and class: whether the pair is decisive."""
    rectangles, pairs = problem.space.rectangles, problem.pairs
    wanted = np.zeros((len(rectangles), len(problem.words)), np.float32)
    wanted[pairs.rectangle, pairs.which] = 1
    within = _subsets(problem.mask)
    stood_for = (wanted @ within > 0).astype(np.float32)
    np.fill_diagonal(within, 0)
    found = (wanted > 0) & (wanted @ within == 0)
    for start in range(0, len(rectangles), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        found[some] &= _holders(rectangles, some) @ stood_for == 0
    return np.asarray(found)


def _subsets(mask: Truths) -> np.ndarray:
    """By class and class: 1 where all leaves of the first are leaves of the second."""
    common = mask.astype(np.float32) @ mask.T.astype(np.float32)
    return np.asarray(common == mask.sum(axis=1)[:, None], np.float32)


def _holders(rectangles: Ints, some: slice) -> np.ndarray:
    """By rectangle, of some, and rectangle: 1 where the second holds the first; of equal ones the earlier does."""
    mine, numbers = rectangles[some], np.arange(len(rectangles))
    holds, equal = np.ones((len(mine), len(rectangles)), bool), np.ones((len(mine), len(rectangles)), bool)
    for end, is_low in enumerate((True, False, True, False)):
        theirs, own = rectangles[None, :, end], mine[:, None, end]
        holds &= theirs <= own if is_low else theirs >= own
        equal &= theirs == own
    holds &= ~equal | (numbers < numbers[some, None])
    return holds.astype(np.float32)
