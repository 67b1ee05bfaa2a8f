"""The guard: hears every topic that is in a cluster, and knows events without an id as those of publishers that do not
use the layer.

1. A topic is guarded when all servers know of the guard's subscription, as witnesses have answered, and some seconds
   have passed without such an event. Before that nobody relies on a cluster for it.
2. An event without an id goes to all clusters of its topic, so that nobody lacks it, and makes the topic plain. Whoever
   is subscribed to the topic and to a cluster just then gets it twice: without an id nobody can tell.
3. A client that goes from a cluster back to the topic asks the guard as a witness. The guard answers when all witnesses
   have told it that they were asked, and behind all that it has relayed: so nothing relayed comes after the answer that
   the client would not also get directly.

It has a connection of its own, so that many events do not hold the coordinator up.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from nats.aio.client import Client as Plain
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from overstory.topics import protocol
from overstory.topics.coordination import Coordination
from overstory.topics.prices import OBSERVED
from overstory.topics.protocol import (
    PASSED,
    RELAY,
    WITNESS,
    Joined,
    Passed,
    Seen,
    client_subject,
    cluster_subject,
    encoded,
)

AGAIN = 1.0  # seconds before witnesses are asked again
MOST_PASSED = 100_000  # questions of clients that some witnesses have told of, and others not yet
FORBIDDEN = "permissions violation for subscription to "
PUBLISHED_WITHOUT = "somebody publishes it without the layer"
MAY_NOT = "the coordinator's account may not subscribe to it"


class Asked(NamedTuple):
    """Topics of which it is asked whether all servers know that the guard listens."""

    topics: dict[str, Subscription]  # with the subscription: there may be another one later
    at: float
    answered: set[str]


class Guard:
    """Tells a coordination which topics are guarded, and which are plain."""

    def __init__(self, told: Coordination, observed: float = OBSERVED) -> None:
        self.told, self.observed = told, observed
        self.nc = Plain()
        self.name = f"guard{told.version >> 32}"
        self._subs: dict[str, Subscription] = {}
        self._asked: dict[int, Asked] = {}
        self._questions = 0
        self._known: dict[str, float] = {}  # topics that all servers know of, and from when on they are guarded
        self._passed: OrderedDict[tuple[str, int], set[str]] = OrderedDict()
        # Events to be relayed, and answers to clients behind them
        self._out: asyncio.Queue[Msg | tuple[str, Seen]] = asyncio.Queue()
        self._numbers = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self, servers: Sequence[str], options: dict[str, Any]) -> None:
        self.nc.msg_class = self._arrived
        await self.nc.connect(
            list(servers),
            error_cb=self._on_error,
            reconnected_cb=self._on_back,
            name="overstory guard",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            **options,
        )
        await self.nc.subscribe(client_subject(self.name))
        await self.nc.subscribe(PASSED)
        self._task = asyncio.create_task(self._relay())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.nc.close()

    async def listen(self, now: float) -> None:
        """Subscribes to topics that have come into clusters, and gives up those that are in none any more."""
        if not self.nc.is_connected:
            return
        wanted = self.told.to_guard
        for topic in sorted(self._subs.keys() - wanted):
            await self._subs.pop(topic).unsubscribe()
            self._known.pop(topic, None)
        new = wanted - self._subs.keys()
        for topic in sorted(new):
            self._subs[topic] = await self.nc.subscribe(topic)
        if new:
            await self._ask(new, now)
        for number in [number for number, asked in self._asked.items() if now - asked.at > AGAIN]:
            await self._ask(self._asked.pop(number).topics.keys() & self._subs.keys(), now)
        for number in [number for number, asked in self._asked.items() if self._has_all(asked.answered)]:
            for topic, sub in self._asked.pop(number).topics.items():
                if self._subs.get(topic) is sub:
                    self._known.setdefault(topic, now + self.observed)
        self.told.guarded(topic for topic in self.told.unguarded if self._known.get(topic, now + 1) <= now)

    async def _ask(self, topics: Iterable[str], now: float) -> None:
        self._questions += 1
        self._asked[self._questions] = Asked({topic: self._subs[topic] for topic in topics}, now, set())
        await self.nc.publish(WITNESS, encoded(Joined(self.name, self._questions)))

    def _has_all(self, servers: set[str]) -> bool:
        return bool(self.told.witnesses) and servers.issuperset(self.told.witnesses)

    def _arrived(self, **fields: Any) -> None:
        """A message has come. All are dealt with here, in the order of their arrival."""
        subject = fields["subject"]
        if protocol.is_ours(subject):
            message = protocol.to_guard.decode(fields["data"])
            if isinstance(message, Seen) and message.version in self._asked:
                self._asked[message.version].answered.add(message.server)
            elif isinstance(message, Passed):
                self._note_passed(message)
        elif protocol.ID not in (fields["headers"] or ()):
            self._out.put_nowait(Msg(**fields))

    def _note_passed(self, message: Passed) -> None:
        """When all witnesses have told of a client's question, the guard answers it."""
        key = message.client, message.version
        told = self._passed.setdefault(key, set())
        told.add(message.server)
        if self._has_all(told):
            del self._passed[key]
            self._out.put_nowait((message.client, Seen(message.version, RELAY)))
        elif len(self._passed) > MOST_PASSED:
            self._passed.popitem(last=False)

    async def _relay(self) -> None:
        """Sends events to the clusters of their topics, and answers, one after the other."""
        while True:
            item = await self._out.get()
            if isinstance(item, Msg):
                await self._pass_on(item)
            else:
                await self.nc.publish(client_subject(item[0]), encoded(item[1]))

    async def _pass_on(self, event: Msg) -> None:
        topic = event.subject
        self.told.relayed += 1
        self.told.make_plain(topic, PUBLISHED_WITHOUT, time.monotonic())
        self._numbers += 1
        marked = {**(event.headers or {}), protocol.ID: f"{self.name}-{self._numbers}", protocol.TOPIC: topic}
        for cluster in self.told.clusters_of(topic):
            await self.nc.publish(cluster_subject(cluster), event.data, event.reply, marked)

    async def _on_error(self, error: Exception) -> None:
        """A topic that the coordinator's account may not listen to cannot be guarded, and is in no cluster."""
        said = str(error).lower()
        if FORBIDDEN in said:
            subject = said.partition(FORBIDDEN)[2].strip("\"' ")
            for topic in self._subs:
                if topic.lower() == subject:
                    self.told.make_plain(topic, MAY_NOT, time.monotonic())

    async def _on_back(self) -> None:
        self.told.tell_again()
