"""What has come since the last turn, handled together: kernels frame the messages of all clients, decide and write.

Packets that are not for kernels are handled one by one, in their place: what a client sends keeps its order. What is
left for the next turn waits here, so that no turn is long.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.broker import connecting, publishing
from overstory.broker.core import Core
from overstory.broker.link import Link
from overstory.broker.message import Message, message_of
from overstory.broker.session import Session
from overstory.kernels.gather import AS_PUBLISHED, SPECIAL
from overstory.kernels.mqtt import CHUNK, FRAME, JSON, ODD, REBUILT, RETAIN, frame
from overstory.kernels.nothing import NONE
from overstory.routing.compiled import Compiled, Decision
from overstory.wire.decode import decode
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_5, Publish

Bytes = NDArray[np.uint8]
Rows = NDArray[Any]
SLICE = 1 << 19  # bytes that are handled in one turn
NOBODY = NONE
ONE_CHUNK = struct.Struct("<qqqiiqii")  # a row of CHUNK
STOP, AT, WHY, COUNTED = 1, 5, 6, 7  # places in it
FEW = 1024  # bytes: what is not much more is rather copied than shared


class Tick:
    """The bytes that wait to be handled, in the order in which they came."""

    def __init__(self, core: Core) -> None:
        self.core, self.state = core, core.state
        self.waiting = 0  # bytes
        self._ready: dict[Link, bytes] = {}
        state = self.state
        self._compiled = Compiled(state.router, state.config.types, state.slots.by_client.get, self._options)
        state.changed = self._compiled.changed
        state.decide = self.decide
        core.for_kernels = True
        self._raw = bytearray(CHUNK.itemsize)
        self._one = np.frombuffer(self._raw, CHUNK)  # the chunk of a turn in which one client is heard

    @property
    def pending(self) -> bool:
        """Whether something is left to be done."""
        return bool(self._ready)

    def add(self, link: Link, data: bytes) -> None:
        """Bytes have come from a client."""
        self.waiting += len(data)
        before = self._ready.get(link)
        self._ready[link] = data if before is None else before + data

    def forget(self, link: Link) -> None:
        """The client has gone."""
        self.waiting -= len(self._ready.pop(link, b""))

    def run(self) -> None:
        """Handles what has come, or as much of it as one turn allows."""
        taken = self._take()
        if taken:
            self.state.counts.ticks += 1
        while taken:
            odd = self._messages(taken)
            taken = {}
            for link in odd:
                self._alone(link, taken)
        if self.state.full:
            connecting.end_full(self.state)

    def _take(self) -> dict[Link, bytes]:
        """The bytes for this turn. A link with a long answer under way goes on with that, and its bytes wait."""
        if self.waiting <= SLICE:
            ready, self._ready, self.waiting = self._ready, {}, 0
        else:
            ready = {}
            size = 0
            for link in list(self._ready):
                ready[link] = self._ready.pop(link)
                size += len(ready[link])
                if size > SLICE:
                    break
            self.waiting -= size
        if len(ready) == 1 and next(iter(ready)).is_plain:  # most often
            return ready
        taken: dict[Link, bytes] = {}
        for link, data in ready.items():
            if link.is_plain:
                taken[link] = data
                continue
            link.buffer += data
            if link.session is None or link.work is not None:
                self._alone(link, taken)
            elif not link.closed:
                taken[link] = bytes(link.buffer)
                link.buffer.clear()
        return taken

    def _alone(self, link: Link, taken: dict[Link, bytes]) -> None:
        """Handles the packets of a client that are not for kernels, and leaves the others in ``taken``."""
        before = len(link.buffer)
        self.core.receive(link)
        if link.closed:
            link.buffer.clear()
        elif link.work is not None:
            self._ready[link] = b""
        elif 0 < len(link.buffer) < before and link.session is not None and self.core.is_plain(link):
            taken[link] = bytes(link.buffer)
            link.buffer.clear()

    def _messages(self, taken: dict[Link, bytes]) -> list[Link]:
        """Has kernels frame and decide what they can; the rest waits in the links' buffers. Returns the links whose
        next packet is not for kernels."""
        links = list(taken)
        if len(links) == 1:
            data, chunks = taken[links[0]], self._one
            session = links[0].session
            ONE_CHUNK.pack_into(self._raw, 0, 0, len(data), session.number, links[0].version, session.place, 0, 0, 0)
        else:
            data, chunks = b"".join(taken.values()), _chunks(taken)
        array = np.frombuffer(data, np.uint8)
        frames = frame(array, chunks, self.state.slots.rows, self.state.limits.packet)
        rows = chunks.tolist()
        if len(frames):
            self.state.counts.messages_in += len(frames)
            out, at = self._decide(array, frames, chunks)
            for link, row in zip(links, rows, strict=True):
                if row[COUNTED]:
                    self.state.journal.send(link, out[at : at + 4 * row[COUNTED]])
                    self.state.dirty[link] = None
                    at += 4 * row[COUNTED]
        odd = []
        for link, row in zip(links, rows, strict=True):
            if row[AT] < row[STOP]:
                link.buffer += data[row[AT] : row[STOP]]
            if row[WHY] == ODD:
                odd.append(link)
        return odd

    def _decide(self, data: Bytes, frames: Rows, chunks: Rows) -> tuple[bytes, int]:
        """Decides about framed messages: by kernels as far as they go, and then by the router's plain way. Returns the
        acknowledgements, and where they begin."""
        compiled = self._compiled
        decision = compiled.decide(data, frames, chunks, self._slots) if compiled.can_decide else None
        decided = 0
        if decision is not None:
            decided = decision.decided
            whole = decision.out.tobytes() if len(decision.out) <= FEW * len(decision.spans) else None
            self._hand_out(decision, decision.out.data if whole is None else whole, data, frames, chunks)
            self.state.events += decided
            if decided == len(frames):
                if whole is None:
                    return decision.out[decision.acknowledgements :].tobytes(), 0
                return whole, decision.acknowledgements
        messages = [self._message(data, frames[place], chunks) for place in range(decided, len(frames))]
        publishing.decide(self.state, messages)
        return _acknowledgements(frames[frames["qos"] == 1]), 0

    def _hand_out(self, decision: Decision, whole: bytes | memoryview, data: Bytes, frames: Rows, chunks: Rows) -> None:
        """Gives links their bytes, and sessions the messages that only they can handle."""
        if decision.spans:
            self.state.counts.messages_out += decision.copies
            self._send(decision.spans, whole)
        messages: dict[int, Message] = {}
        pairs = iter(decision.specials)
        for event, slot in zip(pairs, pairs, strict=True):
            message = messages.get(event)
            if message is None:
                message = messages[event] = self._message(data, frames[event], chunks)
            self._special(message, event, decision.matches(event, slot))

    def _send(self, spans: Sequence[int], whole: bytes | memoryview) -> None:
        """Gives links their bytes: straight to the shell, if nobody has anything else to send before."""
        holders, dirty, each = self.state.slots.holders, self.state.dirty, iter(spans)
        straight = not dirty
        for slot, begin, end in zip(each, each, each, strict=True):
            link = holders[slot].link  # type: ignore[union-attr]
            if straight and link.write is not None:  # type: ignore[union-attr]
                link.write(whole[begin:end])  # type: ignore[union-attr]
            else:
                link.outgoing.append(whole[begin:end])  # type: ignore[union-attr]
                dirty[link] = None  # type: ignore[index]
        if straight:
            self.state.counts.bytes_out += sum(spans[2::3]) - sum(spans[1::3])

    def _special(self, message: Message, event: int, numbers: list[int]) -> None:
        """Hands a message to one client or group, for those of its subscriptions that want it from this publisher."""
        wanted = []
        for number in numbers:
            subscription = self.state.subscriptions[number]
            if not subscription.asked.no_local or subscription.holder.number != message.publisher:
                wanted.append(number)
        if wanted:
            publishing.hand_out(self.state, message, self.state.events + event, wanted)

    def _message(self, data: Bytes, here: Any, chunks: Rows) -> Message:
        """A framed message as an object."""
        chunk = chunks[here["chunk"]]
        packet = decode(data[here["start"] : here["end"]].tobytes(), int(chunk["version"]))
        assert isinstance(packet, Publish)
        message = message_of(packet, packet.topic, int(chunk["client"]), self.state.now)
        if not here["marks"] & REBUILT:
            return message
        return Message(
            message.topic,
            message.payload,
            int(here["qos"]),
            bool(here["marks"] & RETAIN),
            message.properties,
            message.publisher,
            message.expires,
        )

    def decide(self, messages: Sequence[Message]) -> None:
        """Decides about messages that did not come in frames: wills, retained ones, those of QoS 2."""
        for message in messages:
            data = encode(message.to_publish(self.state.now, 0, False), MQTT_5)
            array = np.frombuffer(data, np.uint8)
            chunks = np.zeros(1, CHUNK)
            chunks[0] = (0, len(data), message.publisher, MQTT_5, NOBODY, 0, 0, 0)
            frames = frame(array, chunks, self.state.slots.rows, len(data))
            if not len(frames):
                publishing.decide(self.state, [message])
                continue
            frames[0]["qos"] = message.qos
            frames[0]["marks"] |= REBUILT | (RETAIN if message.retain else 0)
            self._decide(array, frames, chunks)

    def warm_up(self) -> None:
        """Makes sure that no client has to wait for kernels to be loaded."""
        for marks in (0, JSON):
            data = encode(Publish("a/b", b"", properties={"user_properties": [("a", "1")]}), MQTT_5)
            array = np.frombuffer(data, np.uint8)
            chunks = np.zeros(1, CHUNK)
            chunks[0] = (0, len(data), NOBODY, MQTT_5, NOBODY, 0, 0, 0)
            frames = frame(array, chunks, self.state.slots.rows, len(data))
            frames[0]["marks"] |= marks
            self._decide(array, frames, chunks)
        publishing.decide(self.state, [self._message(array, frames[0], chunks)])
        assert frames.dtype == FRAME

    def _slots(self) -> Rows:
        return self.state.slots.rows

    def _options(self, number: int) -> int:
        """What kernels have to know of a subscription."""
        subscription = self.state.subscriptions[number]
        asked = subscription.asked
        special = not isinstance(subscription.holder, Session) or subscription.identifier or asked.no_local
        return asked.qos | (SPECIAL if special else 0) | (AS_PUBLISHED if asked.retain_as_published else 0)


def _acknowledgements(frames: Rows) -> bytes:
    """Acknowledgements of messages of QoS 1."""
    answers = np.empty((len(frames), 4), np.uint8)
    answers[:, 0], answers[:, 1] = 0x40, 2
    answers[:, 2], answers[:, 3] = frames["id"] >> 8, frames["id"] & 255
    return answers.tobytes()


def _chunks(taken: dict[Link, bytes]) -> Rows:
    """The chunks of many links, one behind the other."""
    rows = []
    at = 0
    for link, data in taken.items():
        session = link.session
        rows.append((at, at + len(data), session.number, link.version, session.place, 0, 0, 0))
        at += len(data)
    return np.array(rows, CHUNK)
