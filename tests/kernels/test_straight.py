"""Messages of known kinds, sorted by who gets them, against the plain twin; and spans of bytes against slices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import plain_straight
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.spans import copy_span, hash_span, same_span, word_at
from overstory.kernels.straight import (
    GROUP,
    HEADER,
    KIND,
    LISTED,
    MESSAGE,
    MOST_UNKNOWN,
    ONWARD,
    READ,
    WIDTH,
    WITH_PROPERTIES,
    remember,
    sent_on,
    sort_out,
)
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_3_1_1, MQTT_5, Ack, PingReq, Publish

LARGEST = 1000
TOPICS = ("a", "a/b", "a/c", "twelve/bytes", "a topic that is longer than sixteen bytes")
PAIRS: tuple[dict[str, list[tuple[str, str]]], ...] = (
    {},
    {"user_properties": [("p", "1")]},
    {"user_properties": [("p", "1" * 130)]},
)

Known = dict[tuple[int, bytes], tuple[int, int, int]]  # by source and kind: group, way, and the largest message

groups = st.tuples(st.sampled_from([NONE, 0, 1, 2, 2, 3]), st.integers(0, 2), st.sampled_from([60, 300, 300, 300]))
publishes = st.builds(
    Publish,
    st.sampled_from(TOPICS),
    st.sampled_from([b"", b"x", b"\0" * 40, b"y" * 150, b"z" * LARGEST]),
    properties=st.sampled_from(PAIRS),
)
packets = st.one_of(*[publishes] * 12, st.sampled_from([Publish("a", b"", 1, packet_id=1), Ack(4, 1), PingReq()]))


def source_of(version: int, number: int = 0) -> int:
    return 2 * number | (WITH_PROPERTIES if version == MQTT_5 else 0)


def sorted_out(data: bytes, sources: list[int], known: Known, room: int = 512) -> plain_straight.Sorted:
    """What the kernel says, as its twin says it. It is asked twice: what it leaves behind must not matter."""
    kinds, table = np.zeros(32, KIND), np.zeros(64, np.int64)
    texts = np.frombuffer(b"".join(kind for _, kind in known) or b"\0", np.uint8)
    areas, messages = np.zeros(4, GROUP), np.zeros(room, MESSAGE)
    at = 0
    for number, ((source, kind), (group, way, largest)) in enumerate(known.items()):
        kinds[number] = at, at + len(kind), source, group, way, largest
        at += len(kind)
        remember(number, kinds, table, texts)
    report, out = np.empty(HEADER + WIDTH * len(areas), np.int64), np.zeros(len(data), np.uint8)
    for given_ in (data, np.frombuffer(data, np.uint8)):
        some = sort_out(given_, np.array(sources), LARGEST, kinds, table, texts, areas, messages, report, out)
    assert (some == NONE) == (report[READ] == NONE)
    report = report[: HEADER + WIDTH * max(some, 0)]
    assert some == NONE or report[ONWARD] == np.count_nonzero(messages["way"][: report[LISTED]])
    is_whole = some == 1 and report[HEADER + 2] == report[READ]  # one group gets the bytes as they came
    whole = data if is_whole else out.tobytes()
    pieces = {}
    for group, begin, end, count in report[HEADER:].reshape(-1, WIDTH).tolist():
        listed = [(one["start"], one["end"]) for one in messages[: report[LISTED]] if one["group"] == group]
        pieces[group] = [data[start:stop] for start, stop in listed]
        assert b"".join(pieces[group]) == whole[begin:end]
        assert count == len(listed)
    return plain_straight.Sorted(int(report[READ]), messages[: report[LISTED]].tolist(), pieces)


def known_kinds(version: int, some: list[tuple[int, int, int]], number: int = 0) -> Known:
    """Kinds with their groups. The last topics stay unknown, if there are fewer groups than kinds."""
    more = PAIRS if version == MQTT_5 else PAIRS[:1]
    made = [encode(Publish(topic, b"xyz", properties=pairs), version) for topic in TOPICS for pairs in more]
    kinds = [plain_straight.kind_of(packet, version == MQTT_5) for packet in made]
    return dict(zip([(source_of(version, number), kind) for kind in kinds if kind], some, strict=False))


@given(st.sampled_from([MQTT_5, MQTT_3_1_1]), st.lists(groups, max_size=12), st.lists(packets, max_size=20), st.data())
def test_messages_are_sorted_as_by_the_twin(
    version: int, some: list[tuple[int, int, int]], run: list[Publish | Ack | PingReq], more: st.DataObject
) -> None:
    if version != MQTT_5:
        run = [Publish(one.topic, one.payload) if isinstance(one, Publish) and not one.qos else one for one in run]
    data = b"".join(encode(one, version) for one in run)
    data = data[: more.draw(st.integers(0, len(data)))] if more.draw(st.booleans()) else data
    known = known_kinds(version, some) | known_kinds(version, more.draw(st.lists(groups, max_size=12)), 1)
    length = st.just(1) if more.draw(st.booleans()) else st.integers(max(1, len(run) - 1), len(run) + 1)
    sources = [source_of(version, more.draw(st.integers(0, 1))) for _ in range(more.draw(length))]
    found = sorted_out(data, sources, known)
    assert found == plain_straight.sort_out(data, sources, LARGEST, known)
    if found.read != NONE:
        sets = more.draw(st.lists(st.sampled_from([NONE, 0, 1]), min_size=3, max_size=3))
        assert sent(data, found.messages, sets) == plain_straight.sent_on(data, found.messages, sets)


def sent(data: bytes, messages: list[plain_straight.Message], sets: list[int]) -> list[tuple[bytes, int, int]]:
    """What the kernel says that a neighbour gets, as its twin says it."""
    packets, sizes, rows, which = sent_on(
        np.frombuffer(data, np.uint8), np.array(messages, MESSAGE), np.array(sets, np.int64)
    )
    whole = packets.tobytes() if len(packets) else data
    assert len(sizes) == len(rows) or (len(sizes) == 1 and len(rows) > 0)
    sizes = sizes if len(sizes) == len(rows) else np.repeat(sizes, len(rows))
    ends = np.cumsum(sizes).tolist()
    assert not ends or ends[-1] == len(whole)
    pieces = [whole[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
    return list(zip(pieces, rows.tolist(), which.tolist(), strict=True))


@given(st.binary(max_size=12), st.sampled_from([MQTT_5, MQTT_3_1_1]))
def test_any_bytes_are_taken_as_by_the_twin(data: bytes, version: int) -> None:
    source = source_of(version)
    known = {(source, b"\0\1a\0"): (1, 1, LARGEST), (source, b"\0\1a"): (2, 0, LARGEST)}
    for bytes_ in (data, b"\x30" + data, b"\x30\4\0\1a\0\x30" + data):
        assert sorted_out(bytes_, [source], known) == plain_straight.sort_out(bytes_, [source], LARGEST, known)


def test_many_messages_are_sorted_or_left_where_there_is_no_room_for_their_list() -> None:
    source = [source_of(MQTT_5)]
    known = known_kinds(MQTT_5, [(1, 0, LARGEST)] * 2 + [(2, 0, LARGEST)] * 2)
    data = b"".join(encode(Publish(topic, b"1")) for topic in ("a", "a/b")) * 200
    assert [len(pieces) for pieces in sorted_out(data, source, known).pieces.values()] == [200, 200]
    assert sorted_out(data, source, known, room=399) == (NONE, [], {})
    read, messages, _ = sorted_out(data, source, known_kinds(MQTT_5, [(1, 0, LARGEST)]))
    assert (read, len(messages)) == (NONE, MOST_UNKNOWN)


@kernel
def spans(data: Array, start: int, stop: int, other: int, out: Array) -> tuple[int, bool, int]:
    """Uses each function on spans."""
    copy_span(out, 1, data, start, stop - start)
    word = word_at(data, start) if stop - start >= 8 else 0
    return hash_span(data, start, stop), same_span(data, start, data, other, stop - start), word


@given(st.binary(min_size=1, max_size=40), st.data())
def test_spans_are_what_slices_are(data: bytes, more: st.DataObject) -> None:
    start = more.draw(st.integers(0, len(data)))
    stop = more.draw(st.integers(start, len(data)))
    other = more.draw(st.integers(0, len(data) - (stop - start)))
    piece = data[start:stop]
    out = np.zeros(len(data) + 2, np.uint8)
    hashed, same, word = spans(np.frombuffer(data, np.uint8), start, stop, other, out)
    assert out.tobytes() == (b"\0" + piece).ljust(len(out), b"\0")
    assert same == (piece == data[other : other + len(piece)])
    assert len(piece) < 8 or word == int.from_bytes(piece[:8], "little", signed=True)
    again, _, _ = spans(np.frombuffer(b"?" + piece + b"!", np.uint8), 1, 1 + len(piece), 0, np.zeros(50, np.uint8))
    assert hashed == again
