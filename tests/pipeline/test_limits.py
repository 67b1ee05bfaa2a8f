"""Limits: shares, capacities, latest times and boxes, each said when exceeded; and the bound on the whole cost."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from overstory.filters import parse_filter
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.access import access_of
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.model.settings import Curves, Limits, Prices, Settings
from overstory.model.tables import ATTACHMENTS, BROKERS, CLIENTS, LINKS, PLAN_TABLES, SUBSCRIPTIONS
from overstory.pipeline import least_access as least_access_module
from overstory.pipeline.least_access import least_access, together
from overstory.pipeline.limits import bytes_at, shares_of
from overstory.pipeline.score import on_curve
from overstory.planners.chains import make_plan
from overstory.routing.law import Event, Law

from ..planners.steps import Steps
from ..plans import events_of, random_plan, random_scenario
from ..tables import events_table, scenario_of, table_of
from .meter import counted_here, meter

LINE = [(u, v, 1.0, 5.0) for one, other in ((1, 2), (2, 3)) for u, v in ((one, other), (other, one))]


def line(folder: Path, limits: Limits, columns: dict[str, dict[str, list[Any]]] | None = None) -> Scenario:
    """Brokers 1, 2 and 3 in a line, 5 ms each. Client 10 publishes ten events of 7 bytes at 1; 11 and 12 at 3 want
    them, and 13 at 1."""
    tables = {
        "brokers": table_of(BROKERS, [(each, None, None, None) for each in (1, 2, 3)]),
        "links": table_of(LINKS, LINE),
        "clients": table_of(
            CLIENTS, [(10, 1, None, None), (11, 3, None, None), (12, 3, None, None), (13, 1, None, None)]
        ),
        "subscriptions": table_of(SUBSCRIPTIONS, [(each, 11 + each, "topic = 'a'", False) for each in range(3)]),
    }
    for table, more in (columns or {}).items():
        for name, values in more.items():
            kind = {"brokers": BROKERS, "clients": CLIENTS}[table].full_schema.field(name).type
            tables[table] = tables[table].append_column(pa.field(name, kind), pa.array(values, kind))
    events = events_table([(10, 7, "a")] * 10, {"topic": pa.string()})
    return scenario_of(folder, Settings(limits=limits), tables, events)


def scored(scenario: Scenario) -> Scorecard:
    return meter(scenario, make_plan("mst", scenario, Steps(), {}))[0]


def test_a_share_is_what_a_load_is_relative_to(tmp_path: Path) -> None:
    equal = scored(line(tmp_path / "a", Limits(load=1.4)))
    assert equal.load == pytest.approx(2 / (4 / 3))
    assert equal.exceeded == ("load: 1.5 times an equal share, where 1.4 is the limit",)
    given = line(tmp_path / "b", Limits(load=1.4), {"brokers": {"share": [0.4, None, 0.5]}})
    assert shares_of(given).tolist() == pytest.approx([0.4, 0.1, 0.5])
    card = scored(given)
    assert card.load == pytest.approx(2 / 1.6)
    assert card.exceeded == ()
    nobody = scored(line(tmp_path / "c", Limits(load=100.0), {"brokers": {"share": [0.5, 0.5, 0.0]}}))
    assert nobody.load == float("inf")
    assert nobody.exceeded == ("load: inf times its share, where 100 is the limit",)


def test_a_capacity_holds_what_clients_send_and_get(tmp_path: Path) -> None:
    """At broker 1: 70 bytes from client 10, 70 to 13. At 3: 140. With transit the links count too."""
    fits = scored(line(tmp_path / "a", Limits(), {"brokers": {"capacity": [140.0, 0.0, None]}}))
    assert (fits.filled, fits.exceeded) == (1.0, ())
    full = scored(line(tmp_path / "b", Limits(), {"brokers": {"capacity": [100.0, None, 70.0]}}))
    assert full.filled == 2.0
    assert full.exceeded == ("capacity: broker 3 is at 200% of its capacity (2 brokers are)",)
    passing = scored(line(tmp_path / "c", Limits(transit=True), {"brokers": {"capacity": [None, 139.0, None]}}))
    assert passing.filled == pytest.approx(140 / 139)
    assert passing.exceeded == ("capacity: broker 2 is at 101% of its capacity",)
    none = scored(line(tmp_path / "d", Limits(), {"brokers": {"capacity": [None, None, None]}}))
    assert none.filled is None
    nothing = scored(line(tmp_path / "e", Limits(), {"brokers": {"capacity": [None, 0.0, 0.0]}}))
    assert nothing.exceeded == ("capacity: broker 3 is at inf% of its capacity",)


def test_a_client_says_how_late_is_too_late(tmp_path: Path) -> None:
    """Broker 3 is 10 ms away."""
    late = scored(line(tmp_path / "a", Limits(), {"clients": {"latest": [None, 9.0, None, 0.0]}}))
    assert late.exceeded == ("delay: client 11 gets an event after 10 ms, and allows 9 ms",)
    assert scored(line(tmp_path / "b", Limits(), {"clients": {"latest": [None, 10.0, 12.0, 0.0]}})).exceeded == ()
    both = scored(line(tmp_path / "c", Limits(delay=5.0), {"clients": {"latest": [None, 20.0, None, None]}}))
    assert both.exceeded == ("delay: 10 ms, where 5 ms is the limit",)
    two = scored(line(tmp_path / "d", Limits(), {"clients": {"latest": [None, 9.0, 3.0, None]}}))
    assert two.exceeded == (
        "delay: client 12 gets an event after 10 ms, and allows 3 ms (2 clients get some too late)",
    )


def test_a_filter_of_too_many_boxes_is_named(tmp_path: Path) -> None:
    scenario = line(tmp_path / "a", Limits(boxes=1))
    plan = make_plan("mst", scenario, Steps(), {})
    rows = {"flow": [0, 0], "source": [1, 2], "target": [2, 3], "filter": ["topic LIKE 'a%'", "topic = 'a' OR n > 3"]}
    tables = {name: getattr(plan, name) for name in PLAN_TABLES} | {"filters": pa.table(rows)}
    card, _ = meter(scenario, Plan.of(plan.header, tables))
    assert card.exceeded == ("boxes: the filter from 2 to 3 in flow 0 has 2, where 1 is the limit (1 such filters)",)


@pytest.mark.parametrize("seed", range(15))
def test_bytes_at_brokers_are_those_of_the_law(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "net")
    events = events_of(scenario)
    if not events:
        return
    plan = random_plan(dice, scenario)
    law, network = Law(scenario, plan), scenario.network
    known, _, totals = counted_here(scenario, plan)
    for transit in (False, True):
        limited = msgspec.structs.replace(scenario.settings, limits=Limits(transit=transit))
        here = Scenario(scenario.folder, limited, *(getattr(scenario, name) for name in TABLES))
        expected = dict.fromkeys(network.ids.tolist(), 0)
        for event in events:
            journey = law.travel(event)
            expected[journey.uplink[1]] += event.bytes
            for copy in journey.copies:
                expected[copy.broker] += event.bytes
            for crossing in journey.crossings if transit else ():
                size = event.bytes + (crossing.header if scenario.settings.headers else 0)
                expected[crossing.source] += size
                expected[crossing.target] += size
        assert bytes_at(here, known, totals).tolist() == list(expected.values())


TABLES = ("brokers", "links", "clients", "subscriptions", "changes")


@pytest.mark.parametrize("seed", range(25))
def test_no_attachments_cost_less_than_the_least_access(seed: int, tmp_path: Path) -> None:
    """All attachments of a small scenario, each scored; the bound is the least of their access."""
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "net")
    clients, brokers = scenario.clients["id"].to_pylist(), scenario.brokers["id"].to_pylist()
    if not events_of(scenario):
        return
    known, _, totals = counted_here(scenario, together(scenario))
    bound = float(least_access(scenario, known, totals))
    links, least = access_of(scenario), 0.0
    for client in clients:
        wanted = {event.id: event.bytes for event in events_of(scenario) if _wants(scenario, client, event)}
        sent = sum(event.bytes for event in events_of(scenario) if event.publisher == client)
        pairs = np.full(len(brokers), client), np.array(brokers)
        prices = links.up(*pairs).prices * sent + links.down(*pairs).prices * sum(wanted.values())
        least += float(prices.min())
    assert bound == pytest.approx(least, rel=1e-9)
    assert bound <= least
    for choice in dice.sample(list(product(brokers, repeat=min(len(clients), 3))), 3):
        plan = random_plan(dice, scenario)
        moved = dict(zip(clients, plan.attachments["broker"].to_pylist(), strict=True)) | dict(
            zip(clients, choice, strict=False)
        )
        attached = {"attachments": table_of(ATTACHMENTS, moved.items())}
        card, _ = meter(scenario, make_plan("mst", scenario, Steps(), {}, base=_with(plan, attached)))
        assert card.access >= scenario.settings.prices.access * bound * (1 - 1e-12)


def _with(plan: Plan, tables: dict[str, pa.Table]) -> Plan:
    return Plan.of(plan.header, {name: getattr(plan, name) for name in PLAN_TABLES} | tables)


def _wants(scenario: Scenario, client: int, event: Event) -> bool:
    return any(
        parse_filter(row["filter"]).matches(event.attributes) and not (row["no_local"] and event.publisher == client)
        for row in scenario.subscriptions.to_pylist()
        if row["client"] == client
    )


def test_where_access_is_free_the_bound_on_the_whole_is_nothing(tmp_path: Path) -> None:
    card = scored(line(tmp_path / "a", Limits()))
    assert (card.bound_total, card.gap_total) == (0.0, None)
    assert Prices().access == 0


def test_a_curve_is_straight_between_its_points_and_goes_on_beyond_them() -> None:
    curve = ((10.0, 5.0), (20.0, 6.0))
    expected = {0: 0, 1: 0.5, 10: 5, 15: 5.5, 20: 6, 40: 8}
    assert {size: float(on_curve(curve, size)) for size in expected} == expected
    assert [float(on_curve(((0.0, 3.0),), size)) for size in (0, 1, 9)] == [0, 3, 3]
    assert [float(on_curve(((4.0, 2.0),), size)) for size in (2, 4, 8)] == [1, 2, 4]


def test_upkeep_by_a_curve_is_that_of_the_clients_of_each_flow(tmp_path: Path) -> None:
    """Three clients want something, and all are in one flow. A straight curve is the price for each client."""
    scenario = line(tmp_path / "a", Limits())
    plan = make_plan("mst", scenario, Steps(), {})

    def upkeep(**settings: Any) -> float:
        here = msgspec.structs.replace(scenario.settings, intervals=2.0, **settings)
        return meter(Scenario(scenario.folder, here, *(getattr(scenario, name) for name in TABLES)), plan)[0].upkeep

    assert upkeep(curves=Curves(((3.0, 7.0),))) == 14.0
    assert upkeep(curves=Curves(((1.0, 0.25),))) == upkeep(prices=Prices(upkeep_access=0.25)) == 1.5


def test_the_nearest_brokers_are_those_of_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_quadratic(tmp_path / "net", Quadratic(users=200, brokers=12, events=900), 1)
    scenario = read_scenario(tmp_path / "net")
    known, _, totals = counted_here(scenario, together(scenario))
    by_tree = least_access(scenario, known, totals)
    monkeypatch.setattr(least_access_module, "_nearest", lambda *_: None)
    by_pairs = least_access(scenario, known, totals)
    assert 0 < by_tree == pytest.approx(by_pairs, rel=1e-12)
