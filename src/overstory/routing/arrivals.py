"""Events that come to stay here in the steered flows of one epoch: each once and, where a flow is ordered, in order.

1. An event that has come before does not stay again. Events are remembered for two leases, and ``MOST_SEEN`` of them.
2. In an ordered flow, each publishing broker numbers its events for this broker. One that comes too early waits for
   those before it. It is *released* once they have come, once ``MOST_WAITING`` wait, or after two leases: a number that
   does not come by then was lost on the way.
3. When a publishing broker has restarted, its numbers begin at 0 again.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.steering import NUMBER_BITS
from overstory.routing.frames import Frames
from overstory.routing.steered_flows import Here, SteeredFlows

MOST_WAITING, MOST_SEEN = 1024, 100_000
NUMBERS = 1 << NUMBER_BITS
Source = tuple[int, int]  # a steered flow, by its place, and the publishing broker


class Waiting(NamedTuple):
    """An event that came too early: its frame, for this flow alone."""

    frames: Frames
    flow: int  # its place among the steered flows
    since: float


class Arrivals:
    """The events that have come to stay in the steered flows of one epoch at one broker."""

    def __init__(self, steered: SteeredFlows, from_start: bool) -> None:
        """``from_start`` is false at a broker that has restarted: it takes the first number that comes as the next."""
        self._steered, self._from_start = steered, from_start
        self._seen: dict[tuple[Source, int], float] = {}  # when each event came, by its id; the oldest is the first
        self._next: dict[Source, int] = {}  # numbers
        self._waiting: dict[Source, dict[int, Waiting]] = {}

    def take(self, frames: Frames, here: Here, now: float) -> tuple[Here, list[Waiting]]:
        """What stays of these frames at once, and which others are released behind them."""
        stays, released = here.stays.copy(), list[Waiting]()
        places = np.flatnonzero(here.stays)
        for place in places.tolist():
            frame, flow = int(here.frames[place]), int(here.flows[place])
            source = (flow, int(frames.entries[frame]))
            if not self._is_new(source, int(frames.ids[frame]), now):
                stays[place] = False
            elif not self._steered.ordered[flow]:
                self._steered.arrive(*source)
            else:
                stays[place] = False
                number = self._whole_number(source, int(here.numbers[place]))
                if number == self._next[source] and not released:
                    stays[place] = True
                    self._steered.arrive(*source)
                    self._next[source] += 1
                    released += self._ready(source)
                else:
                    alone = frames.take(np.array([frame]), [frozenset({int(self._steered.numbers[flow])})], -1)
                    alone.origins[:] = frames.origins[frame]
                    self._waiting.setdefault(source, {})[number] = Waiting(alone, flow, now)
                    released += self._ready(source)
        return here._replace(stays=stays), released

    def expire(self, old: float) -> list[Waiting]:
        """Forgets the events from before the time ``old``, and no longer waits for those that others wait for."""
        while self._seen and self._seen[oldest := next(iter(self._seen))] < old:
            del self._seen[oldest]
        released: list[Waiting] = []
        for source, waiting in self._waiting.items():
            while waiting and min(each.since for each in waiting.values()) < old:
                self._next[source] = min(waiting)
                released += self._ready(source)
        return released

    def restarted(self, entry: int) -> list[Waiting]:
        """A publishing broker has restarted. What waits for its older numbers is released."""
        released: list[Waiting] = []
        for source, waiting in self._waiting.items():
            if source[1] == entry:
                released += [self._let_go(source, number) for number in sorted(waiting)]
        self._next = {source: number for source, number in self._next.items() if source[1] != entry}
        self._from_start = True
        return released

    @property
    def waiting(self) -> int:
        """How many events wait for others."""
        return sum(map(len, self._waiting.values()))

    def _is_new(self, source: Source, event: int, now: float) -> bool:
        if (source, event) in self._seen:
            return False
        self._seen[source, event] = now
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def _whole_number(self, source: Source, number: int) -> int:
        """The number whose last bits have come: of all such numbers the one nearest to the next."""
        if source not in self._next:
            self._next[source] = 0 if self._from_start else number
        following = self._next[source]
        ahead = (number - following + NUMBERS // 2) % NUMBERS - NUMBERS // 2
        return following + ahead

    def _ready(self, source: Source) -> list[Waiting]:
        """The events that need not wait any more, in order."""
        waiting, ready = self._waiting.get(source, {}), list[Waiting]()
        for number in sorted(number for number in waiting if number < self._next[source]):
            ready.append(self._let_go(source, number))  # it was not waited for
        if len(waiting) > MOST_WAITING:
            self._next[source] = min(waiting)
        while self._next[source] in waiting:
            ready.append(self._let_go(source, self._next[source]))
            self._next[source] += 1
        return ready

    def _let_go(self, source: Source, number: int) -> Waiting:
        """An event that waits no longer: only now it counts as one that has come."""
        self._steered.arrive(*source)
        return self._waiting[source].pop(number)
