"""What clusters of topics change on real NATS servers: the servers' own counters, with plain ``nats-py`` and with the
layer, for the same interests and events; beside them what the model says.

Subscriptions, messages and bytes are those of the monitoring endpoints. Interest messages between servers (RS+, RS-,
LS+, LS-) are counted in the servers' traces, in a run of its own, since tracing costs time.
"""

import asyncio
import json
import os
import random
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nats.aio.client import Client as Plain

from overstory.lab.nats_barrier import Ears
from overstory.lab.nats_servers import Servers
from overstory.topics.client import Client
from overstory.topics.prices import Prices
from overstory.topics.service import Service

INTEREST = re.compile(rb"<<- \[(?:RS|LS)[+-] ")
TICKS = os.sysconf("SC_CLK_TCK")
GROUP = 12
TRIES = 5  # to measure while clusters stay as they are
SETTLE = 0.5  # seconds for copies that nobody waits for
PRICES = Prices(subscription=200.0, association=1.0, interval=10.0)


class Size(NamedTuple):
    subscribers: int = 200
    topics: int = 120
    events: int = 600
    pace: float = 60.0  # events a second, while delays are measured
    burst: int = 1500
    shifting: float = 0.1
    seed: int = 1
    calm: float = 2.0  # seconds in which nothing is told to anybody: clusters have settled


class Measured(NamedTuple):
    """What all servers together were measured to take.

    ``remote`` are interests that servers keep of each other, and are among the ``subscriptions``; ``copies`` are what
    subscribers got of the events at a pace. ``…_model`` is what the cost model says for the clusters that there were:
    of subscriptions those of clients to topics and clusters.
    """

    subscriptions: int
    most_at_a_server: int
    remote: int
    joining: int  # interest messages between servers until everyone had joined, and clusters had settled
    shifting: int  # while some subscribers changed their interests
    messages_out: int  # to clients and servers, for the events at a pace
    bytes_out: int
    bytes_between: int
    cpu_ms_an_event: float
    memory: int  # bytes of the servers' processes, more than before anyone came
    delay_ms_99: float
    events_a_second: float
    deliveries: int
    copies: int
    clusters: int
    subscriptions_model: int
    copies_model: int


