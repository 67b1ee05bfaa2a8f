"""Plans installed on real broker processes, while brokers and coordinators are killed and links cut, by seed.

python -m overstory.lab.installing_live FIRST LAST runs the schedules of these seeds, and says which were wrong.

Brokers stand in a line with a wire between each two. A client at one end publishes to a client at the other with QoS 1
and 2 while plans are applied one after the other, over HTTP, by the product's own code. A coordinator that is killed is
a process, ``overstory apply``, which gets SIGKILL in the middle of the installation; the next one resumes. The judge is
that of ``failures``, without order.
"""

import asyncio
import random
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from overstory.control.applying import Options, UnderWayError, apply
from overstory.control.brokers import Brokers, RefusedError
from overstory.control.installing import STABLE
from overstory.control.operating import overview, resume
from overstory.errors import BrokerError, DisconnectedError, OverstoryError, StalePlanError
from overstory.lab.failing_live import Attached, Wire
from overstory.lab.failures import TOPICS, Outcome, judged
from overstory.lab.lines import written_line
from overstory.lab.live import HOST, Network
from overstory.lab.live_plans import plan_of_live, scenario_of_live
from overstory.lab.steady import Steady
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, write_scenario
from overstory.model.tables import EVENTS, PATHS, STEINER, TREE
from overstory.wire.packets import Asked

KILLED, CUT, COORDINATOR = "killed", "cut", "coordinator"
KINDS = (KILLED, CUT, COORDINATOR)
BROKERS, SWITCHES = 4, 3
PAUSE, PATIENCE = 0.05, 120.0  # seconds
TOGETHER = 50


class Trouble(msgspec.Struct, frozen=True):
    """What fails in one schedule."""

    kind: str
    victim: int
    after: float  # seconds from the beginning of the installation
    seconds: float

    @classmethod
    def drawn(cls, seed: int) -> "Trouble":
        """The trouble of a seed: kinds take turns."""
        draw = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        victim = draw.randrange(BROKERS - (kind == CUT))
        return cls(kind, victim, draw.uniform(0.0, 0.6), draw.uniform(0.3, 2.0))


class Ended(msgspec.Struct, frozen=True):
    """What came of a schedule."""

    outcome: Outcome
    epochs: list[list[int]]

    @property
    def is_right(self) -> bool:
        """Whether every promise was kept."""
        one = len({tuple(found) for found in self.epochs}) == 1 and len(self.epochs[0]) == 1
        return one and not (self.outcome.missing - self.outcome.excused) and not self.outcome.repeated_once


