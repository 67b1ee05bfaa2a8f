"""A message as the broker holds it: what was published, by whom, and until when it is worth delivering."""

import math
from typing import NamedTuple

import msgspec

from overstory.wire.packets import Properties, Publish, Will

EXPIRY = "message_expiry_interval"


class Origin(NamedTuple):
    """Where an event was published, and its number there: together they name it."""

    entry: int
    event: int


class Message(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties  # without topic alias and expiry
    publisher: int = 0  # the number of the client
    expires: float | None = None  # when, in seconds since 1970

    def __post_init__(self) -> None:
        """User properties are pairs, also where they were read from bytes that know only lists."""
        pairs = self.properties.get("user_properties")
        if pairs and not isinstance(pairs[0], tuple):
            self.properties["user_properties"] = [(name, value) for name, value in pairs]

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    def to_publish(self, now: float, qos: int, retain: bool, ids: tuple[int, ...] = (), packet_id: int = 0) -> Publish:
        """The packet for a subscriber, with the time that is left and the identifiers of its subscriptions."""
        properties = self.properties
        if self.expires is not None or ids:
            properties = dict(properties)
            if self.expires is not None:
                properties[EXPIRY] = max(0, math.ceil(self.expires - now))
            if ids:
                properties["subscription_ids"] = list(ids)
        return Publish(self.topic, self.payload, qos, retain, packet_id, False, properties)


def message_of(packet: Publish, topic: str, publisher: int, now: float) -> Message:
    """The message that a PUBLISH brings. ``topic`` is that of the packet, or the one that its alias stands for."""
    properties = {name: value for name, value in packet.properties.items() if name not in (EXPIRY, "topic_alias")}
    expiry = packet.properties.get(EXPIRY)
    expires = None if expiry is None else now + expiry
    return Message(topic, packet.payload, packet.qos, packet.retain, properties, publisher, expires)


def message_of_will(will: Will, publisher: int, now: float) -> Message:
    """The message that a will is when it is published."""
    properties = {name: value for name, value in will.properties.items() if name != "will_delay_interval"}
    packet = Publish(will.topic, will.payload, will.qos, will.retain, 0, False, properties)
    return message_of(packet, will.topic, publisher, now)
