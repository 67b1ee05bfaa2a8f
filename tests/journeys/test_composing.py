"""A chain, a planner that breaks a limit, one without a plan, and a reference, in one table."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from overstory.model.settings import Access, Limits, Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS

from ..tables import events_table, scenario_of, table_of
from .test_scenario import assert_fails, overstory

CORNERS = [(1, 0.0, 0.0), (2, 1.0, 0.0), (3, 1.0, 1.0), (4, 0.0, 1.0)]
LINKS_BETWEEN = [(1, 2), (2, 3), (3, 4), (4, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients stand near the four corners, and all are attached to the first, which is too many for it."""
    place = tmp_path_factory.mktemp("composing")
    links = [(u, v, 1.0, 1.0) for one, other in LINKS_BETWEEN for u, v in ((one, other), (other, one))]
    tables = {
        "brokers": table_of(BROKERS, [(each, None, x, y) for each, x, y in CORNERS]),
        "links": table_of(LINKS, links),
        "clients": table_of(CLIENTS, [(9 + each, 1, 0.9 * x, 0.9 * y) for each, x, y in CORNERS]),
        "subscriptions": table_of(SUBSCRIPTIONS, [(each, 10 + each, "topic = 'a'", False) for each in range(4)]),
    }
    events = events_table([(10, 5, "a")] * 50, {"topic": pa.string()})
    settings = Settings(prices=Prices(access=10.0), limits=Limits(load=2.0), access=Access("euclidean"))
    scenario_of(place / "net", settings, tables, events)
    return place


def test_a_chain_an_infeasible_plan_and_a_reference_in_one_table(folder: Path) -> None:
    compared = overstory(folder, "compare", "net", "--planners", "spt,nearest+spt,opt")
    assert compared.code == 0, compared.err
    head, _, *rows = compared.out.splitlines()
    assert head.split()[-1] == "exceeded"
    assert rows[0].split()[0] == "nearest+spt"
    assert rows[0].split()[-1] == "–"
    assert any(row.startswith("spt") and row.endswith("load") for row in rows)
    assert "! spt exceeds a limit: load: 4 times an equal share, where 2 is the limit" in compared.out
    assert "wherever clients are attached, no plan costs less than" in compared.out
    plans = json.loads(overstory(folder, "compare", "net", "--planners", "spt,nearest+spt,opt", "--json").out)["plans"]
    by_name = {plan["planner"]: plan for plan in plans}
    assert by_name["spt"]["exceeded"]
    assert by_name["nearest+spt"]["exceeded"] == []
    assert by_name["opt"]["reference"]
    assert 0 < by_name["nearest+spt"]["bound_total"] <= by_name["nearest+spt"]["cost"] < by_name["spt"]["cost"]
    assert by_name["nearest+spt"]["gap_total"] < by_name["spt"]["gap_total"]


def test_a_base_gives_what_a_planner_does_not_decide(folder: Path) -> None:
    assert_fails(overstory(folder, "plan", "net", "--planner", "spt", "-o", "no"), 4, "exceeds a limit: load")
    assert not (folder / "no").exists()
    assert overstory(folder, "plan", "net", "--planner", "nearest", "-o", "near").code == 0
    made = overstory(folder, "plan", "net", "--planner", "direct", "--base", "near", "-o", "both", "--json").json()
    chained = overstory(folder, "plan", "net", "--planner", "nearest+direct", "-o", "chained", "--json").json()
    assert made["cost"] == chained["cost"]
    assert made["flows"] == chained["flows"] == 4
    assert "nearest+direct" in overstory(folder, "explain", "chained").out
    assert_fails(overstory(folder, "plan", "net", "--problem", "topics", "-o", "no"), 64, "nothing is paid for keeping")
