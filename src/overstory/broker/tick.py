"""What has come since the last turn, handled together: kernels frame the messages of all clients, decide and write.

Packets that are not for kernels are handled one by one, in their place: what a client sends keeps its order. What is
left for the next turn waits here, so that no turn is long.
"""

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.broker import faults, publishing
from overstory.broker.core import PLAIN, Core
from overstory.broker.kinds import Hops
from overstory.broker.link import Link
from overstory.broker.message import Message, Origin, message_of
from overstory.broker.promises import Promise
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.broker.straight import Straight
from overstory.kernels.gather import AS_PUBLISHED, SPECIAL
from overstory.kernels.mqtt import CHUNK, FRAME, JSON, ODD, REBUILT, RETAIN, frame
from overstory.kernels.nothing import NONE
from overstory.matching import FilterIndex
from overstory.routing.compiled import Compiled, Decision
from overstory.wire.decode import decode
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_5, Publish
from overstory.wire.topics import topic_filter

Bytes = NDArray[np.uint8]
Rows = NDArray[Any]
SLICE = 1 << 19  # bytes that are handled in one turn
NOBODY = NONE
ONE_CHUNK = struct.Struct("<qqqiiqii")  # a row of CHUNK
STOP, AT, WHY, COUNTED = 1, 5, 6, 7  # places in it
FEW = 1024  # bytes: what is not much more is rather copied than shared
AT_ONCE = 1 << 14  # bytes that are handled as they come: with more than that, more may come in the same turn


Promised = Promise | Sequence[Promise | None]  # one for all messages, or one for each; an empty one: none has any


class Came(NamedTuple):
    """What is known of messages that came from a neighbour: who published them, their numbers, and where."""

    publishers: NDArray[np.int64]
    ids: NDArray[np.int64]
    entries: NDArray[np.int64]


