"""Who gets what comes in: each subscription of a bus has a filter, and a buffer of events."""

import asyncio
from collections.abc import AsyncIterator

from overstory.client.event import Event, event_of
from overstory.errors import DisconnectedError
from overstory.filters import Filter
from overstory.wire.attributes import attributes_of
from overstory.wire.packets import Asked, Publish
from overstory.wire.topics import EXPRESSION, SHARE, Wanted, filter_of, read_filter

MOST_WAITING = 10_000  # events that a subscription keeps for its reader


class Subscription(AsyncIterator[Event]):
    """Events that match a filter, in the order in which they come. ``close`` ends it.

    Its reader is expected to keep up. If more than ``MOST_WAITING`` events wait, the oldest go and ``dropped`` counts.
    """

    def __init__(self, topics: str, where: str | None, qos: int) -> None:
        self.wanted: Wanted = read_filter(topics, where)
        self.filter: Filter = filter_of(self.wanted)
        self.qos = qos
        self.dropped = 0
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._error: DisconnectedError | None = None
        self.closed = False

    def asked(self, knows_expressions: bool) -> Asked:
        """What the broker is asked for: everything, or what it understands."""
        text = self.wanted.topics
        if self.wanted.expression is not None and knows_expressions:
            text += EXPRESSION + self.wanted.expression
        if self.wanted.group is not None:
            text = f"{SHARE}{self.wanted.group}/{text}"
        return Asked(text, self.qos)

    def take(self, packet: Publish) -> None:
        """Keeps the event for the reader, if the filter matches."""
        if self.closed:
            return
        attributes = attributes_of(packet)
        if not self.filter.matches(attributes):
            return
        if self._events.qsize() >= MOST_WAITING:
            self._events.get_nowait()
            self.dropped += 1
        self._events.put_nowait(event_of(packet, attributes))

    def end(self, error: DisconnectedError | None = None) -> None:
        """Ends the subscription: its reader gets what is left, and then the error, if there is one."""
        self.closed, self._error = True, error
        self._events.put_nowait(None)

    async def __anext__(self) -> Event:
        event = await self._events.get()
        if event is not None:
            return event
        self._events.put_nowait(None)  # for whoever asks again
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration
