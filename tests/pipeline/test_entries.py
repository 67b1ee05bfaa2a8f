"""Entries, against a count of every link's filters one by one."""

import dataclasses
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import networkx
import numpy as np
import pytest

from overstory import Filter, parse_filter
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Prices
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import STEERED
from overstory.pipeline.entries import Entries, _parsed_covers, covers_of, entries_of, is_priced
from overstory.pipeline.rules import Metered, metered
from overstory.pipeline.workbench import Workbench

from ..plans import events_of, random_plan, random_scenario

NESTED = [
    *(f"price < {number}" for number in range(6)),
    *(f"price <= {number}.0" for number in range(3)),
    "price >= 2 AND price < 4",
    "NOT price >= 3",  # once more, in other words
    "topic = 'a'",
    "topic IN ('a', 'b') AND price < 3",
    "price > 1 AND price < 1",
    "volume > 1 AND volume < 1",
    "price + volume > 3",
    EVERYTHING,
]


def counted(scenario: Scenario, plan: Plan) -> Entries:
    """For every directed link of every tree, and for every client."""
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    wants = {row["id"]: (row["client"], parse_filter(row["filter"])) for row in scenario.subscriptions.to_pylist()}
    rows = {(row["flow"], row["source"], row["target"]) for row in plan.filters.to_pylist()}
    entering = {broker_of[event.publisher] for event in events_of(scenario)}
    core = access = 0
    for flow in plan.flows.to_pylist():
        number = flow["flow"]
        members = [wants[row["subscription"]] for row in plan.members.to_pylist() if row["flow"] == number]
        for client, broker in broker_of.items():
            if (number, broker, client) in rows:
                access += 1
            else:
                access += uncovered([wanted for owner, wanted in members if owner == client])
        links = [(row["source"], row["target"]) for row in plan.trees.to_pylist() if row["flow"] == number]
        if flow["kind"] in STEERED:
            assert not links
            hosts = [(broker_of[owner], wanted) for owner, wanted in members]
            gateway_of = {row["broker"]: row["gateway"] for row in plan.regions.to_pylist() if row["flow"] == number}
            if not gateway_of:
                core += summaries(scenario, flow, hosts, rows, entering)
            for gateway in set(gateway_of.values()):
                inside = {broker for broker, its in gateway_of.items() if its == gateway}
                mine = [(broker, wanted) for broker, wanted in hosts if broker in inside]
                own = rows - {(number, gateway, gateway)}
                core += summaries(scenario, flow, mine, own, entering & inside, inside, gateway)
                as_one = [(gateway, wanted) for _, wanted in mine]
                core += summaries(scenario, flow, as_one, rows, entering - inside, {gateway})
        for u, v in [*links, *((v, u) for u, v in links)]:
            if (number, u, v) in rows:
                core += 1
            else:
                side = behind(links, u, v)
                core += uncovered([wanted for owner, wanted in members if broker_of[owner] in side])
    flows = plan.flows["flow"].to_pylist()
    shares = {(row["flow"], wants[row["subscription"]][0]) for row in plan.members.to_pylist()}
    clients = tuple(sum(flow == number for number, _ in shares) for flow in flows)
    return Entries(core, access, sum(plan.flows["associations"].to_pylist()), clients)


def summaries(
    scenario: Scenario,
    flow: dict[str, Any],
    members: list[tuple[int, Filter]],
    rows: set[tuple[int, int, int]],
    entering: set[int],
    hosts: set[int] | None = None,
    gateway: int | None = None,
) -> int:
    """What hosts tell on every link to every broker that may publish into a steered flow, one link after the other.

    And to the gateway, if there is one."""
    network, total = scenario.network, 0
    ends = [network.ids[end].tolist() for end in minimum_spanning_tree(network)]
    tree = networkx.Graph(zip(*ends, strict=True))
    tree.add_nodes_from(network.ids.tolist())
    events = parse_filter(flow["events"])
    publishing = [broker for broker in entering if events.intersects(parse_filter(f"$broker = {broker}"))]
    publishing += [] if gateway is None else [gateway]
    for host in network.ids.tolist() if hosts is None else sorted(hosts):
        told = uncovered([wanted for broker, wanted in members if broker == host])
        told = 1 if (flow["flow"], host, host) in rows else told
        ways = [networkx.shortest_path(tree, host, broker) for broker in publishing]
        total += told * len({link for way in ways for link in pairwise(way)})
    return total


def uncovered(filters: list[Filter]) -> int:
    """Of those that cover each other, one; none that another covers, and does not cover itself."""
    kept: list[Filter] = []
    for each in filters:
        if not any(other.covers(each) and (other in kept or not each.covers(other)) for other in filters):
            kept.append(each)
    return len(kept)


def behind(links: list[tuple[int, int]], u: int, v: int) -> set[int]:
    side = {v}
    for _ in links:  # each time at least one broker further
        side |= {end for link in links for end in link if side & set(link) and u not in link}
    return side


def entries(scenario: Scenario, plan: Plan) -> Entries:
    return entries_of(plan, known_of(scenario, plan))


def known_of(scenario: Scenario, plan: Plan) -> Metered:
    return metered(scenario, plan, np.array([event.publisher for event in events_of(scenario)], np.int64))


