"""``topics watch`` reads and changes nothing; ``topics run`` and the client say what is in their way."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import nats
import pytest

from overstory.cli import main
from overstory.errors import BrokerError, UsageError
from overstory.lab.nats_servers import Servers
from overstory.topics.client import connect
from overstory.topics.flushing import taken
from overstory.topics.monitoring import Sample, Subscription, rates, sample
from overstory.topics.prices import Prices
from overstory.topics.service import Service
from overstory.topics.watching import would

ACCOUNTS = """
authorization {
  users = [
    { user: free, password: free }
    { user: bound, password: bound, permissions: { publish: ["news.>"], subscribe: ["news.>", "_INBOX.>"] } }
  ]
}
"""


def told(clients: int, topics: int, after: int) -> Sample:
    """Everyone wants all topics, of which each has had one event a second."""
    rows = [
        Subscription(f"c{client}", f"t.{topic}", "", after, str(topic))
        for client in range(clients)
        for topic in range(topics)
    ]
    return Sample(float(after), ("s",), tuple(rows))


def test_topics_that_are_wanted_together_would_be_one_cluster() -> None:
    before, after = told(20, 5, 0), told(20, 5, 10)
    others = (Subscription("c0", "t.*", "", 3, "90"), Subscription("c0", "t.1", "workers", 3, "91"))
    found = would(
        after._replace(subscriptions=after.subscriptions + others), rates(before, after), Prices(subscription=100.0)
    )
    assert rates(before, after) == {f"t.{topic}": pytest.approx(1.0) for topic in range(5)}
    assert (found.subscriptions, found.subscriptions_then, found.served_plainly) == (100, 20, 2)
    assert found.deliveries == found.deliveries_then == pytest.approx(100.0)
    assert found.clusters == (tuple(f"t.{topic}" for topic in range(5)),)
    assert found.bound <= found.cost_then < found.cost


def test_watching_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def run(servers: Servers) -> None:
        clients = [await nats.connect(servers.urls[0]) for _ in range(4)]
        for client in clients:
            for topic in range(6):
                await client.subscribe(f"watched.{topic}")
            await taken(client)
        names = "subscriptions", "connections", "total_connections"
        before = {name: servers.ask(0, "varz")[name] for name in names}
        code = await asyncio.to_thread(main, ["topics", "watch", servers.monitors[0], "--seconds", "0.1", "--json"])
        assert code == 0
        assert {name: servers.ask(0, "varz")[name] for name in names} == before
        for client in clients:
            await client.close()

    with Servers(tmp_path, count=1, leaves=0) as alone:
        asyncio.run(run(alone))
    found = json.loads(capsys.readouterr().out)
    assert found["subscriptions"] >= 24
    assert found["subscriptions_then"] < found["subscriptions"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def test_a_server_without_monitoring_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(BrokerError, match="start nats-server with -m 8222"):
        sample([url])
    with pytest.raises(UsageError, match="is no monitoring endpoint"):
        sample(["nats://127.0.0.1:4222"])
    assert main(["topics", "watch", url]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_real_server_without_monitoring_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever watches it has at best the port for clients."""
    with Servers(tmp_path, count=1, leaves=0, monitored=False) as silent:
        assert main(["topics", "watch", silent.urls[0].replace("nats://", "http://")]) == 1
    said = capsys.readouterr().err
    assert "nats-server -m 8222" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run http://127.0.0.1:1", "is no NATS server"),
        ("run nats://127.0.0.1:1 --interval 0", "more than 0 seconds"),
        ("run nats://127.0.0.1:1 --observe -1", "from 0 to 3600 seconds"),
        ("run nats://127.0.0.1:1 --journal nowhere/at/all.db", "there is no such folder"),
        ("watch http://127.0.0.1:1 --seconds 0", "more than 0"),
    ],
)
def test_what_is_wrong_is_one_line(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", *line.split()]) == 64
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_no_server_is_told(tmp_path: Path) -> None:
    service = Service([f"nats://127.0.0.1:{free_port()}"], tmp_path / "journal.db")
    with pytest.raises(BrokerError, match="no NATS server answers"):
        asyncio.run(service.start())


def test_an_account_that_may_not_use_the_layer_is_served_as_without_it(tmp_path: Path) -> None:
    async def run() -> None:
        with Servers(tmp_path, count=1, leaves=0, extra=ACCOUNTS) as bound:
            url = bound.urls[0]
            client = await connect(url, user="bound", password="bound", error_cb=_ignore)
            assert "_ovs" in str(client.statistics().forbidden).lower()
            sub = await client.subscribe("news.x")
            await client.publish("news.x", b"1")
            message = await sub.next_msg(10)
            assert (message.data, message.headers) == (b"1", None)
            await client.close()
            service = Service([url], tmp_path / "journal.db", user="bound", password="bound")
            with pytest.raises(BrokerError, match=r"allow _OVS\.> to it"):
                await service.start()

    asyncio.run(run())


def test_a_subject_that_the_account_may_not_use_is_told_as_by_nats_py(tmp_path: Path) -> None:
    async def run() -> None:
        heard: list[str] = []
        done = asyncio.Event()

        async def on_error(error: Exception) -> None:
            heard.append(str(error))
            done.set()

        allowed = ACCOUNTS.replace('["news.>", "_INBOX.>"]', '["news.>", "_INBOX.>", "_OVS.>"]')
        allowed = allowed.replace('publish: ["news.>"]', 'publish: ["news.>", "_OVS.>"]')
        with Servers(tmp_path, count=1, leaves=0, extra=allowed) as bound:
            client = await connect(bound.urls[0], user="bound", password="bound", error_cb=on_error)
            assert client.statistics().forbidden is None
            await client.subscribe("secret.x")
            await asyncio.wait_for(done.wait(), 10)
            assert "secret.x" in heard[0]
            await client.close()

    asyncio.run(run())


def test_a_topic_that_the_coordinator_may_not_hear_is_in_no_cluster(tmp_path: Path) -> None:
    """It could not tell whether somebody publishes the topic without the layer."""
    accounts = ACCOUNTS.replace('publish: ["news.>"]', 'publish: [">"]').replace(
        '"news.>", "_INBOX.>"', '"_OVS.>", "_INBOX.>", "news.0"'
    )

    async def run() -> None:
        with Servers(tmp_path, count=1, leaves=0, extra=accounts) as bound:
            dear = Prices(subscription=1000.0, interval=10.0)
            service = Service(bound.urls, tmp_path / "journal.db", dear, 1, 0.0, user="bound", password="bound")
            await service.start()
            clients = [await connect(bound.urls[0], user="free", password="free") for _ in range(4)]
            topics = ["news.0", "news.1"]
            for client in clients:
                for topic in topics:
                    await client.subscribe(topic)
            try:
                for _ in range(400):
                    if service.coordination.plain:
                        break
                    for topic in topics:
                        await clients[0].publish(topic, b"")
                    await asyncio.sleep(0.02)
                assert service.coordination.plain == {"news.1": "the coordinator's account may not subscribe to it"}
                assert all("news.1" in client.holding.direct for client in clients)
            finally:
                for client in clients:
                    await client.close()
                await service.stop()

    asyncio.run(run())


async def _ignore(_: Any) -> None:
    """What is forbidden is asked for on purpose."""
