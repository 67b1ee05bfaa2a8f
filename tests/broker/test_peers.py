"""Real sockets between brokers: who is welcome, who is not, and what both are told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from overstory.broker.config import Config
from overstory.broker.fabric import Place
from overstory.broker.joining import Joining
from overstory.broker.places import Who
from overstory.broker.server import Server
from overstory.routing.share import tree_shares
from overstory.wire.frames import HELLO, REFUSED, Raw, Reader, framed
from overstory.wire.handshake import MAGIC, VERSION, Hello, encode_hello

from .nets import places_in

LINE = places_in(tree_shares([(0, 1), (1, 2)], epoch=1))
GIVEN = Hello(MAGIC, VERSION, 0, 1, 5, "plan", 1)


def server(place: Place, number: int, addresses: dict[int, str], log: Any = None) -> Server:
    config = Config(listen="127.0.0.1:0", link="127.0.0.1:0", number=number, scenario="", plan="")
    return Server(config, log, Joining(place, Who({}, {}), addresses))


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop go on until something holds. (Whoever waits for ever fails by the limit of the test.)"""
    while not condition():
        await asyncio.sleep(0.001)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), 60)

    asyncio.run(limited())


async def asked(port: int, data: bytes) -> Raw:
    """The first frame that comes back to whoever sends these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    frames = Reader()
    while True:
        found = list(frames.feed(await reader.read(1 << 16)))
        if found:
            writer.close()
            return found[0]


def test_three_brokers_find_each_other_and_a_cut_link_comes_back() -> None:
    async def work() -> None:
        servers: dict[int, Server] = {}
        addresses: dict[int, str] = {}
        starting = []
        for number in (2, 1, 0):
            made = servers[number] = server(LINE[number], number, addresses)
            starting.append(asyncio.create_task(made.start()))
            await until(lambda made=made: made.peers is not None and bool(made.peers.port))  # type: ignore[misc]
            assert made.peers is not None
            addresses[number] = f"127.0.0.1:{made.peers.port}"
        await asyncio.gather(*starting)
        middle = servers[1].peers
        assert middle is not None
        link = middle.fabric.neighbours[0]
        assert link.connected
        before = middle._connections[0]
        middle.cut(0)
        await until(lambda: middle._connections.get(0, before) is not before and link.connected)
        assert link.received > 0
        for made in servers.values():
            await made.stop()

    run(work)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "cannot be"),
        (framed(HELLO, b"nonsense"), "does not begin as a broker of Overstory does"),
        (framed(HELLO, encode_hello(msgspec.structs.replace(GIVEN, version=9))), "speaks version 9"),
        (framed(HELLO, encode_hello(msgspec.structs.replace(GIVEN, broker=7))), "broker 7 is a stranger"),
        (framed(HELLO, encode_hello(msgspec.structs.replace(GIVEN, plan="other"))), "has another plan"),
        (framed(HELLO, encode_hello(msgspec.structs.replace(GIVEN, broker=1))), "broker id 1 is used twice"),
    ],
)
def test_who_is_refused_is_told_why(data: bytes, said: str) -> None:
    async def work() -> None:
        logged: list[tuple[str, dict[str, object]]] = []
        made = server(LINE[1], 1, {}, lambda event, fields: logged.append((event, dict(fields))))
        starting = asyncio.create_task(made.start())
        await until(lambda: made.peers is not None and bool(made.peers.port))
        assert made.peers is not None
        answer = await asked(made.peers.port, data)
        assert answer.kind == REFUSED
        assert said in bytes(answer.body).decode()
        assert any(event == "link_ended" and said in str(fields["reason"]) for event, fields in logged)
        assert not made.peers.fabric.neighbours[0].connected
        starting.cancel()
        await made.stop()

    run(work)


def test_a_number_that_is_in_use_is_refused_while_its_broker_is_there() -> None:
    async def work() -> None:
        made = server(LINE[1], 1, {})
        starting = asyncio.create_task(made.start())
        await until(lambda: made.peers is not None and bool(made.peers.port))
        assert made.peers is not None
        link = made.peers.fabric.neighbours[0]
        _, first = await asyncio.open_connection("127.0.0.1", made.peers.port)
        first.write(framed(HELLO, encode_hello(GIVEN)))
        await until(lambda: link.connected)
        second = framed(HELLO, encode_hello(msgspec.structs.replace(GIVEN, incarnation=6)))
        answer = await asked(made.peers.port, second)
        assert "broker id 0 is used twice" in bytes(answer.body).decode()
        assert link.connected
        first.close()
        await until(lambda: not link.connected)
        assert (await asked(made.peers.port, second)).kind == HELLO
        starting.cancel()
        await made.stop()

    run(work)
