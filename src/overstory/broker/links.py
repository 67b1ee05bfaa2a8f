"""One link to a neighbour, without I/O: what was sent and is not handled there, what has come, and whether it is alive.

The rules that a maintainer may rely on:

1. Frames with control messages or events are numbered. They come in order, each once, also where the connection was cut
   in between: after a handshake that says what has come, the rest is sent again.
2. A frame is kept until the neighbour has handled it. Of a frame with events of QoS 1 or 2, these are kept until the
   neighbour says that they are safe. If it restarts, only they are sent again, once it takes events.
3. That frames are handled is said with whatever is sent next, or a moment later if nothing is.
4. Where more than ``LinkLimits.buffer`` bytes wait, events of QoS 0 are dropped, and counted. Others never are.
5. Heartbeats stand in no queue: whatever waits to be handled, a ping is answered when it is read.
6. Time is what ``tick`` is told. It is never sent.
"""

import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from overstory.broker.marks import lowered
from overstory.broker.pressure import LinkLimits
from overstory.broker.promises import Promise, Promises, Runs, kept_elsewhere, runs_of
from overstory.broker.spool import Spool
from overstory.errors import LinkError
from overstory.kernels.nothing import NONE
from overstory.wire.frames import (
    CONTROL,
    EVENTS,
    HANDLED,
    HELLO,
    NUMBER,
    NUMBERED,
    PING,
    PONG,
    REFUSED,
    SAFE,
    Buffer,
    Events,
    Raw,
    Reader,
    Ready,
    distinct,
    encode_events,
    framed,
    head_of,
    pieces_of,
    some_events,
)
from overstory.wire.handshake import MAGIC, VERSION, Hello, Known, check_hello, encode_hello

PAIR = struct.Struct("<QI")  # a frame, and the place of an event in it
ALL = (1 << 32) - 1  # in place of that: all its events
NOBODY = NONE
UNSAID = 4  # a quarter of the bytes that make the other side stop reading may be handled without its knowledge


class Traffic(msgspec.Struct):
    """What was sent to a neighbour. An event counts when it is given to the link, however often its frame is sent."""

    events: int = 0
    event_bytes: int = 0  # of their plain PUBLISH packets of QoS 0
    header_bytes: int = 0  # of their steering headers
    frames: int = 0
    frame_bytes: int = 0  # of frames with events, with all that is in them
    messages: int = 0
    entries: int = 0  # subscriptions and their ends among these messages
    control_bytes: int = 0
    other_bytes: int = 0  # heartbeats, handshakes, acknowledgements
    resent: int = 0  # frames
    lost: int = 0  # events of QoS 0 for which there was no room


class Up(NamedTuple):
    """The handshake is done."""

    is_new: bool  # the neighbour has not been met before, or has restarted: it knows nothing


class Sent(msgspec.Struct):
    """A frame that was given to the link."""

    kind: int
    body: tuple[Buffer, ...]  # in pieces
    size: int  # bytes of that
    events: Events | None = None
    promises: Promises = ()
    epoch: int = NONE  # of its events
    count: int = 0  # of events
    number: int = 0
    unsafe: int = 0  # events that were not said to be safe
    key: int = 0  # in the spool; 0: it is not there

    @property
    def is_lossy(self) -> bool:
        """Whether all its events are of QoS 0."""
        return self.kind == EVENTS and isinstance(self.promises, Sequence) and not self.promises

    @property
    def one_by_one(self) -> list[Promise | None]:
        """The promise of each event. To be asked where one of them changes: what stands here is that list then."""
        if isinstance(self.promises, Runs):
            self.promises = self.promises.one_by_one()
        return self.promises  # type: ignore[return-value]


