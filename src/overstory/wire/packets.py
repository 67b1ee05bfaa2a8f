"""The packets of MQTT. Those of MQTT 3.1.1 are the same without properties.

``properties`` holds what the packet really has, under the names of ``wire.properties``.
"""

from typing import Any, TypeAlias

import msgspec

MQTT_3_1_1, MQTT_5 = 4, 5  # protocol levels
LARGEST = 268_435_455 + 5  # bytes of a packet, by the protocol

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15

Properties: TypeAlias = dict[str, Any]


class Code:
    """The reason codes that we use, by MQTT 5's names."""

    SUCCESS = 0x00
    WITH_WILL = 0x04
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    NOT_AUTHORIZED = 0x87
    SERVER_BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    TAKEN_OVER = 0x8E
    FILTER_INVALID = 0x8F
    TOPIC_INVALID = 0x90
    ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM = 0x93
    ALIAS_INVALID = 0x94
    TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D


class Will(msgspec.Struct, frozen=True):
    """The message that a broker publishes for a client that is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = {}


class Connect(msgspec.Struct, frozen=True):
    client_id: str
    version: int = MQTT_5
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = {}


class ConnAck(msgspec.Struct, frozen=True):
    code: int = Code.SUCCESS
    session_present: bool = False
    properties: Properties = {}


class Publish(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    packet_id: int = 0
    duplicate: bool = False
    properties: Properties = {}


class Ack(msgspec.Struct, frozen=True):
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    packet_id: int
    code: int = Code.SUCCESS
    properties: Properties = {}


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE, with its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True):
    packet_id: int
    asked: tuple[Asked, ...]
    properties: Properties = {}


class SubAck(msgspec.Struct, frozen=True):
    packet_id: int
    codes: tuple[int, ...]
    properties: Properties = {}


class Unsubscribe(msgspec.Struct, frozen=True):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = {}


class UnsubAck(msgspec.Struct, frozen=True):
    packet_id: int
    codes: tuple[int, ...]
    properties: Properties = {}


class PingReq(msgspec.Struct, frozen=True):
    pass


class PingResp(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True):
    code: int = Code.SUCCESS
    properties: Properties = {}


class Auth(msgspec.Struct, frozen=True):
    code: int = Code.SUCCESS
    properties: Properties = {}


Packet: TypeAlias = (
    Connect
    | ConnAck
    | Publish
    | Ack
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)
