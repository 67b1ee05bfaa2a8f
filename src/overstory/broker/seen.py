"""The events of QoS 1 and 2 that a host has handed out: a repeated one is dropped.

1. An event is known by its publishing broker, its number there and the flows of its copy. Numbers are of one
   incarnation, so that no two events ever share one.
2. Events of QoS 2 are on disk, if there is one, in the commit that has their deliveries: a host that restarts does not
   hand them out again.
3. An event that was published here under a number from before a restart (``handed``) was given to clients here.
4. A publisher's broker that restarts may send an event again under another plan, in other flows. So of events of QoS 2
   the subscriptions that got them are remembered, too (``once``).
5. ``MOST`` events are remembered, in memory and on disk; then the oldest are forgotten.

Kernels hand out many at once. What comes in order has numbers above all before, so one comparison tells that a whole
array is new (``are_new``), and it is remembered as it is.
"""

from collections import deque

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.broker.journal import Journal

MOST = 100_000  # events that a host remembers
Flows = frozenset[int]
Source = tuple[int, Flows]  # a publishing broker, and the flows of a copy
Ints = NDArray[np.int64]


class Seen:
    """The events that one host remembers."""

    def __init__(self, broker: int, journal: Journal) -> None:
        self._me, self._journal = broker, journal
        self._known: dict[tuple[int, int, Flows], bytes | None] = {}  # with the flows as they are on disk
        self._handed: dict[int, None] = {}
        self._got: dict[tuple[int, int], set[int]] = {}  # the subscriptions that got an event of QoS 2
        self._highest: dict[Source, int] = {}
        self._arrays: dict[Source, deque[Ints]] = {}  # of numbers, ascending
        self._order: deque[Source] = deque()  # of the arrays, as they came
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
            self._forget(next(iter(self._known)))
        return True

    def once(self, entry: int, event: int, subscriptions: list[int]) -> list[int]:
        """Those of the subscriptions that have not got an event of QoS 2 in any flow. They are remembered."""
        got = self._got.setdefault((entry, event), set())
        new = [number for number in subscriptions if number not in got]
        got.update(new)
        if len(self._got) > MOST:
            del self._got[next(iter(self._got))]
        return new

    def are_new(self, entry: int, events: Ints, flows: Flows) -> bool:
        """Whether it is plain that none of these events has come before. False: they have to be asked about one by
        one."""
        return entry != self._me and int(events.min()) > self._highest.get((entry, flows), -1)

    def note(self, entry: int, events: Ints, flows: Flows) -> None:
        """These events of QoS 1 are handed out."""
        source = entry, flows
        self._highest[source] = int(events.max())
        self._arrays.setdefault(source, deque()).append(np.sort(events))
        self._order.append(source)
        self._in_arrays += len(events)
        while self._in_arrays > MOST and len(self._order) > 1:
            self._in_arrays -= len(self._arrays[self._order.popleft()].popleft())

    def _is_in_array(self, key: tuple[int, int, Flows]) -> bool:
        entry, event, flows = key
        for array in self._arrays.get((entry, flows), ()) if event <= self._highest.get((entry, flows), -1) else ():
            place = int(np.searchsorted(array, event))
            if place < len(array) and array[place] == event:
                return True
        return False

    def _remember(self, key: tuple[int, int, Flows], written: bytes | None) -> None:
        entry, event, flows = key
        self._known[key] = written
        self._highest[entry, flows] = max(event, self._highest.get((entry, flows), -1))

    def _forget(self, key: tuple[int, int, Flows]) -> None:
        written = self._known.pop(key)
        if written is not None:
            self._journal.note("unseen", key[0], key[1], written)

    def recall(self, entry: int, event: int, flows: bytes) -> None:
        """An event was handed out here before the broker restarted."""
        self._remember((entry, event, frozenset(msgspec.msgpack.decode(flows, type=list[int]))), flows)

    def handed(self, event: int) -> None:
        """An event was published here, and given to clients here, before the broker restarted."""
        self._handed[event] = None
