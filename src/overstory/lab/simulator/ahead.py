"""What brokers will do with the publications to come, decided for many of them in one call.

That holds as long as a broker's table stays as it is. When a filter comes into the table or goes from it, what was
decided about the publications that it may match is *stale*, and nothing else: so a table that changes all the time is
no reason to match publications one by one.
"""

from typing import NamedTuple

import numpy as np

from overstory.filters import Filter
from overstory.kernels.keys import keys_of_floats
from overstory.lab.simulator.workload import Ints, Reals
from overstory.matching import Batch
from overstory.matching.covering import reach
from overstory.routing.frames import Frames, Header, Steered
from overstory.routing.messages import LATE
from overstory.routing.router import Router

MOST_AHEAD = 512  # publications that are decided at once
MOST_AGAIN = 64  # publications to come among which stale ones are decided again
EPOCH = 0
FLOWS = frozenset({LATE})
CLIENTS = 1_000_000  # the client of broker b is this + b


class Decision(NamedTuple):
    peers: list[int]  # brokers that it goes to
    interests: int
    delivered: Ints  # subscriptions, by the serials of their entries in the table


class Publications(NamedTuple):
    """All publications of a run, in the order in which they come."""

    values: Reals
    keys: Ints  # of the values
    entries: Ints  # brokers where they enter

    @classmethod
    def of(cls, values: Reals, entries: Ints) -> "Publications":
        keys = np.zeros(len(values), np.int64)
        keys_of_floats(values, keys)
        return cls(values, keys, entries)


class Ahead:
    """What one broker will do with the publications to come."""

    def __init__(self, router: Router, publications: Publications, origins: Ints) -> None:
        self._router, self._publications = router, publications
        self._origins = origins  # where publications come from, by where they enter
        self._first = self._stop = 0
        self._stale = np.zeros(0, np.bool_)
        self._decisions: list[Decision] = []
        router.state.epochs[EPOCH].table.on_change = self._changed

    def decision(self, number: int) -> Decision:
        """What the router decides about a publication, with the table as it is now."""
        if not self._first <= number < self._stop:
            self._first, self._stop = number, min(number + MOST_AHEAD, len(self._publications.values))
            self._stale = np.zeros(self._stop - number, np.bool_)
            self._decisions = self._decide(np.arange(number, self._stop))
        at = number - self._first
        if self._stale[at]:
            again = at + np.flatnonzero(self._stale[at : at + MOST_AGAIN])
            for place, decision in zip(again.tolist(), self._decide(self._first + again), strict=True):
                self._decisions[place] = decision
            self._stale[again] = False
        return self._decisions[at]

    def _changed(self, wanted: Filter) -> None:
        if self._first < self._stop:
            low, high = reach(wanted, "x")
            keys = self._publications.keys[self._first : self._stop]
            self._stale |= (keys >= low) & (keys <= high)

    def _decide(self, numbers: Ints) -> list[Decision]:
        size, entries = len(numbers), self._publications.entries[numbers]
        frames = Frames(
            EPOCH,
            Batch({"x": self._publications.values[numbers]}),
            numbers,
            CLIENTS + entries,
            entries,
            self._origins[entries],
            [FLOWS] * size,
            Steered.none(size),
            Header.fresh(size),
        )
        routed = self._router.decide(frames)
        peers: list[list[int]] = [[] for _ in range(size)]
        to_brokers = routed.peers < CLIENTS
        for frame, peer in zip(routed.frames[to_brokers].tolist(), routed.peers[to_brokers].tolist(), strict=True):
            peers[frame].append(peer)
        starts = np.searchsorted(routed.delivered_frames, np.arange(size + 1)).tolist()
        serials = routed.delivered_serials
        return [
            Decision(to, interests, serials[start:stop])
            for to, interests, start, stop in zip(
                peers, routed.interests.tolist(), starts[:-1], starts[1:], strict=True
            )
        ]
