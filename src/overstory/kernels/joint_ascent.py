"""Lower bounds on the trees of a class of events, from every broker at once, while clients may be attached anywhere.

A class is the clients that want the same events. A tree leads from a broker over links between brokers, and over an
access link, to each of them. Wong's dual ascent bounds it from below for one root (``ascent``). Here nobody is told the
root: each client is raised, in stages, until all brokers are in its set.

1. A raise is paid by links that every tree from a broker *outside* the client's set has one of. So it counts for these
   brokers, and for no other: each broker has a bound of its own, and all of them come from one ascent.
2. No link pays more than its price, whichever client is raised when. All is integer; nothing is rounded.
3. Raises in a row are one Dijkstra search against the links: a broker joins the set when the raises add up to its
   distance, and a raise by r counts for a broker at distance d by the smaller of both.

Clients grow in turns, to sets of 1, 2, 3, 5, 8, 12 and so on brokers: small sets spend least for what the bounds gain.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel

NO_LINK = 2**62  # instead of a price


class Desk(NamedTuple):
    """Room to work in."""

    left: Array  # by two brokers: what is left of the price of the link into the first one from the second
    distance: Array  # by broker
    inside: Array  # by broker: whether it is in the set
    members: Array  # the set, in the order of joining


@kernel
def bounds_by_root(into: Array, access: Array, offsets: Array, out: Array) -> None:
    """Sets ``out[k, b]`` to a bound on every tree of class k from broker b.

    ``into`` has the price of the link into a broker (row) from another (column), ``access`` that of the access link to
    a client of a class (row) from a broker: int64, NO_LINK where there is none, all others of a class together below
    2**62. The clients of class k have the rows between ``offsets`` k and k + 1. What is left of ``access``, of which no
    raise has taken anything, stays there: the bounds are the same at prices that are lower by it."""
    size = len(into)
    desk = Desk(
        np.empty((size, size), np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.bool_),
        np.empty(size, np.int64),
    )
    for k in range(len(offsets) - 1):
        desk.left[:] = into
        out[k] = 0
        enough = 1
        while True:
            for at in range(offsets[k], offsets[k + 1]):
                _raise(desk, access[at], enough, out[k])
            if enough >= size:
                break
            enough += (enough + 1) // 2


@kernel
def _raise(desk: Desk, access: Array, enough: int, out: Array) -> None:
    """Raises a client until its set has ``enough`` brokers, or nothing more can join it."""
    distance, inside, size = desk.distance, desk.inside, len(desk.distance)
    for broker in range(size):
        distance[broker], inside[broker] = access[broker], False
    raised, count = 0, 0
    while count < size:
        nearest, least = -1, NO_LINK
        for broker in range(size):
            if not inside[broker] and distance[broker] < least:
                nearest, least = broker, distance[broker]
        if nearest < 0 or (count >= enough and least > raised):
            break
        raised, inside[nearest], desk.members[count] = least, True, nearest
        count += 1
        row = desk.left[nearest]
        for broker in range(size):
            if not inside[broker] and row[broker] < NO_LINK and least + row[broker] < distance[broker]:
                distance[broker] = least + row[broker]
    if raised:
        _pay(desk, access, raised, count, out)


@kernel
def _pay(desk: Desk, access: Array, raised: int, count: int, out: Array) -> None:
    """Takes from each link what was raised while it led into the set, and counts it for brokers outside."""
    distance, inside, size = desk.distance, desk.inside, len(desk.distance)
    for broker in range(size):
        if not inside[broker]:
            distance[broker] = raised
        out[broker] += distance[broker]
        if access[broker] < NO_LINK:
            access[broker] -= distance[broker]
    for at in range(count):
        member = desk.members[at]
        row = desk.left[member]
        for broker in range(size):
            paid = distance[broker] - distance[member]
            if paid > 0 and row[broker] < NO_LINK:
                row[broker] -= paid
