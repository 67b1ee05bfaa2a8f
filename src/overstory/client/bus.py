"""What an application holds: ``async with connect(url) as bus``.

``publish`` returns once the message is safe with the broker (QoS 1 and 2), over reconnections if need be; such a
message may then arrive twice. ``subscribe`` gives the events that match a filter. Where the broker knows no
expressions, the bus asks for the topics and filters by itself. If the connection is lost, the bus reconnects,
subscribes again, and says so to nobody; only when it has tried for ``patience`` seconds, readers and publishers get a
``DisconnectedError``. If the broker sends it to another one (MQTT 5's redirection), the bus goes there at once, and its
session with it: nothing is subscribed or published again.

A bus that ``takes_clusters`` may be given all events of a cluster of topics, which spares the network a filter for it.
It discards the others: what it has asked for carries the identifier of a subscription.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec

from overstory.client.connection import Connection, open_connection
from overstory.client.event import Event
from overstory.client.subscriptions import Subscription
from overstory.errors import DisconnectedError, ProtocolError, UsageError
from overstory.wire.packets import MQTT_5, ConnAck, Connect, Properties, Publish, SubAck, Subscribe, Unsubscribe
from overstory.wire.topics import FILTERS, FOLLOWS, TAKES

PORT = 1883
MOST_MOVES = 5  # in a row
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds between attempts to reconnect


class Options(msgspec.Struct, frozen=True):
    """How a bus connects."""

    host: str
    port: int
    client_id: str = ""
    keep_alive: int = 60
    patience: float = 60.0  # seconds
    takes_clusters: bool = False


@contextlib.asynccontextmanager
async def connect(
    url: str, *, client_id: str = "", keep_alive: int = 60, patience: float = 60.0, takes_clusters: bool = False
) -> AsyncIterator["Bus"]:
    """Connects to the broker at ``mqtt://HOST:PORT``, for as long as the block lasts."""
    bus = Bus(Options(*address_of(url), client_id, keep_alive, patience, takes_clusters))
    await bus.open()
    try:
        yield bus
    finally:
        await bus.close()


def address_of(url: str) -> tuple[str, int]:
    """The host and the port of a URL."""
    try:
        parts = urlsplit(url if "://" in url else f"mqtt://{url}")
        if parts.scheme not in ("mqtt", "tcp") or not parts.hostname:
            raise ValueError
        return parts.hostname, parts.port or PORT
    except ValueError:
        raise UsageError(f"'{url}' is no address of a broker; write it as mqtt://HOST:PORT") from None


