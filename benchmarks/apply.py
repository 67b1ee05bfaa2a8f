"""Plans applied to live brokers under load: how long it takes, what it does to the delay, and that nothing is lost.

``overstory bench --verify`` publishes and judges, in a process of its own; beside it clients subscribe and unsubscribe.
Plans are made and applied in a third process, behind brokers as ``overstory apply`` is: python -m benchmarks.apply URL
FOLDER. The same trial without any change is the peer.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.measure import Measurement
from overstory.cli.priority import behind_brokers
from overstory.cli.watching import write_network
from overstory.client.bus import Bus, connect
from overstory.control.applying import Options, apply
from overstory.control.brokers import Brokers
from overstory.control.keeping import files_of
from overstory.control.operating import rollback
from overstory.lab.lines import written_tree
from overstory.lab.live import HOST, Network
from overstory.lab.live_plans import plan_of_live, scenario_of_live
from overstory.model.tables import STEINER, TREE

MOST_DELAY = 10.0  # milliseconds that the 99th percentile may grow by
MOST_ACTIVATION = 1.0  # seconds
STILL = 20  # seconds of the trial without any change
CHURN = 0.02  # seconds between two subscriptions that come or go


Seconds = dict[str, float]  # that each step of an installation took


class Size(NamedTuple):
    """How much is tried."""

    brokers: int
    readers: int  # subscribers of the trial
    others: int  # subscriptions of others, that come and go
    rate: int  # events a second
    seconds: int
    matches: int = 10

    @property
    def text(self) -> str:
        """The size in words."""
        return f"{self.brokers} brokers, {self.readers + self.others:,} subscriptions, {self.rate} events/s"


# Half of the rate that saturates twenty brokers on two cores, while subscriptions come and go
QUICK, FULL = Size(3, 10, 20, 50, 6, 2), Size(20, 400, 4600, 1600, 240)


def switching(quick: bool) -> Iterator[Measurement]:
    """Another plan, a steered one, and back, while a trial goes on."""
    size = QUICK if quick else FULL
    with TemporaryDirectory() as name, network_of(Path(name), size) as network:
        still, _ = asyncio.run(_trial(network, Path(name), size, changes=False))
        busy, outcomes = asyncio.run(_trial(network, Path(name), size, changes=True))
    growth = max(0.001, busy["latency"]["p99"] - still["latency"]["p99"])
    yield Measurement("apply-delay", f"{size.text}: growth of p99", growth, bar=MOST_DELAY, unit="ms")
    print({kind: one["latency"] for kind, one in (("still", still), ("busy", busy))}, file=sys.stderr)
    print(outcomes, file=sys.stderr)
    longest = max(0.001, *(seconds["activated"] for seconds in outcomes))
    yield Measurement("apply-activation", f"{size.text}: from held to used", longest, bar=MOST_ACTIVATION, unit="s")
    wrong = sum(trial[kind] for trial in (still, busy) for kind in ("missing", "unwanted", "repeated"))
    yield Measurement("apply-wrong", f"{size.text}: deliveries, one added", wrong + 1, bar=1, unit="deliveries")


def network_of(folder: Path, size: Size, settings: dict[str, Any] | None = None) -> Network:
    """Brokers on a strip of a triangular grid, with nobody in any flow."""
    links = [(u, v) for u in range(size.brokers) for v in (u + 1, u + 3) if v < size.brokers]
    return Network(*written_tree(folder, links), folder / "logs", settings)


def brokers_of(network: Network) -> Brokers:
    """The brokers, as a coordinator talks to them."""
    return Brokers(f"http://{HOST}:{network.ports[0].monitor}")


@asynccontextmanager
async def publishing(network: Network, folder: Path, size: Size, seconds: int) -> AsyncIterator[Any]:
    """The process of a trial that has begun to publish."""
    write_network(network, folder)
    command = [sys.executable, "-m", "overstory.cli", "bench", "--network", str(folder), "--json"]
    command += ["--messages", str(size.rate * seconds), "--rate", str(size.rate)]
    command += ["--subscribers", str(size.readers), "--matches", str(size.matches), "--seed", "7"]
    trial = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    await _until_it_publishes(brokers_of(network), size)  # which it does when nothing else goes on
    yield trial


async def _trial(network: Network, folder: Path, size: Size, changes: bool) -> tuple[dict[str, Any], list[Seconds]]:
    """Runs the trial, with or without plans being applied meanwhile."""
    async with AsyncExitStack() as stack:
        others = [
            await stack.enter_async_context(connect(f"mqtt://{HOST}:{ports.clients}", client_id=f"other-{broker}"))
            for broker, ports in network.ports.items()
        ]
        for number in range(size.others):
            await others[number % len(others)].subscription(f"other = {number}", topics="#", qos=0)
        seconds = size.seconds if changes else min(size.seconds, STILL)
        trial = await stack.enter_async_context(publishing(network, folder, size, seconds))
        churning = asyncio.create_task(_churn(others, size.others))
        outcomes = await _changed(brokers_of(network).url, folder) if changes else []
        told, _ = await trial.communicate()
        churning.cancel()
    return json.loads(told), outcomes


async def _churn(others: list[Bus], count: int) -> None:
    """One subscription after the other comes and goes."""
    number = count
    while True:
        number += 1
        bus = others[number % len(others)]
        made = await bus.subscription(f"other = {number}", topics="#", qos=0)
        await asyncio.sleep(CHURN)
        await bus.unsubscribe(made)


async def _changed(url: str, folder: Path) -> list[Seconds]:
    """Has another process change the plan."""
    command = [sys.executable, "-m", "benchmarks.apply", url, str(folder)]
    changing = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    told, _ = await changing.communicate()
    found: list[Seconds] = json.loads(told)
    return found


async def _change(brokers: Brokers, folder: Path) -> list[Seconds]:
    """Applies a plan with another tree, a steered one, and goes back."""
    outcomes = []
    for seed, kind in enumerate((TREE, STEINER)):
        await asyncio.sleep(1.0)
        live = await brokers.subscriptions()
        scenario = scenario_of_live(await brokers.scenario(), live)
        plan = plan_of_live(scenario, live, kind, seed)
        options = Options(scenario=scenario, files=files_of(plan), history=folder / "history")
        outcomes.append(await apply(plan, brokers, options))
    await asyncio.sleep(1.0)
    outcomes.append(await rollback(brokers, Options(history=folder / "history")))
    return [outcome.seconds for outcome in outcomes]


async def _until_it_publishes(brokers: Brokers, size: Size) -> None:
    await brokers.meet()
    before = sum(report.messages_in for report in (await brokers.reports()).values())
    while sum(report.messages_in for report in (await brokers.reports()).values()) < before + size.rate:
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    with behind_brokers():
        print(json.dumps(asyncio.run(_change(Brokers(sys.argv[1]), Path(sys.argv[2])))))