class Trial:
    def __init__(self, servers: Servers, size: Size, clustered: bool, folder: Path) -> None:
        self.servers, self.size, self.clustered, self.folder = servers, size, clustered, folder
        self.draw = random.Random(size.seed)
        self.topics = [f"cost.t{at}" for at in range(size.topics)]
        self.clients: list[Any] = []
        self.publishers: list[Any] = []
        self.subs: list[dict[str, Any]] = []
        self.delays: list[float] = []
        self.got = 0
        self.due = 0
        self.service: Service | None = None

    def _client(self) -> Any:
        return Client() if self.clustered else Plain()

    def _wanted(self, number: int) -> set[str]:
        groups = self.size.topics // GROUP
        chosen = {number % groups, self.draw.randrange(groups)}
        mine = {self.topics[group * GROUP + at] for group in chosen for at in range(GROUP) if self.draw.random() < 0.85}
        return mine | set(self.draw.sample(self.topics, 3))

    async def _heard(self, message: Any) -> None:
        self.got += 1
        self.delays.append(time.perf_counter() - float(message.data))

    async def come(self) -> None:
        if self.clustered:
            self.service = Service(self.servers.urls, self.folder / "journal.db", PRICES, self.size.seed, 0.0)
            await self.service.start()
        for number in range(self.size.subscribers):
            client = self._client()
            await client.connect(servers=[self.servers.urls[number % len(self.servers.urls)]])
            self.clients.append(client)
            self.subs.append({})
            await self._want(number, self._wanted(number))
        for url in self.servers.urls:
            publisher = self._client()
            await publisher.connect(servers=[url])
            self.publishers.append(publisher)
        await self.known()
        await self.publish(len(self.topics), 200.0)  # so that publishers of all topics are known
        await self.calm()

    async def _want(self, number: int, topics: set[str]) -> None:
        held = self.subs[number]
        for topic in held.keys() - topics:
            await held.pop(topic).unsubscribe()
        for topic in sorted(topics - held.keys()):
            held[topic] = await self.clients[number].subscribe(topic, cb=self._heard)

    async def known(self) -> None:
        async with Ears(self.servers.urls) as ears:
            for client in self.clients:
                await ears.known(client if self.clustered else _Plainly(client))

    async def calm(self) -> None:
        """Until the coordinator has had nothing to tell for a while."""
        if self.service is None:
            return
        told, since = -1, time.monotonic()
        while time.monotonic() - since < self.size.calm:
            now = sum(self.service.coordination.sent[kind] for kind in ("Take", "Routes"))
            if now != told:
                told, since = now, time.monotonic()
            await asyncio.sleep(0.1)

    async def publish(self, events: int, pace: float | None) -> float:
        """Returns the seconds until all was delivered."""
        popular = {topic: sum(topic in held for held in self.subs) for topic in self.topics}
        began = time.perf_counter()
        for at in range(events):
            topic = self.topics[at % len(self.topics)]
            self.due += popular[topic]
            await self.publishers[at % len(self.publishers)].publish(topic, b"%.6f" % time.perf_counter())
            if pace is not None:
                await asyncio.sleep(max(0.0, began + (at + 1) / pace - time.perf_counter()))
        until = time.monotonic() + 120
        while self.got < self.due and time.monotonic() < until:
            await asyncio.sleep(0.001)
        return time.perf_counter() - began

    async def shift(self) -> None:
        count = round(self.size.shifting * self.size.subscribers)
        for number in self.draw.sample(range(self.size.subscribers), count):
            await self._want(number, self._wanted(self.draw.randrange(self.size.subscribers)))
        await self.known()
        await self.calm()

    async def go(self) -> None:
        for client in [*self.clients, *self.publishers]:
            await client.close()
        if self.service is not None:
            await self.service.stop()

    def copies(self) -> int:
        """What subscribers have got so far, wanted or not."""
        told = [client.statistics() for client in self.clients] if self.clustered else []
        return self.got + int(sum(each.discarded + each.repeated for each in told))

    def model(self, events: int) -> tuple[int, int]:
        """Subscriptions to topics and clusters, and copies of so many events, published topic after topic."""
        if self.service is None:
            popular = [sum(topic in held for held in self.subs) for topic in self.topics]
            return sum(popular), sum(popular[at % len(self.topics)] for at in range(events))
        found = self.service.coordination.deciding
        sizes = {cluster.number: len(cluster.members) for cluster in found.clusters.values()}
        topics = [found.entities.topics[found.topic_number[topic]] for topic in self.topics]
        reached = [len(topic.members) + sum(sizes[number] for number in topic.clusters) for topic in topics]
        subscriptions = sum(sizes.values()) + sum(len(topic.members) for topic in topics)
        return subscriptions, sum(reached[at % len(reached)] for at in range(events))

    def interests(self) -> int:
        """Interest messages between servers so far."""
        logs = (self.folder / "servers").glob("server-*.log")
        return sum(len(INTEREST.findall(log.read_bytes())) for log in logs)

    def counted(self) -> dict[str, float]:
        found: dict[str, float] = dict.fromkeys(
            ("subscriptions", "most", "remote", "out", "bytes", "between", "cpu", "memory"), 0
        )
        for at in range(len(self.servers.urls)):
            told = self.servers.ask(at, "varz")
            found["subscriptions"] += told["subscriptions"]
            found["most"] = max(found["most"], told["subscriptions"])
            found["out"] += told["out_msgs"]
            found["bytes"] += told["out_bytes"]
            found["memory"] += told["mem"]
            for kind, path in (("routes", "routez?subs=1"), ("leafs", "leafz?subs=1")):
                for link in self.servers.ask(at, path).get(kind) or ():
                    found["between"] += link.get("out_bytes", 0)
                    found["remote"] += link.get("num_subscriptions", link.get("subscriptions", 0))
            stat = Path(f"/proc/{self.servers.processes[at].pid}/stat").read_text().rpartition(")")[2].split()
            found["cpu"] += (int(stat[11]) + int(stat[12])) / TICKS
        return found


