"""A network of brokers: what a hop costs, what twenty processes take, how long a replay of 20,000 events is, and how
long links are silent when 50,000 subscriptions come at once."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.broker import MICRO, taken
from benchmarks.broker_load import Load, Shape
from benchmarks.broker_peers import PEERS, Running, running
from benchmarks.measure import Measurement
from overstory.broker.pressure import LinkLimits
from overstory.broker.reports import Report
from overstory.cli.up import is_as_predicted, links_of, wrong_clients
from overstory.lab.crowd import Crowd, Wish
from overstory.lab.lines import written_line, written_tree
from overstory.lab.live import Network
from overstory.lab.live_pruning import twenty_brokers
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Rehearsal, plan_for_sized, rehearse, sized, types_of, wanted
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

LIMITS = {"receive_max": 65535, "queued": 100_000, "write_buffer": 1 << 24}  # as ``broker_peers`` has them
SHAPES = (
    (Shape("one to one", 1, 1), 2_000_000, 2000),
    (Shape("one to fifty", 50, 50), 400_000, 2000),
    (Shape("QoS 1, one to one", 1, 1, qos=1), 1_000_000, 2000),
)
ROUNDS = 5  # in which one broker and the line take turns
LEAST_SHARE = 0.5  # of one broker's rate
MOST_MEMORY, MOST_SECONDS = 600.0, 60.0  # megabytes, seconds
STORM = 50_000  # subscriptions
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "one tree": ("spt", {}),
    "many trees": ("covering-cyclic", {}),
    "paths": ("medym", {}),
    "steiner": ("steered", {"steer": "all"}),
}


def line(quick: bool) -> Iterator[Measurement]:
    """Three brokers in a line: the CPU time of the busiest for each message, beside that of one broker alone. They take
    turns, and medians are compared: a single run may be met by whatever else the machine does."""
    with TemporaryDirectory() as name, running("overstory") as alone:
        assert alone is not None
        folder = Path(name)
        with Network(*written_line(folder, 3), folder / "logs", {"limits": LIMITS}) as network:
            brokers = [
                Running(PEERS["overstory"], ports.clients, network.pids[broker])
                for broker, ports in sorted(network.ports.items())
            ]
            for shape, count, window in SHAPES[:1] if quick else SHAPES:
                messages = 2000 if quick else count
                owns, busiest = [], []
                for _ in range(1 if quick else ROUNDS):
                    one = taken(alone, shape, messages, window)
                    assert one is not None
                    owns.append(one.cpu_seconds / messages * MICRO)
                    busiest.append(_busiest(brokers, network, shape, messages, window))
                size = f"three in a line, {shape.name}, W {window:,}; median of {len(owns)} rounds"
                yield Measurement(
                    "network-line",
                    size,
                    statistics.median(busiest),
                    "one broker",
                    statistics.median(owns),
                    bar_ratio=LEAST_SHARE,
                    unit="µs CPU",
                )


def _busiest(brokers: list[Running], network: Network, shape: Shape, messages: int, window: int) -> float:
    """Microseconds of CPU for each message, of the broker that takes most."""
    load = Load(brokers[0], shape, brokers[-1].port)
    network.wait_until_idle()
    load.run(2 * window, window)
    before = [broker.cpu_seconds() for broker in brokers]
    load.run(messages & ~1, window)
    spent = [broker.cpu_seconds() - then for broker, then in zip(brokers, before, strict=True)]
    load.close()
    network.wait_until_idle()
    return max(spent) / messages * MICRO


def memory(quick: bool) -> Iterator[Measurement]:
    """All processes of a network before anybody subscribes, the fork server's own share included."""
    brokers = 3 if quick else 20
    with TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        with Network(*written_line(folder, brokers), folder / "logs") as network:
            took = time.monotonic() - began
            used = sum(map(_proportional, [*network.pids.values(), network.server_pid])) / 1e6
    yield Measurement("network-memory", f"{brokers} processes, up in {took:.1f} s", used, bar=MOST_MEMORY, unit="MB")


