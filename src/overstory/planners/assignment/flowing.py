"""Everybody to filters that are given: a maximum flow over classes of subscribers whom the same leaves can serve."""

import numpy as np

from overstory.model.network import Ints
from overstory.planners.assignment.balancing import Flow, max_flow
from overstory.planners.assignment.problem import Words, as_truths, distinct_rows


def flow_to(words: Words, leaves: int, capacities: list[Ints]) -> Ints:
    """The leaf of each subscriber, whose ``words`` say where it is in time and covered; -1 of those who are left. Of
    several capacities the first with which nobody is left, else the last."""
    return flow_of(*distinct_rows(words), leaves, capacities)


def flow_of(distinct: Words, which: Ints, leaves: int, capacities: list[Ints]) -> Ints:
    """As ``flow_to``, of subscribers each of whom has one of the ``distinct`` rows of words."""
    counts = np.bincount(which, minlength=len(distinct))
    mask = as_truths(distinct, leaves)
    for capacity in capacities:
        flow = max_flow(mask, counts, capacity)
        if flow.value == len(which):
            break
    return spread(flow, which, counts)


def spread(flow: Flow, which: Ints, counts: Ints) -> Ints:
    """By subscriber, of class ``which``: the broker that the flow sends it to, -1 of those whom it does not."""
    members = np.argsort(which, kind="stable")
    starts = np.cumsum(counts) - counts
    order = np.lexsort((flow.brokers, flow.classes))
    classes, amounts = flow.classes[order], flow.amounts[order]
    before = np.cumsum(amounts) - amounts
    at = starts[classes] + before - before[np.searchsorted(classes, classes)]
    places = np.repeat(at - before, amounts) + np.arange(int(amounts.sum()))
    found = np.full(len(which), -1)
    found[members[places]] = np.repeat(flow.brokers[order], amounts)
    return found
