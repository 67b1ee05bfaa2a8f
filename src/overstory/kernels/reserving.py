"""Assigning one by one without ever painting oneself into a corner: every step keeps a flow that assigns all the rest.

``ahead`` holds, by class and broker, where those who are still to be assigned could go; ``planned`` is, by broker, what
it has then. To assign one of a class to a broker for good, the flow is changed along a path if need be. If there is
none, the assignment would leave somebody without a place, now and at any later time.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.bits import has_bit
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Ahead(NamedTuple):
    flow: Array  # by class and broker
    planned: Array  # by broker
    capacity: Array
    words: Array  # by class: the brokers that it may go to, as bits


@kernel
def reserve(ahead: Ahead, which: int, broker: int) -> bool:
    """Takes one of a class out of the flow, for good at this broker. Returns whether the rest still has a flow; if not,
    nothing has changed."""
    flow, planned = ahead.flow, ahead.planned
    if flow[which, broker] > 0:
        flow[which, broker] -= 1
        return True
    if planned[broker] >= ahead.capacity[broker]:
        donor = _make_room(ahead, which, broker)
        if donor == NONE:
            return False
    else:
        donor = _holder(flow[which], broker)
        if donor == NONE:
            return False
    flow[which, donor] -= 1
    planned[donor] -= 1
    planned[broker] += 1
    return True


@kernel
def _make_room(ahead: Ahead, which: int, broker: int) -> int:
    """Sends one of those planned at a broker elsewhere, along a shortest chain of moves; planned at the broker there is
    one less then. Returns the broker from which the class gives one up, NONE if there is no chain."""
    flow, planned, brokers = ahead.flow, ahead.planned, len(ahead.planned)
    before, moved = np.full(brokers, NONE), np.full(brokers, NONE)
    found = _chain(ahead, which, broker, before, moved)
    if found == NONE:
        return NONE
    donor = found
    if flow[which, found] <= 0:
        donor = _holder(flow[which], broker)
        if donor == NONE:
            return NONE
    node = found
    while node != broker:
        flow[moved[node], before[node]] -= 1
        flow[moved[node], node] += 1
        node = before[node]
    planned[found] += 1
    planned[broker] -= 1
    return donor


@kernel
def _holder(flow: Array, broker: int) -> int:
    """Another broker at which some of a class are planned."""
    for other in range(len(flow)):
        if flow[other] > 0 and other != broker:
            return other
    return NONE


@kernel
def _chain(ahead: Ahead, which: int, broker: int, before: Array, moved: Array) -> int:
    """The end of a shortest chain of moves from a broker to one that has room, or that gives up one of a class; NONE if
    there is none. By broker on it, ``before`` is where one comes from, and ``moved`` of which class."""
    flow, brokers = ahead.flow, len(ahead.planned)
    queue, first, last = np.empty(brokers, np.int64), 0, 1
    queue[0], before[broker] = broker, broker
    while first < last:
        here = queue[first]
        first += 1
        for each in range(len(flow)):
            if flow[each, here] <= 0:
                continue
            for there in range(brokers):
                if before[there] == NONE and has_bit(ahead.words[each], there):
                    before[there], moved[there] = here, each
                    queue[last] = there
                    last += 1
                    if ahead.planned[there] < ahead.capacity[there] or flow[which, there] > 0:
                        return there
    return NONE
