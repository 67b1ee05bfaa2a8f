"""Every way in which a plan breaks the law is said, with its table, row and column; nothing is said of a lawful one."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import Problem
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.model.tables import PATHS, PLAN_TABLES, TREE
from overstory.pipeline.validate import problems_of_filters, problems_of_plan

from ..plans import events_of, random_plan, random_scenario
from ..tables import Row, events_table, scenario_of, scenario_tables, table_of

# Brokers 1 to 4 in a circle, with a link across from 1 to 3 that leads only there; client 10 publishes at 1, and
# clients 11, 12 and 13 are at 2, 3 and 4.
LINKS = [(u, v, 1.0) for u, v in ((1, 2), (2, 3), (3, 4), (4, 1)) for u, v in ((u, v), (v, u))] + [(1, 3, 1.0)]
SUBSCRIPTIONS = [
    (0, 11, "price < 5", False),
    (1, 11, "topic = 'a'", False),
    (2, 12, "price >= 5 OR topic = 'a'", False),
    (3, 13, "price + volume > 3", False),
    (4, 13, "price < 1 AND price > 1", False),  # matches nothing, and is in no flow
    (5, 11, "TRUE", False),
]
TWO_REGIONS: list[Row] = [(5, 1, 1), (5, 2, 2), (5, 3, 2), (5, 4, 1)]
PLAN: dict[str, list[Row]] = {
    "attachments": [(10, 1), (11, 2), (12, 3), (13, 4)],
    "flows": [
        (7, TREE, "TRUE", 0),
        (8, TREE, "topic = 'a'", 0),
        (9, TREE, "topic <> 'a' OR topic IS NULL", 0),
        (5, PATHS, "$broker = 1", 1),
        (6, TREE, "TRUE", 0),
    ],
    "members": [(7, 0, None), (7, 1, "topic IN ('a', 'b')"), (8, 2, None), (9, 2, None), (5, 3, None), (6, 5, None)],
    "trees": [(7, 1, 2), (8, 2, 1), (8, 3, 2), (9, 3, 4), (9, 1, 4), (6, 1, 2)],
    "filters": [(7, 1, 2, "price < 6 OR topic = 'a'"), (7, 2, 1, "FALSE"), (8, 3, 12, "topic = 'a'")],
    "regions": [],
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return scenario_of(
        tmp_path_factory.mktemp("validate") / "scenario",
        Settings(),
        scenario_tables([1, 2, 3, 4], LINKS, [10, 11, 12, 13], SUBSCRIPTIONS),
        events_table([(10, 1, "a", 1.0, 2)], {"topic": pa.string(), "price": pa.float64(), "volume": pa.int64()}),
    )


def problems(scenario: Scenario, tables: Mapping[str, list[Row]]) -> list[Problem]:
    made = {name: table_of(PLAN_TABLES[name], rows) for name, rows in tables.items()}
    return problems_of_plan(scenario, Plan.of(Header("test", ""), made), np.array([10]))


def changed(**rows: dict[int, Row | None]) -> dict[str, list[Row]]:
    """The plan with other rows, and None for one that is left out."""
    every: dict[str, dict[int, Row | None]] = {
        name: {**dict(enumerate(some)), **rows.get(name, {})} for name, some in PLAN.items()
    }
    return {name: [row for _, row in sorted(some.items()) if row is not None] for name, some in every.items()}


def test_a_lawful_plan(scenario: Scenario) -> None:
    assert problems(scenario, PLAN) == []
    assert problems(scenario, PLAN | {"regions": TWO_REGIONS}) == []
    assert problems_of_filters(scenario) == []


WRONG: dict[str, tuple[dict[str, Any], tuple[str, int | None, str | None, str]]] = {
    # Ids
    "client": ({"attachments": {4: (99, 1)}}, ("attachments", 5, "client", "there is no client 99")),
    "broker": ({"attachments": {1: (11, 99)}}, ("attachments", 2, "broker", "there is no broker 99")),
    "a client for a broker": ({"attachments": {1: (11, 12)}}, ("attachments", 2, "broker", "there is no broker 12")),
    "twice attached": ({"attachments": {4: (11, 3)}}, ("attachments", 5, "client", "11 has been given above")),
    "not attached": ({"attachments": {3: None}}, ("attachments", None, "client", "client 13 is not attached")),
    "flow twice": ({"flows": {3: (7, TREE, "TRUE", 0)}, "members": {4: (7, 3, None)}}, ("flows", 4, "flow", "7 has")),
    "kind": ({"flows": {0: (7, "trees", "TRUE", 0)}}, ("flows", 1, "kind", "there is no kind of flow trees")),
    "less than nothing": ({"flows": {0: (7, TREE, "TRUE", -1)}}, ("flows", 1, "associations", "cannot be -1")),
    "member's flow": ({"members": {0: (99, 0, None)}}, ("members", 1, "flow", "there is no flow 99")),
    "subscription": ({"members": {6: (7, 99, None)}}, ("members", 7, "subscription", "there is no subscription 99")),
    "in no flow": ({"members": {0: None}}, ("members", None, "subscription", "subscription 0 is in no flow")),
    "tree's flow": ({"trees": {0: (99, 1, 2)}}, ("trees", 1, "flow", "there is no flow 99")),
    "tree's source": ({"trees": {1: (8, 99, 1)}}, ("trees", 2, "source", "there is no broker 99")),
    "tree's target": ({"trees": {2: (8, 3, 12)}}, ("trees", 3, "target", "there is no broker 12")),
    "row's flow": ({"filters": {0: (99, 1, 2, "TRUE")}}, ("filters", 1, "flow", "there is no flow 99")),
    "row's source": ({"filters": {0: (7, 10, 1, "TRUE")}}, ("filters", 1, "source", "there is no broker 10")),
    "row's target": ({"filters": {1: (7, 1, 99, "TRUE")}}, ("filters", 2, "target", "no broker or client 99")),
    # Filters
    "E does not parse": ({"flows": {1: (8, TREE, "topic =", 0)}}, ("flows", 2, "events", "topic =")),
    "part does not parse": ({"members": {1: (7, 1, "(")}}, ("members", 2, "part", "(")),
    "row does not parse": ({"filters": {2: (8, 3, 12, "x y")}}, ("filters", 3, "filter", "x y")),
    # Trees
    "circle": ({"trees": {6: (9, 1, 2), 7: (9, 2, 3)}}, ("trees", 4, "flow", "the tree of flow 9 has a circle")),
    "link twice": ({"trees": {6: (9, 4, 1)}}, ("trees", 4, "flow", "the tree of flow 9 has a circle")),
    "a link to itself": ({"trees": {6: (9, 4, 4)}}, ("trees", 7, None, "there is no link between 4 and 4")),
    "pieces": ({"trees": {1: (8, 1, 4)}}, ("trees", 2, "flow", "the tree of flow 8 is in 2 pieces")),
    "no such link": ({"trees": {1: (8, 2, 4)}}, ("trees", 2, None, "there is no link between 2 and 4")),
    "link of one direction": ({"trees": {1: (8, 1, 3)}}, ("trees", 2, None, "there is no link between 1 and 3")),
    "lacks a member's": ({"trees": {2: None}}, ("trees", None, "flow", "flow 8 lacks broker 3, a member's")),
    "lacks a publisher's": ({"trees": {4: None}}, ("trees", None, "flow", "flow 9 lacks broker 1, a publisher's")),
    "no links": ({"trees": {3: None, 4: None}}, ("trees", None, "flow", "flow 9 has no links, but 2 brokers to join")),
    "steered with a tree": ({"trees": {6: (5, 1, 4)}}, ("trees", 7, "flow", "flow 5 is steered")),
    # Rows
    "row twice": ({"filters": {3: (7, 2, 1, "TRUE")}}, ("filters", 4, "target", "this link has a row above")),
    "row beside the tree": ({"filters": {3: (7, 2, 3, "TRUE")}}, ("filters", 4, "target", "no link from 2 to 3 in")),
    "row of a steered flow": ({"filters": {3: (5, 1, 4, "TRUE")}}, ("filters", 4, "target", "is steered: its rows")),
    "row of another's client": ({"filters": {3: (7, 1, 11, "TRUE")}}, ("filters", 4, "source", "attached to broker 2")),
    "row too narrow": (
        {"filters": {0: (7, 1, 2, "topic = 'a'")}},
        ("filters", 1, "filter", "not cover subscription 0"),
    ),
    "access row too narrow": ({"filters": {2: (8, 3, 12, "price < 5")}}, ("filters", 3, "filter", "subscription 2")),
    # Regions: flow 5 is the steered one, and the late flow's tree is 1-2, 1-4, 2-3
    "regions of no flow": ({"regions": {0: (99, 1, 1)}}, ("regions", 1, "flow", "there is no flow 99")),
    "regions of a tree": ({"regions": {0: (7, 1, 1)}}, ("regions", 1, "flow", "flow 7 is not steered")),
    "region of no broker": ({"regions": {0: (5, 12, 1)}}, ("regions", 1, "broker", "there is no broker 12")),
    "no such gateway": ({"regions": {0: (5, 1, 99)}}, ("regions", 1, "gateway", "there is no broker 99")),
    "in two regions": (
        {"regions": dict(enumerate([*TWO_REGIONS, (5, 3, 3)]))},
        ("regions", 5, "broker", "broker 3 is in two regions of flow 5"),
    ),
    "in no region": (
        {"regions": dict(enumerate(TWO_REGIONS[:-1]))},
        ("regions", None, "broker", "broker 4 is in no region of flow 5"),
    ),
    "gateway elsewhere": (
        {"regions": dict(enumerate([(5, 1, 1), (5, 2, 2), (5, 3, 1), (5, 4, 3)]))},
        ("regions", None, "gateway", "gateway 3 of flow 5 is in the region of 1, outside its own"),
    ),
    "region in pieces": (
        {"regions": dict(enumerate([(5, 1, 1), (5, 2, 1), (5, 3, 3), (5, 4, 3)]))},
        ("regions", None, "gateway", "the region of gateway 3 in flow 5 is in several pieces"),
    ),
    "region without a summary": (
        {"regions": dict(enumerate(TWO_REGIONS)), "filters": {3: (5, 4, 4, "TRUE")}},
        (
            "filters",
            None,
            "source",
            "hosts in the region of gateway 1 have summaries in flow 5, but the region has none",
        ),
    ),
    "summary of a region too narrow": (
        {
            "members": {0: (5, 0, None)},
            "regions": dict(enumerate([(5, 1, 1), (5, 2, 3), (5, 3, 3), (5, 4, 1)])),
            "filters": {3: (5, 3, 3, "topic = 'a'")},
        },
        ("filters", 4, "filter", "not cover subscription 0"),
    ),
    # Exactly once
    "flows overlap": ({"flows": {2: (9, TREE, "TRUE", 0)}}, ("members", None, "subscription", "2 is served twice")),
    "twice in a flow": ({"members": {6: (7, 0, None)}}, ("members", None, "subscription", "0 is served twice")),
    "events left out": (
        {"flows": {2: (9, TREE, "topic <> 'a'", 0)}},
        ("members", None, "subscription", "2 is not served whole"),
    ),
    "part left out": (
        {"members": {1: (7, 1, "topic = 'b'")}},
        ("members", None, "subscription", "1 is not served whole"),
    ),
    "publishing broker left out": (
        {"flows": {0: (7, TREE, "$broker IN (2, 3, 4)", 0)}},
        ("members", None, "subscription", "0 is not served whole"),
    ),
}


def test_a_flow_with_regions_is_not_ordered(scenario: Scenario) -> None:
    made = {name: table_of(PLAN_TABLES[name], rows) for name, rows in (PLAN | {"regions": TWO_REGIONS}).items()}
    made["flows"] = made["flows"].append_column("ordered", pa.array([None, None, None, True, None], pa.bool_()))
    found = problems_of_plan(scenario, Plan.of(Header("test", ""), made), np.array([10]))
    assert {(each.table, each.column) for each in found} == {("regions", "flow")}
    assert "flow 5 is ordered" in found[0].what


@pytest.mark.parametrize("name", WRONG)
def test_a_plan_that_breaks_the_law(name: str, scenario: Scenario) -> None:
    changes, (table, row, column, what) = WRONG[name]
    found = problems(scenario, changed(**changes))
    assert any((each.table, each.row, each.column) == (table, row, column) and what in each.what for each in found), [
        *map(str, found)
    ]


def test_only_what_is_wrong_is_said(scenario: Scenario) -> None:
    """Where a change breaks one rule alone."""
    alone = [name for name in WRONG if "row" not in name and "publish" not in name]
    found = {name: problems(scenario, changed(**WRONG[name][0])) for name in alone}
    more = {name: some for name, some in found.items() if len(some) != 1}
    assert more.keys() <= {"member's flow"}, more


def test_all_is_said_at_once(scenario: Scenario) -> None:
    dangling = changed(
        attachments={3: None, 4: (99, 99)},
        flows={0: (7, "shrub", "(", 0)},
        members={0: (98, 97, ")")},
        trees={0: (96, 95, 94)},
        filters={0: (93, 92, 91, "?")},
    )
    places = {(each.table, each.column) for each in problems(scenario, dangling)}
    assert places == {
        ("attachments", "client"),
        ("attachments", "broker"),
        ("flows", "kind"),
        ("flows", "events"),
        ("members", "flow"),
        ("members", "subscription"),
        ("members", "part"),
        *(("trees", column) for column in ("flow", "source", "target")),
        *(("filters", column) for column in ("flow", "source", "target", "filter")),
    }
    lawless = changed(
        flows={1: (8, TREE, "TRUE", 0)},
        trees={2: None, 6: (5, 1, 4)},
        filters={0: (7, 1, 2, "topic = 'b'"), 1: (7, 2, 3, "TRUE")},
    )
    found = [*map(str, problems(scenario, lawless))]
    for what in ("lacks broker 3", "is steered", "does not cover subscription", "no link from 2 to 3", "served twice"):
        assert any(what in each for each in found), (what, found)


def test_of_many_rows_some_are_named(scenario: Scenario) -> None:
    found = problems(scenario, PLAN | {"members": [*PLAN["members"], *((7, 100 + i, None) for i in range(1000))]})
    assert [each.row for each in found] == [7, 8, 9, 10, 11, None]
    assert "995 more rows" in found[-1].what


# No false alarm


@pytest.mark.parametrize("seed", range(20))
def test_random_lawful_plans(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for number in range(3):
        scenario = random_scenario(dice, tmp_path / str(number))
        publishers = np.unique(np.array([event.publisher for event in events_of(scenario)], np.int64))
        for turn in range(4):
            plan = random_plan(dice, scenario, regions=(turn % 2) * 0.8)
            assert problems_of_plan(scenario, plan, publishers) == []


@pytest.mark.parametrize("seed", range(10))
def test_random_plans_that_lose_a_share(seed: int, tmp_path: Path) -> None:
    """One membership less, of a subscription that wants what it had there: its flows no longer cover it."""
    dice = random.Random(seed)
    told = 0
    for number in range(6):
        scenario = random_scenario(dice, tmp_path / str(number))
        publishers = np.unique(np.array([event.publisher for event in events_of(scenario)], np.int64))
        plan = random_plan(dice, scenario)
        rows = plan.members.to_pylist()
        for row in rows:
            left = [each for each in rows if each is not row]
            tables = {name: getattr(plan, name) for name in PLAN_TABLES} | {
                "members": pa.Table.from_pylist(left, schema=plan.members.schema)
            }
            found = problems_of_plan(scenario, Plan.of(plan.header, tables), publishers)
            assert all(
                each.table == "members" and f"subscription {row['subscription']} " in each.what for each in found
            )
            told += bool(found)
    assert told


@pytest.mark.parametrize(
    ("flows", "whole"),
    [
        (["price < 3", "price >= 3 OR price IS NULL"], True),  # price is a number, if it is there
        (["price < 3", "price >= 3"], False),
        (["topic LIKE 'a%'", "topic NOT LIKE 'a%'", "topic IS NULL"], True),
        (["topic IS NULL", "topic IS NOT NULL"], True),
        (["colour IS NULL"], True),  # there is no such column
        (["colour IS NULL", "colour = 'red'"], True),
        (["$broker = 1"], True),  # nobody publishes anywhere else
        (["$broker < 2", "$broker > 2"], True),
        (["$broker > 1"], False),
        (["$broker = 1 AND price < 3", "$broker IN (1, 2) AND (price >= 3 OR price IS NULL)"], True),
        (["$broker = 1 AND price < 3", "$broker IN (2, 3) AND (price >= 3 OR price IS NULL)"], False),
    ],
)
def test_events_that_there_cannot_be_do_not_matter(flows: list[str], whole: bool, scenario: Scenario) -> None:
    """Subscription 5 wants everything, here in one flow for each predicate."""
    tables = {
        "attachments": PLAN["attachments"],
        "flows": [*PLAN["flows"][:4], *((20 + i, TREE, text, 0) for i, text in enumerate(flows))],
        "members": [*PLAN["members"][:5], *((20 + i, 5, None) for i in range(len(flows)))],
        "trees": [*PLAN["trees"][:5], *((20 + i, 1, 2) for i in range(len(flows)))],
        "filters": PLAN["filters"],
    }
    found = [(each.table, each.what) for each in problems(scenario, tables)]
    lost = ("members", "subscription 5 is not served whole: its flows leave events out")
    assert found == ([] if whole else [lost])