@pytest.mark.parametrize("seed", range(20))
def test_entries_of_random_plans(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for number in range(5):
        scenario = random_scenario(dice, tmp_path / str(number))
        for turn in range(4):
            plan = random_plan(dice, scenario, regions=(turn % 2) * 0.8)
            assert entries(scenario, plan) == counted(scenario, plan)


@pytest.mark.parametrize("seed", range(20))
def test_entries_where_filters_cover_each_other(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for number in range(5):
        drawn = random_scenario(dice, tmp_path / str(number))
        texts = [dice.choice(NESTED) for _ in range(drawn.subscriptions.num_rows)]
        scenario = with_column(drawn, "filter", texts)
        for turn in range(4):
            plan = random_plan(dice, scenario, regions=(turn % 2) * 0.8)
            assert entries(scenario, plan) == counted(scenario, plan)


def with_column(scenario: Scenario, name: str, values: list[Any]) -> Scenario:
    rows = [row | {name: value} for row, value in zip(scenario.subscriptions.to_pylist(), values, strict=True)]
    changed = scenario.subscriptions.from_pylist(rows, schema=scenario.subscriptions.schema)
    names = ("folder", "settings", "brokers", "links", "clients", "changes")
    return Scenario(**{each: getattr(scenario, each) for each in names}, subscriptions=changed)


def test_few_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However many pairs are looked at together."""
    dice = random.Random(7)
    found = defaultdict(set)
    for number in range(8):
        drawn = random_scenario(dice, tmp_path / str(number))
        texts = [dice.choice(NESTED) for _ in range(drawn.subscriptions.num_rows)]
        scenario = with_column(drawn, "filter", texts)
        plan = random_plan(dice, scenario)
        for at_once in (1, 2, 5, 1000):
            monkeypatch.setattr("overstory.pipeline.entries.AT_ONCE", at_once)
            found[number].add(entries(scenario, plan))
    assert all(len(each) == 1 for each in found.values())


def test_a_plan_of_nothing(tmp_path: Path) -> None:
    scenario = random_scenario(random.Random(3), tmp_path / "scenario")
    clients = scenario.clients["id"].to_pylist()
    broker = scenario.brokers["id"].to_pylist()[0]
    attachments = random_plan(random.Random(3), scenario).attachments.slice(0, 0)
    rows = [{"client": each, "broker": broker} for each in clients]
    plan = Plan.of(
        Header("none", scenario.fingerprint),
        {"attachments": attachments.from_pylist(rows, schema=attachments.schema)},
    )
    assert entries(scenario, plan) == Entries(0, 0, 0, (0,) * plan.flows.num_rows)


@pytest.mark.parametrize("seed", range(5))
def test_entries_of_many_filters_are_counted_only_where_they_cost_something(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without them there is still a score, with the same cost."""
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "scenario")
    plan = random_plan(dice, scenario)
    known = known_of(scenario, plan)
    whole = counted(scenario, plan)
    assert entries_of(plan, known, priced=False) == whole
    monkeypatch.setattr("overstory.pipeline.entries.MOST_UNPRICED", -1)
    monkeypatch.setattr("overstory.pipeline.entries.covers_of", None)  # nobody asks which filters cover which
    assert entries_of(plan, known, priced=False) == Entries(None, None, whole.associations, whole.clients)
    monkeypatch.undo()
    assert entries_of(plan, known, priced=True) == whole


def test_what_is_priced(tmp_path: Path) -> None:
    free = random_scenario(random.Random(1), tmp_path / "scenario")
    for prices, intervals, priced in (
        (Prices(), 1.0, False),
        (Prices(upkeep_association=1.0), 1.0, False),
        (Prices(upkeep_core=1.0), 1.0, True),
        (Prices(upkeep_access=1.0), 1.0, True),
        (Prices(upkeep_access=1.0), 0.0, False),
    ):
        settings = msgspec.structs.replace(free.settings, prices=prices, intervals=intervals)
        assert is_priced(dataclasses.replace(free, settings=settings)) is priced


def test_a_score_without_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = random_scenario(random.Random(2), tmp_path / "scenario")
    scenario = dataclasses.replace(scenario, settings=msgspec.structs.replace(scenario.settings, prices=Prices()))
    plan = random_plan(random.Random(2), scenario)
    whole = Workbench(scenario).score(plan)
    monkeypatch.setattr("overstory.pipeline.entries.MOST_UNPRICED", -1)
    card = Workbench(scenario).score(plan)
    assert card == msgspec.structs.replace(whole, entries_core=None, entries_access=None)
    assert msgspec.json.decode(msgspec.json.encode(card))["entries_core"] is None


@pytest.mark.parametrize("seed", range(10))
def test_covers_in_columns_are_those_of_parsed_filters(seed: int) -> None:
    dice = random.Random(seed)
    texts = tuple(
        f"x >= {low} AND x < {low + dice.randint(1, 4)}" + dice.choice(["", " AND y > 1", " AND y > 2.0", " AND y > 2"])
        for low in (dice.randint(0, 4) for _ in range(40))
    )
    found, parsed = covers_of(texts), _parsed_covers(texts)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found, parsed, strict=True))
    assert len(found.above)
