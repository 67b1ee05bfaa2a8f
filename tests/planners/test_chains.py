"""Plans compose: what a planner does not decide is that of the plan before, as far as it still fits."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.model.access import access_of
from overstory.model.plan import Header, Plan, read_plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Settings
from overstory.model.tables import ATTACHMENTS, BROKERS, CLIENTS, LINKS, PLAN_TABLES, STEERED, SUBSCRIPTIONS
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.decision import Decision
from overstory.planners.refitting import refitted
from overstory.planners.registry import PLANNERS, PROBLEMS, planner_for

from ..plans import random_plan, random_scenario
from ..tables import events_table, scenario_of, scenario_tables, table_of
from .steps import Steps

Row = tuple[Any, ...]


def rows_of(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]


def moved_at_random(dice: random.Random, scenario: Scenario, plan: Plan) -> pa.Table:
    brokers = scenario.brokers["id"].to_pylist()
    rows = [
        (client, dice.choice(brokers) if dice.random() < 0.5 else broker)
        for client, broker in rows_of(plan.attachments)
    ]
    return table_of(ATTACHMENTS, rows)


def brokers_in(plan: Plan) -> dict[int, int]:
    return dict(zip(plan.attachments["client"].to_pylist(), plan.attachments["broker"].to_pylist(), strict=True))


def with_tables(plan: Plan, tables: dict[str, pa.Table]) -> Plan:
    return Plan.of(plan.header, tables)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_what_fits_after_a_move_stays_and_only_the_rest_changes(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path_factory.mktemp("refitted") / "net")
    base = random_plan(dice, scenario)
    publishers = Steps().publishers(scenario)
    assert problems_of_plan(scenario, base, publishers) == []
    before = {name: getattr(base, name) for name in PLAN_TABLES}
    after = before | {"attachments": moved_at_random(dice, scenario, base)}
    found = with_tables(base, refitted(scenario, after, base.attachments, publishers))
    assert problems_of_plan(scenario, found, publishers) == []
    for name in ("attachments", "flows", "members"):
        assert getattr(found, name).equals(after[name])
    assert set(rows_of(base.trees)) <= set(rows_of(found.trees))
    kept, rows = set(rows_of(found.filters)), rows_of(base.filters)
    assert kept <= set(rows)
    assert [row for row in rows if row not in kept and not may_be_wrong(scenario, found, base, row)] == []


def may_be_wrong(scenario: Scenario, found: Plan, base: Plan, row: Row) -> bool:
    """Whether a row of the base is one for a client that is elsewhere now, or does not surely cover what some client
    that has moved wants in its flow."""
    flow, source, target, text = row
    before, now = brokers_in(base), brokers_in(found)
    if target in now:
        return bool(now[target] != source)
    movers = {client for client in now if now[client] != before[client]}
    wishes = {each["id"]: each["filter"] for each in scenario.subscriptions.to_pylist() if each["client"] in movers}
    events = {each["flow"]: each["events"] for each in found.flows.to_pylist()}[flow]
    wanted = [
        f"({wishes[each['subscription']]}) AND ({events}) AND ({each['part'] or 'TRUE'})"
        for each in found.members.to_pylist()
        if each["flow"] == flow and each["subscription"] in wishes
    ]
    return any(not parse_filter(str(text)).covers(parse_filter(want)) for want in wanted)


def test_nothing_changes_where_nobody_moves(tmp_path: Path) -> None:
    scenario = random_scenario(random.Random(3), tmp_path / "net")
    plan = random_plan(random.Random(4), scenario)
    tables = {name: getattr(plan, name) for name in PLAN_TABLES}
    found = refitted(scenario, tables, plan.attachments, Steps().publishers(scenario))
    assert all(found[name].equals(tables[name]) for name in PLAN_TABLES)


SQUARE = [(u, v, 1.0, 1.0) for one, other in ((1, 2), (2, 3), (3, 4), (4, 1)) for u, v in ((one, other), (other, one))]


def square(tmp_path: Path, shares: list[float | None] | None = None) -> Scenario:
    """Four brokers at the corners; clients 10 to 13 stand near corners 1 to 4, and are all attached to broker 1."""
    corners = [(1, 0.0, 0.0), (2, 1.0, 0.0), (3, 1.0, 1.0), (4, 0.0, 1.0)]
    brokers = table_of(BROKERS, [(each, None, x, y) for each, x, y in corners])
    if shares is not None:
        brokers = brokers.append_column("share", pa.array(shares, pa.float64()))
    tables = scenario_tables() | {
        "brokers": brokers,
        "links": table_of(LINKS, SQUARE),
        "clients": table_of(CLIENTS, [(9 + each, 1, x * 0.9, y * 0.9) for each, x, y in corners]),
        "subscriptions": table_of(SUBSCRIPTIONS, [(each, 10 + each, "topic = 'a'", False) for each in range(4)]),
    }
    events = events_table([(10, 5, "a")] * 20, {"topic": pa.string()})
    return scenario_of(tmp_path / "net", Settings(access=Access("euclidean")), tables, events)


def test_a_planner_that_only_attaches_keeps_the_flows_of_its_base(tmp_path: Path) -> None:
    scenario = square(tmp_path)
    alone = make_plan("nearest", scenario, Steps(), {})
    assert brokers_in(alone) == {10: 1, 11: 2, 12: 3, 13: 4}
    assert alone.flows.num_rows == 1
    base = make_plan("spt", scenario, Steps(), {"root": 3})
    found = make_plan("nearest", scenario, Steps(), {}, base=base)
    assert found.trees.equals(base.trees)
    assert found.members.equals(base.members)
    assert brokers_in(found) == brokers_in(alone)
    assert problems_of_plan(scenario, found, Steps().publishers(scenario)) == []


def test_a_chain_plans_for_where_clients_have_gone(tmp_path: Path) -> None:
    scenario = square(tmp_path)
    found = make_plan("nearest+direct", scenario, Steps(), {})
    assert brokers_in(found) == {10: 1, 11: 2, 12: 3, 13: 4}
    assert found.flows.num_rows == 4
    assert make_plan("direct", scenario, Steps(), {}).flows.num_rows == 1
    assert found.header.planner == "nearest+direct"
    assert make_plan("nearest + spt", scenario, Steps(), {"root": 2}).header.parameters == {"spt.root": 2}
    again = make_plan("spt", scenario, Steps(), {}, base=make_plan("nearest", scenario, Steps(), {}))
    assert again.attachments.equals(found.attachments)
    assert again.trees.equals(make_plan("nearest+spt", scenario, Steps(), {}).trees)


def test_a_base_that_floods_still_floods_after_a_move(tmp_path: Path) -> None:
    scenario = square(tmp_path)
    base = make_plan("flood", scenario, Steps(), {})
    found = make_plan("nearest", scenario, Steps(), {}, base=base)
    to_brokers = [row for row in rows_of(base.filters) if row[2] in (1, 2, 3, 4)]
    assert [row for row in rows_of(found.filters) if row[2] in (1, 2, 3, 4)] == to_brokers
    assert to_brokers


@pytest.mark.parametrize("name", ["nearest+nowhere", "+", "spt+", "nearest+opt"])
def test_a_chain_with_something_else_in_it_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        make_plan(name, square(tmp_path), Steps(), {})


def test_a_parameter_that_no_planner_of_a_chain_has_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"planner nearest\+spt has no parameter 'rots'; it has root"):
        make_plan("nearest+spt", square(tmp_path), Steps(), {"rots": 1})


def test_a_broker_whose_share_is_0_takes_nobody(tmp_path: Path) -> None:
    plan = make_plan("nearest", square(tmp_path, [None, 0.0, None, None]), Steps(), {})
    assert brokers_in(plan)[11] in (1, 3)
    assert 2 not in brokers_in(plan).values()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_nobody_has_a_cheaper_broker_than_the_nearest(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path_factory.mktemp("nearest") / "net")
    base = random_plan(dice, scenario)
    found = brokers_in(make_plan("nearest", scenario, Steps(), {}, base=base))
    links, brokers, before = access_of(scenario), scenario.brokers["id"].to_pylist(), brokers_in(base)
    linked = {
        frozenset(ends)
        for ends in zip(*(scenario.links[name].to_pylist() for name in ("source", "target")), strict=True)
    }

    def price(client: int, broker: int) -> float:
        pair = np.array([client]), np.array([broker])
        return float(links.up(*pair).prices[0] + links.down(*pair).prices[0])

    for client, broker in found.items():
        near = [
            each for each in brokers if scenario.settings.access.metric != "none" or frozenset((client, each)) in linked
        ]
        if not near:
            assert broker == before[client]
            continue
        least = min(price(client, each) for each in near)
        cheapest = [each for each in near if price(client, each) == least]
        assert broker == (before[client] if before[client] in cheapest else min(cheapest))


def test_every_planner_solves_a_problem_and_every_problem_names_the_one_to_begin_with() -> None:
    assert {planner.problem for planner in PLANNERS.values()} <= PROBLEMS.keys()
    for problem, (_, first) in PROBLEMS.items():
        if first is None:
            with pytest.raises(UsageError, match="no planner for"):
                planner_for(problem)
        else:
            assert PLANNERS[planner_for(problem)].problem == problem
    with pytest.raises(UsageError, match="there is no problem 'tree'; there are trees"):
        planner_for("tree")


def test_steered_flows_need_no_tree_after_a_move(tmp_path: Path) -> None:
    scenario = square(tmp_path)
    base = make_plan("direct", scenario, Steps(), {})
    found = make_plan("nearest", scenario, Steps(), {}, base=base)
    assert set(found.flows["kind"].to_pylist()) <= set(STEERED)
    assert found.trees.num_rows == 0
    assert problems_of_plan(scenario, found, Steps().publishers(scenario)) == []
    assert found.header == Header("nearest", scenario.fingerprint)


def test_a_planner_without_a_feasible_plan_gives_its_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did not reach stands in the plan, and among the limits that the score says are exceeded."""

    def best(*given: Any) -> Decision:
        return Decision(PLANNERS["spt"].plan(*given), {}, unmet=("load: nothing below 3 was found",))

    monkeypatch.setitem(PLANNERS, "modest", PLANNERS["spt"]._replace(name="modest", plan=best))
    scenario = square(tmp_path)
    plan = make_plan("nearest+modest", scenario, Steps(), {})
    plan.write(tmp_path / "plan")
    assert read_plan(tmp_path / "plan").header.unmet == plan.header.unmet == ("load: nothing below 3 was found",)
    assert Workbench(scenario).score(plan).exceeded == plan.header.unmet