class Neighbour:
    """The link to one neighbour, through all connections."""

    def __init__(
        self, known: Known, incarnation: int, peer: int, window: LinkLimits, spool: Spool | None = None
    ) -> None:
        self.peer, self.window = peer, window
        self._spool = spool
        self.is_down = False
        self._known, self._incarnation = known, incarnation
        self.traffic = Traffic()
        self.connected = False
        self.incarnation = NOBODY  # of the neighbour
        self.takes_events = False
        self.outgoing: list[Buffer] = []
        self.waiting_bytes = 0  # given to the link, and not handled by the neighbour
        self.received = self.handled = 0
        self._reader = Reader()
        self._heard = self._pinged = self._ticked = 0.0
        self.silence = 0.0  # seconds: the longest time in which nothing was heard while there was a connection
        self._next = 1
        self._unhandled: deque[Sent] = deque()
        self._unsafe: dict[int, Sent] = {}
        self._held_back: deque[Sent] = deque()  # events for a neighbour that does not take any yet
        self._said_handled = 0
        self._unsaid = 0  # bytes of frames that are handled since
        self._safe: list[tuple[int, int]] = []  # events from the neighbour that are safe, to be said
        self._spooled: set[int] = set()  # the keys of frames that are on disk
        self._lowest: dict[int, int] = {}  # of their events: the lowest number of each publishing broker

    # Connections

    def hello(self) -> bytes:
        """The frame that a connection begins with."""
        known = self._known
        me = MAGIC, VERSION, known.broker, self.peer, self._incarnation, known.plan, known.epoch
        data = framed(HELLO, encode_hello(Hello(*me, self.incarnation, self.received)))
        self.traffic.other_bytes += len(data)
        return data

    def connect(self, hello: Hello, now: float) -> Up:
        """The neighbour has said who it is: what it has not received is sent again. Raises a ``LinkError``."""
        check_hello(hello, self._known)
        if hello.broker != self.peer:
            raise LinkError(f"broker {hello.broker} is where broker {self.peer} should be")
        is_new = hello.incarnation != self.incarnation
        known = hello.received if hello.known == self._incarnation and not is_new else 0
        if not is_new and known < self.handled_there:
            raise LinkError(f"broker {self.peer} has forgotten what it received")
        self.connected, self.incarnation, self.is_down = True, hello.incarnation, False
        self._reader, self._heard, self._pinged, self._ticked = Reader(), now, now, now
        self.outgoing = []
        if is_new:
            self._begin_anew()
        else:
            for sent in self._unhandled:
                if sent.number > known:
                    self.traffic.resent += 1
                    self._put(sent)
        self._said_handled = self._unsaid = 0
        return Up(is_new)

    @property
    def handled_there(self) -> int:
        """The last frame that the neighbour has handled."""
        return self._unhandled[0].number - 1 if self._unhandled else self._next - 1

    def _begin_anew(self) -> None:
        """The neighbour has nothing of what it was told. Events that are not safe wait until it takes events."""
        unsafe = [sent for sent in self._unsafe.values() if sent.unsafe]
        later = list(self._held_back)
        for sent in self._unhandled:
            if sent.is_lossy:
                self.traffic.lost += sent.count
        self._unhandled.clear()
        self._unsafe.clear()
        self._held_back.clear()
        self._safe.clear()
        self.waiting_bytes = 0
        self._next, self.received, self.handled, self.takes_events = 1, 0, 0, False
        for sent in unsafe:
            assert sent.events is not None
            again = _events_frame(*_unsafe_events(sent))
            again.key = sent.key
            self._hold_back(again)
        for sent in later:
            self._hold_back(sent)

    def disconnect(self) -> None:
        """The connection is gone."""
        self.connected = False
        self.outgoing = []

    def fall_back(self) -> None:
        """The neighbour is down: what is not safe with it goes to disk, if there is one, and counts as safe."""
        self.is_down = True
        for sent in [*self._unsafe.values(), *self._held_back]:
            self._put_by(sent)

    def unsafe_events(self) -> list[Events]:
        """The events that the neighbour has not said to be safe, in order."""
        waiting = [*self._unsafe.values(), *self._held_back]
        return [_unsafe_events(sent)[0] for sent in waiting if sent.unsafe]

    def waiting_of(self, epoch: int) -> int:
        """How many frames with events of an epoch the neighbour has not handled, or not said to be safe."""
        frames = {id(sent): sent for sent in (*self._unhandled, *self._unsafe.values(), *self._held_back)}
        return sum(sent.epoch == epoch for sent in frames.values())

    def recall(self, key: int, events: Events) -> None:
        """A frame has been in the spool since before this broker restarted: it waits for the neighbour."""
        sent = _events_frame(events, [kept_elsewhere() for _ in range(len(events))])
        sent.key = key
        self._note_spooled(key, events)
        self._hold_back(sent)

    def _put_by(self, sent: Sent) -> None:
        """Writes the events of a frame to disk that are not safe. Their promises are kept when they are there."""
        if self._spool is None or sent.key or not sent.unsafe:
            return
        events, waiting = _unsafe_events(sent)

        def written() -> None:
            for promise in waiting:
                promise.kept()

        sent.key = self._spool.keep(self.peer, encode_events(events), written)
        if sent.key:
            self._note_spooled(sent.key, events)
            sent.promises = [None if promise is None else kept_elsewhere() for promise in sent.one_by_one]

    def _note_spooled(self, key: int, events: Events) -> None:
        """These events count as acknowledged, and still come: frames may not carry a mark above them."""
        self._spooled.add(key)
        for entry in distinct(events.entries):
            first = int(events.ids[events.entries == entry].min())
            self._lowest[entry] = min(first, self._lowest.get(entry, first))

    # What this side sends

    def tell(self, body: bytes, messages: int, entries: int = 0) -> None:
        """Sends control messages, of which so many are subscriptions or their ends."""
        self.traffic.messages += messages
        self.traffic.entries += entries
        self.traffic.control_bytes += len(body)
        self._send(Sent(CONTROL, (body,), len(body)))

    def publish(self, events: Events, promises: Promises) -> None:
        """Sends events; a promise for each of QoS 1 or 2, or none at all if there are none of these."""
        traffic = self.traffic
        if self.waiting_bytes > self.window.buffer and not isinstance(promises, Runs) and not promises:
            traffic.lost += len(events)
            return
        traffic.events += len(events)
        traffic.event_bytes += len(events.publishes)
        traffic.header_bytes += events.header_bytes
        if self._lowest:
            events = events.carrying(lowered(events.acknowledged, self._lowest))
        sent = _events_frame(events, promises)
        traffic.frames += 1
        traffic.frame_bytes += sent.size
        for promise, count in runs_of(promises):
            promise.wait(count)
        if self.takes_events:
            self._send(sent)
        else:
            self._hold_back(sent)
        if self.is_down:
            self._put_by(sent)

    def pass_on(self, ready: Ready) -> None:
        """Sends a frame of events of QoS 0 that is written already."""
        traffic = self.traffic
        if self.waiting_bytes > self.window.buffer:
            traffic.lost += ready.events
            return
        size = len(ready.body)
        traffic.events += ready.events
        traffic.event_bytes += ready.event_bytes
        traffic.header_bytes += ready.header_bytes
        traffic.frames += 1
        traffic.frame_bytes += size
        sent = Sent(EVENTS, (ready.body,), size, epoch=ready.epoch, count=ready.events)
        if self.takes_events:
            self._send(sent)
        else:
            self._hold_back(sent)

    def take_events(self) -> None:
        """The neighbour takes events from now on."""
        self.takes_events = True
        held, self._held_back = self._held_back, deque()
        for sent in held:
            self.waiting_bytes -= sent.size
            self._send(sent)

    def _hold_back(self, sent: Sent) -> None:
        self._held_back.append(sent)
        self.waiting_bytes += sent.size

    def _send(self, sent: Sent) -> None:
        sent.number, self._next = self._next, self._next + 1
        self._unhandled.append(sent)
        self.waiting_bytes += sent.size
        if sent.unsafe:
            self._unsafe[sent.number] = sent
        if self.connected:
            self._put(sent)

    def _put(self, sent: Sent) -> None:
        self.outgoing += (head_of(sent.kind, sent.size, sent.number), *sent.body)

    def done(self, number: int, size: int = 0) -> None:
        """This side has handled a frame of the neighbour, of so many bytes."""
        self.handled = number
        self._unsaid += size

    @property
    def owes(self) -> bool:
        """Whether the neighbour is to be told that frames are handled."""
        return self.connected and self.handled > self._said_handled

    @property
    def may_rest(self) -> bool:
        """Whether nothing has to be written now: at most that frames are handled, which may wait."""
        return not self.outgoing and not self._safe and self._unsaid <= self.window.full // UNSAID

    def is_safe(self, incarnation: int, number: int, place: int = ALL) -> None:
        """An event of a frame of the neighbour is safe here. (Of an earlier incarnation it need not be said.)"""
        if incarnation == self.incarnation:
            self._safe.append((number, place))

    def data_to_send(self, may_wait: bool = False) -> list[Buffer]:
        """All that is to be written now, in pieces. ``may_wait`` says that the shell asks again soon: until then it is
        not said that frames are handled, unless something else is to be sent, or much is."""
        if not self.connected:
            return []
        if self._safe:
            pairs, self._safe = self._safe, []
            body = b"".join(PAIR.pack(*pair) for pair in pairs)
            self.traffic.other_bytes += len(body)
            self._send(Sent(SAFE, (body,), len(body)))
        if (not may_wait or not self.may_rest) and self.handled > self._said_handled:
            self._said_handled, self._unsaid = self.handled, 0
            self._other(framed(HANDLED, NUMBER.pack(self.handled)))
        pieces, self.outgoing = self.outgoing, []
        return pieces

    # What the neighbour sends

    def receive(self, data: bytes, now: float) -> list[Raw]:
        """The new frames among the bytes that have come. Raises a ``LinkError`` if they break the rules."""
        self.silence = max(self.silence, now - self._heard)
        self._heard = now
        found = []
        for raw in self._reader.feed(data):
            if raw.kind in NUMBERED:
                if raw.number > self.received + 1:
                    raise LinkError(f"frame {raw.number} came behind frame {self.received}")
                if raw.number == self.received + 1:
                    self.received += 1
                    found.append(raw)
            elif raw.kind == PING:
                self._other(framed(PONG, b""))
            elif raw.kind == HANDLED:
                self._acknowledged(raw.body)
            elif raw.kind == REFUSED:
                raise LinkError(f"broker {self.peer} ended the link: {bytes(raw.body[:500]).decode(errors='replace')}")
            elif raw.kind != PONG:
                raise LinkError(f"a frame of kind {raw.kind} came in the middle")
        return found

    def _acknowledged(self, body: memoryview) -> None:
        if len(body) != NUMBER.size:
            raise LinkError("an acknowledgement is not whole")
        handled = NUMBER.unpack(body)[0]
        if handled >= self._next:
            raise LinkError(f"frame {handled} is acknowledged, and was never sent")
        while self._unhandled and self._unhandled[0].number <= handled:
            self.waiting_bytes -= self._unhandled.popleft().size

    def safe_there(self, raw: Raw) -> None:
        """The neighbour says which events are safe with it."""
        if len(raw.body) % PAIR.size:
            raise LinkError("an acknowledgement is not whole")
        for number, place in PAIR.iter_unpack(raw.body):
            sent = self._unsafe.get(number)
            if sent is not None and place == ALL:
                self._all_safe(sent)
            elif sent is None or place >= len(sent.one_by_one):
                raise LinkError(f"event {place} of frame {number} is acknowledged, and waits for nobody")
            else:
                self._now_safe(sent, place)

    def _now_safe(self, sent: Sent, place: int) -> None:
        promise = sent.one_by_one[place]
        if promise is None:
            return
        sent.one_by_one[place] = None
        sent.unsafe -= 1
        if not sent.unsafe:
            self._forget(sent)
        promise.kept()

    def _all_safe(self, sent: Sent) -> None:
        self._forget(sent)
        promises, sent.promises, sent.unsafe = sent.promises, (), 0
        for promise, count in runs_of(promises):
            promise.kept(count)

    def _forget(self, sent: Sent) -> None:
        """All events of a frame are safe with the neighbour."""
        del self._unsafe[sent.number]
        if sent.key and self._spool is not None:
            self._spool.forget(sent.key)
            self._spooled.discard(sent.key)
            if not self._spooled:
                self._lowest.clear()

    def _other(self, data: bytes) -> None:
        self.traffic.other_bytes += len(data)
        self.outgoing.append(data)

    # Time

    def tick(self, now: float) -> None:
        """Sends a heartbeat when one is due. Raises a ``LinkError`` if the neighbour is silent for too long."""
        if not self.connected:
            return
        was_late = now - self._ticked > self.window.silence / 2  # this side hung: what has come is not read yet
        self._ticked = now
        if now - self._heard > self.window.silence and not was_late:
            raise LinkError(f"broker {self.peer} has been silent for {now - self._heard:.1f} seconds")
        if now - self._pinged >= self.window.heartbeat:
            self._pinged = now
            self._other(framed(PING, b""))


def _events_frame(events: Events, promises: Promises) -> Sent:
    unsafe = sum(count for _, count in runs_of(promises))
    body = pieces_of(events)
    kept = promises if isinstance(promises, Runs) else list(promises)
    return Sent(EVENTS, body, sum(map(len, body)), events, kept, events.epoch, len(events), unsafe=unsafe)


def _unsafe_events(sent: Sent) -> tuple[Events, list[Promise]]:
    """The events of a frame that are not safe, and their promises."""
    assert sent.events is not None
    left = {place: promise for place, promise in enumerate(sent.one_by_one) if promise is not None}
    return some_events(sent.events, np.array(list(left))), list(left.values())
