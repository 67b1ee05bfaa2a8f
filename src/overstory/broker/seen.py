"""The events of QoS 1 and 2 that a host has handed out: a repeated one is dropped.

1. An event is known by its publishing broker, its number there and the flows of its copy. Numbers are of one
   incarnation, so that no two events ever share one.
2. Events of QoS 2 are on disk, if there is one, in the commit that has their deliveries: a host that restarts does not
   hand them out again.
3. An event that was published here under a number from before a restart (``handed``) was given to clients here.
"""

import msgspec

from overstory.broker.journal import Journal

MOST = 100_000  # events that a host remembers
Flows = frozenset[int]


class Seen:
    """The events that one host remembers."""

    def __init__(self, broker: int, journal: Journal) -> None:
        self._me, self._journal = broker, journal
        self._known: dict[tuple[int, int, Flows], bytes | None] = {}  # with the flows as they are on disk
        self._handed: dict[int, None] = {}

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def is_new(self, entry: int, event: int, flows: Flows, keeps: bool) -> bool:
        """Whether an event has not come before, in the same flows. ``keeps``: it is to be remembered on disk."""
        key = entry, event, flows
        if key in self._known or (entry == self._me and event in self._handed):
            return False
        written = msgspec.msgpack.encode(sorted(flows)) if keeps and self._journal.keeps else None
        if written is not None:
            self._journal.note("seen", entry, event, written)
        self._known[key] = written
        while len(self._known) > MOST:
            self._forget(next(iter(self._known)))
        return True

    def _forget(self, key: tuple[int, int, Flows]) -> None:
        written = self._known.pop(key)
        if written is not None:
            self._journal.note("unseen", key[0], key[1], written)

    def recall(self, entry: int, event: int, flows: bytes) -> None:
        """An event was handed out here before the broker restarted."""
        self._known[entry, event, frozenset(msgspec.msgpack.decode(flows, type=list[int]))] = flows

    def handed(self, event: int) -> None:
        """An event was published here, and given to clients here, before the broker restarted."""
        self._handed[event] = None
