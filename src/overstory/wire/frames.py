"""Frames of a link between brokers: their lengths and kinds, and the events that one tick sends to one neighbour.

A frame is four bytes of length, one byte of kind, and a body. Frames of ``NUMBERED`` kinds are numbered: eight bytes
in front of the body. What a neighbour needs beside the bytes of events are arrays, one item for each event; an
array whose items are all the same has one item. The bytes of events come behind the arrays, so that they can be sent
from where they are. Bytes that are no frame raise a ``LinkError``, whatever they are.
"""

import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.errors import LinkError
from overstory.kernels.nothing import NONE

HELLO, REFUSED, PING, PONG, HANDLED, CONTROL, EVENTS, SAFE = range(8)  # kinds of frames
NUMBERED = CONTROL, EVENTS, SAFE
HEAD = struct.Struct(">IB")
NUMBER = struct.Struct(">Q")
SIZE = struct.Struct(">I")  # of the arrays of a frame of events
ITEMS = {kind: struct.Struct(form) for kind, form in (("u1", "B"), ("<u4", "<I"), ("<i8", "<q"))}
LARGEST = 1 << 28  # bytes
QOS, RETAIN = 3, 4  # bits of marks
WORD = 4  # bytes

Array = NDArray[Any]
Buffer = bytes | memoryview
Flows = frozenset[int]
Statistics = tuple[Array, Array, Array]  # advertisements, distances, counts, as in ``routing.frames.Header``
Acknowledged = Mapping[int, tuple[int, int]]
"""By publishing broker, the numbers from the first up to below the second: of these no event comes again over this link
in the flows of this frame."""
NOTHING: Acknowledged = MappingProxyType({})


class Raw(NamedTuple):
    """One frame as it came."""

    kind: int
    number: int  # 0 for frames that have none
    body: memoryview


def framed(kind: int, body: bytes, number: int | None = None) -> bytes:
    """The bytes of a frame."""
    return HEAD.pack(len(body) + 1, kind) + body if number is None else head_of(kind, len(body), number) + body


def head_of(kind: int, size: int, number: int) -> bytes:
    """The bytes in front of the body of a frame with a number."""
    return HEAD.pack(size + 9, kind) + NUMBER.pack(number)


class Reader:
    """Cuts the bytes of a connection into frames. What has come of a frame is put together once all of it is there."""

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []  # of a frame that has not all come yet
        self._missing = 0  # bytes of it, or of its head

    def feed(self, data: bytes) -> Generator[Raw, None, None]:
        """The frames that are whole now. Raises a ``LinkError`` at one that cannot be."""
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._pieces)
        at = end = 0
        try:
            while at + HEAD.size <= len(data):
                size, kind = HEAD.unpack_from(data, at)
                head = 9 if kind in NUMBERED else 1
                if not head <= size <= LARGEST or kind > SAFE:
                    raise LinkError(f"a frame of kind {kind} and {size:,} bytes cannot be")
                end = at + 4 + size
                if end > len(data):
                    break
                number = NUMBER.unpack_from(data, at + HEAD.size)[0] if kind in NUMBERED else 0
                body = memoryview(data)[at + 4 + head : end]
                at = end
                yield Raw(kind, number, body)
        finally:
            self._pieces = [memoryview(data)[at:]] if at < len(data) else []
            self._missing = max(end, at + HEAD.size) - len(data)

    def rest(self) -> bytes:
        """The bytes that have come behind the frames that were taken."""
        rest = b"".join(self._pieces)
        self._pieces = []
        return rest


class Ready(NamedTuple):
    """A frame of events of QoS 0 that is written already: its body, and what it tells of itself."""

    body: Buffer
    epoch: int
    events: int
    event_bytes: int  # of their packets
    header_bytes: int


class Steering(NamedTuple):
    """The headers of events in steered flows: as ``routing.frames.Steered``, with counts in place of offsets."""

    counts: Array  # of each event: how many headers it has
    flows: Array  # of each header
    sizes: Array  # of each header, in bytes
    data: Array