class _Plainly:
    """A plain client, as ears ask for it."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def publish_plainly(self, subject: str) -> None:
        await self.client.publish(subject, b"")

    async def flush(self) -> None:
        await self.client.flush()


def measured(size: Size, clustered: bool) -> Measured:
    """Once with traces for the interests, once without for the events."""
    joining, shifting = _in_servers(size, clustered, "trace: true\n", _interests)
    found: Measured = _in_servers(size, clustered, "", _events)
    return found._replace(joining=joining, shifting=shifting)


def _in_servers(size: Size, clustered: bool, extra: str, work: Any) -> Any:
    with tempfile.TemporaryDirectory() as place, Servers(Path(place) / "servers", extra=extra) as servers:
        return asyncio.run(work(Trial(servers, size, clustered, Path(place))))


async def _interests(trial: Trial) -> tuple[int, int]:
    before = trial.interests()
    await trial.come()
    joined = trial.interests()
    await trial.shift()
    shifted = trial.interests()
    await trial.go()
    return joined - before, shifted - joined


async def _events(trial: Trial) -> Measured:
    idle = trial.counted()
    await trial.come()
    for _ in range(TRIES):  # clusters that change meanwhile would be counted half before and half after
        before, trial.delays, got, copies = trial.counted(), [], trial.got, trial.copies()
        model = trial.model(trial.size.events)
        await trial.publish(trial.size.events, trial.size.pace)
        after, delays, deliveries = trial.counted(), np.array(trial.delays), trial.got - got
        await asyncio.sleep(SETTLE)
        copies = trial.copies() - copies
        if trial.model(trial.size.events) == model:
            break
        await trial.calm()
    seconds = await trial.publish(trial.size.burst, None)
    clusters = len(trial.service.coordination.deciding.alive()) if trial.service else 0
    await trial.go()
    return Measured(
        int(before["subscriptions"] - idle["subscriptions"]),
        int(before["most"] - idle["most"]),
        int(before["remote"] - idle["remote"]),
        0,
        0,
        int(after["out"] - before["out"]),
        int(after["bytes"] - before["bytes"]),
        int(after["between"] - before["between"]),
        1000 * (after["cpu"] - before["cpu"]) / trial.size.events,
        int(before["memory"] - idle["memory"]),
        1000 * float(np.quantile(delays, 0.99)),
        trial.size.burst / seconds,
        deliveries,
        copies,
        clusters,
        *model,
    )


class BreakEven(NamedTuple):
    """From when on clusters would pay, in the measured ratio of subscriptions saved to copies added."""

    subscriptions_saved: int
    copies_added_an_event: float
    events_an_interval: float  # of all topics together, if keeping a subscription takes one message in an interval
    messages_a_subscription: float  # that keeping one would have to take in an interval, at the pace of the trial
    interest_messages_added_a_change: float  # above 0: more changes of interests make clusters cost more, not less


def break_even(size: Size, plain: Measured, layer: Measured) -> BreakEven:
    """A subscription that is saved is worth what keeping it takes in an interval; a copy that is added costs 1."""
    saved = plain.subscriptions - layer.subscriptions
    added = (layer.copies - plain.copies) / size.events
    changes = max(1, round(size.shifting * size.subscribers))
    return BreakEven(
        saved,
        added,
        saved / added if added > 0 else float("inf"),
        added * size.pace * PRICES.interval / saved if saved > 0 else float("inf"),
        (layer.shifting - plain.shifting) / changes,
    )


def main(arguments: Sequence[str]) -> None:
    """``python -m overstory.lab.nats_cost [subscribers topics]``: one JSON object with both, and when it would pay."""
    size = Size(*map(int, arguments))
    plain, layer = (measured(size, clustered) for clustered in (False, True))
    found = {"plain": plain._asdict(), "layer": layer._asdict(), "break_even": break_even(size, plain, layer)._asdict()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
