"""Bytes to packets, for a server and for a client.

``packet_size`` finds where a packet ends, ``decode`` reads one whole packet. Both raise a ``ProtocolError`` with the
reason code for whoever sent it, and nothing else, whatever the bytes are. PyPI's ``mqtt5`` reads the same packets and
is held against this in the tests; it is not used here since it panics where a text is not UTF-8, knows no MQTT 3.1.1,
and gives no reason codes.
"""

from collections.abc import Callable

from overstory.errors import ProtocolError
from overstory.wire.packets import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    LARGEST,
    MQTT_3_1_1,
    MQTT_5,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    Ack,
    Asked,
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
    Will,
)
from overstory.wire.properties import WILL, read_properties
from overstory.wire.reader import MOST_SHIFT, Reader

FLAGS = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}  # of the first byte; elsewhere 0, and PUBLISH has its own
FOR_SERVER = frozenset((PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT, AUTH))
FOR_CLIENT = frozenset(
    (CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH)
)


def packet_size(data: bytes | bytearray, at: int = 0, largest: int = LARGEST) -> int | None:
    """The size of the packet that begins here, or None if its length has not all come yet."""
    size = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        byte = data[place]
        size |= (byte & 127) << shift
        if byte < 128:
            if byte == 0 and shift:
                raise ProtocolError(Code.MALFORMED, "the length of a packet is longer than it need be")
            size += place + 1 - at
            if size > largest:
                raise ProtocolError(Code.TOO_LARGE, f"a packet has {size:,} bytes, and may have {largest:,}")
            return size
        if shift == MOST_SHIFT:
            raise ProtocolError(Code.MALFORMED, "the length of a packet has more than four bytes")
        shift += 7
    return None


def decode(data: bytes, version: int = MQTT_5) -> Packet:
    """Reads one whole packet."""
    reader = Reader(data)
    first = reader.byte()
    kind, flags = first >> 4, first & 15
    reader.varint()
    if kind == PUBLISH:
        return _publish(reader, flags, version)
    if kind not in READERS:
        raise ProtocolError(Code.MALFORMED, f"there is no packet type {kind}")
    if flags != FLAGS.get(kind, 0):
        raise ProtocolError(Code.MALFORMED, f"the flags of packet type {kind} may not be {flags}")
    packet = READERS[kind](reader, kind, version)
    if not reader.done:
        raise ProtocolError(Code.MALFORMED, "the packet is longer than what it says")
    return packet


def _connect(reader: Reader, kind: int, version: int) -> Connect:
    name, version = reader.binary(), reader.byte()
    if name != b"MQTT" or version not in (MQTT_3_1_1, MQTT_5):
        raise ProtocolError(Code.UNSUPPORTED_VERSION, "the protocol is neither MQTT 5 nor 3.1.1")
    flags, keep_alive = reader.byte(), reader.two()
    will_qos, has_will = flags >> 3 & 3, bool(flags & 4)
    if flags & 1 or will_qos == 3 or (not has_will and flags & 0x38):
        raise ProtocolError(Code.MALFORMED, f"the flags of CONNECT may not be {flags:#04x}")
    if version == MQTT_3_1_1 and flags & 0x40 and not flags & 0x80:
        raise ProtocolError(Code.MALFORMED, "there is a password without a user name")
    properties = read_properties(reader, CONNECT) if version == MQTT_5 else {}
    client_id = reader.text()
    will = None
    if has_will:
        will_properties = read_properties(reader, WILL) if version == MQTT_5 else {}
        will = Will(_topic(reader.text()), reader.binary(), will_qos, bool(flags & 0x20), will_properties)
    username = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    return Connect(client_id, version, bool(flags & 2), keep_alive, will, username, password, properties)


def _publish(reader: Reader, flags: int, version: int) -> Publish:
    qos = flags >> 1 & 3
    if qos == 3 or (qos == 0 and flags & 8):
        raise ProtocolError(Code.MALFORMED, "a PUBLISH has a QoS of 3, or is a duplicate with QoS 0")
    topic = reader.text()
    packet_id = reader.packet_id() if qos else 0
    properties = read_properties(reader, PUBLISH) if version == MQTT_5 else {}
    if topic or "topic_alias" not in properties:
        _topic(topic)
    if "response_topic" in properties:
        _topic(properties["response_topic"])
    return Publish(topic, reader.rest(), qos, bool(flags & 1), packet_id, bool(flags & 8), properties)


