"""The events of QoS 1 and 2 that a host has handed out: a repeated one is dropped.

1. An event is known by its publishing broker, its number there and the flows of its copy. Numbers are of one
   incarnation, so that no two events ever share one.
2. Events of QoS 2 are on disk, if there is one, in the commit that has their deliveries: a host that restarts does not
   hand them out again. So are the subscriptions that got them, if their sessions are on disk.
3. An event that was published here under a number from before a restart (``handed``) was given to clients here.
4. A publisher's broker that restarts may send an event again under another plan, in other flows, and a session that
   moves gets an event from two brokers. So of events of QoS 2 the subscriptions that got them are remembered, too
   (``once``), and what a session got elsewhere comes with it (``learn``).
5. An event below the mark that frames of its flows carry (``marks``) does not come again, and is forgotten. Of the
   others ``MOST`` are remembered, in memory and on disk; then the oldest are forgotten.

Kernels hand out many at once. What comes in order has numbers above all before, so one comparison tells that a whole
array is new (``are_new``), and it is remembered as it is.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.broker.journal import Journal

MOST = 100_000  # events that a host remembers
MOST_TOLD = 1000  # events of QoS 2 that it tells another host of
Flows = frozenset[int]
Source = tuple[int, Flows]  # a publishing broker, and the flows of a copy
Key = tuple[int, int, Flows]  # a publishing broker, the number of an event, and the flows of its copy
Ints = NDArray[np.int64]


class Arrays(NamedTuple):
    """Numbers of one source that kernels have handed out, in arrays by the turn in which they came."""

    waiting: dict[int, Ints]  # for a mark
    old: dict[int, Ints]  # from before the epoch in use: marks say nothing of them


class Seen:
    """The events that one host remembers."""

    def __init__(self, broker: int, journal: Journal) -> None:
        self._me, self._journal = broker, journal
        self._known: dict[Key, bytes | None] = {}  # with the flows as they are on disk
        self._numbers: dict[Source, deque[int]] = {}  # of these, as they came; but for those that no mark is for
        self._handed: dict[int, None] = {}
        self._got: dict[tuple[int, int], set[int]] = {}  # the subscriptions that got an event of QoS 2
        self._got_on_disk: set[tuple[int, int]] = set()  # of these events, those of which that is on disk
        self._highest: dict[Source, int] = {}
        self._arrays: dict[Source, Arrays] = {}
        self._turns: dict[int, Source] = {}  # of all arrays, as they came
        self._turn = 0
        self._in_arrays = 0

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known) + self._in_arrays

    def is_new(self, entry: int, event: int, flows: Flows, keeps: bool) -> bool:
        """Whether an event has not come before, in the same flows. ``keeps``: it is to be remembered on disk."""
        key = entry, event, flows
        if key in self._known or (entry == self._me and event in self._handed) or self._is_in_array(key):
            return False
        written = msgspec.msgpack.encode(sorted(flows)) if keeps and self._journal.keeps else None
        if written is not None:
            self._journal.note("seen", entry, event, written)
        self._remember(key, written)
        while len(self._known) > MOST:
            self._forget_oldest()
        return True

    def once(self, entry: int, event: int, subscriptions: Sequence[int], keeps: bool = False) -> list[int]:
        """Those of the subscriptions that have not got an event of QoS 2 in any flow. They are remembered; ``keeps``:
        on disk, too."""
        got = self._got.setdefault((entry, event), set())
        new = [number for number in subscriptions if number not in got]
        got.update(new)
        if keeps:
            self._write_who(entry, event, new)
        if len(self._got) > MOST:
            self._forget_who(next(iter(self._got)))
        return new

    def got_by(self, subscriptions: set[int]) -> list[tuple[int, int, list[int]]]:
        """The latest events of QoS 2 that some of these subscriptions have got, each with those of them that have."""
        found = ((*key, sorted(got & subscriptions)) for key, got in reversed(self._got.items()) if got & subscriptions)
        return list(islice(found, MOST_TOLD))

    def learn(self, got: list[tuple[int, int, list[int]]]) -> None:
        """Subscriptions that have come from another broker got these events of QoS 2 there."""
        for entry, event, numbers in reversed(got):
            self.once(entry, event, numbers)

    def unlearn(self, subscriptions: set[int]) -> None:
        """A session or a copy of one is given up here, and so is what it got: the session has that elsewhere, and tells
        when it comes."""
        for key, got in self._got.items():
            for number in sorted(got & subscriptions):
                got.discard(number)
                if key in self._got_on_disk:
                    self._journal.note("not got", *key, number)

    def keep(self, subscriptions: set[int]) -> None:
        """The session of these subscriptions is on disk from now on: so is what they got."""
        for (entry, event), got in self._got.items():
            self._write_who(entry, event, sorted(got & subscriptions))

    def _write_who(self, entry: int, event: int, subscriptions: list[int]) -> None:
        for number in subscriptions:
            self._journal.note("got", entry, event, number)
            self._got_on_disk.add((entry, event))

    def are_new(self, entry: int, events: Ints, flows: Flows) -> bool:
        """Whether it is plain that none of these events has come before. False: they have to be asked about one by
        one."""
        return entry != self._me and int(events.min()) > self._highest.get((entry, flows), -1)

    def note(self, entry: int, events: Ints, flows: Flows) -> None:
        """These events of QoS 1 are handed out."""
        source = entry, flows
        self._highest[source] = int(events.max())
        self._turn += 1
        self._arrays.setdefault(source, Arrays({}, {})).waiting[self._turn] = np.sort(events)
        self._turns[self._turn] = source
        self._in_arrays += len(events)
        while self._in_arrays > MOST and len(self._turns) > 1:
            self._forget_turn(next(iter(self._turns)))

    def acknowledged(self, entry: int, since: int, mark: int, flows: Flows, steered: Flows) -> None:
        """Events with numbers from ``since`` up to below the mark do not come again in any of these flows. (In steered
        flows they may, by another way.)"""
        for source in _sources(self._numbers, entry, flows, steered):
            numbers = self._numbers[source]
            while numbers and numbers[0] < mark:
                number = numbers.popleft()
                if number >= since:
                    self._forget((entry, number, source[1]))
            if not numbers:
                del self._numbers[source]
        for source in _sources(self._arrays, entry, flows, steered):
            waiting, old = self._arrays[source]
            while waiting and waiting[turn := next(iter(waiting))][-1] < mark:
                if waiting[turn][0] >= since:
                    self._forget_turn(turn)
                else:
                    old[turn] = waiting.pop(turn)

    def _is_in_array(self, key: Key) -> bool:
        entry, event, flows = key
        if event > self._highest.get((entry, flows), -1):
            return False
        for array in self._arrays_of((entry, flows)):
            place = int(np.searchsorted(array, event))
            if place < len(array) and array[place] == event:
                return True
        return False

    def _arrays_of(self, source: Source) -> Iterator[Ints]:
        for arrays in self._arrays.get(source, ()):
            yield from arrays.values()

    def _forget_turn(self, turn: int) -> None:
        source = self._turns.pop(turn)
        waiting, old = self._arrays[source]
        gone = waiting.pop(turn) if turn in waiting else old.pop(turn)
        self._in_arrays -= len(gone)
        if not waiting and not old:
            del self._arrays[source]

    def _remember(self, key: Key, written: bytes | None) -> None:
        entry, event, flows = key
        self._known[key] = written
        self._numbers.setdefault((entry, flows), deque()).append(event)
        self._highest[entry, flows] = max(event, self._highest.get((entry, flows), -1))

    def _forget_oldest(self) -> None:
        oldest = entry, event, flows = next(iter(self._known))
        numbers = self._numbers.get((entry, flows))
        if numbers and numbers[0] == event:
            numbers.popleft()
        self._forget(oldest)

    def _forget(self, key: Key) -> None:
        written = self._known.pop(key)
        self._forget_who(key[:2])
        if written is not None:
            self._journal.note("unseen", key[0], key[1], written)

    def _forget_who(self, event: tuple[int, int]) -> None:
        """Forgets which subscriptions got an event."""
        self._got.pop(event, None)
        if event in self._got_on_disk:
            self._got_on_disk.discard(event)
            self._journal.note("ungot", *event)

    def recall_who(self, entry: int, event: int, subscription: int) -> None:
        """A subscription got an event of QoS 2 before the broker restarted."""
        self._got.setdefault((entry, event), set()).add(subscription)
        self._got_on_disk.add((entry, event))

    def recall(self, entry: int, event: int, flows: bytes) -> None:
        """An event was handed out here before the broker restarted."""
        self._remember((entry, event, frozenset(msgspec.msgpack.decode(flows, type=list[int]))), flows)

    def handed(self, event: int) -> None:
        """An event was published here, and given to clients here, before the broker restarted."""
        self._handed[event] = None


def _sources(known: Collection[Source], entry: int, flows: Flows, steered: Flows) -> list[Source]:
    """The sources of a publishing broker's events in some of these flows, and in none that is steered."""
    return [one for one in known if one[0] == entry and not one[1].isdisjoint(flows) and one[1].isdisjoint(steered)]
