"""Messages of QoS 0 that are like some before: whoever got those gets these, and nobody has to be asked.

Two messages are alike if all but their payloads is the same, byte by byte: the topic and the properties. What kernels
decided about the first one then holds for the second, as long as nothing has changed that they went by: the forwarding
table, the options of subscriptions, and which clients may be written to. Each of these has a stamp, and what is known
under other stamps is thrown away.

A message that comes alone is looked up here; where there are more, a kernel does that (``kernels.straight``). If one
of them is unknown, all that came with it goes to the kernels that decide.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overstory.broker import faults
from overstory.broker.link import Link
from overstory.broker.sampling import Ends
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.kernels.nothing import NONE
from overstory.kernels.straight import (
    GROUP,
    HEADER,
    KIND,
    LISTED,
    MESSAGE,
    NOBODY,
    PUBLISH,
    READ,
    WIDTH,
    remember,
    sort_out,
)
from overstory.routing.compiled import Compiled
from overstory.wire.packets import MQTT_5

MOST = 4096  # kinds of messages that are remembered, and of those that came only once
MOST_BYTES = 1 << 18  # of all kinds that are remembered
MOST_MESSAGES = 1 << 16  # at once
LARGE = 16384  # bytes that three bytes of header can tell of
FEW = 64  # messages that are for clients with different lists; of more than that other kernels make less work
TO_LEARN = 16  # kinds in one turn


class Known(NamedTuple):
    """Who gets messages of a kind, None if that cannot be looked up; their group; and the most bytes that all of them
    take."""

    links: tuple[Link, ...] | None
    group: int
    largest: int


class Straight:
    """What is known of the last message of each kind."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: dict[bytes, Known] = {}
        self._once: set[bytes] = set()  # kinds that came once, and may never come again
        self._stamp: object = None
        self.writes = 0  # to clients, for what was sent last
        self._groups: dict[tuple[Link, ...], int] = {(): NOBODY}
        self._links: list[tuple[Link, ...]] = [()]  # of each group
        self._members: set[Link] = set()  # of all groups
        self._apart = True  # whether no client is in two groups
        # What the kernel reads: the kinds, where each is found by its hash, their bytes, and room for all groups
        self._kinds, self._table = np.zeros(MOST, KIND), np.zeros(2 * MOST, np.int64)
        self._texts, self._areas = np.zeros(MOST_BYTES, np.uint8), np.zeros(MOST + 1, GROUP)
        self._messages = np.empty(MOST_MESSAGES, MESSAGE)
        self._used = 0  # bytes of kinds
        self._failed: tuple[bytes, list[int]] = (b"", [])  # the last that could not be sent; where unknown kinds begin

    def send(self, link: Link, data: bytes) -> int:
        """Sends what has come from a client on, if all of it is messages that are like some before. Else it does
        nothing. Returns how many bytes it has handled: the last message may not have all come yet."""
        if data is self._failed[0]:
            return 0
        self._failed = b"", []
        if self._stamp != (self._state.slots.changes, self._compiled.stamp):
            self._forget()
        kind, _, end = kind_at(data, 0, link.version)
        if kind is None:
            return 0
        if end < len(data):
            return self._send_many(link, data)
        known = self._known.get(kind)
        if known is None or known.links is None or len(data) > known.largest:
            self._failed = data, [0] if known is None else []
            return 0
        if self._state.dirty:  # something else is to be sent before
            return 0
        self._count(link, data, [end])
        if known.links:
            self._write([(known.links, data)], len(known.links))
        return end

    def _send_many(self, link: Link, data: bytes) -> int:
        """Sends more than one message on."""
        has_properties, largest = link.version == MQTT_5, self._state.limits.packet
        array = np.frombuffer(data, np.uint8)
        known = self._kinds, self._table, self._texts, self._areas, self._messages
        told, out = sort_out(array, has_properties, largest, *known)
        report: list[int] = told.tolist()
        read, messages = report[READ], self._messages[: report[LISTED]]
        if read == NONE:
            self._failed = data, messages["start"].tolist()
            return 0
        if self._state.dirty:
            return 0
        groups = report[HEADER::WIDTH]
        if len(groups) > 1 and not self._apart:
            return self._send_mixed(link, data, messages.tolist(), read)
        self._count(link, data, messages["end"])
        whole = (out if len(out) else array).data
        pieces: list[tuple[tuple[Link, ...], bytes | memoryview]] = []
        copies = 0
        for row in range(HEADER, len(report), WIDTH):
            group, begin, end, count = report[row : row + WIDTH]
            links = self._links[group]
            copies += count * len(links)
            pieces.append((links, data if end - begin == len(data) else whole[begin:end]))
        self._write(pieces, copies)
        return read

    def _send_mixed(self, link: Link, data: bytes, messages: list[tuple[int, int, int]], read: int) -> int:
        """Sends a few messages on to clients that do not all get the same of them."""
        if len(messages) > FEW:
            self._failed = data, []
            return 0
        self._count(link, data, [end for _, end, _ in messages])
        mine: dict[Link, list[bytes]] = {}
        for start, end, group in messages:
            for to in self._links[group]:
                mine.setdefault(to, []).append(data[start:end])
        self._write([((to,), b"".join(pieces)) for to, pieces in mine.items()], sum(map(len, mine.values())))
        return read

    def _count(self, link: Link, data: bytes, ends: Ends) -> None:
        """Counts messages that are about to be sent, and takes some of them for the sample."""
        state, count = self._state, len(ends)
        counts = state.counts
        counts.messages_in += count
        counts.straight += count
        counts.ticks += 1
        state.events += count
        state.sampling.left -= count
        if state.sampling.left < 0:
            state.sampling.packets(data, ends, link.session.number, link.version, state.now)

    def _write(self, pieces: Sequence[tuple[tuple[Link, ...], bytes | memoryview]], copies: int) -> None:
        """Writes bytes to clients, which are so many copies of messages."""
        state = self._state
        self.writes = 0
        for links, piece in pieces:
            for to in links:
                write = to.write
                try:
                    if write is None:
                        to.outgoing.append(piece)
                        state.dirty[to] = None
                    else:
                        write(piece)
                except Exception as error:
                    faults.end(state, to, error)
            self.writes += len(links)
            state.counts.bytes_out += len(links) * len(piece)
        state.counts.messages_out += copies

    def to_learn(self, link: Link) -> list[int]:
        """Where in the last bytes that could not be sent messages begin whose kinds are unknown and came before, one of
        each kind. What comes for the first time is only noted."""
        data, places = self._failed
        self._failed = b"", []
        found: dict[bytes, int] = {}
        for at in places:
            kind, _, _ = kind_at(data, at, link.version)
            if kind is None or kind in found or kind in self._known:
                continue
            if kind in self._once:
                found[kind] = at
                if len(found) == TO_LEARN:
                    break
                continue
            if len(self._once) >= MOST:
                self._once.clear()
            self._once.add(kind)
        return list(found.values())

    def learn(self, link: Link, data: bytes, spans: Sequence[int] | None, out: bytes) -> None:
        """Kernels have decided about this message: these slots get these bytes. None says that they could not."""
        kind, _, end = kind_at(data, 0, link.version)
        if kind is None or end != len(data):
            return
        stamp = (self._state.slots.changes, self._compiled.stamp)
        is_full = len(self._known) >= MOST or self._used + len(kind) > MOST_BYTES
        if stamp != self._stamp or is_full:
            self._forget()
            self._stamp = stamp
        if self._used + len(kind) > MOST_BYTES:
            return
        links = None if spans is None else self._links_of(data, spans, out)
        largest = min((to.largest for to in links or ()), default=LARGE)
        known = Known(links, NONE if links is None else self._group(links), min(largest, LARGE))
        number, start = len(self._known), self._used
        self._used = start + len(kind)
        self._texts[start : self._used] = np.frombuffer(kind, np.uint8)
        self._kinds[number] = start, self._used, known.group, known.largest
        remember(number, self._kinds, self._table, self._texts)
        self._known[kind] = known

    def _links_of(self, data: bytes, spans: Sequence[int], out: bytes) -> tuple[Link, ...] | None:
        """The links of slots, if they get the message as it came."""
        if any(out[begin:stop] != data for begin, stop in zip(spans[1::3], spans[2::3], strict=True)):
            return None
        holders = [self._state.slots.holders[slot] for slot in spans[::3]]
        links = tuple(one.link for one in holders if isinstance(one, Session) and one.link is not None)
        return links if len(links) == len(holders) else None

    def _group(self, links: tuple[Link, ...]) -> int:
        """The number of the group of these clients."""
        if links not in self._groups:
            self._apart = self._apart and self._members.isdisjoint(links)
            self._members.update(links)
            self._groups[links] = len(self._links)
            self._links.append(links)
        return self._groups[links]

    def warm_up(self) -> None:
        """Makes sure that no client has to wait for kernels to be loaded."""
        remember(0, self._kinds, self._table, self._texts)
        self._table[:] = 0
        known = self._kinds, self._table, self._texts, self._areas, self._messages
        sort_out(np.frombuffer(bytes((PUBLISH,)), np.uint8), True, self._state.limits.packet, *known)

    def _forget(self) -> None:
        if self._known:
            self._known.clear()
            self._table[:] = 0
            self._used, self._apart = 0, True
            self._groups, self._links = {(): NOBODY}, [()]
            self._members.clear()


def kind_at(data: bytes, at: int, version: int) -> tuple[bytes | None, int, int]:
    """All of a PUBLISH of QoS 0 between its length and its payload, where the payload begins, and where the packet
    ends; None if there is no whole packet of that kind, or it looks unusual. Whether those bytes are well-formed is not
    said: a kernel has to have found that of equal ones."""
    size = len(data)
    if size < at + 7 or data[at] != PUBLISH:
        return None, size, size
    start, told = at + 2, data[at + 1]
    if told >= 128:
        start, told = at + 3, told + (data[at + 2] << 7) - 128
        if not 0 < data[at + 2] < 128:
            return None, size, size
    stop = start + told
    if stop > size or told < 2:
        return None, size, size
    end = start + 2 + (data[start] << 8) + data[start + 1]
    if version == MQTT_5:
        if end >= stop or data[end] >= 128:
            return None, size, size
        end += 1 + data[end]
    return (data[start:end] if end <= stop else None), end, stop