class Bus:
    """A connection to a broker that is made again when it is lost."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: Connection | None = None
        self._subscriptions: list[Subscription] = []
        self._ready = asyncio.Event()
        self._failed: DisconnectedError | ProtocolError | None = None
        self._closing = False
        self._again: asyncio.Task[None] | None = None
        self.knows_expressions = False
        self.takes_clusters = False  # whether the broker gives it all events of its clusters
        self.discarded = 0  # events of clusters that no subscription is for
        self._identifiers: dict[str, int] = {}  # of subscriptions, by what the broker is asked for
        self.address = options.host, options.port  # of the broker that it is at, or tries to be
        self.moves = 0  # how often a broker has sent it to another one
        self._client_id = options.client_id
        self._old: Connection | None = None  # that the broker ended to send the bus elsewhere

    async def open(self) -> None:
        """Connects to the broker. Raises a ``DisconnectedError`` or, if the broker refuses, a ``ProtocolError``."""
        for _ in range(MOST_MOVES):
            made = await open_connection(*self.address, {}, lambda: Connection(self._come, self._lost))
            if self._old is not None:
                made.succeed(self._old)
            said = [FOLLOWS, TAKES] if self._options.takes_clusters else [FOLLOWS]
            clean, properties = self._old is None, {"user_properties": said}
            packet = Connect(self._client_id, MQTT_5, clean, self._options.keep_alive, properties=properties)
            try:
                answer = await made.open(packet)
            except ProtocolError:
                if made.moved_to is None:
                    raise
                self._go_to(made.moved_to)
                continue
            await self._opened(made, answer)
            return
        raise DisconnectedError("brokers send this client from one to the other")

    async def _opened(self, made: Connection, answer: ConnAck) -> None:
        """The broker has let the bus in: it goes on with its session, or subscribes again."""
        self.knows_expressions = FILTERS in answer.properties.get("user_properties", ())
        self.takes_clusters = TAKES in answer.properties.get("user_properties", ())
        self._client_id = answer.properties.get("assigned_client_id", self._client_id)
        moved, self._old, self._connection = self._old is not None, None, made
        if moved:
            made.go_on(answer.session_present)
        if not (moved and answer.session_present):
            for text in dict.fromkeys(self._asked(subscription) for subscription in self._subscriptions):
                await self._subscribe(made, text)
        self._ready.set()

    def _go_to(self, address: str) -> None:
        """The broker sends the bus elsewhere."""
        self.moves += 1
        self.address = address_of(address)

    async def close(self) -> None:
        """Disconnects from the broker."""
        self._closing = True
        if self._again is not None:
            self._again.cancel()
        for subscription in self._subscriptions:
            subscription.end()
        if self._connection is not None:
            self._connection.close()
        self._ready.set()

    async def publish(self, event: Event, *, qos: int = 1, retain: bool = False) -> None:
        """Publishes an event at the broker. With QoS 1 or 2 it is safe with the broker when this returns."""
        while True:
            connection = await self._present()
            try:
                await connection.publish(lambda packet_id: event.to_publish(qos, retain, packet_id), qos)
                return
            except DisconnectedError:
                if self._closing:
                    raise

    async def subscription(self, where: str | None = None, *, topics: str = "#", qos: int = 1) -> Subscription:
        """A subscription that the broker has acknowledged. Raises a ``FilterError`` for a filter that is none."""
        made = Subscription(topics, where, qos)
        connection = await self._present()
        self._subscriptions.append(made)
        try:
            await self._subscribe(connection, self._asked(made))
        except ProtocolError:
            self._subscriptions.remove(made)
            raise
        return made

    async def subscribe(self, where: str | None = None, *, topics: str = "#", qos: int = 1) -> AsyncIterator[Event]:
        """The events that match an expression, a topic filter, or both, for as long as they are read."""
        made = await self.subscription(where, topics=topics, qos=qos)
        try:
            async for event in made:
                yield event
        finally:
            await self.unsubscribe(made)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription at the broker."""
        if subscription not in self._subscriptions:
            return
        self._subscriptions.remove(subscription)
        subscription.end()
        text = self._asked(subscription)
        connection = self._connection
        if connection is None or connection.lost or text in map(self._asked, self._subscriptions):
            return
        with contextlib.suppress(DisconnectedError):
            await connection.ask(lambda packet_id: Unsubscribe(packet_id, (text[0],)))

    def _asked(self, subscription: Subscription) -> tuple[str, int]:
        asked = subscription.asked(self.knows_expressions)
        return asked.filter, asked.qos

    async def _subscribe(self, connection: Connection, asked: tuple[str, int]) -> None:
        subscription = next(one for one in self._subscriptions if self._asked(one) == asked)
        given = (subscription.asked(self.knows_expressions),)
        properties: Properties = {}
        if self.takes_clusters:
            properties = {"subscription_ids": (self._identifiers.setdefault(asked[0], len(self._identifiers) + 1),)}
        answer = await connection.ask(lambda packet_id: Subscribe(packet_id, given, properties))
        assert isinstance(answer, SubAck)
        if answer.codes[0] > 2:
            reason: Properties = answer.properties
            raise ProtocolError(answer.codes[0], str(reason.get("reason_str", f"the broker refuses {asked[0]}")))

    async def _present(self) -> Connection:
        """The connection, once there is one."""
        while True:
            await self._ready.wait()
            if self._failed is not None:
                raise self._failed
            if self._closing:
                raise DisconnectedError("the bus is closed")
            if self._connection is not None and self._connection.lost is None:
                return self._connection
            self._ready.clear()

    def _come(self, packet: Publish) -> None:
        identifiers = packet.properties.get("subscription_ids", ())
        if self.takes_clusters and not identifiers:
            self.discarded += 1
            return
        for subscription in self._subscriptions:
            if not self.takes_clusters or self._identifiers.get(self._asked(subscription)[0]) in identifiers:
                subscription.take(packet)

    def _lost(self, error: DisconnectedError) -> None:
        self._ready.clear()
        if not self._closing and self._connection is not None:
            if self._connection.moved_to is not None:
                self._old = self._connection
                self._go_to(self._connection.moved_to)
            self._again = asyncio.get_running_loop().create_task(self._reconnect(error))

    def _give_up_moving(self) -> None:
        """Where the broker has sent the bus it was not let in: it goes back to where it began."""
        if self._old is not None:
            self._old.abandon()
            self._old = None
        self.address = self._options.host, self._options.port

    async def _reconnect(self, error: DisconnectedError | ProtocolError) -> None:
        """Tries again and again, ever more slowly, until the patience ends."""
        until, pause = time.monotonic() + self._options.patience, FIRST_PAUSE
        self._connection = None
        while time.monotonic() < until:
            if self._old is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            try:
                await self.open()
                return
            except (DisconnectedError, ProtocolError) as last:
                self._connection, error = None, last
                self._give_up_moving()
        self._failed = error
        ended = error if isinstance(error, DisconnectedError) else DisconnectedError(str(error))
        for subscription in self._subscriptions:
            subscription.end(ended)
        self._ready.set()
