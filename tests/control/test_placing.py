"""Late subscriptions find their flows, and those that ended leave theirs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.control.changing import changed_flows, moves_between, price_of, with_clients_staying
from overstory.control.deciding import KEEP, PLAN, Move, Past, Rules
from overstory.control.estimating import Sampled, estimate, saving
from overstory.control.piloting import Look, Planning, Seen, turn
from overstory.control.placing import placed, with_late, without
from overstory.lab.control_cells import first_plan, hour_of, sizes
from overstory.lab.drifting_hours import DRIFT, Hour
from overstory.model.plan import LATE, Plan
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

SMALL = sizes(True) | {"shape": DRIFT, "seed": 3, "events": 300}


@pytest.fixture(scope="module")
def hour() -> Iterator[Hour]:
    with hour_of(SMALL) as made:
        yield made


def problems(plan: Plan, bench: Workbench) -> list[object]:
    return list(problems_of_plan(bench.scenario, plan, bench.publishers(bench.scenario), None, lambda _: None))


def test_everyone_who_is_there_is_in_one_flow_and_nobody_else(hour: Hour) -> None:
    plan = first_plan(hour)
    for window in (1, 3, 5):
        bench = hour.bench(window, [window])
        found = placed(plan, bench.scenario, bench)
        whole = with_late(found.plan, bench.scenario)
        now = sorted(bench.scenario.subscriptions["id"].to_pylist())
        assert sorted(whole.members["subscription"].to_pylist()) == now
        assert set(whole.flows["flow"].to_pylist()) == set(whole.members["flow"].to_pylist())
        assert not problems(whole, bench)
        assert found.left == len(set(plan.members["subscription"].to_pylist()) - set(now))
        assert {one.subscription for one in found.joined} == set(now) - set(plan.members["subscription"].to_pylist())
        plan = found.plan


def test_placing_costs_no_more_than_staying_late(hour: Hour) -> None:
    """On the window that subscriptions are placed by."""
    plan, bench = first_plan(hour), hour.bench(4, [4])
    sampled = Sampled(bench.scenario)
    late = with_late(without(plan, gone(plan, bench)), bench.scenario)
    found = with_late(placed(plan, bench.scenario, bench).plan, bench.scenario)
    assert saving(sampled.costs(late), sampled.costs(found)).mean >= 0


def gone(plan: Plan, bench: Workbench) -> np.ndarray:
    now = bench.scenario.subscriptions["id"].to_numpy()
    return np.setdiff1d(plan.members["subscription"].to_numpy(), now)


def test_estimates_are_those_of_the_meter(hour: Hour) -> None:
    bench = hour.bench(0, [0])
    plan = with_late(placed(first_plan(hour), bench.scenario, bench).plan, bench.scenario)
    card = bench.score(plan, bounded=True)
    found = estimate(Sampled(bench.scenario).costs(plan))
    assert found.mean == pytest.approx(card.cost)
    assert 0 < found.error < card.cost / 4
    assert estimate(Sampled(bench.scenario, 4.0).costs(plan)).mean == pytest.approx(4 * card.cost)
    core, bound = Sampled(bench.scenario).core_and_bound(plan)
    assert core == pytest.approx(card.core)
    assert bound == pytest.approx(card.lower_bound)
    held_out = estimate(Sampled(bench.scenario).costs(plan, held_out=True))
    part = np.mean(Sampled(bench.scenario)._part == 2)
    assert held_out.mean == pytest.approx(card.cost_held_out / part)
    assert Sampled(bench.scenario).messages(plan) == card.entries_core


def test_clients_that_must_stay_do_so_and_the_plan_stays_lawful(hour: Hour) -> None:
    bench = hour.bench(0, [0])
    present = make_plan("spt", bench.scenario, bench, {}, 0)
    clients = present.attachments["client"].to_pylist()
    brokers = [present.attachments["broker"].to_pylist()[(at + 1) % len(clients)] for at in range(len(clients))]
    attachments = present.attachments.set_column(1, "broker", pa.array(brokers))
    proposed = replace(present, attachments=attachments)
    assert len(moves_between(present, proposed)) == len(clients)
    publishers = bench.publishers(bench.scenario)
    kept = with_clients_staying(bench.scenario, present, proposed, clients[:5], publishers)
    assert {move.client for move in moves_between(present, kept)} == set(clients[5:])
    assert not problems(kept, bench)
    assert moves_between(present, proposed)[0] == Move(clients[0], present.attachments["broker"][0].as_py(), brokers[0])


def test_flows_that_are_kept_are_known_under_any_number(hour: Hour) -> None:
    bench = hour.bench(0, [0])
    plan = with_late(placed(first_plan(hour), bench.scenario, bench).plan, bench.scenario)
    assert not changed_flows(plan, plan)
    shifted = {
        name: getattr(plan, name).set_column(0, "flow", pa.array(getattr(plan, name)["flow"].to_numpy() + 7))
        for name in ("flows", "members", "trees")
    }
    assert not changed_flows(plan, replace(plan, **shifted))
    some = int(plan.members["flow"][0].as_py())
    other = replace(plan, members=plan.members.slice(1))
    assert changed_flows(plan, other) == {some}
    assert price_of(100, 3, Rules(price_of_message=2.0, price_of_move=10.0)) == 230.0


def double(table: pa.Table) -> pa.Table:
    """The rows of one flow, for two."""
    numbered = [table.set_column(0, "flow", pa.array([at] * table.num_rows, pa.int64())) for at in range(2)]
    return pa.concat_tables(numbered)


def test_a_plan_by_events_takes_late_ones_in_parts(tmp_path: Path, hour: Hour) -> None:
    """Where flows divide the events among them, a late subscription joins all whose events it may want."""
    bench = hour.bench(0, [0])
    plan = make_plan("mst", bench.scenario, bench, {}, 0)
    texts = ["$broker < 12", "$broker >= 12"]
    rows = plan.flows.to_pylist()[0]
    flows = pa.Table.from_pylist(
        [rows | {"flow": at, "events": text} for at, text in enumerate(texts)], plan.flows.schema
    )
    plan = replace(plan, flows=flows, members=double(plan.members), trees=double(plan.trees))
    late = plan.members["subscription"][0].as_py()
    found = placed(without(plan, np.array([late])), bench.scenario, bench)
    assert [(one.subscription, one.flow) for one in found.joined] == [(late, LATE)]  # $broker covers no subscription


def test_the_thinnest_windows_are_decided_about(hour: Hour) -> None:
    """One event, or a few, are a sample: the autopilot looks, plans and judges, and applies nothing on so little."""
    for share in (0.001, 0.01):
        bench = hour.bench(1, [1], share + 0.005)
        look = Look(1, 0.0, bench.scenario, 1 / share, placed(first_plan(hour), bench.scenario, bench).plan)
        rules, planning = Rules(price_of_message=1.0), Planning("tree-search", {"steered": False})
        done = turn(look, bench, Past(), Seen(), rules, planning)
        assert [decision.action for decision in done.decisions] == [PLAN, KEEP]
        assert done.window.events == bench._events.num_rows < 10
