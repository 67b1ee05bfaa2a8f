"""Messages of QoS 0 that are like some before: whoever got those gets these, and nobody has to be asked.

Two messages are alike if all but their payloads is the same, byte by byte: the topic and the properties. What kernels
decided about the first one then holds for the second, as long as nothing has changed that they went by: the forwarding
table, the options of subscriptions, and which clients may be written to. Each of these has a stamp, and what is known
under other stamps is thrown away.

A kernel looks messages up (``kernels.straight``). If one of them is unknown, all that came with it goes to the kernels
that decide. Most turns have few messages, so what is done for each turn counts: all room is there before.
"""

from collections.abc import Sequence

import numpy as np

from overstory.broker import faults
from overstory.broker.link import Link
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
SMALL = 1 << 14  # bytes: of what is not more, pieces are rather copied out of a room that is there than shared


class Straight:
    """What is known of the last message of each kind."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: set[bytes] = set()  # kinds, of which the kernel knows the rest
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
        self._report = np.empty(HEADER + WIDTH * (MOST + 1), np.int64)
        self._told = self._report.data
        self._desk = self._kinds, self._table, self._texts, self._areas, self._messages, self._report
        self._room = np.empty(SMALL, np.uint8)  # for the bytes of all groups
        self._written = self._room.data
        self._refused = b""  # the last bytes that could not be sent
        self._unknown: list[int] = []  # where in these there are messages of unknown kinds

    def send(self, link: Link, data: bytes) -> int:
        """Sends what has come from a client on, if all of it is messages that are like some before. Else it does
        nothing. Returns how many bytes it has handled: the last message may not have all come yet."""
        if data is self._refused:
            return 0
        self._refused = b""
        if not data or data[0] != PUBLISH:
            return 0
        state = self._state
        if self._stamp != (state.slots.changes, self._compiled.stamp):
            self._forget()
        is_small = len(data) <= SMALL
        out = self._room if is_small else np.empty(len(data), np.uint8)
        some = sort_out(data, link.version == MQTT_5, state.limits.packet, *self._desk, out)
        if some == NONE:
            self._refused, self._unknown = data, self._messages["start"][: self._told[LISTED]].tolist()
            return 0
        report: list[int] = self._told[: HEADER + WIDTH * some].tolist()
        read = report[READ]
        if not read or state.dirty:  # something else is to be sent before
            return 0
        if some > 1 and not self._apart:
            return self._send_mixed(link, data, self._messages[: report[LISTED]].tolist(), read)
        self._count(link, data, report[LISTED])
        self.writes = 0
        for row in range(HEADER, len(report), WIDTH):
            group, begin, end, count = report[row : row + WIDTH]
            if end - begin == read:
                piece: bytes | memoryview = data if read == len(data) else data[:read]
            else:
                piece = self._written[begin:end].tobytes() if is_small else out.data[begin:end]
            self._write(self._links[group], piece, count)
        return read

    def _send_mixed(self, link: Link, data: bytes, messages: list[tuple[int, int, int]], read: int) -> int:
        """Sends a few messages on to clients that do not all get the same of them."""
        if len(messages) > FEW:
            self._refused, self._unknown = data, []
            return 0
        self._count(link, data, len(messages))
        mine: dict[Link, list[bytes]] = {}
        for start, end, group in messages:
            for to in self._links[group]:
                mine.setdefault(to, []).append(data[start:end])
        self.writes = 0
        for to, pieces in mine.items():
            self._write((to,), b"".join(pieces), len(pieces))
        return read

    def _count(self, link: Link, data: bytes, count: int) -> None:
        """Counts messages that are about to be sent, which are listed, and takes some of them for the sample."""
        state = self._state
        counts, sampling = state.counts, state.sampling
        counts.messages_in += count
        counts.straight += count
        counts.ticks += 1
        state.events += count
        sampling.left -= count
        if sampling.left < 0:
            sampling.packets(data, self._messages["end"][:count], link.session.number, link.version, state.now)

    def _write(self, links: tuple[Link, ...], piece: bytes | memoryview, count: int) -> None:
        """Writes bytes to clients, which are so many messages."""
        state = self._state
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
        number, counts = len(links), state.counts
        self.writes += number
        counts.bytes_out += number * len(piece)
        counts.messages_out += number * count

    def to_learn(self, link: Link) -> list[int]:
        """Where in the last bytes that could not be sent messages begin whose kinds are unknown and came before, one of
        each kind. What comes for the first time is only noted."""
        data, self._refused = self._refused, b""
        if not data:
            return []
        found: dict[bytes, int] = {}
        for at in self._unknown:
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
        group = NONE if links is None else self._group(links)
        number, start = len(self._known), self._used
        self._used = start + len(kind)
        self._texts[start : self._used] = np.frombuffer(kind, np.uint8)
        self._kinds[number] = start, self._used, group, min(largest, LARGE)
        remember(number, self._kinds, self._table, self._texts)
        self._known.add(kind)

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
        sort_out(bytes((PUBLISH,)), True, self._state.limits.packet, *self._desk, self._room)

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
