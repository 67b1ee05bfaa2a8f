"""Packets are read and written right: PyPI's mqtt5 is the oracle for MQTT 5, tables by hand for MQTT 3.1.1."""

import mqtt5
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overstory.errors import ProtocolError
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import (
    MQTT_3_1_1,
    PUBACK,
    PUBREL,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Packet,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
)

from .packets import packets

DEFAULTS = {
    "payload_format_indicator": False,
    "session_expiry_interval": 0,
    "will_delay_interval": 0,
    "request_problem_info": True,
    "receive_max": 65535,
}


def lean(packet: Packet | Will) -> Packet | Will:
    """The packet without properties that say what is so anyway: they may be left out."""
    found = {name: value for name, value in packet.properties.items() if DEFAULTS.get(name) != value}  # type: ignore[union-attr]
    will = lean(packet.will) if isinstance(packet, Connect) and packet.will is not None else None
    changes = {"will": will} if isinstance(packet, Connect) else {}
    return msgspec.structs.replace(packet, properties=found, **changes)


@given(packets)
def test_what_is_written_is_read(packet: Packet) -> None:
    data = encode(packet)
    assert packet_size(data) == len(data)
    read = decode(data)
    assert read == packet or lean(read) == lean(packet)


def told(packet: object, name: str) -> object:
    """What the oracle has read, in our words."""
    value = getattr(packet, name, None)
    return value if value not in ([], None) else None


@given(packets)
def test_the_oracle_reads_the_same(packet: Packet) -> None:
    theirs, size = mqtt5.read(memoryview(encode(packet)))
    assert size == packet_size(encode(packet))
    for name, value in getattr(packet, "properties", {}).items():
        name = "subscription_id" if isinstance(packet, Subscribe) and name == "subscription_ids" else name
        assert told(theirs, name) == (value[0] if name == "subscription_id" else value)
    if isinstance(packet, Publish):
        assert isinstance(theirs, mqtt5.PublishPacket)
        assert (theirs.topic, theirs.payload, int(theirs.qos)) == (packet.topic, packet.payload, packet.qos)
        assert (theirs.retain, theirs.duplicate, theirs.packet_id or 0) == (
            packet.retain,
            packet.duplicate,
            packet.packet_id,
        )


@given(packets, st.data())
def test_a_spoiled_packet_is_refused_or_read_as_the_oracle_reads_it(packet: Packet, data: st.DataObject) -> None:
    spoiled = bytearray(encode(packet))
    place = data.draw(st.integers(0, len(spoiled) - 1))
    spoiled[place] = data.draw(st.integers(0, 255))
    try:
        size = packet_size(spoiled)
        if size is None or size > len(spoiled):
            return
        ours = decode(bytes(spoiled[:size]))
    except ProtocolError:
        return
    if isinstance(ours, Publish) and ours.topic.isascii():
        theirs, _ = mqtt5.read(memoryview(bytes(spoiled)))
        assert isinstance(theirs, mqtt5.PublishPacket)
        assert (theirs.topic, theirs.payload, int(theirs.qos)) == (ours.topic, ours.payload, ours.qos)
        assert theirs.user_properties == ours.properties.get("user_properties", [])


@given(st.binary(max_size=60), st.sampled_from([4, 5]))
@example(b"\x30\x04\x00\x01\xff\x00", 5)  # where the oracle panics
@example(b"\x30\xff\xff\xff\xff\x7f", 5)
def test_no_bytes_end_in_anything_but_a_protocol_error(data: bytes, version: int) -> None:
    try:
        size = packet_size(data)
        if size is not None and size <= len(data):
            decode(data[:size], version)
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        ("100f00044d51545404020005 0003616263", Connect("abc", 4, True, 5)),
        ("8208 0005 0003 61 2f 23 01", Subscribe(5, (Asked("a/#", 1),))),
        ("a207 0006 0003 61 2f 23", Unsubscribe(6, ("a/#",))),
        ("4002 0007", Ack(PUBACK, 7)),
        ("6202 0007", Ack(PUBREL, 7)),
        ("3206 0001 61 0009 78", Publish("a", b"x", 1, False, 9)),
    ],
)
def test_mqtt_3_1_1_is_read(data: str, packet: Packet) -> None:
    assert decode(bytes.fromhex(data), MQTT_3_1_1) == packet


@pytest.mark.parametrize(
    ("packet", "data"),
    [
        (ConnAck(0, True), "20020100"),
        (ConnAck(0x84), "20020001"),
        (ConnAck(0x85), "20020002"),
        (Publish("a", b"x", 1, True, 9), "3306000161000978"),
        (SubAck(5, (1, 0x8F)), "900400050180"),
        (UnsubAck(6, (0,)), "b0020006"),
        (Ack(PUBREL, 7), "62020007"),
        (PingResp(), "d000"),
    ],
)
def test_mqtt_3_1_1_is_written(packet: Packet, data: str) -> None:
    assert encode(packet, MQTT_3_1_1).hex() == data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("3603 0001 61", 0x81),  # QoS 3
        ("3804 0001 61 00", 0x81),  # a duplicate with QoS 0
        ("3004 0001 23 00", 0x90),  # a wildcard
        ("3003 0000 00", 0x90),  # no topic
        ("3206 0001 61 0000 00", 0x82),  # packet id 0
        ("3008 0001 61 04 0100 0100", 0x82),  # a property twice
        ("3005 0001 61 01 24", 0x81),  # a property that a PUBLISH may not have
        ("f100", 0x81),  # flags of AUTH
        ("100f00044d51545406020005 0003616263", 0x84),  # a version that there is not
        ("8003 0001 00", 0x81),  # flags of SUBSCRIBE
        ("8203 0001 00", 0x81),  # a SUBSCRIBE without filters
    ],
)
def test_errors_have_their_reason_codes(data: str, code: int) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode(bytes.fromhex(data))
    assert raised.value.code == code
