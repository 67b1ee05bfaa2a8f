"""The autopilot on a live network."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from overstory.control.brokers import Brokers
from overstory.control.coordinating import Coordinator, Setting, decisions_in
from overstory.control.deciding import APPLY, KEEP, PLACE, PLAN, Decision, Rules
from overstory.control.observing import TODAY
from overstory.control.piloting import Planning
from overstory.filters import parse_filter
from overstory.lab.crowd import Wish
from overstory.lab.live import Network
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Log, Rehearsal, measured, sized, types_of
from overstory.model.plan import Header, Plan, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.routing.messages import LATE

SIZE = Size(brokers=8, clients=24, subscriptions=80, events=400)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("coordinated")
    make_market(folder / "market", SIZE)
    return sized(read_scenario(folder / "market"), folder / "sized")


def test_a_better_plan_is_found_and_applied_and_then_the_autopilot_rests(market: Scenario, tmp_path: Path) -> None:
    """The first window brings a better plan. In the second one links carry what that plan predicts, the plan is kept,
    and a subscription that came late finds its flow."""
    long_way(market).write(tmp_path / "plan")
    settings = {"types": types_of(market), "sample": 1.0}
    with Network(market.folder, tmp_path / "plan", tmp_path / "logs", settings) as network:
        asyncio.run(coordinated(market, network, tmp_path))
    decisions = decisions_in(tmp_path / "pilot")
    actions = [(decision.window, decision.action) for decision in decisions]
    assert (1, PLACE) in actions
    assert (0, PLAN) in actions
    assert (0, APPLY) in actions
    assert (1, KEEP) in actions
    assert all(decision.numbers for decision in decisions)


def matches(text: str, log: Log) -> int:
    """How many events of a log a filter matches."""
    wanted = parse_filter(text)
    return sum(wanted.matches(attributes) for attributes in log.attributes)


def long_way(scenario: Scenario) -> Plan:
    """A plan with one tree, as deep as a walk through the network makes it."""
    network, reached, links = scenario.network, [0], list[tuple[int, int]]()

    def walk(here: int) -> None:
        for there in network.targets[network.offsets[here] : network.offsets[here + 1]].tolist():
            if there not in reached:
                reached.append(there)
                links.append((here, there))
                walk(there)

    walk(0)
    sources, targets = np.array(links).T
    tables = defaults.tables(scenario) | defaults.one_flow(scenario, sources, targets)
    return Plan.of(Header("long way", scenario.fingerprint), tables)


async def coordinated(market: Scenario, network: Network, folder: Path) -> None:
    """Two windows, with the log played before each."""
    rehearsal = Rehearsal(market, read_plan(network.plan), network)
    brokers = Brokers(f"http://127.0.0.1:{next(iter(network.ports.values())).monitor}")
    told: list[Decision] = []
    rules = Rules(rest=2, price_of_message=1.0, threshold=0.01, confidence=0.0)
    setting = Setting(rules, Planning("tree-search", {"steered": False}), memory=1)
    coordinator = Coordinator(brokers, folder / "pilot", setting, told.append)
    try:
        await rehearsal.join()
        await coordinator.start()
        await rehearsal.play()
        done = await coordinator.window()
        assert done is not None, told
        assert done.plan is not None, told
        await rehearsal.settle()
        status = await brokers.status()
        assert {one.active for one in status.values()} == {2}
        row = max(market.subscriptions.to_pylist(), key=lambda row: matches(row["filter"], rehearsal.log))
        await rehearsal.crowd.subscribe(row["client"], [Wish(f"({row['filter']}) AND topic IS NOT NULL", False)])
        await rehearsal.settle()
        before = measured(market, network.reports())[1]
        await rehearsal.play()
        carried = measured(market, network.reports())[1] - before
        await coordinator.window()
        observed = read_scenario(folder / "pilot" / "seen")
        _, traffic = Workbench(observed).measured(read_plan(folder / "pilot" / "seen" / TODAY))
        assert traffic.bytes.tolist() == carried.tolist()
        await rehearsal.settle()
        every = [one for broker in (await brokers.observed()).values() for one in broker.subscriptions]
        assert not [one for one in every if LATE in one.flows]
        watched = await brokers.watched_last()
        assert watched is not None
        assert watched.measured is not None
        assert watched.predicted is not None
        assert 1 <= watched.predicted <= watched.measured  # a subscription was still late when the log was played
        assert b"overstory_cost_over_bound" in await brokers._request(brokers.url, "GET", "/metrics")
        await rehearsal.crowd.subscribe(row["client"], [Wish(f"({row['filter']}) AND 1 = 1", False)])
        await rehearsal.settle()
        await coordinator.place()  # between the ends of two windows
        assert (told[-1].window, told[-1].action, told[-1].numbers["placed"]) == (2, PLACE, 1)
        await rehearsal.settle()
        assert not [one for broker in (await brokers.late()).values() for one in broker.subscriptions]
        decided = len(told)
        await coordinator.place()
        assert len(told) == decided  # nobody has come
        assert await coordinator.window() is None  # nothing was published since
        assert told[-1].reason == "nothing was sampled"
    finally:
        rehearsal.crowd.close()
        coordinator.close()
