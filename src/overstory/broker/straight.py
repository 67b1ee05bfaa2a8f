"""Few messages of QoS 0 that are like some before: whoever got those gets these, and nobody has to be asked.

Two messages are alike if all but their payloads is the same, byte by byte: the topic and the properties. What kernels
decided about the first one then holds for the second, as long as nothing has changed that they went by: the forwarding
table, the options of subscriptions, and which clients may be written to. Each of these has a stamp, and what is known
under other stamps is thrown away.

It is for messages that come alone or in small numbers, where calls of kernels would take most of the time.
"""

from collections.abc import Sequence

from overstory.broker import faults
from overstory.broker.link import Link
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.routing.compiled import Compiled
from overstory.wire.packets import MQTT_5

PUBLISH = 0x30
MOST = 4096  # kinds of messages that are remembered
LARGE = 16384  # bytes that three bytes of header can tell of
FEW = 16  # messages at once; of more than that kernels make less work

Known = tuple[list[Link], int]  # who got the last message of a kind, and the most bytes that all of them take


class Straight:
    """What is known of the last message of each kind."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: dict[bytes, Known] = {}
        self._stamp: object = None

    def send(self, link: Link, data: bytes) -> bool:
        """Sends what has come from a client on, if it is a few messages that are like some before. Else it does
        nothing."""
        state = self._state
        found = self._found(data, link.version)
        if found is None or state.dirty:
            return False
        if self._stamp != (state.slots.changes, self._compiled.stamp):
            self._known.clear()
            return False
        first = found[0][0]
        if all(known is first for known, _, _ in found):
            for to in first[0]:
                self._write(to, data)
        else:
            self._write_some(data, found)
        counts = state.counts
        counts.messages_in += len(found)
        for (links, _), begin, end in found:
            counts.messages_out += len(links)
            counts.bytes_out += len(links) * (end - begin)
        counts.ticks += 1
        counts.straight += len(found)
        state.events += len(found)
        return True

    def _found(self, data: bytes, version: int) -> list[tuple[Known, int, int]] | None:
        """What is known of each message, and where it begins and ends; None if of one nothing is, or there are more
        than a few."""
        found: list[tuple[Known, int, int]] = []
        at, size = 0, len(data)
        while at < size:
            kind, end = kind_at(data, at, version)
            known = self._known.get(kind) if kind is not None else None
            if known is None or end - at > known[1] or (size - at) > (FEW - len(found)) * (end - at):
                return None  # if the others are like this one, they are too many
            found.append((known, at, end))
            at = end
        return found or None

    def _write_some(self, data: bytes, found: Sequence[tuple[Known, int, int]]) -> None:
        """Writes messages that are not all for the same clients: in one piece to each."""
        pieces: dict[Link, list[bytes]] = {}
        for (links, _), begin, end in found:
            piece = data[begin:end]
            for to in links:
                pieces.setdefault(to, []).append(piece)
        for to, mine in pieces.items():
            self._write(to, b"".join(mine))

    def _write(self, to: Link, data: bytes) -> None:
        try:
            if to.write is None:
                to.outgoing.append(data)
                self._state.dirty[to] = None
            else:
                to.write(data)
        except Exception as error:
            faults.end(self._state, to, error)

    def learn(self, link: Link, data: bytes, spans: Sequence[int], out: bytes) -> None:
        """Kernels have decided about one message, which is all that has come: these slots got these bytes."""
        kind = kind_of(data, link.version)
        if kind is None or any(out[begin:end] != data for begin, end in zip(spans[1::3], spans[2::3], strict=True)):
            return
        slots = self._state.slots
        holders = [slots.holders[slot] for slot in spans[::3]]
        links = [holder.link for holder in holders if isinstance(holder, Session) and holder.link is not None]
        if len(links) < len(holders):
            return
        stamp = (slots.changes, self._compiled.stamp)
        if stamp != self._stamp or len(self._known) >= MOST:
            self._known.clear()
            self._stamp = stamp
        self._known[kind] = links, min((to.largest for to in links), default=LARGE)


def kind_of(data: bytes, version: int) -> bytes | None:
    """The kind of a message, if these bytes are one whole packet that has one."""
    kind, end = kind_at(data, 0, version)
    return kind if end == len(data) else None


def kind_at(data: bytes, at: int, version: int) -> tuple[bytes | None, int]:
    """All of a PUBLISH of QoS 0 between its length and its payload, and where the packet ends; None if there is no
    whole packet of that kind, or it looks unusual. Whether those bytes are well-formed is not said: a kernel has to
    have found that of equal ones."""
    size = len(data)
    if size < at + 7 or data[at] != PUBLISH:
        return None, size
    start, told = at + 2, data[at + 1]
    if told >= 128:
        start, told = at + 3, told + (data[at + 2] << 7) - 128
        if not 0 < data[at + 2] < 128:
            return None, size
    stop = start + told
    if stop > size or told < 2:
        return None, size
    end = start + 2 + (data[start] << 8) + data[start + 1]
    if version == MQTT_5:
        if end >= stop or data[end] >= 128:
            return None, size
        end += 1 + data[end]
    return (data[start:end] if end <= stop else None), stop
