"""The properties of MQTT 5 as one table: their numbers, names, types, and the packets that may have them."""

from typing import Any, NamedTuple

from overstory.errors import ProtocolError
from overstory.wire.packets import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    Code,
    Properties,
)
from overstory.wire.reader import Reader

WILL = 0  # a will's properties stand inside CONNECT, and are others than those of CONNECT itself
ACKS = (PUBACK, PUBREC, PUBREL, PUBCOMP)
WITH_REASON = (CONNACK, *ACKS, SUBACK, UNSUBACK, DISCONNECT, AUTH)
EVERYWHERE = (CONNECT, WILL, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, *WITH_REASON)


class Property(NamedTuple):
    name: str
    type: str  # byte, bool, two, four, varint, text, binary or pair
    packets: tuple[int, ...]
    repeats: bool = False
    least: int = 0


PROPERTIES = {
    0x01: Property("payload_format_indicator", "bool", (PUBLISH, WILL)),
    0x02: Property("message_expiry_interval", "four", (PUBLISH, WILL)),
    0x03: Property("content_type", "text", (PUBLISH, WILL)),
    0x08: Property("response_topic", "text", (PUBLISH, WILL)),
    0x09: Property("correlation_data", "binary", (PUBLISH, WILL)),
    0x0B: Property("subscription_ids", "varint", (PUBLISH, SUBSCRIBE), repeats=True, least=1),
    0x11: Property("session_expiry_interval", "four", (CONNECT, CONNACK, DISCONNECT)),
    0x12: Property("assigned_client_id", "text", (CONNACK,)),
    0x13: Property("server_keep_alive", "two", (CONNACK,)),
    0x15: Property("authentication_method", "text", (CONNECT, CONNACK, AUTH)),
    0x16: Property("authentication_data", "binary", (CONNECT, CONNACK, AUTH)),
    0x17: Property("request_problem_info", "bool", (CONNECT,)),
    0x18: Property("will_delay_interval", "four", (WILL,)),
    0x19: Property("request_response_info", "bool", (CONNECT,)),
    0x1A: Property("response_info", "text", (CONNACK,)),
    0x1C: Property("server_reference", "text", (CONNACK, DISCONNECT)),
    0x1F: Property("reason_str", "text", WITH_REASON),
    0x21: Property("receive_max", "two", (CONNECT, CONNACK), least=1),
    0x22: Property("topic_alias_max", "two", (CONNECT, CONNACK)),
    0x23: Property("topic_alias", "two", (PUBLISH,)),
    0x24: Property("max_qos", "bool", (CONNACK,)),
    0x25: Property("retain_available", "bool", (CONNACK,)),
    0x26: Property("user_properties", "pair", EVERYWHERE, repeats=True),
    0x27: Property("max_packet_size", "four", (CONNECT, CONNACK), least=1),
    0x28: Property("wildcard_subscription_available", "bool", (CONNACK,)),
    0x29: Property("subscription_id_available", "bool", (CONNACK,)),
    0x2A: Property("shared_subscription_available", "bool", (CONNACK,)),
}


def read_properties(reader: Reader, packet: int) -> Properties:
    """Reads the properties of a packet of this kind. Raises a ``ProtocolError`` for one that it may not have."""
    length = reader.varint()
    if not length:
        return {}
    end = reader.at + length
    if end > reader.end:
        raise ProtocolError(Code.MALFORMED, "the properties are longer than the packet")
    found: Properties = {}
    while reader.at < end:
        known = PROPERTIES.get(reader.varint())
        if known is None or packet not in known.packets:
            raise ProtocolError(Code.MALFORMED, "the packet has a property that it may not have")
        value = _value(reader, known)
        if known.repeats:
            found.setdefault(known.name, []).append(value)
        elif known.name in found:
            raise ProtocolError(Code.PROTOCOL_ERROR, f"the property {known.name} is there twice")
        else:
            found[known.name] = value
    if reader.at != end:
        raise ProtocolError(Code.MALFORMED, "a property does not end with the properties")
    return found


def _value(reader: Reader, known: Property) -> Any:
    if known.type == "pair":
        return reader.text(), reader.text()
    value = getattr(reader, "byte" if known.type == "bool" else known.type)()
    if isinstance(value, int) and value < known.least:
        raise ProtocolError(Code.PROTOCOL_ERROR, f"the property {known.name} may not be {value}")
    if known.type != "bool":
        return value
    if value > 1:
        raise ProtocolError(Code.PROTOCOL_ERROR, f"the property {known.name} is 0 or 1, not {value}")
    return bool(value)
