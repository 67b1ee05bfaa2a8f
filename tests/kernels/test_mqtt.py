"""The kernels that frame packets read what ``wire.decode`` reads, and leave to it whatever is not plain."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory.errors import ProtocolError
from overstory.kernels.mqtt import CHUNK, JSON, MORE, ODD, frame
from overstory.kernels.slots import COUNTED, OPEN, SLOT
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, Ack, Packet, Publish

from ..wire.packets import packets, publishes

LARGEST = 1 << 20


def framed(pieces: list[tuple[bytes, int]], slots: NDArray[Any] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    chunks = np.zeros(len(pieces), CHUNK)
    at = 0
    for number, (data, version) in enumerate(pieces):
        chunks[number] = (at, at + len(data), 0, version, number if slots is not None else -1, 0, 0, 0)
        at += len(data)
    whole = np.frombuffer(b"".join(piece for piece, _ in pieces), np.uint8)
    rows = np.zeros(1, SLOT) if slots is None else slots
    return frame(whole, chunks, rows, LARGEST), chunks


def check(data: bytes, version: int) -> int:
    """Compares what is framed with what is decoded, packet by packet. Returns how many were framed."""
    frames, chunks = framed([(data, version)])
    at = 0
    for here in frames:
        size = packet_size(data, at)
        assert size is not None
        packet = decode(data[at : at + size], version)
        assert isinstance(packet, Publish)
        assert (here["start"], here["end"]) == (at, at + size)
        assert data[here["topic"] : here["topic_end"]].decode() == packet.topic
        assert data[here["props_end"] : here["end"]] == packet.payload
        assert (here["qos"], here["id"]) == (packet.qos, packet.packet_id)
        assert not packet.retain
        assert "topic_alias" not in packet.properties
        assert bool(here["marks"] & JSON) == ("json" in packet.properties.get("content_type", "").lower())
        at += size
    assert chunks[0]["at"] == at
    return len(frames)


@given(st.lists(st.one_of(publishes, packets), max_size=6))
def test_runs_are_framed_as_they_are_decoded(run: list[Packet]) -> None:
    check(b"".join(map(encode, run)), 5)


@given(st.lists(publishes, min_size=1, max_size=4))
def test_plain_messages_are_framed(run: list[Publish]) -> None:
    plain = [
        Publish(packet.topic, packet.payload, min(packet.qos, 1), False, packet.packet_id or packet.qos, False)
        for packet in run
    ]
    assert check(b"".join(map(encode, plain)), 5) == len(plain)
    assert check(b"".join(encode(packet, 4) for packet in plain), 4) == len(plain)


@given(publishes, st.data())
def test_spoiled_bytes_are_left_alone_or_read_as_they_are_decoded(packet: Publish, data: st.DataObject) -> None:
    spoiled = bytearray(encode(packet))
    spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(spoiled), data.draw(st.sampled_from([4, 5])))


@given(st.binary(max_size=40), st.sampled_from([4, 5]))
def test_any_bytes(data: bytes, version: int) -> None:
    check(data, version)


def test_why_a_run_stops() -> None:
    whole = encode(Publish("a", b"x"))
    for rest, why in (
        (b"", MORE),
        (whole[:-1], MORE),
        (b"\xc0\x00", ODD),
        (encode(Publish("a", b"", 2, False, 1)), ODD),
    ):
        frames, chunks = framed([(whole + rest, 5)])
        assert (len(frames), chunks[0]["at"], chunks[0]["why"]) == (1, len(whole), why)


@given(st.lists(st.integers(1, 8), max_size=12), st.integers(65530, 65535))
def test_acknowledgements_in_order_are_counted(ids: list[int], first: int) -> None:
    slots = np.zeros(1, SLOT)
    slots[0]["flags"], slots[0]["head"], slots[0]["next"], slots[0]["room"] = OPEN | COUNTED, first, first, 0
    wanted = [(first + i - 1) % 65535 + 1 for i in range(5)]
    slots[0]["next"] = wanted[-1] % 65535 + 1
    acked = [wanted[i % 5] for i in ids]
    _, chunks = framed([(b"".join(encode(Ack(PUBACK, id_)) for id_ in acked), 5)], slots)
    in_order = 0
    while in_order < len(acked) and in_order < 5 and acked[in_order] == wanted[in_order]:
        in_order += 1
    assert slots[0]["room"] == in_order
    assert chunks[0]["at"] == 4 * in_order
    assert slots[0]["head"] == [*wanted, wanted[-1] % 65535 + 1][in_order]


def test_a_packet_that_is_too_large_is_left_alone() -> None:
    data = np.frombuffer(encode(Publish("a", b"x" * 100)), np.uint8)
    chunks = np.zeros(1, CHUNK)
    chunks[0] = (0, len(data), 0, 5, -1, 0, 0, 0)
    assert len(frame(data, chunks, np.zeros(1, SLOT), 50)) == 0
    assert chunks[0]["why"] == ODD


def test_decoding_agrees_that_it_is_malformed() -> None:
    for text in ("3006 0002 c080 00 78", "3007 0003 eda080 00 78", "3008 0004 f4908080 00"):
        data = bytes.fromhex(text)
        assert check(data, 5) == 0
        try:
            decode(data)
        except ProtocolError:
            continue
        raise AssertionError(text)
