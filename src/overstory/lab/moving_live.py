"""Clients moved between two real brokers under load: ours, which follow, and others, which do not.

python -m overstory.lab.moving_live CLIENTS [QOS] moves that many of our clients to another broker and back, and says
what was missing, what came twice, and for how long each client was without a broker. Clients are in groups of
ten, and each event is for one group. Beside them are a few of aiomqtt and of paho-mqtt, if they are installed: they are
asked to move, too, and come back to where they were. The plans are applied by a process of their own, as an operator
would.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from overstory.client.bus import Bus, Options, connect
from overstory.client.connection import Connection
from overstory.client.event import Event
from overstory.errors import DisconnectedError
from overstory.lab.live import HOST, Network
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import (
    ATTACHMENTS,
    BROKERS,
    CLIENTS,
    EVENTS,
    FLOWS,
    LINKS,
    MEMBERS,
    SUBSCRIPTIONS,
    TREE,
    TREES,
    Table,
)
from overstory.wire.packets import ConnAck
from overstory.wire.topics import WHERE

FIRST, WISHES = 1000, 1_000_000  # the number of the first client; and what its subscription has more
RATE = 100  # events a second, each for one group
GROUP = 10  # clients
FILTER = "group = 0"  # what all clients want, if there is one group
AROUND = 1.0  # seconds before and after
OTHERS = 3  # clients of each other make
MAKES = ("aiomqtt", "paho")


class Moved(msgspec.Struct, frozen=True):
    """What became of the clients."""

    clients: int
    events: int
    missing: int
    repeated: int
    moves: int
    silence: dict[str, float]  # milliseconds, by percentile, for which a client that moved had no broker, each time
    delay: dict[str, float]  # milliseconds, by percentile, of the slowest event of each client
    others: int
    others_missing: int


def _table(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in table.schema.names} for row in rows], table.schema)


def written(folder: Path, clients: int) -> tuple[Path, list[Path]]:
    """The scenario of two brokers, and two plans: all clients at the first, and all at the second."""
    links = [{"source": u, "target": v, "price": 1.0, "delay": 1.0} for u, v in ((0, 1), (1, 0))]
    ids = range(FIRST, FIRST + clients + OTHERS * len(MAKES))
    filters = {id_: filter_of(id_, clients) for id_ in ids}
    wishes = [{"id": WISHES + id_, "client": id_, "filter": filters[id_], "no_local": False} for id_ in ids]
    tables = {
        "brokers": _table(BROKERS, [{"id": 0}, {"id": 1}]),
        "links": _table(LINKS, links),
        "clients": _table(CLIENTS, [{"id": id_} for id_ in ids]),
        "subscriptions": _table(SUBSCRIPTIONS, wishes),
    }
    write_scenario(folder / "scenario", Settings(name="two"), tables, EVENTS.schema.empty_table())
    scenario = read_scenario(folder / "scenario")
    for broker in (0, 1):
        _plan(scenario, ids, broker).write(folder / f"plan-{broker}")
    return folder / "scenario", [folder / "plan-0", folder / "plan-1"]


def groups_of(clients: int) -> int:
    """How many groups there are."""
    return max(1, clients // GROUP)


def filter_of(id_: int, clients: int) -> str:
    """What a client wants."""
    return f"group = {(id_ - FIRST) % groups_of(clients)}"


def _plan(scenario: Scenario, ids: Sequence[int], broker: int) -> Plan:
    tables = {
        "attachments": _table(ATTACHMENTS, [{"client": id_, "broker": broker} for id_ in ids]),
        "flows": _table(FLOWS, [{"flow": 0, "kind": TREE, "events": EVERYTHING, "associations": 0}]),
        "members": _table(MEMBERS, [{"flow": 0, "subscription": WISHES + id_} for id_ in ids]),
        "trees": _table(TREES, [{"flow": 0, "source": 0, "target": 1}]),
    }
    return Plan.of(Header("by hand", scenario.fingerprint, network=scenario.network_fingerprint), tables)


class TimedBus(Bus):
    """A bus that knows for how long it had no broker when it was sent to another one."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.silences: list[float] = []
        self._since = 0.0

    def _lost(self, error: DisconnectedError) -> None:
        self._since = time.monotonic()
        super()._lost(error)

    async def _opened(self, made: Connection, answer: ConnAck) -> None:
        if self._since:
            self.silences.append(time.monotonic() - self._since)
        await super()._opened(made, answer)


class Reader:
    """One of our clients, and what came to it."""

    def __init__(self, bus: TimedBus, group: int) -> None:
        self.bus, self.group = bus, group
        self.got: list[int] = []
        self.slowest = 0.0

    async def read(self, qos: int) -> asyncio.Task[None]:
        """Subscribes, and reads from then on."""
        events = await self.bus.subscription(f"group = {self.group}", topics="#", qos=qos)

        async def keep() -> None:
            async for event in events:
                number, _, sent = event.payload.partition(b" ")
                self.got.append(int(number))
                self.slowest = max(self.slowest, time.monotonic() - float(sent))

        return asyncio.create_task(keep())


@asynccontextmanager
async def _reader(network: Network, id_: int, qos: int, group: int) -> AsyncIterator[Reader]:
    bus = TimedBus(Options(HOST, network.ports[0].clients, str(id_)))
    for _ in range(200):  # until the broker listens
        try:
            await bus.open()
            break
        except DisconnectedError:
            await asyncio.sleep(0.05)
    reader = Reader(bus, group)
    task = await reader.read(qos)
    yield reader
    task.cancel()
    await bus.close()


