"""Few messages of QoS 0 that are like some before: whoever got those gets these, and nobody has to be asked.

Two messages are alike if all but their payloads is the same, byte by byte: the topic and the properties. What kernels
decided about the first one then holds for the second, as long as nothing has changed that they went by: the forwarding
table, the options of subscriptions, and which clients may be written to. Each of these has a stamp, and what is known
under other stamps is thrown away.

It is for messages that come alone or in small numbers, where calls of kernels would take most of the time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from overstory.broker import faults
from overstory.broker.link import Link
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.routing.compiled import Compiled
from overstory.wire.packets import MQTT_5

PUBLISH = 0x30
MOST = 4096  # kinds of messages that are remembered, and of those that came only once
LARGE = 16384  # bytes that three bytes of header can tell of
FEW = 64  # messages at once; of more than that kernels make less work
LATEST = 4  # kinds that are looked at first


class Known(NamedTuple):
    """Who got the last message of a kind, and the most bytes that all of them take."""

    links: list[Link]
    largest: int


Begin = tuple[bytes, int, list[Link]]  # all of a message before its payload, its size, and who gets it
Wanted = list[tuple[list[Link], bytes]]  # messages that somebody gets


class Straight:
    """What is known of the last message of each kind."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: dict[bytes, Known] = {}
        self._once: set[bytes] = set()  # kinds that came once, and may never come again
        self._latest: dict[int, list[Begin]] = {}  # by the version of MQTT, the last one first
        self._stamp: object = None

    def send(self, link: Link, data: bytes) -> bool:
        """Sends what has come from a client on, if it is a few messages that are like some before. Else it does
        nothing."""
        state = self._state
        if not self._known or state.dirty:
            return False
        if self._stamp != (state.slots.changes, self._compiled.stamp):
            self._forget()
            return False
        ends, wanted = self._read(data, link.version)
        count = len(ends)
        if not count:
            return False
        counts = state.counts
        counts.messages_in += count
        counts.straight += count
        counts.ticks += 1
        state.events += count
        state.sampling.left -= count
        if state.sampling.left < 0:
            state.sampling.packets(data, ends, link.session.number, link.version, state.now)
        if wanted:
            self._write_all(data, count, wanted)
        return True

    def _read(self, data: bytes, version: int) -> tuple[list[int], Wanted]:
        """Where messages end, and those that somebody gets; none if of one nothing is known, or there are more than a
        few."""
        wanted: Wanted = []
        ends: list[int] = []
        latest = self._latest.setdefault(version, [])
        at, stop = 0, len(data)
        while at < stop:
            for begin, size, links in latest:  # noqa: B007
                if data.startswith(begin, at):
                    break
            else:
                found = self._begin(data, at, version)
                if found is None:
                    return [], wanted
                _, size, links = found
                latest.insert(0, found)
                del latest[LATEST:]
            end = at + size
            if end > stop or stop - at > (FEW - len(ends)) * size:  # the others are like this one, perhaps
                return [], wanted
            if links:
                wanted.append((links, data[at:end]))
            ends.append(end)
            at = end
        return ends, wanted

    def _begin(self, data: bytes, at: int, version: int) -> Begin | None:
        """How the message at this place begins, if something is known of its kind."""
        kind, payload, end = kind_at(data, at, version)
        known = None if kind is None else self._known.get(kind)
        return None if known is None or end - at > known.largest else (data[at:payload], end - at, known.links)

    def _write_all(self, data: bytes, count: int, wanted: Wanted) -> None:
        """Writes messages to whoever gets them: in one piece to each."""
        first = wanted[0][0]
        pieces = [piece for links, piece in wanted if links is first]
        if len(pieces) < len(wanted):
            self._write_mixed(wanted)
            return
        whole = data if len(pieces) == count else b"".join(pieces)
        self._write([(to, whole) for to in first], len(first) * len(pieces))

    def _write_mixed(self, wanted: Wanted) -> None:
        """Writes messages that are not all for the same clients."""
        mine: dict[Link, list[bytes]] = {}
        copies = 0
        for links, piece in wanted:
            copies += len(links)
            for to in links:
                if to in mine:
                    mine[to].append(piece)
                else:
                    mine[to] = [piece]
        self._write([(to, pieces[0] if len(pieces) == 1 else b"".join(pieces)) for to, pieces in mine.items()], copies)

    def _write(self, data: list[tuple[Link, bytes]], copies: int) -> None:
        """Writes bytes to clients, which are so many copies of messages."""
        written = 0
        for to, piece in data:
            written += len(piece)
            try:
                if to.write is None:
                    to.outgoing.append(piece)
                    self._state.dirty[to] = None
                else:
                    to.write(piece)
            except Exception as error:
                faults.end(self._state, to, error)
        self._state.counts.messages_out += copies
        self._state.counts.bytes_out += written

    def to_learn(self, link: Link, data: bytes) -> int | None:
        """Where the first message begins that nothing is known of, if one like it came before; None if there is none.
        What comes for the first time is only noted."""
        at = 0
        while at < len(data):
            kind, _, end = kind_at(data, at, link.version)
            if kind is None:
                return None
            if kind not in self._known:
                if kind in self._once:
                    return at
                if len(self._once) >= MOST:
                    self._once.clear()
                self._once.add(kind)
                return None
            at = end
        return None

    def learn(self, link: Link, data: bytes, spans: Sequence[int], out: bytes) -> None:
        """Kernels have decided about this message: these slots get these bytes."""
        kind, _, end = kind_at(data, 0, link.version)
        alike = all(out[begin:stop] == data for begin, stop in zip(spans[1::3], spans[2::3], strict=True))
        if kind is None or end != len(data) or not alike:
            return
        slots = self._state.slots
        holders = [slots.holders[slot] for slot in spans[::3]]
        links = [holder.link for holder in holders if isinstance(holder, Session) and holder.link is not None]
        if len(links) < len(holders):
            return
        stamp = (slots.changes, self._compiled.stamp)
        if stamp != self._stamp or len(self._known) >= MOST:
            self._forget()
            self._stamp = stamp
        self._known[kind] = Known(links, min((to.largest for to in links), default=LARGE))

    def _forget(self) -> None:
        self._known.clear()
        self._latest.clear()


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
