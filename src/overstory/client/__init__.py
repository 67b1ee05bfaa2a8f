"""A client: publish events, subscribe with filters. It works with any MQTT 5 broker.

In reading order: ``event`` is what is published and received. ``connection`` is one connection, with its packet
identifiers and answers; ``subscriptions`` says who gets what comes in. ``bus`` is what a user holds: it reconnects, and
filters where the broker cannot. ``sync`` is the same without ``await``.
"""

from overstory.client.bus import Bus, connect
from overstory.client.event import Event
from overstory.client.sync import SyncBus, connect_sync

__all__ = ["Bus", "Event", "SyncBus", "connect", "connect_sync"]
