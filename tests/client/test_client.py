"""The client: events in, events out, with our broker and with one that knows no expressions."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from overstory.client import Event, connect, connect_sync
from overstory.errors import DisconnectedError, FilterError, ProtocolError, UsageError
from overstory.model.values import Untyped
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import ConnAck, Connect, Packet, Publish, SubAck, Subscribe
from overstory.wire.topics import FILTERS, TAKES

from ..broker.running import PATIENCE, Running, broker, closed, free_port


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with broker() as running:
        yield f"mqtt://127.0.0.1:{running.port}"


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if path is None:
        pytest.skip("mosquitto is not installed: apt-get install mosquitto")
    port = free_port()
    config: Path = tmp_path_factory.mktemp("mosquitto") / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = subprocess.Popen(
        [path, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    _wait(f"127.0.0.1:{port}")
    yield f"mqtt://127.0.0.1:{port}"
    closed(process)


def _wait(url: str) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with connect_sync(url):
                return
        except DisconnectedError:
            continue
    raise AssertionError(url)


@pytest.fixture(params=["ours", "mosquitto"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def run(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE))  # type: ignore[arg-type]


async def some(events: AsyncIterator[Event], count: int) -> list[Event]:
    found = []
    async for event in events:
        found.append(event)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_events_that_match_arrive(url: str, qos: int) -> None:
    async def talk() -> None:
        async with connect(url) as bus, connect(url) as other:
            wanted = await bus.subscription("price > 3 AND tags HAS ANY ('hot')", topics=f"quotes/{qos}/+", qos=qos)
            for price in (1, 5, 7.5):
                for tags in (["cold", "mild"], ["hot", "new"]):
                    event = Event(f"quotes/{qos}/x", {"price": price, "tags": tags, "open": True}, b"%r" % price)
                    await other.publish(event, qos=qos)
            first, second = await some(wanted, 2)
            assert (first.topic, first.payload) == (f"quotes/{qos}/x", b"5")
            assert first.attributes == {"price": Untyped("5"), "tags": ["hot", "new"], "open": Untyped("true")}
            assert second.payload == b"7.5"
            assert bus.knows_expressions == other.knows_expressions

    run(talk())


def test_several_subscriptions_each_get_their_own(url: str) -> None:
    async def talk() -> None:
        async with connect(url) as bus:
            low = await bus.subscription("n < 5", topics="numbers")
            high = await bus.subscription("n >= 5", topics="numbers")
            for number in range(10):
                await bus.publish(Event("numbers", {"n": number}))
            assert [event.attributes["n"].number() for event in await some(low, 5)] == [0, 1, 2, 3, 4]
            assert [event.attributes["n"].number() for event in await some(high, 5)] == [5, 6, 7, 8, 9]
            await bus.unsubscribe(low)
            await bus.publish(Event("numbers", {"n": 6}))
            assert len(await some(high, 1)) == 1
            assert [event async for event in low] == []

    run(talk())


def test_an_event_without_a_topic_and_a_retained_one(url: str) -> None:
    async def talk() -> None:
        async with connect(url) as bus:
            await bus.publish(Event(attributes={"kept": "yes"}, payload=b"1"), retain=True)
            async for event in bus.subscribe("kept = 'yes'"):
                assert event.topic == "event"
                break
            await bus.publish(Event(), retain=True)

    run(talk())


def test_the_twin_without_await(url: str) -> None:
    with connect_sync(url) as bus:
        events = bus.subscribe("x = 1", topics="sync/#")
        bus.publish(Event("sync/a", {"x": 2}))
        bus.publish(Event("sync/a", {"x": 1}, b"1"), qos=2)
        assert next(events).payload == b"1"


def test_it_reconnects_and_subscribes_again() -> None:
    port = free_port()

    async def talk() -> None:
        running = Running.at(port)
        async with connect(f"127.0.0.1:{port}") as bus:
            wanted = await bus.subscription("x > 0", topics="again")
            await bus.publish(Event("again", {"x": 1}))
            assert len(await some(wanted, 1)) == 1
            await asyncio.to_thread(running.stop)
            sending = asyncio.create_task(bus.publish(Event("again", {"x": 2})))
            running = await asyncio.to_thread(Running.at, port)
            await sending
            (event,) = await some(wanted, 1)
            assert event.attributes == {"x": Untyped("2")}
        await asyncio.to_thread(running.stop)

    run(talk())


def test_errors_have_types(ours: str) -> None:
    async def talk() -> None:
        async with connect(ours) as bus:
            with pytest.raises(FilterError):
                await bus.subscription("x >")
            with pytest.raises(ProtocolError):
                await bus.subscription(topics="a/#/b")
        with pytest.raises(DisconnectedError):
            await bus.publish(Event())

    run(talk())
    with pytest.raises(DisconnectedError), connect_sync(f"127.0.0.1:{free_port()}"):
        pass
    with pytest.raises(UsageError), connect_sync("http://x"):
        pass


def test_patience_ends() -> None:
    port = free_port()

    async def talk() -> None:
        running = Running.at(port)
        async with connect(f"127.0.0.1:{port}", patience=0.1) as bus:
            wanted = await bus.subscription(topics="x")
            await asyncio.to_thread(running.stop)
            with pytest.raises(DisconnectedError):
                await some(wanted, 1)
            with pytest.raises(DisconnectedError):
                await bus.publish(Event())

    run(talk())


def test_a_client_that_takes_clusters_discards_what_it_has_not_asked_for() -> None:
    """A broker that grants it gives it two events for the subscription, one of them twice over: the copy without an
    identifier came for the cluster alone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await packet_of(reader)
        assert isinstance(said, Connect)
        assert TAKES in said.properties["user_properties"]
        writer.write(encode(ConnAck(0, False, {"user_properties": [FILTERS, TAKES]})))
        asked = await packet_of(reader)
        assert isinstance(asked, Subscribe)
        (identifier,) = asked.properties["subscription_ids"]
        writer.write(encode(SubAck(asked.packet_id, (1,))))
        mine = {"subscription_ids": [identifier]}
        for topic, properties in (("a", mine), ("b", {}), ("a", {}), ("a", mine)):
            writer.write(encode(Publish(topic, topic.encode(), properties=properties)))
        await reader.read()
        writer.close()

    async def work() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with connect(f"mqtt://127.0.0.1:{port}", takes_clusters=True) as bus:
                events = await bus.subscription("topic IN ('a')")
                assert [(await anext(events)).topic for _ in range(2)] == ["a", "a"]
                assert (bus.takes_clusters, bus.discarded) == (True, 2)

    run(work())


async def packet_of(reader: asyncio.StreamReader) -> Packet:
    data = b""
    while (size := packet_size(data)) is None or size > len(data):
        data += await reader.readexactly(1)
    return decode(data)


def test_a_broker_without_clusters_is_used_as_ever(url: str) -> None:
    async def work() -> None:
        async with connect(url, takes_clusters=True) as bus:
            events = await bus.subscription("x > 1", topics="takes/#")
            await bus.publish(Event("takes/a", {"x": 1}))
            await bus.publish(Event("takes/b", {"x": 2}))
            assert (await anext(events)).topic == "takes/b"
            assert (bus.takes_clusters, bus.discarded) == (False, 0)

    run(work())
