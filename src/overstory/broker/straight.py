"""Single messages of QoS 0 that are like one before: whoever got that one gets this one, and nobody has to be asked.

Two messages are alike if all but their payloads is the same, byte by byte: the topic and the properties. What kernels
decided about the first one then holds for the second, as long as nothing has changed that they went by: the forwarding
table, the options of subscriptions, and which clients may be written to. Each of these has a stamp, and what is known
under other stamps is thrown away.

It is for a message that comes alone, where calls of kernels would take most of the time.
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


class Straight:
    """Who got the last message of each kind, and the most bytes that all of them take."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: dict[bytes, tuple[list[Link], int]] = {}
        self._stamp: object = None

    def send(self, link: Link, data: bytes) -> bool:
        """Sends what has come from a client on, if it is one message that is like one before. Else it does nothing."""
        state = self._state
        kind = kind_of(data, link.version)
        known = self._known.get(kind) if kind is not None else None
        if known is None or len(data) > known[1] or state.dirty:
            return False
        if self._stamp != (state.slots.changes, self._compiled.stamp):
            self._known.clear()
            return False
        for to in known[0]:
            try:
                if to.write is None:
                    to.outgoing.append(data)
                    state.dirty[to] = None
                else:
                    to.write(data)
            except Exception as error:
                faults.end(state, to, error)
        copies = len(known[0])
        counts = state.counts
        counts.messages_in += 1
        counts.messages_out += copies
        counts.bytes_out += copies * len(data)
        counts.ticks += 1
        counts.straight += 1
        state.events += 1
        return True

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
    """All of a PUBLISH of QoS 0 between its length and its payload; None if this is not one whole packet of that kind,
    or looks unusual. Whether those bytes are well-formed is not said: a kernel has to have found that of equal ones."""
    size = len(data)
    if size < 7 or data[0] != PUBLISH:
        return None
    start, told = 2, data[1]
    if told >= 128:
        start, told = 3, told + (data[2] << 7) - 128
        if not 0 < data[2] < 128:
            return None
    if start + told != size:
        return None
    end = start + 2 + (data[start] << 8) + data[start + 1]
    if version == MQTT_5:
        if end >= size or data[end] >= 128:
            return None
        end += 1 + data[end]
    return data[start:end] if end <= size else None