class Stage:
    """A live line of brokers with disks, on which schedules are played one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.network = Network(*written_line(folder, BROKERS), folder / "logs", {"store": ""})
        self._wires: dict[int, Wire] = {}
        self._runs = self.installed = self.killed = 0

    async def __aenter__(self) -> "Stage":
        self.network.choose_ports()
        for broker in range(BROKERS - 1):
            wire = self._wires[broker] = Wire((HOST, self.network.ports[broker + 1].links))
            await wire.start()
            self.network.detours[broker, broker + 1] = f"{HOST}:{wire.port}"
        await asyncio.to_thread(self.network.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.network.stop)
        for wire in self._wires.values():
            await wire.close()

    async def run(self, trouble: Trouble, seed: int) -> Ended:
        """Publishes and installs while something fails."""
        self._runs += 1
        asked = tuple(Asked(f"{topic}/{self._runs}", qos) for qos, topic in TOPICS.items())
        publisher = Attached(Steady(f"publisher-{self._runs}"), self.network.address(0))
        subscriber = Attached(Steady(f"subscriber-{self._runs}", asked), self.network.address(BROKERS - 1))
        publishing: asyncio.Task[None] | None = None
        try:
            await publisher.until()
            await subscriber.until(subscribed=True)
            await asyncio.to_thread(self.network.wait_until_idle, None, PATIENCE)
            publishing = asyncio.create_task(self._publish(publisher))
            failing = asyncio.create_task(self._fail(trouble))
            await self._install(trouble, seed)
            await failing
            await self._settle()
            publishing.cancel()
            await publisher.until(waiting=0)
            await asyncio.to_thread(self.network.wait_until_idle, None, PATIENCE)
            await subscriber.until()
            await asyncio.sleep(4 * PAUSE)
            return Ended(self._judged(publisher.client, subscriber.client), await self._epochs())
        finally:
            if publishing is not None:
                publishing.cancel()
            await publisher.close()
            await subscriber.close()

    def _judged(self, publisher: Steady, subscriber: Steady) -> Outcome:
        renamed = {f"{topic}/{self._runs}": topic for topic in TOPICS.values()}
        subscriber.came = [(renamed[topic], number) for topic, number in subscriber.came]
        return judged(publisher, subscriber, False, 0)

    async def _publish(self, publisher: Attached) -> None:
        number = 0
        while True:
            for qos, topic in TOPICS.items():
                publisher.publish(f"{topic}/{self._runs}", number, qos)
            number += 1
            await asyncio.sleep(0.01)
            await publisher.until(connected=False, waiting=TOGETHER)

    async def _fail(self, trouble: Trouble) -> None:
        await asyncio.sleep(trouble.after)
        if trouble.kind == KILLED:
            self.network.signal(trouble.victim, signal.SIGKILL)
            await asyncio.sleep(trouble.seconds)
            await asyncio.to_thread(self.network.launch, trouble.victim)
        elif trouble.kind == CUT:
            self._wires[trouble.victim].cut()
            await asyncio.sleep(trouble.seconds)
            self._wires[trouble.victim].mend()

    @property
    def _url(self) -> str:
        return f"http://{HOST}:{self.network.ports[0].monitor}"

    def _brokers(self) -> Brokers:
        return Brokers(self._url, patience=2.0)

    async def _install(self, trouble: Trouble, seed: int) -> None:
        """Applies one plan after the other; a coordinator may be killed at any moment. ``_settle`` tries again what
        fails."""
        for switch in range(SWITCHES):
            kind = random.Random(seed + switch).choice((TREE, PATHS, STEINER))
            with suppress(BrokerError, DisconnectedError, UnderWayError, RefusedError, StalePlanError):
                if trouble.kind == COORDINATOR and switch == 1:
                    await self._apply_and_die(kind, seed + switch, trouble.after)
                else:
                    await self._apply(kind, seed + switch)
                    self.installed += 1

    async def _apply(self, kind: str, seed: int) -> None:
        brokers = self._brokers()
        plan, scenario, folder = await self._planned(brokers, kind, seed)
        files: dict[str, Any] = {one.name: one.read_bytes() for one in folder.iterdir()}
        options = Options(scenario=scenario, files=files, history=self._folder / "history", patience=20.0)
        await apply(plan, brokers, options)

    async def _planned(self, brokers: Brokers, kind: str, seed: int) -> tuple[Plan, Scenario, Path]:
        """A plan for what is live, what it is for, and its folder."""
        await brokers.meet()
        live = await brokers.subscriptions()
        scenario = scenario_of_live(await brokers.scenario(), live)
        plan = plan_of_live(scenario, live, kind, seed)
        folder = self._folder / f"plan-{self._runs}-{seed}"
        plan.write(folder)
        return plan, scenario, folder

    async def _apply_and_die(self, kind: str, seed: int, after: float) -> None:
        """Applies a plan by a process, which is killed so many seconds after it has begun to install."""
        _, scenario, folder = await self._planned(self._brokers(), kind, seed)
        whole = self._folder / f"scenario-{self._runs}-{seed}"
        tables = {name: getattr(scenario, name) for name in ("brokers", "links", "clients", "subscriptions")}
        write_scenario(whole, scenario.settings, tables, EVENTS.schema.empty_table())
        command = [sys.executable, "-m", "overstory.cli", "apply", str(folder), "--scenario", str(whole), "--yes"]
        command += ["--watch", "0", "--history", str(self._folder / "history"), "--to", self._url]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        said = b""
        while line := await process.stderr.readline():
            said += line
            if line.startswith(b"epoch") and b":" in line:  # the first state of the installation
                await asyncio.sleep(after)
                with suppress(ProcessLookupError):
                    process.kill()
                self.killed += process.returncode is None
                break
        await process.communicate()
        if process.returncode not in (0, -signal.SIGKILL):
            raise BrokerError(said.decode()[-200:])

    async def _settle(self) -> None:
        """Whatever was left half done is resumed, until the network is stable."""
        options = Options(history=self._folder / "history", patience=20.0)
        for _ in range(int(PATIENCE / PAUSE)):
            with suppress(OverstoryError):
                found = await overview(self._brokers())
                if found.state == STABLE and len(found.brokers) == BROKERS:
                    return
                await resume(self._brokers(), options)
            await asyncio.sleep(10 * PAUSE)
        raise BrokerError("the network did not become stable")

    async def _epochs(self) -> list[list[int]]:
        seen = await self._brokers().meet()
        return [[one.epoch for one in standing.epochs] for standing in seen.values()]


async def played(first: int, last: int) -> int:
    """Plays the schedules of these seeds. Returns how many were wrong."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        async with Stage(Path(folder)) as stage:
            for seed in range(first, last):
                trouble = Trouble.drawn(seed)
                try:
                    ended = await asyncio.wait_for(stage.run(trouble, seed), 2 * PATIENCE)
                    problem = "" if ended.is_right else str(ended)
                except (OverstoryError, TimeoutError) as error:
                    problem = f"{type(error).__name__}: {error}"
                wrong += bool(problem)
                print(f"seed {seed}: {problem or 'right'} {trouble}", flush=True)
            print(f"{stage.installed} plans installed, {stage.killed} coordinators killed at work")
    return wrong


if __name__ == "__main__":
    found = asyncio.run(played(int(sys.argv[1]), int(sys.argv[2])))
    print(f"{found} schedules wrong")
    sys.exit(1 if found else 0)
