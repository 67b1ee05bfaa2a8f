"""Failures by seed in a live network: real processes and sockets, and a wire between each two brokers that can fail."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from overstory.broker.places import places_of
from overstory.lab.failures import (
    CUT,
    HUNG,
    KILLED,
    SLOW,
    STORM,
    STORM_SIZE,
    TOPICS,
    Outcome,
    Schedule,
    fresh_tables,
    judged,
)
from overstory.lab.live import HOST, Network, fetch_table
from overstory.lab.steady import Steady
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario
from overstory.wire.encode import encode
from overstory.wire.packets import Asked, Disconnect
from overstory.wire.topics import filter_of, read_filter

TOGETHER = 50  # events of a publisher that are not acknowledged
PAUSE = 0.05  # seconds
PATIENCE = 180.0  # seconds until a network has to be quiet


class Wire:
    """A link that can be cut or slowed down: a proxy in front of the address that a broker dials."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_cut = False
        self.pause = 0.0  # seconds before each piece goes on
        self.port = 0

    async def start(self) -> None:
        """Begins to listen for connections from the broker at one end."""
        self._server = await asyncio.start_server(self._joined, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Breaks all connections, and lets none come about."""
        self.is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """The wire carries connections again."""
        self.is_cut = False

    async def close(self) -> None:
        """Breaks all connections, and listens no longer."""
        self.cut()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks)

    def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.pause:
                    await asyncio.sleep(self.pause)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Attached:
    """A client on a socket, which connects again whenever its connection is gone."""

    def __init__(self, client: Steady, address: tuple[str, int]) -> None:
        self.client, self._address = client, address
        self._writer: asyncio.StreamWriter | None = None
        self._task = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        while True:
            with suppress(OSError):
                await self._talk()
            self.client.is_connected = False
            if self._writer is not None:
                self._writer.transport.abort()
            await asyncio.sleep(PAUSE)

    async def _talk(self) -> None:
        """Connects, and answers until the connection is gone."""
        reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(self.client.connect())
        while data := await reader.read(1 << 16):
            self._writer.write(self.client.receive(data))

    def publish(self, topic: str, number: int, qos: int) -> None:
        """Publishes an event, now or when there is a connection."""
        data = self.client.publish(topic, number, qos)
        if self._writer is not None:
            self._writer.write(data)

    async def until(self, connected: bool = True, subscribed: bool = False, waiting: int = TOGETHER) -> None:
        """Waits for the broker to have answered."""
        client = self.client
        while (
            (connected and not client.is_connected)
            or (subscribed and not client.is_subscribed)
            or len(client.inflight) > waiting
        ):
            await asyncio.sleep(PAUSE / 10)

    async def close(self) -> None:
        """Ends the session, and hangs up."""
        self._task.cancel()
        if self._writer is not None:
            with suppress(OSError):
                self._writer.write(encode(Disconnect(properties={"session_expiry_interval": 0})))
                await self._writer.drain()
            self._writer.close()


class Line:
    """A live network whose brokers stand in a line, with a wire between each two."""

    def __init__(self, scenario: Path, plan: Path, folder: Path, settings: dict[str, object] | None = None) -> None:
        self.network = Network(scenario, plan, folder, settings)
        places = places_of(read_scenario(scenario), read_plan(plan))
        self._shares = {broker: place.share for broker, place in places.items()}
        self.wires: dict[int, Wire] = {}  # by the lower one of two brokers
        self._runs = 0

    async def start(self) -> None:
        """Starts the wires, and then the brokers."""
        self.network.choose_ports()
        for broker in sorted(self.network.neighbours)[:-1]:
            wire = self.wires[broker] = Wire((HOST, self.network.ports[broker + 1].links))
            await wire.start()
            self.network.detours[broker, broker + 1] = f"{HOST}:{wire.port}"
        await asyncio.to_thread(self.network.start)

    async def stop(self) -> None:
        """Ends all wires, and then the brokers."""
        for wire in self.wires.values():
            await wire.close()
        self.network.stop()

    async def run(self, schedule: Schedule, storm: int = STORM_SIZE) -> Outcome:
        """Publishes while something fails, and says what came of it."""
        self._runs += 1
        first, last = min(self.network.ports), max(self.network.ports)
        asked = tuple(Asked(topic, qos) for qos, topic in TOPICS.items())
        publisher = Attached(Steady(f"publisher-{self._runs}"), self.network.address(first))
        subscriber = Attached(Steady(f"subscriber-{self._runs}", asked), self.network.address(last))
        many: list[Attached] = []
        try:
            await publisher.until()
            await subscriber.until(subscribed=True)
            await self._quiet()
            before = self._memory()
            made = self._connections()
            failing = asyncio.create_task(self._fail_after(schedule, publisher.client, many, storm))
            await self._publish(publisher, schedule.events)
            await failing
            await publisher.until(waiting=0)
            await self._quiet()
            missed = sum(now - then for now, then in zip(self._connections(), made, strict=True))
            differ = await asyncio.to_thread(self._tables_differ, schedule, storm)
            missed = missed if schedule.kind == STORM else 0
            return judged(publisher.client, subscriber.client, differ, missed, self._growth(before))
        finally:
            for one in (publisher, subscriber, *many):
                await one.close()

    async def _publish(self, publisher: Attached, events: int) -> None:
        """Publishes events of both QoS, in order, as they are acknowledged."""
        for number in range(events):
            for qos, topic in TOPICS.items():
                publisher.publish(topic, number, qos)
            await asyncio.sleep(0.002)
            await publisher.until(connected=False)

    async def _quiet(self) -> None:
        await asyncio.to_thread(self.network.wait_until_idle, None, PATIENCE)

    async def _fail_after(self, schedule: Schedule, publisher: Steady, many: list[Attached], storm: int) -> None:
        while len(publisher.acknowledged) < schedule.after:
            await asyncio.sleep(PAUSE / 10)
        await self._fail(schedule, many, storm)

    async def _fail(self, schedule: Schedule, many: list[Attached], storm: int) -> None:
        """Lets something fail for a while."""
        victim, network = schedule.victim, self.network
        if schedule.kind == KILLED:
            network.signal(victim, signal.SIGKILL)
            await asyncio.sleep(schedule.seconds)
            await asyncio.to_thread(network.launch, victim)
        elif schedule.kind == HUNG:
            network.signal(victim, signal.SIGSTOP)
            await asyncio.sleep(schedule.seconds)
            network.signal(victim, signal.SIGCONT)
        elif schedule.kind == STORM:
            wishes = tuple(Asked(f"storm/{number}", 1) for number in range(storm))
            many.append(Attached(Steady(f"storm-{self._runs}", wishes), network.address(victim)))
            await many[0].until(subscribed=True)
        else:
            await self._disturb(self.wires[victim], schedule)

    async def _disturb(self, wire: Wire, schedule: Schedule) -> None:
        if schedule.kind == CUT:
            wire.cut()
        elif schedule.kind == SLOW:
            wire.pause = PAUSE
        await asyncio.sleep(schedule.seconds)
        wire.mend()
        wire.pause = 0.0

    def _connections(self) -> list[int]:
        return [link.connections for report in self.network.reports().values() for link in report.links]

    def _memory(self) -> dict[int, int]:
        return {broker: report.memory_bytes for broker, report in self.network.reports().items()}

    def _growth(self, before: dict[int, int]) -> int:
        return max(used - before[broker] for broker, used in self._memory().items())

    def _tables_differ(self, schedule: Schedule, storm: int) -> bool:
        """Whether tables are not those that fresh routers compute."""
        wanted = {max(self._shares): [filter_of(read_filter(topic)) for topic in TOPICS.values()]}
        if schedule.kind == STORM:
            storms = [filter_of(read_filter(f"storm/{number}")) for number in range(storm)]
            wanted[schedule.victim] = [*wanted.get(schedule.victim, ()), *storms]
        fresh = fresh_tables(self._shares, wanted)
        ports = self.network.ports
        return any(fetch_table(HOST, ports[broker].monitor) != rows for broker, rows in fresh.items())
