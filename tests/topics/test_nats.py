"""Clusters over a real cluster of three servers and a leaf node: no event is lost, doubled or out of order, nor is any
lost of a publisher that does not use the layer."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from overstory.lab.nats_barrier import Ears
from overstory.lab.nats_servers import Servers
from overstory.topics.client import Client, connect
from overstory.topics.prices import Prices
from overstory.topics.service import Service

DEAR = Prices(subscription=1000.0, association=1.0, interval=10.0)  # subscriptions are dear, so clusters form
PATIENCE = 20.0


async def until(holds: Callable[[], bool], meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
    """Waits, and does something meanwhile, until something holds."""

    async def wait() -> None:
        while not holds():
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), PATIENCE)


class Crowd:
    """Subscribers of two groups of topics, and a publisher at each server, of all topics in turn."""

    def __init__(self, servers: Servers, people: int = 12) -> None:
        self.servers, self.people = servers, people
        self.groups = [[f"news.{group}.{topic}" for topic in range(4)] for group in range(2)]
        self.got: dict[tuple[int, str], list[int]] = defaultdict(list)
        self.published: dict[str, int] = defaultdict(int)
        self.clients: list[Client] = []
        self.publishers: list[Client] = []

    async def come(self) -> None:
        for number in range(self.people):
            client = await connect(self.servers.urls[number % 4])
            self.clients.append(client)
            for topic in self.groups[number % 2]:
                await client.subscribe(topic, cb=self._listener(number))
        async with Ears(self.servers.urls) as ears:
            await asyncio.gather(*map(ears.known, self.clients))
        self.publishers = [await connect(url) for url in self.servers.urls]

    def _listener(self, number: int) -> Callable[[Any], Awaitable[None]]:
        async def heard(message: Any) -> None:
            self.got[number, message.subject].append(int(message.data))

        return heard

    async def publish(self) -> None:
        for at, topic in enumerate(topic for group in self.groups for topic in group):
            await self.publishers[at % 4].publish(topic, str(self.published[topic]).encode())
            self.published[topic] += 1

    def complete(self) -> bool:
        return all(len(self.got[key]) >= self.published[key[1]] for key in self._expected())

    def _expected(self) -> list[tuple[int, str]]:
        return [(number, topic) for number in range(self.people) for topic in self.groups[number % 2]]

    def check(self) -> None:
        for key in self._expected():
            assert self.got[key] == list(range(self.published[key[1]])), key

    async def go(self) -> None:
        for client in [*self.clients, *self.publishers]:
            await client.close()


def test_clusters_form_and_end_without_loss(servers: Servers, tmp_path: Path) -> None:
    async def run() -> None:
        crowd = Crowd(servers)
        await crowd.come()
        await until(lambda: min(crowd.published.values(), default=0) > 20, crowd.publish)
        service = Service(servers.urls, tmp_path / "journal.db", DEAR, seed=1, observed=0.0)
        await service.start()
        told = service.coordination
        even = crowd.clients[::2]

        async def more_and_more() -> None:
            """Events of the first group become so many that its cluster no longer pays."""
            for topic in crowd.groups[0]:
                told.deciding.rate(topic, 1e6)
            await crowd.publish()

        try:
            await until(lambda: all(each.holding.clusters for each in crowd.clients), crowd.publish)
            await until(lambda: not any(each.holding.direct for each in crowd.clients), crowd.publish)
            assert {tuple(sorted(topics)) for topics in told.deciding.alive().values()} == set(map(tuple, crowd.groups))
            await until(lambda: not any(each.holding.clusters for each in even), more_and_more)
            await until(crowd.complete)
            crowd.check()
            assert {change.what for change in told.timeline} >= {"formed", "ended"}
            assert sum(each.seen.repeated for each in crowd.clients) > 0
            assert sum(each.seen.out_of_order for each in crowd.clients) == 0
        finally:
            await crowd.go()
            await service.stop()

    asyncio.run(run())


def test_a_coordinator_that_was_killed_goes_on_from_its_journal(servers: Servers, tmp_path: Path) -> None:
    async def run() -> None:
        first = Service(servers.urls, tmp_path / "journal.db", DEAR, seed=1, observed=0.0)
        await first.start()
        crowd = Crowd(servers)
        await crowd.come()
        try:
            await until(lambda: any(each.holding.clusters for each in crowd.clients), crowd.publish)
            await killed(first)  # in the middle of the first handovers
            for _ in range(20):
                await crowd.publish()
            await until(crowd.complete)
            newcomer = await connect(servers.urls[1])  # publishes while nobody can tell it the clusters
            topic = crowd.groups[0][0]
            await newcomer.publish(topic, str(crowd.published[topic]).encode())
            await newcomer.flush()
            crowd.published[topic] += 1
            await until(crowd.complete)
            second = Service(servers.urls, tmp_path / "journal.db", DEAR, seed=2, observed=0.0)
            assert second.restored
            await second.start()
            try:
                await until(lambda: all(each.holding.clusters for each in crowd.clients), crowd.publish)
                await until(lambda: not any(each.holding.direct for each in crowd.clients), crowd.publish)
                await until(crowd.complete)
                crowd.check()
            finally:
                await newcomer.close()
                await crowd.go()
                await second.stop()
        finally:
            first.journal.close()

    asyncio.run(run())


async def killed(service: Service) -> None:
    """Ends a service as if its process had been killed: nobody is told, nothing is written."""
    for task in (service._task, service.guard._task):
        assert task is not None
        task.cancel()
    for each in [*service.witnesses.values(), service.nc, service.guard.nc]:
        each._transport.close()
        each.options["allow_reconnect"] = False
        await each.close()


def test_no_event_of_a_publisher_without_the_layer_is_lost(servers: Servers, tmp_path: Path) -> None:
    """Its events carry no id. The guard relays them to the cluster, and the topic leaves the cluster for good."""

    async def run() -> None:
        service = Service(servers.urls, tmp_path / "journal.db", DEAR, seed=1, observed=0.0)
        await service.start()
        crowd, told = Crowd(servers), service.coordination
        await crowd.come()
        plain = await nats.connect(servers.urls[3])  # at the leaf node
        topic = crowd.groups[0][0]
        sent = 0

        def interested() -> list[list[int]]:
            return [crowd.got[number, topic] for number in range(0, crowd.people, 2)]

        async def publish_without() -> None:
            nonlocal sent
            await plain.publish(topic, b"%d" % (1000 + sent))
            sent += 1

        try:
            await until(lambda: not any(each.holding.direct for each in crowd.clients), crowd.publish)
            before = len(told.deciding.alive())
            await until(lambda: all(topic in each.holding.direct for each in crowd.clients[::2]), publish_without)
            await until(lambda: topic not in told.to_guard, publish_without)
            settled = sent
            for _ in range(5):
                await publish_without()
            await plain.flush()
            await until(lambda: all(set(range(1000, 1000 + sent)) <= set(got) for got in interested()))
            await until(crowd.complete)
            for got in interested():
                last = [number for number in got if number >= 1000 + settled]
                assert last == list(range(1000 + settled, 1000 + sent))  # each once, when it has settled
                assert [n for n in got if n < 1000] == list(range(crowd.published[topic]))
            assert (list(told.plain), before, told.relayed > 0) == ([topic], 2, True)
            assert [change.topics for change in told.timeline if change.what == "plain"] == [(topic,)]
            assert all(each.holding.clusters for each in crowd.clients)  # the other topics stay in theirs
        finally:
            await plain.close()
            await crowd.go()
            await service.stop()
        again = Service(servers.urls, tmp_path / "journal.db", DEAR)
        assert again.coordination.plain.keys() == {topic}
        again.journal.close()

    asyncio.run(run())


@pytest.mark.parametrize("subject", ["news.*", "news.>"])
def test_wildcards_are_served_as_they_are(servers: Servers, subject: str) -> None:
    async def run() -> None:
        client = await connect(servers.urls[0])
        sub = await client.subscribe(subject)
        group = await client.subscribe("news.x", queue="workers")
        await client.publish("news.x", b"1")
        message = await sub.next_msg(PATIENCE)
        assert (message.data, message.headers) == (b"1", None)  # nothing of the layer shows
        assert (await group.next_msg(PATIENCE)).data == b"1"
        assert client.statistics().served_plainly == 2
        assert client.statistics().interests == 0
        await client.close()

    asyncio.run(run())


def test_a_wildcard_that_matches_everything_shows_nothing_of_the_layer(servers: Servers) -> None:
    async def run() -> None:
        client = await connect(servers.urls[0])
        sub = await client.subscribe(">")
        other = await connect(servers.urls[0])  # which tells the coordinator of itself
        for number in range(3):
            await other.publish("all.x", b"%d" % number)
        messages = [await sub.next_msg(PATIENCE) for _ in range(3)]
        assert [(message.subject, message.data) for message in messages] == [("all.x", b"%d" % n) for n in range(3)]
        await other.close()
        await client.close()

    asyncio.run(run())