class Tick:
    """The bytes that wait to be handled, in the order in which they came."""

    def __init__(self, core: Core) -> None:
        self.core, self.state = core, core.state
        self.waiting = 0  # bytes
        self.writes = 0  # to clients, in the last turn
        self._ready: dict[Link, bytes] = {}
        state = self.state
        self._handed: list[tuple[int, Promise]] = []  # by the place of their messages: for members of groups elsewhere
        self.compiled = Compiled(state.router, state.config.types, state.slots.by_client.get, self._options)
        self.fast: Any = None  # the ``Fast`` way to neighbours, if there are any
        state.changed = self.compiled.changed
        state.decide = self.decide
        state.resume = lambda link: self.add(link, b"")
        core.for_kernels = True
        self.straight = Straight(state, self.compiled)
        self._begun = False  # whether some clients may have got messages of this turn
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

    def passed_on(self, link: Link, data: bytes) -> bool:
        """Whether bytes that have come could be handled at once: a few messages that are like some before, while
        nothing else waits."""
        if self._ready or len(data) > AT_ONCE or not link.is_plain:
            return False
        if self.straight.send_one(link, data):
            self.writes += self.straight.writes
            return True
        return self._sent_straight(link, data, False)

    def _sent_straight(self, link: Link, data: bytes, in_turn: bool = True) -> bool:
        """Whether all messages of a client were like some before, and went to whoever got those."""
        sent = self.straight.send(link, data, in_turn)
        if not sent:
            return False
        if sent < len(data):
            link.buffer += data[sent:]
        self.writes += self.straight.writes
        return True

    def run(self) -> None:
        """Handles what has come, or as much of it as one turn allows."""
        taken = self._take()
        self.writes = 0
        if taken:
            self.state.counts.ticks += 1
        while taken:
            odd = self._handled(taken)
            taken = {}
            for link in odd:
                self._alone(link, taken)
        if self.state.full:
            self.core.end_full()

    def _take(self) -> dict[Link, bytes]:
        """The bytes for this turn. A link with a long answer under way goes on with that, and its bytes wait. Whoever
        begins with something else than a message is handled first: who subscribes gets what comes in the same turn."""
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
            if link.is_plain and data and data[0] in PLAIN:
                taken[link] = data
                continue
            link.buffer += data
            if link.session is None or link.work is not None or not self.core.is_plain(link):
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

    def _handled(self, taken: dict[Link, bytes]) -> list[Link]:
        """Has kernels handle messages. If an error of our own comes up, nobody has got any of them yet: each client is
        tried alone, and the connection of the one that it comes up with again is ended."""
        try:
            return self._messages(taken)
        except Exception as error:
            self.state.slots.rows["count"] = 0  # what kernels may have left behind
            if len(taken) == 1:
                faults.end(self.state, next(iter(taken)), error)
                return []
        return [odd for link, data in taken.items() for odd in self._handled({link: data})]

    def _messages(self, taken: dict[Link, bytes]) -> list[Link]:
        """Has kernels frame and decide what they can; the rest waits in the links' buffers. Returns the links whose
        next packet is not for kernels."""
        if len(taken) == 1:
            ((link, data),) = taken.items()
            if self._sent_straight(link, data):
                return []
            chunks = self._one
            session = link.session
            ONE_CHUNK.pack_into(self._raw, 0, 0, len(data), session.number, link.version, session.place, 0, 0, 0)
        else:
            data, chunks = b"".join(taken.values()), _chunks(taken)
        array = np.frombuffer(data, np.uint8)
        frames = frame(array, chunks, self.state.slots.rows, self.state.limits.packet)
        rows = [ONE_CHUNK.unpack(self._raw)] if chunks is self._one else chunks.tolist()
        if len(frames):
            self._pass_on({link: row[COUNTED] for link, row in zip(taken, rows, strict=True)}, array, frames, chunks)
        odd = []
        for link, row in zip(taken, rows, strict=True):
            if row[AT] < row[STOP]:
                link.buffer += data[row[AT] : row[STOP]]
            if row[WHY] == ODD:
                odd.append(link)
        return odd

    def _pass_on(self, counted: dict[Link, int], data: Bytes, frames: Rows, chunks: Rows) -> None:
        """Decides about framed messages, and acknowledges those of QoS 1, of which each client has so many.

        If an error of our own comes up when some clients may have got messages already, they are not tried again.
        Whoever waits for an acknowledgement is hung up on instead, and sends again what was not acknowledged.
        """
        self._begun = False
        try:
            out, at, promises = self._decide(data, frames, chunks, next(iter(counted)) if len(counted) == 1 else None)
        except Exception as error:
            if not self._begun:
                raise
            self.state.fault(error)
            for link, count in counted.items():
                if count:
                    faults.end(self.state, link, error)
            return
        finally:
            self.state.counts.messages_in += len(frames) if self._begun else 0
        sampling = self.state.sampling
        sampling.left -= len(frames)
        if sampling.left < 0:
            sampling.frames(data, frames, chunks, self.state.now)
        if not any(counted.values()):  # nobody waits for an acknowledgement
            return
        shared = promises if isinstance(promises, Promise) else None
        promised = iter(() if isinstance(promises, Promise) else _of_acknowledged(frames, promises) if promises else ())
        for link, count in counted.items():
            if count:
                mine = list(islice(promised, count)) if shared is None else shared
                try:
                    self._acknowledge(link, out[at : at + 4 * count], mine)
                except Exception as error:
                    faults.end(self.state, link, error)
                at += 4 * count

    def _acknowledge(self, link: Link, acknowledgements: bytes, promises: Promised) -> None:
        """Acknowledges messages of QoS 1 of one client, each once it is safe. A client that has sent too many, without
        waiting for acknowledgements, is hung up on."""
        window, count = link.window, len(acknowledgements) // 4
        window.enter(count)
        if isinstance(promises, Promise):
            self.state.answers.send(link, acknowledgements, promises, count)
        elif not any(promises) and not len(self.state.answers):
            self.state.journal.send(link, acknowledgements, count)
        elif promises and len(promises) == promises.count(promises[0]):
            self.state.answers.send(link, acknowledgements, promises[0], count)
        else:
            for place, promise in enumerate(promises or [None] * count):
                self.state.answers.send(link, acknowledgements[4 * place : 4 * place + 4], promise, 1)
        self.state.dirty[link] = None
        if window.is_full:
            self.state.stalled[link] = None
        if window.is_exceeded and link.version == MQTT_5:
            self.core.fail(link, window.too_many())

    def _decide(self, data: Bytes, frames: Rows, chunks: Rows, link: Link | None = None) -> tuple[bytes, int, Promised]:
        """Decides about framed messages: by kernels as far as they go, and then by the router's plain way. Returns the
        acknowledgements, where they begin, and promises for messages that are not safe yet. ``link`` is that of the
        only client that is heard."""
        compiled = self.compiled
        can_decide = compiled.can_decide if self.fast is None else self.fast.can_decide
        decision = compiled.decide(data, frames, chunks, self.slots) if can_decide else None
        decided: int = 0
        promised: Promised = []
        if decision is not None:
            decided = decision.decided
            whole = decision.out.tobytes() if len(decision.out) <= FEW * len(decision.spans) else None
            self._begun = True
            specials: list[int] = []
            if decision.has_specials and self.fast is None:
                specials = decision.specials
            elif decision.has_specials:
                promise = Promise()
                known = data, frames, chunks, NOBODY, None, self.state.events, promise
                specials = self.fast.take(decision, *known)
                promised = promise if promise.waits else []
                self.fast.fabric.marks.enter(self.state.events, promise)
            self._hand_out(decision, decision.out.data if whole is None else whole, specials, data, frames, chunks)
            if self._handed:
                promised = self._with_handed(_one_by_one(promised, decided))
            self.state.events += decided
            if decided == len(frames):
                if link is not None:
                    self._learn(link, data, frames, chunks)
                if whole is None:
                    return decision.out[decision.acknowledgements :].tobytes(), 0, promised
                return whole, decision.acknowledgements, promised
        self._begun = True
        read = [self._read(data, frames[place], chunks) for place in range(decided, len(frames))]
        found = iter(publishing.decide(self.state, [message for message in read if message is not None]))
        later = [None if message is None else next(found) for message in read]
        return _acknowledgements(frames[frames["qos"] == 1]), 0, [*_one_by_one(promised, decided), *later]

    def _learn(self, link: Link, data: Bytes, frames: Rows, chunks: Rows) -> None:
        """Remembers who gets messages like those of these that came before already."""
        for at in self.straight.to_learn(link):
            one = frames[frames["start"] == at]
            decision = self.compiled.decide(data, one, chunks, self.slots) if len(one) else None
            if decision is not None:
                message = data[at : int(one["end"][0])].tobytes()
                spans = decision.spans if decision.decided else None
                self.straight.learn(link, message, spans, decision.out.tobytes(), self._hops_of(decision))

    def _hops_of(self, decision: Decision) -> Hops | None:
        """The neighbours that get the message of a decision, and nothing else than copies of it; None if that cannot be
        said so simply, or if the message is special to a client."""
        if not decision.has_specials:
            return ()
        found: Hops | None = None if self.fast is None else self.fast.hops_of(decision)
        return found

    def _with_handed(self, promised: list[Promise | None]) -> list[Promise | None]:
        """The promises of messages, each of which also waits for members of groups that are elsewhere."""
        handed, self._handed = self._handed, []
        for place, promise in handed:
            before = promised[place]
            if before is None:
                promised[place] = promise
            else:
                before.wait()
                promise.then(before.kept)
        return promised

    def hand_out(
        self, decision: Decision, specials: list[int], data: Bytes, frames: Rows, chunks: Rows, came: Came
    ) -> list[tuple[int, Promise]]:
        """Gives clients what a decision about events of a neighbour has for them. Returns the promises of messages that
        others have to have first, by their places."""
        whole = decision.out.tobytes() if len(decision.out) <= FEW * len(decision.spans) else decision.out.data
        self._hand_out(decision, whole, specials, data, frames, chunks, came)
        handed, self._handed = self._handed, []
        return handed

    def _hand_out(
        self,
        decision: Decision,
        whole: bytes | memoryview,
        specials: list[int],
        data: Bytes,
        frames: Rows,
        chunks: Rows,
        came: Came | None = None,
    ) -> None:
        """Gives links their bytes, and sessions the messages that only they can handle."""
        if decision.spans:
            self.state.counts.messages_out += decision.copies
            self._send(decision.spans, whole)
        messages: dict[int, Message | None] = {}
        pairs = iter(specials)
        for event, slot in zip(pairs, pairs, strict=True):
            if event not in messages:
                messages[event] = self._read(data, frames[event], chunks, came, event)
            message = messages[event]
            if message is not None:
                origin = Origin(self.state.config.number, self.state.events + event)
                if came is not None:
                    origin = Origin(int(came.entries[event]), int(came.ids[event]))
                self._special(message, origin, decision, event, slot)

    def _send(self, spans: Sequence[int], whole: bytes | memoryview) -> None:
        """Gives links their bytes: straight to the shell, if nobody has anything else to send before."""
        holders, dirty, each = self.state.slots.holders, self.state.dirty, iter(spans)
        writes = self.state.slots.writes
        straight = not dirty
        shared = NONE  # where the piece before begins, which many in a row may get
        piece: bytes | memoryview = b""
        for slot, begin, end in zip(each, each, each, strict=True):
            if begin != shared:
                shared, piece = begin, whole[begin:end]
            write = writes[slot]
            try:
                if straight and write is not None:
                    write(piece)
                else:
                    link: Link = holders[slot].link  # type: ignore[union-attr, assignment]
                    link.outgoing.append(piece)
                    dirty[link] = None
            except Exception as error:
                faults.end(self.state, getattr(holders[slot], "link", None), error)
        self.writes += len(spans) // 3
        if straight:
            self.state.counts.bytes_out += sum(spans[2::3]) - sum(spans[1::3])

    def _special(self, message: Message, origin: Origin, decision: Decision, place: int, slot: int) -> None:
        """Hands a message to one client or group, for those of its subscriptions that want it from this publisher."""
        wanted = []
        try:
            for number in decision.matches(place, slot):
                subscription = self.state.subscriptions.get(number)
                if subscription is None:
                    continue  # a row of the plan for this client, or a subscription that it has not made yet
                if not subscription.asked.no_local or subscription.holder.number != message.publisher:
                    wanted.append(number)
            if wanted:
                promise = publishing.hand_out(self.state, message, origin, wanted)
                if promise is not None:
                    self._handed.append((place, promise))
        except Exception as error:
            faults.end_publisher(self.state, message.publisher, error)

    def _read(self, data: Bytes, here: Any, chunks: Rows, came: Came | None = None, place: int = 0) -> Message | None:
        """A framed message as an object; None if an error of our own ends its publisher's connection."""
        try:
            message = self._message(data, here, chunks)
        except Exception as error:
            faults.end_publisher(self.state, int(chunks[here["chunk"]]["client"]), error)
            return None
        if came is None:
            return message
        return msgspec.structs.replace(message, publisher=int(came.publishers[place]))

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

    def decide(self, state: State, messages: Sequence[Message]) -> list[Promise | None]:
        """Decides about messages that did not come in frames: wills, retained ones, those of QoS 2."""
        found: list[Promise | None] = []
        for message in messages:
            data = encode(message.to_publish(self.state.now, 0, False), MQTT_5)
            array = np.frombuffer(data, np.uint8)
            chunks = np.zeros(1, CHUNK)
            chunks[0] = (0, len(data), message.publisher, MQTT_5, NOBODY, 0, 0, 0)
            frames = frame(array, chunks, self.state.slots.rows, len(data))
            if not len(frames):
                found += publishing.decide(state, [message])
                continue
            frames[0]["qos"] = message.qos
            frames[0]["marks"] |= REBUILT | (RETAIN if message.retain else 0)
            _, _, promises = self._decide(array, frames, chunks)
            found += _one_by_one(promises, 1)
        return found

    def warm_up(self) -> None:
        """Makes sure that no client has to wait for kernels to be loaded."""
        self.straight.kinds.warm_up()
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
        index = FilterIndex()
        index.remove(index.add(topic_filter("a/+")))

    def slots(self) -> Rows:
        """What kernels know of sessions, groups and neighbours."""
        return self.state.slots.rows

    def _options(self, number: int) -> int:
        """What kernels have to know of a subscription."""
        subscription = self.state.subscriptions.get(number)
        if subscription is None:  # it is a neighbour's, or the plan's and not made by its client yet
            return SPECIAL
        asked = subscription.asked
        special = not isinstance(subscription.holder, Session) or subscription.identifier or asked.no_local
        return asked.qos | (SPECIAL if special else 0) | (AS_PUBLISHED if asked.retain_as_published else 0)


def _one_by_one(promises: Promised, count: int) -> list[Promise | None]:
    """The promise of each of so many messages."""
    return [promises] * count if isinstance(promises, Promise) else list(promises) or [None] * count


def _of_acknowledged(frames: Rows, promises: Sequence[Promise | None]) -> list[Promise | None]:
    """The promises of those messages that are acknowledged."""
    return [promise for qos, promise in zip(frames["qos"].tolist(), promises, strict=False) if qos]


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
