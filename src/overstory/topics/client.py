"""A client for NATS with ``nats-py``'s own names, whose subscriptions may be carried by clusters of topics.

    from overstory.topics.client import connect
    nc = await connect("nats://127.0.0.1:4222")
    await nc.subscribe("news.sport", cb=...)
    await nc.publish("news.sport", b"...")

``subscribe`` and ``publish`` of a plain subject go through the layer; subscriptions with wildcards, queue groups or
futures, and everything else that ``nats-py`` has, are ``nats-py``'s. Copies of events arrive in one place, in the order
of their arrival (``msg_class``, which ``nats-py`` calls for each message), before any queue: so the order between the
subjects of a topic and of its clusters is kept.
"""

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client as Plain
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from overstory.topics import protocol
from overstory.topics.flushing import taken
from overstory.topics.holding import Holding, Step
from overstory.topics.protocol import (
    LATE,
    TO_COORDINATOR,
    WITNESS,
    Again,
    Bye,
    Counted,
    Declare,
    Done,
    Joined,
    Message,
    Publishes,
    Report,
    Routed,
    Routes,
    Seen,
    Take,
    client_subject,
    cluster_subject,
    encoded,
    is_ours,
)
from overstory.topics.publishing import Publishing
from overstory.topics.seen import Seen as SeenEvents
from overstory.topics.subscription import TopicSubscription

EVERY = 1.0  # seconds between two reports of rates, and before a question is asked again
FORBIDDEN = "permissions violation"


class Statistics(NamedTuple):
    """What a client holds and has met."""

    interests: int
    direct: int
    clusters: int
    served_plainly: int  # subscriptions with wildcards, queue groups or futures
    discarded: int  # copies that it did not want
    repeated: int  # second copies
    out_of_order: int
    late_events: int  # published before the coordinator had told their clusters
    forbidden: str | None  # why the layer is not used, if it is not