class Events(NamedTuple):
    """The events of one frame, as arrays."""

    epoch: int
    publishes: Buffer  # plain PUBLISH packets of MQTT 5 and QoS 0, one behind the other
    sizes: Array  # of these packets
    marks: Array  # the QoS, and whether the event is retained
    ids: Array  # the publishing brokers' numbers of the events
    publishers: Array  # clients
    entries: Array  # publishing brokers
    flows: Sequence[Flows]
    statistics: Statistics | None  # None: of events that count for no advertisement
    steering: Steering | None
    acknowledged: Acknowledged = NOTHING

    def __len__(self) -> int:
        return len(self.sizes)

    def carrying(self, acknowledged: Acknowledged) -> "Events":
        """The same events, with other marks."""
        return Events(*self[:-1], acknowledged)  # (``_replace`` does not know of ``__len__``)

    def steered_by(self, steering: Steering) -> "Events":
        """The same events, with other headers."""
        return Events(*self[:-2], steering, self.acknowledged)

    def statistics_of(self, rows: Array) -> Statistics | None:
        """The statistics of some of the events."""
        if self.statistics is None:
            return None
        advertisements, distances, counts = self.statistics
        return advertisements[rows], distances[rows], counts[rows]

    @property
    def header_bytes(self) -> int:
        """How long the steering headers are."""
        return 0 if self.steering is None else len(self.steering.data)


class Written(msgspec.Struct, array_like=True):
    """What a frame of events has beside their packets."""

    epoch: int
    count: int
    sizes: bytes  # uint32
    marks: bytes  # uint8
    ids: bytes  # int64
    publishers: bytes
    entries: bytes
    flow_sets: list[list[int]]
    which: bytes  # uint32: the set of flows of each event
    statistics: tuple[bytes, bytes, bytes] | None = None
    steering: tuple[bytes, bytes, bytes, bytes] | None = None  # uint32, int64, uint32, uint8
    acknowledged: list[tuple[int, int, int]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Written)


def encode_events(events: Events) -> bytes:
    """The body of a frame."""
    return b"".join(pieces_of(events))


def pieces_of(events: Events) -> tuple[bytes, Buffer]:
    """The body of a frame in two pieces: its arrays, and the packets of its events where they are."""
    sets: dict[Flows, int] = {}
    if are_alike(events.flows):
        sets, which = {events.flows[0]: 0}, constant(0, 1)
    else:
        which = np.fromiter((sets.setdefault(flows, len(sets)) for flows in events.flows), np.int64, len(events))
    statistics, steering = events.statistics, events.steering
    arrays = _encoder.encode(
        Written(
            events.epoch,
            len(events),
            _packed(events.sizes, "<u4"),
            _packed(events.marks, "u1"),
            _packed(events.ids, "<i8"),
            _packed(events.publishers, "<i8"),
            _packed(events.entries, "<i8"),
            [sorted(flows) for flows in sets],
            _packed(which, "<u4"),
            None
            if statistics is None
            else (_packed(statistics[0], "<i8"), _packed(statistics[1], "<i8"), _packed(statistics[2], "<i8")),
            None
            if steering is None
            else (
                steering.counts.astype("<u4").tobytes(),
                steering.flows.astype("<i8").tobytes(),
                steering.sizes.astype("<u4").tobytes(),
                steering.data.tobytes(),
            ),
            [(entry, *numbers) for entry, numbers in events.acknowledged.items()],
        )
    )
    return SIZE.pack(len(arrays)) + arrays, events.publishes


class Same(Sequence[Flows]):
    """The flows of events that are all for the same ones, without a place for each."""

    def __init__(self, flows: Flows, count: int) -> None:
        self._flows, self._places = flows, range(count)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Flows: ...

    @overload
    def __getitem__(self, place: slice) -> "Same": ...

    def __getitem__(self, place: int | slice) -> "Flows | Same":
        if isinstance(place, slice):
            return Same(self._flows, len(self._places[place]))
        self._places[place]  # or there is no such event
        return self._flows

    def __iter__(self) -> Iterator[Flows]:
        return repeat(self._flows, len(self._places))


def are_alike(flows: Sequence[Flows]) -> bool:
    """Whether all events, at least one, are for the same flows."""
    if isinstance(flows, Same):
        return len(flows) > 0
    return isinstance(flows, list) and len(flows) > 0 and flows.count(flows[0]) == len(flows)


