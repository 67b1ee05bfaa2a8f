"""Plans applied to live brokers under load: how long it takes, what it does to the delay, and that nothing is lost.

``overstory bench --verify`` publishes and judges, in a process of its own; beside it clients subscribe and unsubscribe.
The same trial without any change is the peer.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.measure import Measurement
from overstory.cli.watching import write_network
from overstory.client.bus import Bus, connect
from overstory.control.applying import Options, Outcome, apply
from overstory.control.brokers import Brokers
from overstory.control.operating import rollback
from overstory.lab.lines import written_tree
from overstory.lab.live import HOST, Network
from overstory.lab.live_plans import plan_of_live, scenario_of_live
from overstory.model.plan import Plan
from overstory.model.tables import STEINER, TREE

MOST_DELAY = 10.0  # milliseconds that the 99th percentile may grow by
MOST_ACTIVATION = 1.0  # seconds
STILL = 20  # seconds of the trial without any change
CHURN = 0.02  # seconds between two subscriptions that come or go


class Size(NamedTuple):
    """How much is tried."""

    brokers: int
    readers: int  # subscribers of the trial
    others: int  # subscriptions of others, that come and go
    rate: int  # events a second
    seconds: int
    matches: int = 10


QUICK, FULL = Size(3, 10, 20, 50, 6, 2), Size(20, 400, 4600, 200, 120)


def switching(quick: bool) -> Iterator[Measurement]:
    """Another plan, a steered one, and back, while a trial goes on."""
    size = QUICK if quick else FULL
    with TemporaryDirectory() as name:
        folder = Path(name)
        links = [(u, v) for u in range(size.brokers) for v in (u + 1, u + 3) if v < size.brokers]
        with Network(*written_tree(folder, links), folder / "logs") as network:
            write_network(network, folder)
            still, _ = asyncio.run(_trial(network, folder, size, changes=False))
            busy, outcomes = asyncio.run(_trial(network, folder, size, changes=True))
    what = f"{size.brokers} brokers, {size.readers + size.others:,} subscriptions, {size.rate} events/s"
    growth = max(0.001, busy["latency"]["p99"] - still["latency"]["p99"])
    yield Measurement("apply-delay", f"{what}: growth of p99", growth, bar=MOST_DELAY, unit="ms")
    print({kind: one["latency"] for kind, one in (("still", still), ("busy", busy))}, file=sys.stderr)
    print([outcome.seconds for outcome in outcomes], file=sys.stderr)
    longest = max(0.001, *(outcome.seconds["activated"] for outcome in outcomes))
    yield Measurement("apply-activation", f"{what}: from held to used", longest, bar=MOST_ACTIVATION, unit="s")
    wrong = sum(trial[kind] for trial in (still, busy) for kind in ("missing", "unwanted", "repeated"))
    yield Measurement("apply-wrong", f"{what}: deliveries, one added", wrong + 1, bar=1, unit="deliveries")


async def _trial(network: Network, folder: Path, size: Size, changes: bool) -> tuple[dict[str, Any], list[Outcome]]:
    """Runs the trial, with or without plans being applied meanwhile."""
    async with AsyncExitStack() as stack:
        others = [
            await stack.enter_async_context(connect(f"mqtt://{HOST}:{ports.clients}", client_id=f"other-{broker}"))
            for broker, ports in network.ports.items()
        ]
        for number in range(size.others):
            await others[number % len(others)].subscription(f"other = {number}", topics="#", qos=0)
        command = [sys.executable, "-m", "overstory.cli", "bench", "--network", str(folder), "--json"]
        seconds = size.seconds if changes else min(size.seconds, STILL)
        command += ["--messages", str(size.rate * seconds), "--rate", str(size.rate)]
        command += ["--subscribers", str(size.readers), "--matches", str(size.matches), "--seed", "7"]
        trial = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        brokers = Brokers(f"http://{HOST}:{network.ports[0].monitor}")
        await _until_it_publishes(brokers, size)  # which it does when nothing else goes on
        churning = asyncio.create_task(_churn(others, size.others))
        outcomes = await _change(brokers, folder) if changes else []
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


async def _change(brokers: Brokers, folder: Path) -> list[Outcome]:
    """Applies a plan with another tree, a steered one, and goes back."""
    outcomes = []
    for seed, kind in enumerate((TREE, STEINER)):
        await asyncio.sleep(1.0)
        live = await brokers.subscriptions()
        scenario = scenario_of_live(await brokers.scenario(), live)
        plan = plan_of_live(scenario, live, kind, seed)
        options = Options(scenario=scenario, files=_files(plan, folder / f"plan-{seed}"), history=folder / "history")
        outcomes.append(await apply(plan, brokers, options))
    await asyncio.sleep(1.0)
    outcomes.append(await rollback(brokers, Options(history=folder / "history")))
    return outcomes


async def _until_it_publishes(brokers: Brokers, size: Size) -> None:
    await brokers.meet()
    before = sum(report.messages_in for report in (await brokers.reports()).values())
    while sum(report.messages_in for report in (await brokers.reports()).values()) < before + size.rate:
        await asyncio.sleep(0.2)


def _files(plan: Plan, folder: Path) -> dict[str, bytes]:
    plan.write(folder)
    return {one.name: one.read_bytes() for one in folder.iterdir()}
