"""Newcomers between the ends of two windows are placed as they would be if the network were observed anew."""

from collections.abc import Iterator

import numpy as np
import pytest

from overstory.broker.observing import Late, Subscribed
from overstory.control.newcomers import Picture, newcomers, with_newcomers
from overstory.control.placing import placed
from overstory.lab.control_cells import first_plan, hour_of, sizes
from overstory.lab.drifting_hours import DRIFT, Hour
from overstory.model.plan import LATE, Plan
from overstory.model.scenario import Scenario

SMALL = sizes(True) | {"shape": DRIFT, "seed": 5, "events": 300}


@pytest.fixture(scope="module")
def hour() -> Iterator[Hour]:
    with hour_of(SMALL) as made:
        yield made


def told(scenario: Scenario, plan: Plan, epoch: int = 1) -> list[Late]:
    """What brokers say of these subscriptions, when those of the plan are in their flows."""
    flow = dict(zip(*(plan.members[name].to_pylist() for name in ("subscription", "flow")), strict=True))
    home = dict(zip(*(scenario.clients[name].to_pylist() for name in ("id", "broker")), strict=True))
    found = []
    for broker in scenario.brokers["id"].to_pylist():
        rows = [row for row in scenario.subscriptions.to_pylist() if home[row["client"]] == broker]
        late = [
            Subscribed(row["id"], row["client"], row["filter"], row["no_local"], [LATE])
            for row in rows
            if row["id"] not in flow
        ]
        found.append(Late(broker, epoch, [row["id"] for row in rows], late))
    return found


def test_newcomers_are_placed_as_if_all_were_observed_anew(hour: Hour) -> None:
    """The subscriptions of a window with the events of the one before it: by a picture that is a window old, and by one
    that is new."""
    before = hour.bench(1, [0, 1])
    plan = placed(first_plan(hour), before.scenario, before).plan
    now = hour.bench(3, [0, 1])
    answers = told(now.scenario, plan)
    met = frozenset(before.scenario.subscriptions["id"].to_pylist())
    new = newcomers(answers, met)
    assert new == frozenset(now.scenario.subscriptions["id"].to_pylist()) - met
    picture = with_newcomers(Picture(1, before.scenario, 1.0, plan), answers, new)
    wanted = [
        sorted(table.select(["id", "client", "filter"]).to_pylist(), key=lambda row: row["id"])
        for table in (picture.scenario.subscriptions, now.scenario.subscriptions)
    ]
    assert wanted[0] == wanted[1]
    known = set(now.scenario.subscriptions["id"].to_pylist())
    assert set(picture.plan.members["subscription"].to_pylist()) <= known  # whoever has gone has left
    found, anew = (
        placed(one, scene, before) for one, scene in ((picture.plan, picture.scenario), (plan, now.scenario))
    )
    assert found.joined
    assert found.joined == anew.joined
    assert found.plan.members.equals(anew.plan.members)


def test_a_client_that_nobody_knew_is_where_it_says(hour: Hour) -> None:
    bench = hour.bench(0, [0])
    plan = placed(first_plan(hour), bench.scenario, bench).plan
    answers = told(bench.scenario, plan)
    wanted = bench.scenario.subscriptions["filter"][0].as_py()
    answers[2].subscriptions.append(Subscribed(10**6, 10**6 + 1, wanted, False, [LATE]))
    answers[2].numbers.append(10**6)
    picture = with_newcomers(Picture(1, bench.scenario, 1.0, plan), answers, newcomers(answers, frozenset()))
    homes = dict(zip(*(picture.plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    assert homes[10**6 + 1] == answers[2].broker
    assert 10**6 + 1 in picture.scenario.clients["id"].to_pylist()
    found = placed(picture.plan, picture.scenario, bench)
    assert [one.subscription for one in found.joined] == [10**6]


def test_nobody_joins_a_flow_with_a_pin(hour: Hour) -> None:
    before, now = hour.bench(0, [0]), hour.bench(4, [0])
    plan = placed(first_plan(hour), before.scenario, before).plan
    free = {one.flow for one in placed(plan, now.scenario, now).joined} - {LATE}
    pinned = frozenset(sorted(free)[:1])
    assert pinned
    found = placed(plan, now.scenario, now, barred=pinned)
    assert not {one.flow for one in found.joined} & pinned
    assert len(found.joined) == len(placed(plan, now.scenario, now).joined)
    everything = frozenset(np.unique(plan.flows["flow"].to_numpy()).tolist())
    assert {one.flow for one in placed(plan, now.scenario, now, barred=everything).joined} == {LATE}
