"""The linear programme of LPRelax (Yu, Agarwal and Yang): variables, constraints and objective, in this order.

Sampled subscribers with the same rectangle and the same brokers are one *pair*. The programme is smaller than the
paper's, and has the same value:

* Only pairs that loads are counted of have variables x. For any other, (C2) and (C4) together say no more than that the
  boxes around it, at all brokers in time, add up to 1.
* Of these sums, those are left out that follow from another: that of a pair with no more brokers and no more boxes.
* A broker has variables y only for boxes around somebody whom it may serve.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overstory.model.network import Floats, Ints
from overstory.planners.assignment.linear import Programme
from overstory.planners.assignment.problem import Truths


class Task(NamedTuple):
    """One level: who is to be assigned to which brokers."""

    sums: Floats
    prices: Floats  # by broker
    rectangles: Ints
    rectangle: Ints  # by subscriber
    which: Ints  # by subscriber: its class
    mask: Truths  # by class and broker
    fair: Floats  # by broker: its subscribers under a load factor of one
    boxes: int
    wanted: float
    most: float


class _Constraints(NamedTuple):
    """So many rows of a matrix, whose sums are between two limits."""

    many: int
    rows: Ints
    columns: Ints
    values: Floats
    low: Floats | float
    high: Floats | float


def programme(task: Task, every: Ints, for_load: Truths, boxes: Ints, factor: float) -> tuple[Programme, Ints]:
    """The relaxation of (C1) to (C4) for the subscribers ``every``, of some of whom loads are counted; and broker
    and box of each variable y, which stand last."""
    pairs, member = np.unique(task.rectangle[every] * len(task.mask) + task.which[every], return_inverse=True)
    rectangle, which = np.divmod(pairs, len(task.mask))
    load = np.bincount(member.reshape(-1), for_load, len(pairs)).astype(np.float64)
    mask, inside = task.mask[which], holding(boxes, task.rectangles[rectangle])

    pair, broker = np.nonzero(mask & (load > 0)[:, None])
    x = np.arange(len(pair))
    owner, box = np.nonzero((mask.T.astype(np.float32) @ inside.astype(np.float32)) > 0)
    y = np.full((len(task.fair), len(boxes)), -1)
    y[owner, box] = len(pair) + np.arange(len(owner))

    room = factor * task.fair * (load.sum() / max(len(task.rectangle), 1))
    loaded = np.cumsum(load > 0) - 1
    held, around = np.nonzero(inside[pair])
    nested = [np.concatenate(each) for each in ((held, x), (y[broker[held], around], x))]
    signs = np.concatenate([np.ones(len(held)), -np.ones(len(x))])
    others, covering = _coverage(mask, inside, load > 0, y)
    ones, none = np.ones(len(covering)), -np.inf
    constraints = [
        _Constraints(len(task.fair), owner, y[owner, box], np.ones(len(owner)), none, float(task.boxes)),  # (C1)
        _Constraints(int((load > 0).sum()), loaded[pair], x, np.ones(len(x)), 1.0, np.inf),  # (C2)
        _Constraints(len(task.fair), broker, x, load[pair], none, room),  # (C3)
        _Constraints(len(x), nested[0], nested[1], signs, 0.0, np.inf),  # (C4)
        _Constraints(int(others.max(initial=-1)) + 1, others, covering, ones, 1.0, np.inf),  # (C2) and (C4) of others
    ]

    cost = np.concatenate([np.zeros(len(x)), task.prices[owner] * weights_of(task.sums, boxes)[box]])
    matrix, low, high = _stacked(constraints, len(cost))
    return Programme(cost, np.ones(len(cost)), matrix, low, high), np.stack([owner, box])


def _coverage(mask: Truths, inside: Truths, loaded: Truths, y: Ints) -> tuple[Ints, Ints]:
    """Rows and columns of the pairs of which no load is counted."""
    alone = not_implied(np.concatenate([mask, inside], axis=1), loaded)
    owner, box = np.nonzero(y >= 0)
    found = [y[owner, box][mask[pair, owner] & inside[pair, box]] for pair in alone.tolist()]
    rows = np.repeat(np.arange(len(alone)), [len(each) for each in found])
    return rows, np.concatenate([*found, np.empty(0, np.int64)])


def not_implied(sets: Truths, loaded: Truths) -> Ints:
    """Of the rows that are not loaded, those that contain no other row; of equal ones one, or none if a loaded row is
    equal."""
    order = np.lexsort((~loaded, sets.sum(axis=1)))  # a set stands behind all that it contains
    ordered = sets[order].astype(np.float32)
    at = np.flatnonzero(~loaded[order])
    missing = ordered @ (1 - ordered[at]).T
    contained = (missing == 0) & (np.arange(len(order))[:, None] < at[None, :])
    return np.sort(order[at[~contained.any(axis=0)]])


def _stacked(constraints: list[_Constraints], columns: int) -> tuple[csr_array, Floats, Floats]:
    starts = np.cumsum([0, *(each.many for each in constraints)])
    rows = np.concatenate([each.rows + start for each, start in zip(constraints, starts, strict=False)])
    at, data = (np.concatenate([getattr(each, name) for each in constraints]) for name in ("columns", "values"))
    matrix = csr_array((data, (rows, at)), shape=(int(starts[-1]), columns))
    low, high = (
        np.concatenate([np.broadcast_to(getattr(each, name), each.many) for each in constraints])
        for name in ("low", "high")
    )
    return matrix, low, high


def holding(boxes: Ints, rectangles: Ints) -> Truths:
    """By rectangle and box: whether it is within."""
    inside = np.ones((len(rectangles), len(boxes)), bool)
    for at in (0, 2):
        inside &= boxes[None, :, at] <= rectangles[:, None, at]
        inside &= boxes[None, :, at + 1] >= rectangles[:, None, at + 1]
    return inside


def weights_of(sums: Floats, boxes: Ints) -> Floats:
    first_x, last_x, first_y, last_y = boxes.T
    return np.asarray(sums[last_x, last_y] - sums[first_x, last_y] - sums[last_x, first_y] + sums[first_x, first_y])