def _topic(topic: str) -> str:
    if not topic or "+" in topic or "#" in topic:
        raise ProtocolError(Code.TOPIC_INVALID, "a topic is empty or has a wildcard")
    return topic


def _ack(reader: Reader, kind: int, version: int) -> Ack:
    packet_id, code = reader.packet_id(), 0
    if version == MQTT_5 and not reader.done:
        code = reader.byte()
    properties = read_properties(reader, kind) if version == MQTT_5 and not reader.done else {}
    return Ack(kind, packet_id, code, properties)


def _subscribe(reader: Reader, kind: int, version: int) -> Subscribe:
    packet_id = reader.packet_id()
    properties = read_properties(reader, kind) if version == MQTT_5 else {}
    if len(properties.get("subscription_ids", ())) > 1:
        raise ProtocolError(Code.PROTOCOL_ERROR, "a SUBSCRIBE has more than one subscription identifier")
    asked: list[Asked] = []
    known: dict[int, tuple[int, bool, bool, int]] = {}  # options that were read before: a packet may have thousands
    while not reader.done or not asked:
        wanted, options = reader.text(), reader.byte()
        if options not in known:
            known[options] = _options(options, version)
        asked.append(Asked(wanted, *known[options]))
    return Subscribe(packet_id, tuple(asked), properties)


def _options(options: int, version: int) -> tuple[int, bool, bool, int]:
    handling = options >> 4 & 3
    if options & 3 == 3 or handling == 3 or options & 0xC0 or (version != MQTT_5 and options & 0xFC):
        raise ProtocolError(Code.MALFORMED, f"the options of a subscription may not be {options:#04x}")
    return options & 3, bool(options & 4), bool(options & 8), handling


def _unsubscribe(reader: Reader, kind: int, version: int) -> Unsubscribe:
    packet_id = reader.packet_id()
    properties = read_properties(reader, kind) if version == MQTT_5 else {}
    filters: list[str] = []
    while not reader.done or not filters:
        filters.append(reader.text())
    return Unsubscribe(packet_id, tuple(filters), properties)


def _codes(reader: Reader, kind: int, version: int) -> SubAck | UnsubAck:
    packet_id = reader.packet_id()
    properties = read_properties(reader, kind) if version == MQTT_5 else {}
    return (SubAck if kind == SUBACK else UnsubAck)(packet_id, tuple(reader.rest()), properties)


def _connack(reader: Reader, kind: int, version: int) -> ConnAck:
    flags, code = reader.byte(), reader.byte()
    if flags > 1:
        raise ProtocolError(Code.MALFORMED, f"the flags of CONNACK may not be {flags:#04x}")
    return ConnAck(code, bool(flags), read_properties(reader, kind) if version == MQTT_5 else {})


def _end(reader: Reader, kind: int, version: int) -> Disconnect | Auth:
    if version != MQTT_5 and (kind == AUTH or not reader.done):
        raise ProtocolError(Code.MALFORMED, "that packet is not of MQTT 3.1.1")
    code = 0 if reader.done else reader.byte()
    properties = {} if reader.done else read_properties(reader, kind)
    return Disconnect(code, properties) if kind == DISCONNECT else Auth(code, properties)


def _ping(reader: Reader, kind: int, version: int) -> PingReq | PingResp:
    return PingReq() if kind == PINGREQ else PingResp()


READERS: dict[int, Callable[[Reader, int, int], Packet]] = {
    CONNECT: _connect,
    CONNACK: _connack,
    PUBACK: _ack,
    PUBREC: _ack,
    PUBREL: _ack,
    PUBCOMP: _ack,
    SUBSCRIBE: _subscribe,
    SUBACK: _codes,
    UNSUBSCRIBE: _unsubscribe,
    UNSUBACK: _codes,
    PINGREQ: _ping,
    PINGRESP: _ping,
    DISCONNECT: _end,
    AUTH: _end,
}