def constant(value: int, count: int, kind: str = "<i8") -> Array:
    """An array of so many items, at least one, that are all the same, without a place for each."""
    return repeated(np.array(value, kind), count)


def repeated(value: Array, count: int) -> Array:
    """So many items that are all the same, as the one of an array, without a place for each."""
    return np.ndarray((count,), value.dtype, value, 0, (0,))


def some_of(values: Array, rows: Array) -> Array:
    """Items of an array, by their places, which ascend."""
    if len(rows) == len(values):
        return values
    return values[rows] if values.strides[0] else values[: len(rows)]


def are_same(values: Array) -> bool:
    """Whether all of some items, at least one, are the same. (To compare is fast, and most often they are.)"""
    if values.strides[0] == 0 or len(values) == 1:
        return True
    first = values.item(0)
    return bool(first == values.item(-1)) and bool((values == first).all())


def distinct(values: Array) -> list[int]:
    """The different ones of some integers, ascending."""
    if len(values) and are_same(values):
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found


def decode_events(body: bytes | memoryview) -> Events:
    """Reads the body of a frame. Raises a ``LinkError`` if its parts do not fit together."""
    body = memoryview(body)
    try:
        end = SIZE.size + SIZE.unpack_from(body)[0]
        written = _decoder.decode(body[SIZE.size : end])
    except (struct.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise LinkError("a frame of events cannot be read") from None
    count, publishes = written.count, body[end:]
    if not 0 < count <= len(publishes) or not 0 <= written.epoch < 1 << 62:
        raise LinkError("a frame of events has a count that cannot be")
    sizes, total = _sizes(written.sizes, count)
    which = _array(written.which, "<u4", count)
    sets = [frozenset(flows) for flows in written.flow_sets]
    if total != len(publishes) or _largest(which) >= len(sets):
        raise LinkError("the arrays of a frame of events do not fit its events")
    if not all(-(1 << 62) < flow < 1 << 62 for flows in sets for flow in flows):
        raise LinkError("a frame of events has a flow out of range")
    if not all(0 <= number < 1 << 63 for numbers in written.acknowledged for number in numbers):
        raise LinkError("a frame of events acknowledges numbers out of range")
    ids, publishers, entries = _columns((written.ids, written.publishers, written.entries), count)
    statistics = written.statistics
    return Events(
        written.epoch,
        publishes,
        sizes,
        _array(written.marks, "u1", count),
        ids,
        publishers,
        entries,
        Same(sets[which[0]], count) if len(written.which) == WORD else [sets[place] for place in which.tolist()],
        None if statistics is None else _columns(statistics, count),
        None if written.steering is None else _steering(written.steering, count),
        {entry: (since, mark) for entry, since, mark in written.acknowledged},
    )


def _steering(parts: tuple[bytes, bytes, bytes, bytes], count: int) -> Steering:
    counts = _whole(parts[0], "<u4").astype(np.int64)
    flows, sizes = _whole(parts[1], "<i8"), _whole(parts[2], "<u4").astype(np.int64)
    if len(counts) != count or counts.sum() != len(flows) or len(sizes) != len(flows) or sizes.sum() != len(parts[3]):
        raise LinkError("the steering headers of a frame do not fit its events")
    return Steering(counts, flows, sizes, np.frombuffer(parts[3], np.uint8))


def _packed(values: Array, kind: str) -> bytes:
    """The bytes of an array; of one item, if all are the same."""
    if len(values) and are_same(values):
        return ITEMS[kind].pack(values.item(0))
    return values.astype(kind, copy=False).tobytes()


def _columns(data: tuple[bytes, bytes, bytes], count: int) -> tuple[Array, Array, Array]:
    one, two, three = data
    return _array(one, "<i8", count), _array(two, "<i8", count), _array(three, "<i8", count)


def _sizes(data: bytes, count: int) -> tuple[Array, int]:
    """The sizes of packets, and what they are together."""
    values = _array(data, "<u4", count)
    if values.strides[0] == 0:
        size = values.item(0)
        return constant(size, count), size * count
    values = values.astype(np.int64)
    return values, int(values.sum())


def _largest(values: Array) -> int:
    """The largest one of some items, at least one."""
    return int(values.item(0) if values.strides[0] == 0 else values.max())


def _array(data: bytes, kind: str, count: int) -> Array:
    values = _whole(data, kind)
    if len(values) == 1:
        return np.ndarray((count,), kind, data, strides=(0,))
    if len(values) != count:
        raise LinkError("the arrays of a frame of events do not fit its events")
    return values


def _whole(data: bytes, kind: str) -> Array:
    if len(data) % ITEMS[kind].size:
        raise LinkError("an array of a frame is not whole")
    return np.frombuffer(data, kind)


def some_events(events: Events, rows: Array) -> Events:
    """Some of the events of a frame, as a frame of their own."""
    ends = np.cumsum(events.sizes)
    starts = ends - events.sizes
    whole = bytes(events.publishes)
    pieces = [whole[begin:end] for begin, end in zip(starts[rows].tolist(), ends[rows].tolist(), strict=True)]
    return Events(
        events.epoch,
        b"".join(pieces),
        events.sizes[rows],
        events.marks[rows],
        events.ids[rows],
        events.publishers[rows],
        events.entries[rows],
        [events.flows[row] for row in rows.tolist()],
        events.statistics_of(rows),
        None if events.steering is None else _some_headers(events.steering, rows),
        events.acknowledged,
    )


def _some_headers(steering: Steering, rows: Array) -> Steering:
    event = np.repeat(np.arange(len(steering.counts)), steering.counts)
    offsets = np.concatenate([[0], np.cumsum(steering.sizes)])
    chosen = [at for row in rows.tolist() for at in np.flatnonzero(event == row).tolist()]
    data = [steering.data[offsets[at] : offsets[at + 1]] for at in chosen]
    return Steering(
        steering.counts[rows],
        steering.flows[chosen],
        steering.sizes[chosen],
        np.concatenate([np.empty(0, np.uint8), *data]),
    )


def joined_events(parts: Sequence[Events]) -> Events:
    """The events of several frames of one epoch, as one frame."""
    if len(parts) == 1:
        return parts[0]
    steering = None
    if any(part.steering is not None for part in parts):
        headers = [part.steering or _no_headers(len(part)) for part in parts]
        counts, flows, lengths = (np.concatenate([one[field] for one in headers]) for field in range(3))
        data = np.frombuffer(
            b"".join(one.data.tobytes() for one in headers), np.uint8
        )  # of the type that comes from the wire
        steering = Steering(counts, flows, lengths, data)
    columns = ("sizes", "marks", "ids", "publishers", "entries")
    sizes, marks, ids, publishers, entries = (
        np.concatenate([getattr(part, name) for part in parts]) for name in columns
    )
    statistics = None
    if any(part.statistics is not None for part in parts):
        columns_of = [part.statistics or no_statistics(len(part)) for part in parts]
        advertisements, distances, counts = (np.concatenate([one[field] for one in columns_of]) for field in range(3))
        statistics = advertisements, distances, counts
    return Events(
        parts[0].epoch,
        b"".join(part.publishes for part in parts),
        sizes,
        marks,
        ids,
        publishers,
        entries,
        _joined_flows([part.flows for part in parts]),
        statistics,
        steering,
        _acknowledged_by_all(parts),
    )


def _joined_flows(parts: Sequence[Sequence[Flows]]) -> Sequence[Flows]:
    if all(are_alike(part) and part[0] == parts[0][0] for part in parts):
        return Same(parts[0][0], sum(map(len, parts)))
    return [flows for part in parts for flows in part]


def _acknowledged_by_all(parts: Sequence[Events]) -> Acknowledged:
    """What is acknowledged in each of these frames that has events of the publishing broker."""
    found: dict[int, tuple[int, int]] = {}
    for part in parts:
        for entry in distinct(part.entries):
            since, mark = part.acknowledged.get(entry, (0, 0))
            before = found.get(entry, (since, mark))
            found[entry] = max(since, before[0]), min(mark, before[1])
    return {entry: (since, mark) for entry, (since, mark) in found.items() if since < mark}


def no_statistics(count: int) -> Statistics:
    """The statistics of events that count for no advertisement."""
    zeros = constant(0, count)
    return constant(NONE, count), zeros, zeros


def _no_headers(count: int) -> Steering:
    nothing = np.empty(0, np.int64)
    return Steering(np.zeros(count, np.int64), nothing, nothing, np.empty(0, np.uint8))
