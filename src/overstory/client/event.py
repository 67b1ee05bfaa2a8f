"""An event as applications see it: a topic, attributes, and an opaque payload."""

from collections.abc import Mapping
from typing import Any

import msgspec

from overstory.model.topics import topic_attributes
from overstory.wire.attributes import pairs_of
from overstory.wire.packets import Publish

TOPIC = "event"  # where an event without a topic is published


class Event(msgspec.Struct, frozen=True):
    """What is published, and what a subscription gets. Attributes travel as user properties."""

    topic: str = TOPIC
    attributes: dict[str, Any] = {}
    payload: bytes = b""

    def to_publish(self, qos: int, retain: bool, packet_id: int) -> Publish:
        """The packet that carries the event."""
        properties = {"user_properties": pairs_of(self.attributes)} if self.attributes else {}
        return Publish(self.topic, self.payload, qos, retain, packet_id if qos else 0, False, properties)


def event_of(packet: Publish, attributes: Mapping[str, Any]) -> Event:
    """The event that a packet with these attributes carries. Those from user properties are ``Untyped``, those of JSON
    have types."""
    topical = topic_attributes(packet.topic)
    return Event(
        packet.topic, {name: value for name, value in attributes.items() if name not in topical}, packet.payload
    )
