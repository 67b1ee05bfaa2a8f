"""Packets to bytes. MQTT 5 is written by PyPI's ``mqtt5``; MQTT 3.1.1, which it does not know, by hand.

A server writes to clients of both versions, our client only MQTT 5.
"""

import mqtt5

from overstory.errors import ProtocolError
from overstory.wire.packets import (
    MQTT_5,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Ack,
    Auth,
    Code,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)

ACKS = {
    PUBACK: (mqtt5.PubAckPacket, mqtt5.PubAckReasonCode),
    PUBREC: (mqtt5.PubRecPacket, mqtt5.PubRecReasonCode),
    PUBREL: (mqtt5.PubRelPacket, mqtt5.PubRelReasonCode),
    PUBCOMP: (mqtt5.PubCompPacket, mqtt5.PubCompReasonCode),
}
QOS = (mqtt5.QoS.AT_MOST_ONCE, mqtt5.QoS.AT_LEAST_ONCE, mqtt5.QoS.EXACTLY_ONCE)
PING_REQUEST, PING_RESPONSE = b"\xc0\x00", b"\xd0\x00"
OLD_REFUSALS = {Code.UNSUPPORTED_VERSION: 1, Code.CLIENT_ID_NOT_VALID: 2, Code.NOT_AUTHORIZED: 5}  # else 3


def encode(packet: Packet, version: int = MQTT_5) -> bytes:
    """The bytes of a packet. Raises a ``ProtocolError`` for one that cannot be written, such as too long a text."""
    if version != MQTT_5:
        return _old(packet)
    try:
        return _new(packet)
    except (ValueError, OverflowError) as error:
        raise ProtocolError(Code.MALFORMED, f"a packet cannot be written: {error}") from None


def _new(packet: Packet) -> bytes:
    if isinstance(packet, Publish):
        return _publish(packet)
    if isinstance(packet, Ack):
        kind, codes = ACKS[packet.kind]
        return bytes(kind(packet.packet_id, reason_code=codes(packet.code), **packet.properties).write())
    if isinstance(packet, PingReq | PingResp):
        return PING_REQUEST if isinstance(packet, PingReq) else PING_RESPONSE
    if isinstance(packet, Subscribe | Unsubscribe):
        return _request(packet)
    return _answer(packet)


def _publish(packet: Publish) -> bytes:
    properties = packet.properties
    if "payload_format_indicator" in properties:
        properties = {**properties, "payload_format_indicator": int(properties["payload_format_indicator"])}
    return mqtt5.PublishPacket(
        packet.topic,
        packet.payload,
        qos=QOS[packet.qos],
        retain=packet.retain,
        packet_id=packet.packet_id or None,
        duplicate=packet.duplicate,
        **properties,
    ).write()


def _answer(packet: Packet) -> bytes:
    if isinstance(packet, SubAck):
        if not packet.properties:  # there may be thousands of codes
            return _framed(0x90, packet.packet_id.to_bytes(2, "big") + b"\0" + bytes(packet.codes))
        codes = [mqtt5.SubAckReasonCode(code) for code in packet.codes]
        return mqtt5.SubAckPacket(packet.packet_id, codes, **packet.properties).write()
    if isinstance(packet, UnsubAck):
        found = [mqtt5.UnsubAckReasonCode(code) for code in packet.codes]
        return mqtt5.UnsubAckPacket(packet.packet_id, found, **packet.properties).write()
    if isinstance(packet, ConnAck):
        code = mqtt5.ConnAckReasonCode(packet.code)
        return mqtt5.ConnAckPacket(
            session_present=packet.session_present, reason_code=code, **packet.properties
        ).write()
    if isinstance(packet, Disconnect):
        return mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(packet.code), **packet.properties).write()
    if isinstance(packet, Auth):
        return mqtt5.AuthPacket(reason_code=mqtt5.AuthReasonCode(packet.code), **packet.properties).write()
    assert isinstance(packet, Connect)
    return _connect(packet)


def _connect(packet: Connect) -> bytes:
    will = None
    if packet.will is not None:
        will = mqtt5.Will(
            packet.will.topic,
            payload=packet.will.payload,
            qos=QOS[packet.will.qos],
            retain=packet.will.retain,
            **packet.will.properties,
        )
    return mqtt5.ConnectPacket(
        packet.client_id,
        clean_start=packet.clean_start,
        keep_alive=packet.keep_alive,
        will=will,
        username=packet.username,
        password=packet.password,
        **packet.properties,
    ).write()


def _request(packet: Subscribe | Unsubscribe) -> bytes:
    """A SUBSCRIBE or UNSUBSCRIBE, by hand: ``mqtt5`` refuses filters that have an expression."""
    properties = b""
    for name, value in packet.properties.get("user_properties", ()):
        properties += b"\x26" + _text(name) + _text(value)
    for identifier in packet.properties.get("subscription_ids", ()):
        properties += b"\x0b" + varint(identifier)
    head = packet.packet_id.to_bytes(2, "big") + varint(len(properties)) + properties
    if isinstance(packet, Unsubscribe):
        return _framed(0xA2, head + b"".join(map(_text, packet.filters)))
    for asked in packet.asked:
        options = asked.qos | asked.no_local << 2 | asked.retain_as_published << 3 | asked.retain_handling << 4
        head += _text(asked.filter) + bytes((options,))
    return _framed(0x82, head)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _old(packet: Packet) -> bytes:
    """The packets that a server sends to a client of MQTT 3.1.1. That version has no DISCONNECT from a server."""
    if isinstance(packet, Publish):
        first = PUBLISH << 4 | packet.duplicate << 3 | packet.qos << 1 | packet.retain
        packet_id = packet.packet_id.to_bytes(2, "big") if packet.qos else b""
        return _framed(first, _text(packet.topic) + packet_id + packet.payload)
    if isinstance(packet, Ack):
        first = packet.kind << 4 | (2 if packet.kind == PUBREL else 0)
        return _framed(first, packet.packet_id.to_bytes(2, "big"))
    if isinstance(packet, ConnAck):
        code = OLD_REFUSALS.get(packet.code, 3) if packet.code else 0
        return bytes((0x20, 2, packet.session_present, code))
    if isinstance(packet, SubAck):
        codes = bytes(min(code, Code.UNSPECIFIED) for code in packet.codes)
        return _framed(0x90, packet.packet_id.to_bytes(2, "big") + codes)
    if isinstance(packet, UnsubAck):
        return _framed(0xB0, packet.packet_id.to_bytes(2, "big"))
    return PING_RESPONSE if isinstance(packet, PingResp) else b""


def _framed(first: int, body: bytes) -> bytes:
    return bytes((first,)) + varint(len(body)) + body


def varint(value: int) -> bytes:
    """A variable byte integer."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
