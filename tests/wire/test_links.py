"""What goes over a link between brokers: the same comes out, and other bytes are a ``LinkError`` and nothing else."""

from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import parse_filter
from overstory.errors import LinkError
from overstory.filters import Filter
from overstory.routing import messages
from overstory.routing.messages import Message
from overstory.wire.control import Codec
from overstory.wire.frames import (
    CONTROL,
    EVENTS,
    PING,
    Events,
    Raw,
    Reader,
    Same,
    Steering,
    decode_events,
    encode_events,
    framed,
)
from overstory.wire.handshake import MAGIC, VERSION, Hello, Known, check_hello, decode_hello, encode_hello
from overstory.wire.topics import filter_of, read_filter

KINDS = get_args(Message)
CODEC = Codec[Message](KINDS)
FILTERS = [
    *map(parse_filter, ("TRUE", "a > 1.5 AND b IN ('x', 'y''z')", "a = 1 OR NOT (b LIKE '%q')", "c IS NULL")),
    filter_of(read_filter("a/+/c?d HAS ANY ('e')")),
    filter_of(read_filter("a/b")),
    filter_of(read_filter("#")),
]
INTS = st.integers(-(2**62), 2**62)


def any_value(kind: Any) -> st.SearchStrategy[Any]:
    """Values of the type of a field."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: INTS,
        bool: st.booleans(),
        Filter: st.sampled_from(FILTERS),
        type(None): st.none(),
    }
    if kind in plain:
        return plain[kind]
    inner = get_args(kind)
    if get_origin(kind) is frozenset:
        return st.frozensets(any_value(inner[0]), max_size=3)
    if get_origin(kind) is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(any_value(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(any_value, inner))
    if inner:  # a union
        return st.one_of(*map(any_value, inner))
    return any_message(kind)


def any_message(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{name: any_value(hint) for name, hint in get_type_hints(kind).items()})


ANY_MESSAGE = st.one_of(*map(any_message, KINDS))


@given(st.lists(ANY_MESSAGE, max_size=3))
def test_messages_come_out_as_they_went_in(said: list[Message]) -> None:
    assert CODEC.decode(CODEC.encode(said)) == said


@given(st.one_of(st.binary(), st.recursive(st.none() | st.integers(-5, 2**64 - 1) | st.text(), st.lists)))
def test_other_bytes_are_no_messages(said: Any) -> None:
    data = said if isinstance(said, bytes) else msgspec.msgpack.encode(said)
    only_link_errors(CODEC.decode, data)


@given(ANY_MESSAGE, st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_messages(message: Message, at: int, byte: int) -> None:
    data = bytearray(CODEC.encode([message]))
    data[at % len(data)] = byte
    only_link_errors(CODEC.decode, bytes(data))


def only_link_errors(read: Callable[[bytes], Any], data: bytes) -> None:
    try:
        read(data)
    except LinkError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_a_number_beyond_int64_is_refused(number: int) -> None:
    with pytest.raises(LinkError, match="too large"):
        CODEC.decode(CODEC.encode([messages.Resynchronise(number)]))
    allowed = [messages.Resynchronise(2**63 - 1)]
    assert CODEC.decode(CODEC.encode(allowed)) == allowed


def test_a_codec_takes_further_kinds() -> None:
    class Word(msgspec.Struct, frozen=True, tag=True):
        said: str

    codec = Codec[Any]([*KINDS, Word])
    said = [Word("a"), messages.Gate(1, 2, True)]
    assert codec.decode(codec.encode(said)) == said
    with pytest.raises(LinkError):
        CODEC.decode(codec.encode(said))


@st.composite
def any_events(draw: st.DrawFn) -> Events:
    count = draw(st.integers(1, 5))

    def column(items: st.SearchStrategy[int] = INTS) -> Any:
        return np.array(draw(st.lists(items, min_size=count, max_size=count)), np.int64)

    packets = draw(st.lists(st.binary(min_size=1, max_size=9), min_size=count, max_size=count))
    sets = st.frozensets(st.integers(-1, 9), max_size=3)
    steering = None
    if draw(st.booleans()):
        counts = column(st.integers(0, 2))
        total = int(counts.sum())
        headers = draw(st.lists(st.binary(max_size=5), min_size=total, max_size=total))
        flows = np.array(draw(st.lists(st.integers(-1, 9), min_size=total, max_size=total)), np.int64)
        data = np.frombuffer(b"".join(headers), np.uint8)
        steering = Steering(counts, flows, np.array([*map(len, headers)], np.int64), data)
    return Events(
        draw(st.integers(0, 9)),
        b"".join(packets),
        np.array([*map(len, packets)]),
        column(st.integers(0, 7)),
        column(),
        column(),
        column(),
        draw(st.lists(sets, min_size=count, max_size=count)),
        draw(st.none() | st.just((column(), column(), column()))),
        steering,
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Same):
        return bool(list(one) == other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other


@given(any_events())
def test_events_come_out_as_they_went_in(events: Events) -> None:
    assert same(tuple(decode_events(encode_events(events))), tuple(events))


@given(any_events(), st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_damaged_events(events: Events, at: int, byte: int, cut: bool) -> None:
    data = bytearray(encode_events(events))
    data[at % len(data)] = byte
    only_link_errors(decode_events, bytes(data[: at % len(data)] if cut else data))


@given(st.lists(st.tuples(st.sampled_from([PING, CONTROL, EVENTS]), st.binary(max_size=20))), st.integers(1, 30))
def test_frames_are_found_however_the_bytes_come(sent: list[tuple[int, bytes]], step: int) -> None:
    data = b"".join(framed(kind, body, None if kind == PING else at) for at, (kind, body) in enumerate(sent))
    reader, found = Reader(), list[Raw]()
    for at in range(0, len(data), step):
        found += reader.feed(data[at : at + step])
    assert [(raw.kind, bytes(raw.body)) for raw in found] == sent
    assert all(raw.number == (0 if raw.kind == PING else at) for at, raw in enumerate(found))


@given(st.binary(max_size=200))
def test_other_bytes_are_no_frames(data: bytes) -> None:
    only_link_errors(lambda data: list(Reader().feed(data)), data)


HELLO = Hello(MAGIC, VERSION, 1, 2, 7, "plan", 1, 3, 4)
KNOWN = Known(2, "plan", 1, frozenset({1, 3}))


def test_a_handshake() -> None:
    assert decode_hello(encode_hello(HELLO)) == HELLO
    check_hello(HELLO, KNOWN)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"magic": "else"}, "no broker of Overstory"),
        ({"version": 2}, "speaks version 2 of the protocol between brokers, this one 1"),
        ({"to": 9}, "looks for broker 9"),
        ({"broker": 2}, "broker id 2 is used twice"),
        ({"broker": 5}, "broker 5 is a stranger"),
        ({"plan": "other"}, "another plan"),
        ({"epoch": 2}, "another plan"),
        ({"received": 2**63}, "out of range"),
    ],
)
def test_handshakes_that_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(LinkError, match=said):
        check_hello(decode_hello(encode_hello(msgspec.structs.replace(HELLO, **changed))), KNOWN)


def test_a_handshake_of_a_later_version_may_have_other_fields() -> None:
    with pytest.raises(LinkError, match="version 9"):
        decode_hello(msgspec.msgpack.encode([MAGIC, 9, "whatever"]))


@given(st.binary(), st.integers(0, 1000), st.integers(0, 255))
def test_damaged_handshakes(data: bytes, at: int, byte: int) -> None:
    only_link_errors(decode_hello, data)
    damaged = bytearray(encode_hello(HELLO))
    damaged[at % len(damaged)] = byte
    only_link_errors(decode_hello, bytes(damaged))
