"""Names survive to the page: those of brokers, of clients and of subscriptions, and whatever stands in them is text."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.scorecard import Traffic
from overstory.model.settings import Settings
from overstory.model.tables import ATTACHMENTS, BROKERS, CLIENTS, FLOWS, LINKS, MEMBERS, SUBSCRIPTIONS, TREE, TREES
from overstory.studio.clients import clients_at
from overstory.studio.report import write_report
from overstory.studio.subject import subject_of
from overstory.studio.trees import trees_of
from overstory.studio.views import PlanView

from ..tables import events_table, table_of
from .test_report import HOSTILE, SCORE, Page, read

ATTACK = HOSTILE[0]


def named(rows: pa.Table, names: list[str | None]) -> pa.Table:
    return rows.append_column("name", pa.array(names, pa.string()))


def scenario_in(folder: Path, client_names: list[str | None], subscription_names: list[str | None]) -> Scenario:
    """Brokers 1, 2, 3 and 4 in a row, two of the same name; clients 10 to 13, each with a subscription."""
    pairs = [(1, 2), (2, 3), (3, 4)]
    clients = table_of(CLIENTS, [(10 + at, broker, None, None) for at, broker in enumerate((2, 4, 4, 4))])
    wants = table_of(SUBSCRIPTIONS, [(at, 10 + at, f"n > {at}", False) for at in range(4)])
    brokers = [(1, "x"), (2, ATTACK), (3, None), (4, "x")]
    tables = {"brokers": table_of(BROKERS, [(*broker, None, None) for broker in brokers])}
    tables["links"] = table_of(LINKS, [(*ends, 1.0, 1.0) for u, v in pairs for ends in ((u, v), (v, u))])
    tables["clients"] = named(clients, client_names)
    tables["subscriptions"] = named(wants, subscription_names)
    write_scenario(folder, Settings(name=ATTACK), tables, events_table([(10, 1, 5)], {"n": pa.int64()}))
    return read_scenario(folder)


def plan_of(scenario: Scenario) -> Plan:
    tables = {
        "attachments": table_of(ATTACHMENTS, [(10, 2), (11, 4), (12, 4), (13, 4)]),
        "flows": table_of(FLOWS, [(0, TREE, "TRUE", 0)]),
        "members": table_of(MEMBERS, [(0, at, None) for at in range(4)]),
        "trees": table_of(TREES, [(0, 1, 2), (0, 2, 3), (0, 3, 4)]),
    }
    return Plan.of(Header("hand", scenario.fingerprint), tables)


def page_of(scenario: Scenario, folder: Path) -> Page:
    plan, links = plan_of(scenario), len(scenario.network.targets)
    carried = Traffic(np.ones(links, np.int64), np.ones(links, np.int64))
    view = PlanView("hand", 1.0, SCORE, carried, trees_of(scenario, plan), clients_at(scenario, plan))
    write_report(folder / "page.html", subject_of(scenario, {}), [view], "")
    return read(folder / "page.html")


def drawn(scenario: Scenario, folder: Path) -> tuple[Any, Any, Any]:
    """What the script gets: names of brokers, the plan, its tree."""
    data = page_of(scenario, folder).data()
    (plan,) = data["plans"]
    (tree,) = plan["trees"]
    return data["names"], plan, tree


def test_names_stand_on_the_page(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path / "net", ["ann", ATTACK, None, "bob"], ["alarms", "alarms", None, ATTACK])
    names, plan, tree = drawn(scenario, tmp_path)
    assert names == ["x (1)", ATTACK, "broker 3", "x (4)"]
    assert plan["clients"] == ["", "ann", "", f"{ATTACK[:23]}…, bob and 1 more"]
    assert (tree["wants"], tree["wanted"]) == (["alarms", ATTACK, "n > 2"], 3)
    assert tree["clients"] == f"ann, {ATTACK[:23]}…, bob and 1 more"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path / "net", [ATTACK] * 4, [ATTACK] * 4)
    page = page_of(scenario, tmp_path)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert (tmp_path / "page.html").read_text().count("<script") == 2
    assert any(ATTACK[:20] in text for text in page.texts["text"])  # the label of a broker in the picture
    assert page.texts["h1"] == [ATTACK]


def test_without_names_there_are_filters_and_ids(tmp_path: Path) -> None:
    names, plan, tree = drawn(scenario_in(tmp_path / "net", [None] * 4, [None] * 4), tmp_path)
    assert names[2] == "broker 3"
    assert plan["clients"] == []
    assert tree["clients"] == ""
    assert tree["wants"] == [f"n > {at}" for at in range(4)]


def test_a_client_that_is_attached_nowhere_is_named_nowhere(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path / "net", ["ann", "bob", "cid", "dan"], [None] * 4)
    plan = plan_of(scenario)
    some = Plan.of(plan.header, {"attachments": plan.attachments.slice(1)})
    assert clients_at(scenario, some) == ("", "", "", "bob, cid, dan")