async def _apply(network: Network, history: Path, plan: Path) -> None:
    """Applies a plan, in a process of its own."""
    command = [sys.executable, "-m", "overstory.cli", "apply", str(plan), "--yes", "--watch", "0.1"]
    command += ["--to", f"http://{HOST}:{network.ports[0].monitor}", "--history", str(history)]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    if await process.wait():
        raise DisconnectedError("the plan could not be applied")


Apply = Callable[[Path], Awaitable[None]]


async def move(network: Network, plans: Sequence[Path], clients: int, qos: int, apply: Apply) -> Moved:
    """Moves clients to the other broker and back while events are published to all of them."""
    async with AsyncExitStack() as stack:
        groups = groups_of(clients)
        readers = [
            await stack.enter_async_context(_reader(network, FIRST + n, qos, n % groups)) for n in range(clients)
        ]
        stayers = await _others(stack, network, clients)
        writer = await stack.enter_async_context(connect(f"mqtt://{HOST}:{network.ports[1].clients}"))
        sent, ended = 0, asyncio.Event()

        async def write() -> None:
            nonlocal sent
            while not ended.is_set():
                event = Event("t", {"group": sent % groups}, b"%d %f" % (sent, time.monotonic()))
                await writer.publish(event, qos=qos)
                sent += 1
                await asyncio.sleep(1 / RATE)

        writing = asyncio.create_task(write())
        await asyncio.sleep(AROUND)
        for plan in (plans[1], plans[0]):
            await apply(plan)
        await asyncio.sleep(AROUND)
        ended.set()
        await writing
        await asyncio.sleep(AROUND)
        return _moved(readers, stayers, sent, groups)


def _moved(readers: list[Reader], stayers: list[tuple[int, list[int]]], sent: int, groups: int) -> Moved:
    counts = [Counter(reader.got) for reader in readers]
    silences = [1000 * silence for reader in readers for silence in reader.bus.silences]
    delays = [1000 * reader.slowest for reader in readers]
    return Moved(
        len(readers),
        sent,
        sum(_missing(reader.got, reader.group, sent, groups) for reader in readers),
        sum(count - 1 for found in counts for count in found.values()),
        sum(reader.bus.moves for reader in readers),
        _percentiles(silences),
        _percentiles(delays),
        len(stayers),
        sum(_missing(got, group, sent, groups) for group, got in stayers),
    )


def _missing(got: list[int], group: int, sent: int, groups: int) -> int:
    """How many events of a group did not come, from the first one on that did."""
    first = min(got, default=0)
    return sum(number % groups == group for number in range(first, sent)) - len(set(got))


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{p}": round(float(np.percentile(values or [0.0], p)), 1) for p in (50, 99, 100)}


async def _others(stack: AsyncExitStack, network: Network, clients: int) -> list[tuple[int, list[int]]]:
    """Clients of other makes, with QoS 1, that ignore where they are sent: they connect again where they were. Their
    groups, and what comes to them."""
    found: list[tuple[int, list[int]]] = []
    port, groups, first = network.ports[0].clients, groups_of(clients), FIRST + clients
    for place, make in enumerate(MAKES):
        for id_ in range(first + place * OTHERS, first + (place + 1) * OTHERS) if find_spec(make) else ():
            got: list[int] = []
            if make == "aiomqtt":
                begun = asyncio.Event()
                task = asyncio.create_task(_stay(port, str(id_), filter_of(id_, clients), got, begun))
                stack.callback(task.cancel)
                await begun.wait()
            else:
                stack.callback(await asyncio.to_thread(_paho, port, str(id_), filter_of(id_, clients), got))
            found.append(((id_ - FIRST) % groups, got))
    return found


async def _stay(port: int, name: str, filter_: str, got: list[int], begun: asyncio.Event) -> None:
    """One client of aiomqtt, as its users write it: a loop that connects again."""
    import aiomqtt

    properties, where = _properties(filter_)
    version = aiomqtt.ProtocolVersion.V5
    settings: dict[str, Any] = {"identifier": name, "protocol": version, "clean_start": False}
    while True:
        with suppress(aiomqtt.MqttError):
            async with aiomqtt.Client(HOST, port, properties=properties, **settings) as client:
                await client.subscribe("#", qos=1, properties=where)
                begun.set()
                async for message in client.messages:
                    got.append(int(bytes(message.payload).partition(b" ")[0]))
        await asyncio.sleep(0.01)


def _paho(port: int, name: str, filter_: str, got: list[int]) -> Callable[[], object]:
    """One client of paho-mqtt, in a thread of its own, which connects again by itself. Returns how to end it."""
    import threading

    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    properties, where = _properties(filter_)
    begun = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    client.reconnect_delay_set(1, 1)

    def subscribe(*_: object) -> None:
        client.subscribe("#", qos=1, properties=where)

    client.on_connect = subscribe
    client.on_subscribe = lambda *_: begun.set()
    client.on_message = lambda _, __, message: got.append(int(bytes(message.payload).partition(b" ")[0]))
    client.connect(HOST, port, clean_start=False, properties=properties)
    client.loop_start()
    begun.wait()

    def end() -> None:
        client.disconnect()
        client.loop_stop()

    return end


def _properties(filter_: str) -> tuple[Any, Any]:
    """Of CONNECT, and of SUBSCRIBE with a filter."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 1000
    where = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    where.UserProperty = (WHERE, filter_)
    return properties, where


def main(clients: int, qos: int = 1) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario, plans = written(folder, clients)
        with Network(scenario, plans[0], folder / "logs") as network:
            apply = partial(_apply, network, folder / "history")
            moved = asyncio.run(move(network, plans, clients, qos, apply))
    print(msgspec.json.encode(moved).decode())
    return 1 if moved.missing or (qos == 2 and moved.repeated) or moved.others_missing else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
