"""Clients moved between two real brokers under load: ours, which follow, and others, which do not.

python -m overstory.lab.moving_live CLIENTS [QOS] moves that many of our clients to another broker and back, and says
what was missing, what came twice, and how long the longest silence of each client was. Beside them are a few of aiomqtt
(which is paho-mqtt underneath), if it is installed: they are asked to move, too, and come back to where they were. The
plans are applied by a process of their own, as an operator would.
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

import msgspec
import numpy as np
import pyarrow as pa

from overstory.client.bus import Bus, connect
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
from overstory.wire.topics import WHERE

FIRST, WISHES = 1000, 1_000_000  # the number of the first client; and what its subscription has more
RATE = 20  # events a second, which every client wants
FILTER = "n >= 0"
AROUND = 1.0  # seconds before and after
OTHERS = 3  # clients of another make


class Moved(msgspec.Struct, frozen=True):
    """What became of the clients."""

    clients: int
    events: int
    missing: int
    repeated: int
    moves: int
    silence: dict[str, float]  # milliseconds, by percentile, of the longest silence of each client; without the pace
    others: int
    others_missing: int


def _table(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in table.schema.names} for row in rows], table.schema)


def written(folder: Path, clients: int) -> tuple[Path, list[Path]]:
    """The scenario of two brokers, and two plans: all clients at the first, and all at the second."""
    links = [{"source": u, "target": v, "price": 1.0, "delay": 1.0} for u, v in ((0, 1), (1, 0))]
    ids = range(FIRST, FIRST + clients + OTHERS)
    wishes = [{"id": WISHES + id_, "client": id_, "filter": FILTER, "no_local": False} for id_ in ids]
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


def _plan(scenario: Scenario, ids: Sequence[int], broker: int) -> Plan:
    tables = {
        "attachments": _table(ATTACHMENTS, [{"client": id_, "broker": broker} for id_ in ids]),
        "flows": _table(FLOWS, [{"flow": 0, "kind": TREE, "events": EVERYTHING, "associations": 0}]),
        "members": _table(MEMBERS, [{"flow": 0, "subscription": WISHES + id_} for id_ in ids]),
        "trees": _table(TREES, [{"flow": 0, "source": 0, "target": 1}]),
    }
    return Plan.of(Header("by hand", scenario.fingerprint, network=scenario.network_fingerprint), tables)


class Reader:
    """One of our clients, and what came to it."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.got: list[int] = []
        self.times: list[float] = []

    async def read(self, qos: int) -> asyncio.Task[None]:
        """Subscribes, and reads from then on."""
        events = await self.bus.subscription(FILTER, topics="#", qos=qos)

        async def keep() -> None:
            async for event in events:
                self.got.append(int(event.payload))
                self.times.append(time.monotonic())

        return asyncio.create_task(keep())

    def silence(self, begin: float, end: float) -> float:
        """The longest time between two events within a while."""
        return float(np.diff([at for at in self.times if begin <= at <= end]).max(initial=0.0))


@asynccontextmanager
async def _reader(network: Network, id_: int, qos: int) -> AsyncIterator[Reader]:
    for _ in range(200):  # until the broker listens
        try:
            async with connect(f"mqtt://{HOST}:{network.ports[0].clients}", client_id=str(id_)) as bus:
                reader = Reader(bus)
                task = await reader.read(qos)
                yield reader
                task.cancel()
                return
        except DisconnectedError:
            await asyncio.sleep(0.05)


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
        readers = [await stack.enter_async_context(_reader(network, FIRST + n, qos)) for n in range(clients)]
        stayers = await _others(stack, network, FIRST + clients)
        writer = await stack.enter_async_context(connect(f"mqtt://{HOST}:{network.ports[1].clients}"))
        sent, ended = 0, asyncio.Event()

        async def write() -> None:
            nonlocal sent
            while not ended.is_set():
                await writer.publish(Event("t", {"n": sent}, b"%d" % sent), qos=qos)
                sent += 1
                await asyncio.sleep(1 / RATE)

        writing = asyncio.create_task(write())
        await asyncio.sleep(AROUND)
        begin = time.monotonic()
        for plan in (plans[1], plans[0]):
            await apply(plan)
        await asyncio.sleep(AROUND)
        end = time.monotonic()
        ended.set()
        await writing
        await asyncio.sleep(AROUND)
        return _moved(readers, stayers, sent, (begin, end))


def _moved(readers: list[Reader], stayers: list[list[int]], sent: int, span: tuple[float, float]) -> Moved:
    counts = [Counter(reader.got) for reader in readers]
    silences = [1000 * (reader.silence(*span) - 1 / RATE) for reader in readers]
    return Moved(
        len(readers),
        sent,
        sum(len(range(min(found, default=0), sent)) - len(found) for found in counts),
        sum(count - 1 for found in counts for count in found.values()),
        sum(reader.bus.moves for reader in readers),
        {f"p{p}": round(float(np.percentile(silences, p)), 1) for p in (50, 99, 100)},
        len(stayers),
        sum(len(range(min(got, default=0), sent)) - len(set(got)) for got in stayers),
    )


async def _others(stack: AsyncExitStack, network: Network, first: int) -> list[list[int]]:
    """Clients of another make, with QoS 1, that ignore where they are sent: they connect again where they were."""
    found: list[list[int]] = []
    if find_spec("aiomqtt") is None:
        return found
    for number in range(OTHERS):
        got: list[int] = []
        begun = asyncio.Event()
        task = asyncio.create_task(_stay(network.ports[0].clients, str(first + number), got, begun))
        stack.callback(task.cancel)
        await begun.wait()
        found.append(got)
    return found


async def _stay(port: int, name: str, got: list[int], begun: asyncio.Event) -> None:
    """One such client, as its users write it: a loop that connects again."""
    import aiomqtt
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 1000
    where = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    where.UserProperty = (WHERE, FILTER)
    settings = {"identifier": name, "protocol": aiomqtt.ProtocolVersion.V5, "clean_start": False}
    while True:
        with suppress(aiomqtt.MqttError):
            async with aiomqtt.Client(HOST, port, properties=properties, **settings) as client:  # type: ignore[arg-type]
                await client.subscribe("#", qos=1, properties=where)
                begun.set()
                async for message in client.messages:
                    got.append(int(bytes(message.payload)))
        await asyncio.sleep(0.01)


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