class Client(Plain):  # type: ignore[misc]
    """``nats-py``'s client with the layer in between."""

    def __init__(self) -> None:
        super().__init__()
        self.name_in_layer = uuid.uuid4().hex[:12]
        self.holding, self.publishing, self.seen = Holding(), Publishing(self.name_in_layer), SeenEvents()
        self.discarded = 0
        self.served_plainly = 0
        self.forbidden: str | None = None
        self.hears_coordinator = asyncio.Event()
        self.msg_class = self._arrived
        self._listeners: dict[str, list[TopicSubscription]] = defaultdict(list)
        self._carriers: dict[str, Subscription] = {}  # subscriptions of the layer, by subject
        self._carried: set[int] = set()  # their numbers
        self._steps: asyncio.Queue[Message | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[str, Any] = {}
        self._sending = asyncio.Lock()
        self._short_tasks: set[asyncio.Task[None]] = set()

    async def connect(self, servers: Any = ("nats://localhost:4222",), **options: Any) -> None:
        """Connects as ``nats-py`` does. Then the layer listens for the coordinator; where the account may not use its
        subjects, everything goes on as without it, and ``statistics().forbidden`` says so."""
        self._told = {name: options.get(name) for name in ("error_cb", "disconnected_cb", "reconnected_cb")}
        mine = {"error_cb": self._on_error, "disconnected_cb": self._on_cut, "reconnected_cb": self._on_back}
        given = [servers] if isinstance(servers, str) else list(servers)
        await super().connect(servers=given, **{**options, **mine})
        await self._carry(client_subject(self.name_in_layer))
        await super().publish(client_subject(self.name_in_layer), encoded(Again()))
        for subject in (cluster_subject(0), LATE):
            await super().publish(subject, b"")  # is it allowed?
        await taken(self)
        if self.forbidden is None:
            self._tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._remind())]

    async def close(self) -> None:
        await self._leave()
        await super().close()
        for sub in [sub for listeners in self._listeners.values() for sub in listeners]:
            sub.stop()

    async def drain(self) -> None:
        await self._leave()
        for sub in [sub for listeners in list(self._listeners.values()) for sub in listeners]:
            await sub.drain()
        await super().drain()

    async def _leave(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks and self.is_connected:
            with contextlib.suppress(nats.errors.Error):  # a server that has gone needs no farewell
                await self._tell(Bye(self.name_in_layer))
                await taken(self)

    async def subscribe(self, subject: str, queue: str = "", cb: Any = None, future: Any = None, **given: Any) -> Any:
        """Subscribes as ``nats-py`` does. A plain subject is a topic; anything else is served as it is."""
        if not self._is_topic(subject) or queue or future is not None:
            self.served_plainly += not is_ours(subject) and not subject.startswith("_INBOX.")
            return await super().subscribe(subject, queue=queue, cb=cb, future=future, **given)
        sub = TopicSubscription(self, self._next_number(), subject, cb=cb, **given)
        sub._start(self._error_cb)
        self._listeners[subject].append(sub)
        if subject not in self.holding.wants:
            try:
                await self._do(self.holding.gain(subject))
            except Exception:
                self.holding.lose(subject)
                self._listeners[subject].remove(sub)
                raise
            await self._tell(Declare(self.name_in_layer, subject, True))
        return sub

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None
    ) -> None:
        """As ``nats-py``'s: to the subject, and to the clusters that hold it."""
        if not self._is_topic(subject) or self.forbidden is not None:
            await super().publish(subject, payload, reply, headers)
            return
        async with self._sending:  # the copies of two events do not mix, nor those of before and after new routes
            sent = self.publishing.send(subject)
            marked = {**(headers or {}), protocol.ID: sent.id}
            await super().publish(subject, payload, reply, marked)
            for other in sent.others:
                await super().publish(other, payload, reply, {**marked, protocol.TOPIC: subject})
        if sent.is_new:
            await self._tell(Publishes(self.name_in_layer, subject))

    async def publish_plainly(self, subject: str, payload: bytes = b"") -> None:
        """Past the layer: to the subject alone, and without an id."""
        await super().publish(subject, payload)

    async def forget(self, sub: TopicSubscription) -> None:
        """A subscription of the application ends."""
        topic = sub.subject
        self._listeners[topic].remove(sub)
        if self._listeners[topic]:
            return
        del self._listeners[topic]
        await self._do(self.holding.lose(topic))
        await self._tell(Declare(self.name_in_layer, topic, False))

    def statistics(self) -> Statistics:
        held = self.holding
        sizes = len(held.wants), len(held.direct), len(held.clusters), self.served_plainly
        copies = self.discarded, self.seen.repeated, self.seen.out_of_order, self.publishing.late
        return Statistics(*sizes, *copies, self.forbidden)

    @staticmethod
    def _is_topic(subject: str) -> bool:
        return not (subject.startswith(("_", "$")) or "*" in subject or ">" in subject)

    def _next_number(self) -> int:
        self._sid += 1
        return int(self._sid)

    def _arrived(self, **fields: Any) -> Msg | None:
        """A message has come. Those of the layer's own subscriptions are dealt with here, at once."""
        headers, subject = fields["headers"] or {}, fields["subject"]
        if fields["_sid"] not in self._carried:
            if is_ours(subject):
                return None  # a wildcard of the application matches it, but nothing of the layer is to show
            headers.pop(protocol.ID, None)
            return Msg(**(fields | {"headers": headers or None}))
        if subject == client_subject(self.name_in_layer):
            self._steps.put_nowait(protocol.to_client.decode(fields["data"]))
            return None
        topic = headers.pop(protocol.TOPIC, subject)
        id_ = headers.pop(protocol.ID, None)
        listeners = self._listeners.get(topic)
        if listeners is None or topic not in self.holding.wants:
            self.discarded += 1
        elif id_ is None or self.seen.is_new(topic, id_):
            fields |= {"subject": topic, "headers": headers or None}
            for sub in list(listeners):
                self._give(sub, Msg(**fields))
        return None

    def _give(self, sub: TopicSubscription, message: Msg) -> None:
        error = sub.give(message)
        if error is not None:
            self._soon(self._on_error(error))
        elif 0 < sub._max_msgs <= sub._received:
            self._soon(sub._ended())

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._short_tasks.add(task)
        task.add_done_callback(self._short_tasks.discard)

    async def _carry(self, subject: str) -> None:
        """A subscription of the layer."""
        if subject not in self._carriers:
            sub = self._carriers[subject] = await super().subscribe(subject)
            self._carried.add(sub._id)

    def _carry_once_back(self, subject: str) -> None:
        """A subscription of the layer that is sent with all others when the connection is back. It takes no time now,
        as nothing is to keep the connection from coming back."""
        if subject not in self._carriers:
            sub = self._carriers[subject] = Subscription(self, self._next_number(), subject)
            sub._start(self._error_cb)
            self._subs[sub._id] = sub
            self._carried.add(sub._id)

    async def _drop(self, subject: str) -> None:
        sub = self._carriers.pop(subject, None)
        if sub is not None:
            self._carried.discard(sub._id)
            if not self.is_closed:
                await sub.unsubscribe()

    async def _do(self, step: Step) -> None:
        """Subscribes first, then asks, then gives up."""
        for topic in step.direct:
            await self._carry(topic)
        for cluster in step.clusters:
            await self._carry(LATE)
            await self._carry(cluster_subject(cluster))
        if step.ask is not None:
            await super().publish(WITNESS, encoded(Joined(self.name_in_layer, step.ask, step.relay)))
        for topic in step.no_direct:
            await self._drop(topic)
        for cluster in step.no_clusters:
            await self._drop(cluster_subject(cluster))
        if step.no_clusters and not self.holding.clusters:
            await self._drop(LATE)
        if step.done is not None:
            await self._tell(Done(self.name_in_layer, step.done))

    async def _work(self) -> None:
        """Does what the coordinator and the witnesses say, one after the other."""
        while True:
            message = await self._steps.get()
            if isinstance(message, Take):
                self.hears_coordinator.set()
                await self._do(self.holding.take(message))
            elif isinstance(message, Seen):
                await self._do(self.holding.seen(message.version, message.server))
            elif isinstance(message, Routes):
                self.hears_coordinator.set()
                async with self._sending:
                    self.publishing.route(message)
                await self._tell(Routed(self.name_in_layer, message.version))
            else:
                await self._report()

    async def _remind(self) -> None:
        """Tells rates, and asks again what was not answered."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(EVERY)
            if not self.is_connected:
                continue
            counts, now = self.publishing.counted(), time.monotonic()
            if counts:
                await self._tell(Counted(self.name_in_layer, counts, now - before))
            before = now
            if self.publishing.unknown() or not self.hears_coordinator.is_set():
                await self._report()

    async def _report(self) -> None:
        held, topics = self.holding, list(self.publishing.routes)
        await self._tell(Report(self.name_in_layer, sorted(held.wants), topics, held.version))

    async def _tell(self, message: Message) -> None:
        if self.forbidden is None:
            await super().publish(TO_COORDINATOR, encoded(message))

    async def _on_error(self, error: Exception) -> None:
        said = str(error)  # which nats-py has in small letters
        if FORBIDDEN in said.lower() and f'"{protocol.ROOT}.'.lower() in said.lower():
            self.forbidden = said
        elif self._told["error_cb"] is not None:
            await self._told["error_cb"](error)

    async def _on_cut(self) -> None:
        self.publishing.cut()
        for topic in self.holding.cut().direct:
            self._carry_once_back(topic)
        if self._told["disconnected_cb"] is not None:
            await self._told["disconnected_cb"]()

    async def _on_back(self) -> None:
        await self._report()
        if self._told["reconnected_cb"] is not None:
            await self._told["reconnected_cb"]()


async def connect(servers: Any = ("nats://localhost:4222",), **options: Any) -> Client:
    """A client that is connected as ``nats.connect`` does it."""
    client = Client()
    await client.connect(servers, **options)
    return client