def _proportional(pid: int) -> int:
    """The memory of a process, where what it shares with others counts in parts."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def storm(quick: bool) -> Iterator[Measurement]:
    """Many subscriptions at once, at one broker or at all of them: the longest time in which a link was silent. Fails
    where a connection between brokers ends, or where a broker does not get to know of all subscriptions."""
    line, tree = [(0, 1), (1, 2), (2, 3)], list(twenty_brokers().links)
    shapes = [("4 in a line, all at one end", line, [0]), ("20 in a tree, as many at each", tree, list(range(20)))]
    for name, links, victims in shapes[:1] if quick else shapes:
        count = (400 if quick else STORM) // len(victims)
        with TemporaryDirectory() as folder:
            written = written_tree(Path(folder), links)
            with Network(*written, Path(folder) / "logs", {"types": {"x": "number"}}) as network:
                began = time.monotonic()
                found = asyncio.run(_subscribed(network, victims, count))
                took = time.monotonic() - began
        about = f"{name}: {count * len(victims):,} subscriptions, everywhere after {took:.0f} s"
        if any(link.connections != 1 for report in found for link in report.links):
            raise RuntimeError(f"{about}: a heartbeat was missed")
        if any(report.entries < count * len(victims) for report in found):
            raise RuntimeError(f"{about}: a broker does not know of all")
        silence = max(link.silence for report in found for link in report.links)
        yield Measurement("network-storm", about, silence, bar=LinkLimits().silence, unit="s of silence")


async def _subscribed(network: Network, victims: list[int], count: int) -> list[Report]:
    """Clients subscribe at once, and everything settles. Returns what brokers say then."""
    crowd = Crowd()
    try:
        for broker in victims:
            await crowd.connect(broker, f"c{broker}", network.address(broker))
        wishes = {
            broker: [Wish(f"x = {place * count + number}") for number in range(count)]
            for place, broker in enumerate(victims)
        }
        await asyncio.gather(*(crowd.subscribe(broker, mine) for broker, mine in wishes.items()))
        await asyncio.to_thread(network.wait_until_idle, None, 120.0)
        return list(network.reports().values())
    finally:
        crowd.close()


def replay(quick: bool) -> Iterator[Measurement]:
    """The log of a scenario through real clients, under each kind of plan. Fails where a link or a client differs."""
    size = Size(4, 12, 40, 200) if quick else Size(20, 250, 5_000, 20_000)
    with TemporaryDirectory() as name, Pipeline("local[1]" if quick else "local[2]", cache=False) as pipeline:
        folder = Path(name)
        make_market(folder / "market", size)
        scenario = sized(read_scenario(folder / "market"), folder / "sized")
        for kind in list(PLANS)[:1] if quick else PLANS:
            seconds = _replayed(scenario, pipeline, kind, folder / kind.replace(" ", "-"))
            about = f"{kind}: {size.brokers} brokers, {size.subscriptions:,} subscriptions, {size.events:,} events"
            yield Measurement("network-replay", about, seconds, bar=MOST_SECONDS, unit="s")


def _replayed(scenario: Scenario, pipeline: Pipeline, kind: str, folder: Path) -> float:
    """Seconds from the start of the brokers until everything is delivered and has been compared."""
    planner, parameters = PLANS[kind]
    plan = plan_for_sized(make_plan(planner, scenario, pipeline, parameters, 0), scenario)
    _, predicted = pipeline.score(scenario, plan, 0, lambda: None)
    plan.write(folder / "plan")
    began = time.monotonic()
    with Network(scenario.folder, folder / "plan", folder / "logs", {"types": types_of(scenario)}) as network:
        rehearsal = Rehearsal(scenario, plan, network)
        result = asyncio.run(rehearse(rehearsal))
    seconds = time.monotonic() - began
    links = links_of(scenario, result, predicted)
    wrong = sum(not is_as_predicted(row) for row in links), wrong_clients(result, wanted(scenario, rehearsal.log))
    if any(wrong):
        raise RuntimeError(f"{kind}: {wrong[0]} links and {wrong[1]} clients differ from what was predicted")
    return seconds
