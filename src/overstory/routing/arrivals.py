"""Events that come to stay here in the steered flows of one epoch: each once and, where a flow is ordered, in order.

1. An event that has come before does not stay again. Events are remembered for two leases, and ``MOST_SEEN`` of them.
2. In an ordered flow, each publishing broker numbers its events for this broker. One that comes too early waits for
   those before it. It is *released* once they have come, once ``MOST_WAITING`` wait, or after two leases: a number that
   does not come by then was lost on the way.
3. When a publishing broker has restarted, its numbers begin at 0 again. Where ids of events tell incarnations (their
   upper bits do, unless those are 0), the first event of the new one tells, if the news of links has not; and an event
   of an older one, which was under way when its broker restarted, waits for none.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.following import stay
from overstory.kernels.steering import NUMBER_BITS
from overstory.routing.frames import Frames, Ints
from overstory.routing.recent import RecentEvents
from overstory.routing.steered_flows import Here, SteeredFlows

MOST_WAITING, MOST_SEEN = 1024, 100_000
NUMBERS = 1 << NUMBER_BITS
INCARNATION_SHIFT = 32  # the bits of an event's id below its incarnation
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
        self.seen = RecentEvents()
        self._next: dict[Source, int] = {}  # numbers
        self._waiting: dict[Source, dict[int, Waiting]] = {}
        self._incarnations: dict[Source, int] = {}  # of publishing brokers, as their events tell
        self._passed: dict[Source, set[int]] = {}  # the last bits of numbers that have come out of turn

    def take(self, frames: Frames, here: Here, now: float) -> tuple[Here, list[Waiting], list[int]]:
        """What stays of these frames at once, which others are released behind them, and which frames have to wait,
        each as often as it will be released."""
        stays, released, early = here.stays.copy(), list[Waiting](), list[int]()
        places = np.flatnonzero(here.stays)
        for place in places.tolist():
            frame, flow = int(here.frames[place]), int(here.flows[place])
            source = (flow, int(frames.entries[frame]))
            is_new = self._is_new(source, int(frames.ids[frame]), now)
            incarnation = int(frames.ids[frame]) >> INCARNATION_SHIFT
            stays[place] = is_new
            if not self._steered.ordered[flow] or not is_new or self._is_older(source, incarnation):
                if is_new:
                    self._steered.arrive(*source)
                if self._steered.ordered[flow]:
                    released += self._passed_by(source, int(here.numbers[place]))
                continue
            released += self._begun(source, incarnation)
            number = self._whole_number(source, int(here.numbers[place]))
            stays[place] = number == self._next[source] and not released
            if stays[place]:
                self._steered.arrive(*source)
                self._next[source] += 1
            else:
                alone = frames.take(np.array([frame]), [frozenset({int(self._steered.numbers[flow])})], -1)
                alone.origins[:] = frames.origins[frame]
                early.append(frame)
                released += self._wait(source, number, Waiting(alone, flow, now))
            released += self._ready(source)
        return here._replace(stays=stays), released, early

    def note(self, staying: Ints, now: float) -> None:
        """Events have come to stay in flows that are not ordered, each for the first time. They are rows of columns, as
        ``kernels.following`` has them, and there is room for them."""
        stay(staying, self.seen.arrays, self._steered.received, now)
        if len(self.seen) > MOST_SEEN:
            self.seen.forget(MOST_SEEN)

    def _wait(self, source: Source, number: int, one: Waiting) -> list[Waiting]:
        """An event has to wait. What waits under the same number, from before a restart, is released."""
        waiting = self._waiting.setdefault(source, {})
        before = [self._let_go(source, number)] if number in waiting else []
        waiting[number] = one
        if number < self._next[source]:
            self._note(source, number)
        return before

    def _passed_by(self, source: Source, number: int) -> list[Waiting]:
        """A number is not to be waited for: its event has come before, or from before a restart."""
        self._note(source, self._whole_number(source, number))
        return self._ready(source)

    def _note(self, source: Source, number: int) -> None:
        """Remembers that a number has come out of turn. It may be one of an incarnation that is not known of yet."""
        passed = self._passed.setdefault(source, set())
        passed.add(number % NUMBERS)
        if len(passed) > MOST_WAITING:
            passed.clear()

    def expire(self, old: float) -> list[Waiting]:
        """Forgets the events from before the time ``old``, and no longer waits for those that others wait for."""
        self.seen.forget(MOST_SEEN, old)
        released: list[Waiting] = []
        for source, waiting in self._waiting.items():
            while waiting and min(each.since for each in waiting.values()) < old:
                self._next[source] = min(waiting)
                released += self._ready(source)
        return released

    def restarted(self, entry: int, incarnation: int) -> list[Waiting]:
        """A publishing broker has restarted. What waits for its older numbers is released."""
        released: list[Waiting] = []
        self._from_start = True
        for source in [source for source in self._next if source[1] == entry]:
            known = self._incarnations.get(source, 0)
            if known and not self._is_older(source, incarnation):
                released += self._begun(source, incarnation)
            elif not known:
                released += self._begin_anew(source)
        return released

    def _is_older(self, source: Source, incarnation: int) -> bool:
        """Whether a publishing broker has restarted since this incarnation."""
        return incarnation < self._incarnations.get(source, 0)

    def _begun(self, source: Source, incarnation: int) -> list[Waiting]:
        """A publishing broker is in this incarnation. If it is a new one, what waits for older numbers is released."""
        known = self._incarnations.get(source)
        self._incarnations[source] = incarnation
        if known is None or known == incarnation:
            return []
        released = self._begin_anew(source)
        self._next[source] = 0
        return released

    def _begin_anew(self, source: Source) -> list[Waiting]:
        """The numbers of a publishing broker begin anew."""
        self._next.pop(source, None)
        return [self._let_go(source, number) for number in sorted(self._waiting.get(source, ()))]

    @property
    def waiting(self) -> int:
        """How many events wait for others."""
        return sum(map(len, self._waiting.values()))

    def _is_new(self, source: Source, event: int, now: float) -> bool:
        is_new = self.seen.add(*source, event, now)
        if len(self.seen) > MOST_SEEN:
            self.seen.forget(MOST_SEEN)
        return is_new

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
        passed = self._passed.get(source, set())
        while (number := self._next[source]) in waiting or number % NUMBERS in passed:
            if number in waiting:
                ready.append(self._let_go(source, number))
            passed.discard(number % NUMBERS)
            self._next[source] += 1
        return ready

    def _let_go(self, source: Source, number: int) -> Waiting:
        """An event that waits no longer: only now it counts as one that has come."""
        self._steered.arrive(*source)
        return self._waiting[source].pop(number)
