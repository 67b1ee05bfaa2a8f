"""To clients that nobody here wrote, three brokers with sockets are one."""

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiomqtt
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from overstory.broker.config import Config
from overstory.broker.joining import Joining
from overstory.broker.places import Who
from overstory.broker.pressure import LinkLimits
from overstory.broker.server import Server
from overstory.routing.share import tree_shares

from .nets import places_in
from .running import PATIENCE


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Three:
    """Three brokers in a row, in one thread."""

    def __init__(self) -> None:
        places, links = places_in(tree_shares([(0, 1), (1, 2)], epoch=1)), free_ports(3)
        self.loop = asyncio.new_event_loop()
        addresses = {number: f"127.0.0.1:{port}" for number, port in enumerate(links)}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.servers: list[Server] = []
        for number, place in places.items():
            window = LinkLimits(heartbeat=0.1, grace=0.1)  # who is gone is soon down
            config = Config(number=number, listen="127.0.0.1:0", link=addresses[number], window=window)
            joining = Joining(place, Who({}, {}), addresses)
            self.servers.append(Server(config, joining=joining))
        self._thread.start()
        self.do(self._start())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    async def _start(self) -> None:
        await asyncio.gather(*[server.start() for server in self.servers])

    async def _stop(self) -> None:
        await asyncio.gather(*[server.stop() for server in self.servers])

    def served(self) -> None:
        """Waits until the whole network serves all subscriptions."""

        async def until() -> None:
            while any(server.state.unserved for server in self.servers):
                await asyncio.sleep(0.002)

        self.do(until())

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until the brokers are as they should be."""

        async def until() -> None:
            while not condition():
                await asyncio.sleep(0.002)

        self.do(until())

    def kill(self, broker: int) -> None:
        """A broker is gone from one moment to the next: it says nothing to anybody."""

        async def gone() -> None:
            server = self.servers[broker]
            for task in server._tasks:
                task.cancel()
            await server.peers.stop()  # type: ignore[union-attr]
            server.turn = lambda: None  # type: ignore[method-assign]
            for connection in list(server.connections.values()):
                connection.transport.abort()

        self.do(gone())

    def stop(self) -> None:
        self.do(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


@pytest.fixture
def three() -> Iterator[Three]:
    found = Three()
    yield found
    found.stop()


class Paho:
    """A client of paho, and what has come to it."""

    def __init__(self, three: Three, broker: int, name: str, acknowledges: bool = True, will: str = "") -> None:
        self.came: queue.Queue[tuple[str, bytes, bool]] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5, manual_ack=not acknowledges)
        self.client.on_message = lambda _, __, m: self.came.put((m.topic, bytes(m.payload), m.retain))
        self.client.on_connect = lambda _, __, flags, reason, ___: self.answers.put(
            (reason.value, flags.session_present)
        )
        self.client.on_disconnect = lambda _, __, ___, reason, ____: self.answers.put((reason.value, None))
        self.client.on_subscribe = lambda *_: self.answers.put("subscribed")
        self.client.on_publish = lambda *_: self.answers.put("published")
        if will:
            self.client.will_set(will, b"gone", 1)
        kept = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        kept.SessionExpiryInterval = 1000
        self.client.connect("127.0.0.1", three.servers[broker].port, clean_start=False, properties=kept)
        self.client.loop_start()
        self.present = self.answers.get(timeout=PATIENCE)

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        self.client.publish(topic, payload, 1, retain)
        assert self.answers.get(timeout=PATIENCE) == "published"

    def subscribe(self, topics: str) -> None:
        self.client.subscribe(topics, 1)
        assert self.answers.get(timeout=PATIENCE) == "subscribed"

    def next(self) -> tuple[str, bytes, bool]:
        return self.came.get(timeout=PATIENCE)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_a_client_moves_by_itself_and_finds_everything_where_it_goes(three: Three) -> None:
    """Its session, what was in flight, what waited, and retained messages."""
    mover = Paho(three, 0, "mover", acknowledges=False)
    publisher = Paho(three, 2, "publisher")
    assert mover.present == (0, False)
    mover.subscribe("a/#")
    three.served()
    publisher.publish("a/1", b"in flight")
    assert mover.next() == ("a/1", b"in flight", False)  # which it does not acknowledge
    mover.leave()
    publisher.publish("a/2", b"waits")
    publisher.publish("b", b"retained", retain=True)
    moved = Paho(three, 2, "mover")
    assert moved.present == (0, True)
    assert [moved.next()[1] for _ in range(2)] == [b"in flight", b"waits"]
    three.served()
    publisher.publish("a/3", b"later")
    assert moved.next() == ("a/3", b"later", False)
    moved.leave()
    again = Paho(three, 1, "mover")
    assert again.present == (0, True)
    again.subscribe("b")
    assert again.next() == ("b", b"retained", True)
    for client in (again, publisher):
        client.leave()


def test_two_clients_with_one_id_at_two_brokers(three: Three) -> None:
    first = Paho(three, 0, "twin")
    first.client.reconnect_delay_set(3600, 3600)
    second = Paho(three, 2, "twin")
    assert first.answers.get(timeout=PATIENCE) == (0x8E, None)
    assert second.present == (0, True)
    first.leave()
    second.leave()


def test_a_shared_group_over_three_brokers_whose_home_dies(three: Three) -> None:
    """Each message goes to one member, and after the home has died to one of the others."""
    members = [Paho(three, broker, f"member-{broker}") for broker in (0, 1, 2)]
    publisher = Paho(three, 2, "publisher")
    for each in members:
        each.subscribe("$share/workers/jobs/#")
        each.client.reconnect_delay_set(3600, 3600)
    fabrics = [server.peers.fabric for server in three.servers]  # type: ignore[union-attr]

    def know(home: int) -> bool:
        """Whether the brokers from the home on know it, and all members; the subscription has come before that."""
        known = [fabric.groups for fabric in fabrics[home:]]
        homes = [home in holders for groups in known for holders in groups._holders.values()]
        seats = [len(roster.seats) for groups in known for roster in groups._rosters.values()]
        return homes == [True] * len(known) and seats == [3] * len(known)

    three.wait(lambda: know(0))
    for number in range(30):
        publisher.publish(f"jobs/{number}", b"%d" % number)
    got = [[bytes(each.next()[1])] for each in members]  # each has some
    three.wait(lambda: sum(each.came.qsize() for each in members) == 27)
    for each, found in zip(members, got, strict=True):
        while not each.came.empty():
            found.append(each.next()[1])
    assert sorted(int(payload) for found in got for payload in found) == list(range(30))
    three.kill(0)
    three.wait(lambda: know(1))
    for number in range(30, 60):
        publisher.publish(f"jobs/{number}", b"%d" % number)
    three.wait(lambda: sum(each.came.qsize() for each in members[1:]) >= 30)
    later = [each.next()[1] for each in members[1:] for _ in range(each.came.qsize())]
    assert sorted(map(int, later)) == list(range(30, 60))
    for each in (*members, publisher):
        each.leave()


def test_the_will_of_a_client_whose_broker_is_killed(three: Three) -> None:
    """It is read by a client of aiomqtt. The will of one that had said goodbye does not come."""
    killed, polite = Paho(three, 0, "killed", will="wills/killed"), Paho(three, 0, "polite", will="wills/polite")
    killed.client.reconnect_delay_set(3600, 3600)

    async def read() -> str:
        async with aiomqtt.Client("127.0.0.1", three.servers[2].port, protocol=aiomqtt.ProtocolVersion.V5) as reader:
            await reader.subscribe("wills/#", qos=1)
            await asyncio.to_thread(three.served)
            await asyncio.to_thread(polite.leave)
            await asyncio.to_thread(three.wait, lambda: "polite" in three.servers[0].state.away)
            await asyncio.to_thread(three.kill, 0)
            message = await asyncio.wait_for(anext(aiter(reader.messages)), PATIENCE)
            return f"{message.topic} {bytes(message.payload).decode()}"

    assert asyncio.run(read()) == "wills/killed gone"
    killed.leave()
