"""Subscribers whom the filters of an assignment cannot tell apart, and who are much alike, go together as *lumps*.

1. Subscribers of one lump are served by one leaf now, and could be by the same others as filters are: the same boxes
   hold what they want. A lump wants the smallest rectangle around that, and may go where all of its subscribers may.
2. So an assignment of lumps is one of everybody: with the same loads and filters, and everyone in time. A search on
   lumps begins with the assignment as it is, and whatever it finds holds for everybody, without any repair. Whoever is
   not in time as it is may stay there (some planners do not look at delays, and their plans are searched on, too).
3. What is lost is that subscribers of a lump cannot go apart. Therefore only those are in one lump whose rectangles are
   in one of few cells, and their classes too; and lumps are made anew when filters have changed.

A million subscribers are some 20,000 lumps in 24 cells, once filters are good, where they are 300,000 groups that want
the same and may go to the same leaves.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.enlarging import Filters
from overstory.kernels.greedy import Ground
from overstory.kernels.recreating import Reach
from overstory.kernels.served import Items
from overstory.model.network import Ints
from overstory.planners.assignment.cells import cells_of
from overstory.planners.assignment.filters import covered_by
from overstory.planners.assignment.problem import Problem, Words, as_truths, distinct_rows

PARTS = 100  # lumps of a leaf with a fair load, at least, so that they can be packed


class Groups(NamedTuple):
    """Subscribers with the same rectangle, class and leaf, as items."""

    items: Items
    leaf: Ints  # by item
    of_subscriber: Ints


class Lumps(NamedTuple):
    """What a search sees of a problem."""

    ground: Ground
    reach: Reach
    groups: Groups


def grouped(problem: Problem, leaf: Ints) -> Groups:
    leaves, classes = len(problem.fair), len(problem.words)
    keys = (problem.rectangle * classes + problem.which) * leaves + leaf
    distinct, which, size = np.unique(keys, return_inverse=True, return_counts=True)
    pair, at = np.divmod(distinct, leaves)
    return Groups(Items(*np.divmod(pair, classes), size), at, which.reshape(-1))


def reach_of(problem: Problem, words: Words) -> Reach:
    """``words`` are those of classes: of the problem's own, or of lumps."""
    classes, leaves = np.nonzero(as_truths(words, len(problem.fair)))
    offsets = np.searchsorted(classes, np.arange(len(words) + 1))
    parent = problem.brokers.parent
    children = np.argsort(parent, kind="stable")
    child_offsets = np.searchsorted(parent[children], np.arange(len(parent) + 1))
    return Reach(offsets, leaves, child_offsets, children)


def unlumped(problem: Problem, ground: Ground, leaf: Ints) -> Lumps:
    """Everybody who wants the same and may go to the same leaves, and nobody else, together."""
    return Lumps(ground, reach_of(problem, problem.words), grouped(problem, leaf))


def lumped(problem: Problem, ground: Ground, leaf: Ints, filters: Filters, cells: int) -> Lumps:
    """``leaf`` is by subscriber; ``filters`` hold what everybody wants at his leaf."""
    (rectangle, which, size), at, of_subscriber = grouped(problem, leaf)
    kind, hulls = _alike(problem, filters, rectangle, size, cells)
    mask = problem.mask.astype(np.float64)
    near = cells_of(mask, problem.counts.astype(np.float64), cells)
    allowed = _allowed(problem, which, at)
    served = allowed & covered_by(problem, filters)[rectangle]
    keys = np.column_stack([*(each.astype(np.uint64) for each in (kind, near[which], at)), served])
    lump = _divided(distinct_rows(np.ascontiguousarray(keys))[1], size, max(int(problem.fair.mean()) // PARTS, 1))
    order = np.argsort(lump, kind="stable")
    first = np.searchsorted(lump[order], np.arange(lump[order[-1]] + 1))
    words, of_lump = distinct_rows(np.bitwise_and.reduceat(allowed[order], first, axis=0))
    items = Items(kind[order[first]], of_lump, np.add.reduceat(size[order], first))
    groups = Groups(items, at[order[first]], lump[of_subscriber])
    return Lumps(ground._replace(rectangles=hulls, words=words), reach_of(problem, words), groups)


def _allowed(problem: Problem, which: Ints, at: Ints) -> Words:
    """By group: the leaves through which events reach it in time, and the one where it is, as bits."""
    found = problem.words[which]
    found[np.arange(len(at)), at // 64] |= np.uint64(1) << (at % 64).astype(np.uint64)
    return found


def _alike(problem: Problem, filters: Filters, rectangle: Ints, size: Ints, cells: int) -> tuple[Ints, Ints]:
    """By group: the kind of its rectangle. Those of one kind are in one cell, and in the same boxes. And the smallest
    rectangle around each kind."""
    used, place = np.unique(rectangle, return_inverse=True)
    mine = problem.space.rectangles[used]
    cell = cells_of(mine.astype(np.float64), np.bincount(place, size).astype(np.float64), cells)
    keys = np.column_stack([cell.astype(np.uint64), _boxes_around(mine, filters, len(problem.fair))])
    distinct, kind = distinct_rows(np.ascontiguousarray(keys))
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], np.arange(len(distinct)))
    hulls = np.empty((len(distinct), 4), np.int64)
    hulls[:, 0::2] = np.minimum.reduceat(mine[order, 0::2], first, axis=0)
    hulls[:, 1::2] = np.maximum.reduceat(mine[order, 1::2], first, axis=0)
    return kind[place], hulls


def _boxes_around(rectangles: Ints, filters: Filters, leaves: int) -> Words:
    """By rectangle: the boxes of leaves that hold it, as bits."""
    most = filters.boxes.shape[1]
    found = np.zeros((len(rectangles), -(-leaves * most // 64)), np.uint64)
    for leaf in range(leaves):
        for number in range(filters.counts[leaf]):
            box, bit = filters.boxes[leaf, number], leaf * most + number
            inside = (rectangles[:, 0] >= box[0]) & (rectangles[:, 1] <= box[1])
            inside &= (rectangles[:, 2] >= box[2]) & (rectangles[:, 3] <= box[3])
            found[inside, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
    return found


def _divided(lump: Ints, size: Ints, most: int) -> Ints:
    """Lumps again, cut into parts of about ``most`` subscribers."""
    order = np.argsort(lump, kind="stable")
    before = np.cumsum(size[order]) - size[order]
    first = np.searchsorted(lump[order], np.arange(lump[order[-1]] + 1))
    part = np.empty(len(lump), np.int64)
    part[order] = (before - before[first][lump[order]]) // most
    return np.unique(lump * (part.max() + 1) + part, return_inverse=True)[1].reshape(-1)
