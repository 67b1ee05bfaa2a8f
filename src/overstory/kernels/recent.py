"""The events that have come lately: a ring of them in the order in which they came, and a table to find them by.

What an event is called are three integers: its flow, the broker that published it, and its number there. Whoever adds
events has seen to it that there is room.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed

FREE = 0  # in the table; else it is one more than a place in the ring
FIRST, COUNT = 0, 1  # places in the span


class Recent(NamedTuple):
    """Sizes of rings are powers of two, and tables twice as large."""

    names: Array  # by place in the ring: flow, publishing broker, number
    times: Array  # by place in the ring
    table: Array
    span: Array  # the place of the oldest, and how many there are


def nothing_recent(size: int) -> Recent:
    """A ring for so many events, with none."""
    return Recent(np.empty((size, 3), np.int64), np.empty(size), np.zeros(2 * size, np.int64), np.zeros(2, np.int64))


@borrowing
def _find(recent: Recent, flow: int, entry: int, number: int) -> int:
    """Where an event stands in the table, or would."""
    last = len(recent.table) - 1
    at = mixed(number ^ mixed(entry ^ mixed(flow))) & last
    while recent.table[at] != FREE:
        name = recent.names[recent.table[at] - 1]
        if name[2] == number and name[1] == entry and name[0] == flow:
            break
        at = (at + 1) & last
    return at


@borrowing
def add(recent: Recent, flow: int, entry: int, number: int, now: float) -> bool:
    """Adds an event. False if it is there already; nothing has changed then."""
    at = _find(recent, flow, entry, number)
    if recent.table[at] != FREE:
        return False
    place = (recent.span[FIRST] + recent.span[COUNT]) & (len(recent.times) - 1)
    name = recent.names[place]
    name[0], name[1], name[2] = flow, entry, number
    recent.times[place] = now
    recent.table[at] = place + 1
    recent.span[COUNT] += 1
    return True


@borrowing
def take_back(recent: Recent) -> None:
    """Takes the latest event out again: nothing in the table stands behind it."""
    recent.span[COUNT] -= 1
    name = recent.names[(recent.span[FIRST] + recent.span[COUNT]) & (len(recent.times) - 1)]
    recent.table[_find(recent, name[0], name[1], name[2])] = FREE


@borrowing
def forget_oldest(recent: Recent) -> None:
    """Takes the oldest event out. What stands behind it in the table moves up to where it is looked for."""
    last, first = len(recent.table) - 1, recent.span[FIRST]
    name = recent.names[first]
    gap = _find(recent, name[0], name[1], name[2])
    at = (gap + 1) & last
    while recent.table[at] != FREE:
        name = recent.names[recent.table[at] - 1]
        wanted = mixed(name[2] ^ mixed(name[1] ^ mixed(name[0]))) & last
        if (at - wanted) & last >= (at - gap) & last:
            recent.table[gap] = recent.table[at]
            gap = at
        at = (at + 1) & last
    recent.table[gap] = FREE
    recent.span[FIRST] = (first + 1) & (len(recent.times) - 1)
    recent.span[COUNT] -= 1


@kernel
def forget(recent: Recent, most: int, old: float) -> None:
    """Keeps the latest ``most`` events, and of these only those that have not come before the time ``old``."""
    while recent.span[COUNT] > most or (recent.span[COUNT] and recent.times[recent.span[FIRST]] < old):
        forget_oldest(recent)


@kernel
def add_one(recent: Recent, flow: int, entry: int, number: int, now: float) -> bool:
    """Adds an event, if it is not there."""
    return add(recent, flow, entry, number, now)


@kernel
def move(recent: Recent, larger: Recent) -> None:
    """Adds all events to a larger ring."""
    for i in range(recent.span[COUNT]):
        place = (recent.span[FIRST] + i) & (len(recent.times) - 1)
        name = recent.names[place]
        add(larger, name[0], name[1], name[2], recent.times[place])
