"""How evenly subscribers can be spread: maximum flows over classes of subscribers with equal masks of brokers.

A class of subscribers may go to the brokers of its mask, and a broker takes as many as its capacity says. So a million
subscribers are a network of as many nodes as there are distinct masks. OR-Tools finds the flows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.model.network import Floats, Ints

Truths = NDArray[np.bool_]
EXACTNESS = 1e-6  # of a capacity, which a product of rounded numbers may miss by so much


class Flow(NamedTuple):
    """How many of each class go to each broker, as triples; and on which side of a least cut the classes and brokers
    are: those that something unassigned can reach are *stuck*."""

    value: int
    classes: Ints
    brokers: Ints
    amounts: Ints
    stuck_classes: Truths
    stuck_brokers: Truths


def capacities(fair: Floats, factor: float) -> Ints:
    """Subscribers that each broker may have: the most whose number, relative to what is fair, is within the factor."""
    room = np.floor(fair * factor + EXACTNESS)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((room > 0) & (room / fair > factor), room - 1, room), np.int64)


def max_flow(mask: Truths, count: Ints, capacity: Ints) -> Flow:
    """As many subscribers as can be assigned at once. ``mask`` is by class and broker."""
    from ortools.graph.python import max_flow as solver

    classes, brokers = mask.shape
    source, sink = classes + brokers, classes + brokers + 1
    at_class, at_broker = np.nonzero(mask)
    tails = np.concatenate([np.full(classes, source), at_class, classes + np.arange(brokers)])
    heads = np.concatenate([np.arange(classes), classes + at_broker, np.full(brokers, sink)])
    room = np.concatenate([count, count[at_class], capacity])
    flow = solver.SimpleMaxFlow()
    arcs = flow.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), room.astype(np.int64))
    if flow.solve(source, sink) != flow.OPTIMAL:
        raise RuntimeError("the maximum flow was not found")
    amounts = np.asarray(flow.flows(arcs))[classes : classes + len(at_class)].astype(np.int64)
    used = amounts > 0
    cut = np.asarray(flow.get_source_side_min_cut(), np.int64)
    stuck = np.zeros(classes + brokers + 2, bool)
    stuck[cut] = True
    return Flow(
        int(flow.optimal_flow()),
        at_class[used],
        at_broker[used],
        amounts[used],
        stuck[:classes],
        stuck[classes : classes + brokers],
    )


def is_feasible(mask: Truths, count: Ints, capacity: Ints) -> bool:
    return bool(max_flow(mask, count, capacity).value == count.sum())


def least_load_factor(mask: Truths, count: Ints, fair: Floats, others: Ints | None = None) -> float:
    """The least load factor of any assignment, infinite where there is none. ``others`` are at the brokers anyway.

    It is one of the numbers at which some broker has room for one subscriber more; a search by halves ends between two
    neighbours of them."""
    mask, count = merged(mask, count)
    there = np.zeros(len(fair), np.int64) if others is None else others
    total = int(count.sum() + there.sum())

    def is_enough(factor: float) -> bool:
        return is_feasible(mask, count, np.maximum(capacities(fair, factor) - there, 0))

    if not (fair > 0).any() or not is_feasible(mask, count, np.where(fair > 0, total, 0)):
        return np.inf
    low, high = 0.0, float(total / fair[fair > 0].min())
    while (capacities(fair, high) - capacities(fair, low)).sum() > 1 and high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    room = capacities(fair, high)[fair > 0]
    return float((room / fair[fair > 0]).max())


def merged(mask: Truths, count: Ints) -> tuple[Truths, Ints]:
    """Classes with equal masks as one."""
    packed = np.packbits(mask, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return mask[first], np.bincount(which.reshape(-1), count, len(first)).astype(np.int64)
