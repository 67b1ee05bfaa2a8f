"""Failures of a live network, by seed: a broker is killed and started again, a link is cut or slow, a broker hangs.

While a failure lasts, a client at one end of a line of brokers publishes to clients at the other end, with QoS 1 and 2.
What is acknowledged has to arrive: with QoS 1 at least once, with QoS 2 once, and first arrivals in order. When all is
over, the brokers' tables have to be as they were.
"""

import asyncio
import random
import signal
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from overstory.client.bus import Bus, Options
from overstory.client.event import Event
from overstory.client.subscriptions import Subscription
from overstory.lab.live import HOST, Network

KINDS = KILLED, CUT, HUNG, SLOW = "killed", "cut", "hung", "slow"
TOPIC = "failures"
TOGETHER = 50  # events of a publisher that are not acknowledged


class Schedule(msgspec.Struct, frozen=True):
    """What fails, where, and for how long."""

    kind: str
    victim: int  # a broker, or the link from it to the next one
    seconds: float
    events: int

    @classmethod
    def drawn(cls, seed: int, brokers: int, events: int = 300, longest: float = 3.0) -> "Schedule":
        """The schedule of a seed, on a line of brokers. The first and the last one have the clients, and do not die."""
        draw = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        return cls(kind, draw.randrange(1, brokers - 1), draw.uniform(0.3, longest), events)


class Outcome(NamedTuple):
    """What became of the events of a schedule."""

    published: int  # and acknowledged
    missing: int
    repeated_once: int  # of QoS 2, that came again
    disordered: int  # first arrivals behind one that was published later
    tables_differ: bool
    peak_memory: int  # bytes, of the largest broker


class Wire:
    """A link that can be cut or slowed down: a proxy in front of the address that a broker dials."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_cut = False
        self.pause = 0.0  # seconds before each piece goes on
        self.port = 0

    async def start(self) -> None:
        """Listens."""
        self._server = await asyncio.start_server(self._joined, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Breaks all connections, and lets none come about."""
        self.is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Carries again."""
        self.is_cut = False

    def close(self) -> None:
        """Ends it all."""
        self.cut()
        if self._server is not None:
            self._server.close()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(1 << 16):
                if self.pause:
                    await asyncio.sleep(self.pause)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Line:
    """A live network whose brokers stand in a line, with a wire between each two."""

    def __init__(self, scenario: Path, plan: Path, folder: Path, settings: dict[str, object] | None = None) -> None:
        self.network = Network(scenario, plan, folder, settings)
        self.wires: dict[int, Wire] = {}  # by the lower one of two brokers

    async def start(self) -> None:
        """Starts the wires, and then the brokers."""
        self.network.choose_ports()
        for broker in sorted(self.network.neighbours)[:-1]:
            wire = self.wires[broker] = Wire((HOST, self.network.ports[broker + 1].links))
            await wire.start()
            self.network.detours[broker, broker + 1] = f"{HOST}:{wire.port}"
        await asyncio.to_thread(self.network.start)

    def stop(self) -> None:
        """Ends everything."""
        for wire in self.wires.values():
            wire.close()
        self.network.stop()

    def entries(self) -> dict[int, int]:
        """How large the tables are."""
        return {broker: report.entries for broker, report in self.network.reports().items()}

    async def run(self, schedule: Schedule) -> Outcome:
        """Publishes while something fails, and says what came of it."""
        first, last = min(self.network.ports), max(self.network.ports)
        publisher = Bus(Options(*self.network.address(first)))
        subscriber = Bus(Options(*self.network.address(last)))
        came: dict[int, list[int]] = {1: [], 2: []}
        try:
            await publisher.open()
            await subscriber.open()
            readers = []
            for qos in came:
                made = await subscriber.subscription("TRUE", topics=f"{TOPIC}/{qos}", qos=qos)
                readers.append(asyncio.create_task(_read(made, came[qos])))
            await asyncio.to_thread(self.network.wait_until_idle)
            before = self.entries()
            failing = asyncio.create_task(self._fail(schedule))
            await _publish(publisher, schedule.events)
            await failing
            await asyncio.to_thread(self.network.wait_until_idle)
            for reader in readers:
                reader.cancel()
            return self._outcome(schedule, came, before)
        finally:
            await publisher.close()
            await subscriber.close()

    async def _fail(self, schedule: Schedule) -> None:
        """Lets something fail for a while."""
        victim, network = schedule.victim, self.network
        wire = self.wires[victim]
        if schedule.kind == KILLED:
            network.signal(victim, signal.SIGKILL)
            await asyncio.sleep(schedule.seconds / 4)
            await asyncio.to_thread(network.launch, victim)
        elif schedule.kind == HUNG:
            network.signal(victim, signal.SIGSTOP)
            await asyncio.sleep(schedule.seconds)
            network.signal(victim, signal.SIGCONT)
        elif schedule.kind == CUT:
            wire.cut()
            await asyncio.sleep(schedule.seconds)
            wire.mend()
        else:
            wire.pause = 0.05
            await asyncio.sleep(schedule.seconds)
            wire.pause = 0.0

    def _outcome(self, schedule: Schedule, came: dict[int, list[int]], before: dict[int, int]) -> Outcome:
        missing = disordered = 0
        for numbers in came.values():
            firsts = list(dict.fromkeys(numbers))
            missing += schedule.events - len(firsts)
            disordered += sum(one > other for one, other in pairwise(firsts))
        repeated = sum(count - 1 for count in Counter(came[2]).values())
        reports = self.network.reports()
        return Outcome(
            2 * schedule.events,
            missing,
            repeated,
            disordered,
            before != self.entries(),
            max(report.memory_bytes for report in reports.values()),
        )


async def _publish(bus: Bus, events: int) -> None:
    """Publishes events of both QoS, in order, and waits until all are acknowledged."""
    waiting: set[asyncio.Task[None]] = set()
    for number in range(events):
        for qos in (1, 2):
            event = Event(f"{TOPIC}/{qos}", {"n": number}, number.to_bytes(8, "big"))
            task = asyncio.create_task(bus.publish(event, qos=qos))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.sleep(0.002)
        while len(waiting) > TOGETHER:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if waiting:
        await asyncio.gather(*waiting)


async def _read(events: Subscription, came: list[int]) -> None:
    async for event in events:
        came.append(int.from_bytes(event.payload[:8], "big"))
