"""A plan is checked to the last subscription, however many there are; what cannot be told is said."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory import parse_filter
from overstory.errors import Problem
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.model.tables import PLAN_TABLES, TREE
from overstory.pipeline import comparing
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.validate import problems_of_plan

from ..tables import Row, events_table, scenario_of, scenario_tables, table_of

MANY = 25_000  # more than were ever compared one by one
WIDTH = 0.01
TYPES = {"x": pa.float64(), "y": pa.float64(), "kind": pa.string()}


def scenario_with(folder: Path, filters: list[str], brokers: int = 3) -> Scenario:
    """Brokers in a line; client 100 publishes at the first, and each subscriber is at one of the others."""
    links = [link for at in range(1, brokers) for link in ((at, at + 1, 1.0), (at + 1, at, 1.0))]
    clients = list(range(100, 101 + len(filters)))
    wanted = [(number, 101 + number, text, False) for number, text in enumerate(filters)]
    tables = scenario_tables(range(1, brokers + 1), links, clients, wanted)
    return scenario_of(folder, Settings(), tables, events_table([(100, 1, 0.5, 0.5, "a")], TYPES))


def told(scenario: Scenario, tables: dict[str, list[Row]], brokers: int = 3) -> tuple[list[Problem], list[str]]:
    """The problems of a plan on the line, and the notes."""
    clients = scenario.clients["id"].to_pylist()
    places = [(client, 1 if client == 100 else 2 + client % (brokers - 1)) for client in clients]
    notes: list[str] = []
    every = {"attachments": places, **tables}
    made = {name: table_of(PLAN_TABLES[name], rows) for name, rows in every.items()}
    plan = Plan.of(Header("test", ""), made)
    return problems_of_plan(scenario, plan, np.array([100]), note=notes.append), notes


def line(flow: int, brokers: int = 3) -> list[Row]:
    return [(flow, at, at + 1) for at in range(1, brokers)]


def squares(count: int) -> list[str]:
    return [
        f"x >= {at / 1e6:.6f} AND x < {at / 1e6 + WIDTH:.6f} AND y >= 0.2 AND y < 0.3 AND x > {number / 1e9:.9f}"
        for number, at in enumerate(range(0, 10 * count, 10))
    ]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """The last subscription wants something that none of the others does."""
    filters = [*squares(MANY - 1), "x >= 0.9 AND x < 0.91 AND y >= 0.9 AND y < 0.91"]
    return scenario_with(tmp_path_factory.mktemp("many") / "scenario", filters)


def one_flow(scenario: Scenario, rows: list[Row]) -> dict[str, list[Row]]:
    members = [(0, number, None) for number in range(scenario.subscriptions.num_rows)]
    return {"flows": [(0, TREE, "TRUE", 0)], "members": members, "trees": line(0), "filters": rows}


def test_rows_that_cover_all_are_in_order(many: Scenario) -> None:
    row = "(x >= 0 AND x < 0.1 AND y < 0.5) OR (x >= 0.1 AND x < 0.4 AND y < 0.5) OR (x > 0.8 AND y > 0.8)"
    assert told(many, one_flow(many, [(0, 1, 2, row), (0, 2, 3, row), (0, 3, 2, row), (0, 2, 1, "FALSE")])) == ([], [])


def test_the_last_of_many_subscriptions_is_compared_too(many: Scenario) -> None:
    """The first row alone has more subscriptions behind it than were ever compared one by one."""
    rows: list[Row] = [(0, 1, 2, "x < 2"), (0, 3, 2, "x >= 0 AND x < 0.4 AND y < 0.5")]
    found, notes = told(many, one_flow(many, rows))
    said = [(each.row, each.what) for each in found]
    assert said == [(2, f"it does not cover subscription {MANY - 1}, which is behind")]
    assert notes == []


def test_a_gap_between_boxes_is_seen(many: Scenario) -> None:
    """Side by side they would cover all, but one end is open."""
    row = "(x >= 0 AND x < 0.1 AND y < 0.5) OR (x > 0.1 AND x < 0.4 AND y < 0.5) OR (x > 0.8 AND y > 0.8)"
    found, notes = told(many, one_flow(many, [(0, 1, 2, row)]))
    assert len(found) == 1
    assert "does not cover subscription" in found[0].what
    assert notes == []


def test_of_many_shared_subscriptions_the_last_is_looked_at_too(many: Scenario) -> None:
    """Two channels at y = 0.25; the last subscription is a member of one of them only, and the other has it."""
    flows = [(0, TREE, "y < 0.25", 0), (1, TREE, "y >= 0.25 OR y IS NULL", 0)]
    both = [(flow, number, None) for number in range(MANY - 1) for flow in (0, 1)]
    tables: dict[str, list[Row]] = {"flows": flows, "trees": [*line(0), *line(1)]}
    assert told(many, tables | {"members": [*both, (1, MANY - 1, None)]}) == ([], [])
    found, notes = told(many, tables | {"members": [*both, (0, MANY - 1, None)]})
    assert [each.what for each in found] == [f"subscription {MANY - 1} is not served whole: its flows leave events out"]
    assert notes == []
    flows[1] = (1, TREE, "y >= 0.24 OR y IS NULL", 0)
    found, _ = told(many, tables | {"members": [*both, (1, MANY - 1, None)]})
    assert len(found) == 20
    assert all("is served twice" in each.what for each in found)


# What cannot be told


def test_what_is_taken_on_trust_is_said(tmp_path: Path) -> None:
    filters = ["x + y > 3", "x + y > 3 AND x < 0.5", "x < 0.5", "kind LIKE '%a_b%' AND x < 0.5"]
    scenario = scenario_with(tmp_path / "scenario", filters)
    found, notes = told(scenario, one_flow(scenario, [(0, 1, 2, "x < 0.7")]))
    assert found == []
    assert notes == [
        "taken on trust, as arithmetic and patterns cannot always be compared: "
        "1 pairs of a row of filters and a subscription behind it"
    ]


def test_arithmetic_within_a_box_is_compared_by_the_box(tmp_path: Path) -> None:
    scenario = scenario_with(tmp_path / "scenario", ["x + y > 3 AND x < 0.5", "x < 0.5"])
    assert told(scenario, one_flow(scenario, [(0, 1, 2, "x < 0.7 OR y * x > 2")])) == ([], [])


def test_beyond_what_is_compared_one_by_one_all_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = [f"x * y > {number}" for number in range(10)]
    scenario = scenario_with(tmp_path / "scenario", filters)
    monkeypatch.setattr(comparing, "MOST_COMPARED", 3)
    _, notes = told(scenario, one_flow(scenario, [(0, 1, 2, "x < 0.7"), (0, 2, 3, "x < 0.8")]))
    behind_second = sum(1 for client in range(101, 111) if client % 2 == 1)
    assert f"{10 + behind_second} pairs of a row" in notes[0]
    flows: dict[str, list[Row]] = {
        "flows": [(0, TREE, "x < 1", 0), (1, TREE, "x >= 1 OR x IS NULL", 0)],
        "members": [(flow, number, None) for number in range(10) for flow in (0, 1)],
        "trees": [*line(0), *line(1)],
    }
    _, notes = told(scenario, flows)
    assert "9 subscriptions and the flows that share them" in notes[0]  # one was compared, and is in order


def test_a_pattern_that_can_be_compared_is(tmp_path: Path) -> None:
    scenario = scenario_with(tmp_path / "scenario", ["kind LIKE '%ab%'"])
    assert told(scenario, one_flow(scenario, [(0, 1, 2, "kind LIKE '%a%' OR x < 1")])) == ([], [])


# Against a scan


@pytest.mark.parametrize("seed", range(20))
def test_random_rows_against_each_subscription_by_itself(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)

    def box(names: str) -> str:
        parts = []
        for name in names:
            low = dice.randint(0, 6)
            parts += [f"{name} >= {low}", f"{name} {dice.choice(['<', '<='])} {low + dice.randint(1, 4)}"]
        return " AND ".join(parts)

    filters = [box(dice.choice(["x", "y", "xy", "xy"])) for _ in range(30)] + ["kind = 'a' AND x > 3", "kind > 'b'"]
    scenario = scenario_with(tmp_path / "scenario", filters, brokers=6)
    rows: list[Row] = []
    for at in range(1, 6):
        text = " OR ".join(f"({box(dice.choice(['x', 'y', 'xy']))})" for _ in range(dice.randint(1, 6)))
        rows += [(0, at, at + 1, f"{text} OR kind >= 'a'"), (0, at + 1, at, text)]
    tables = one_flow(scenario, rows) | {"trees": line(0, 6)}
    found, notes = told(scenario, tables, brokers=6)
    wrong = set()
    for number, (_, source, target, text) in enumerate(rows):
        behind = [2 + client % 5 for client in range(101, 101 + len(filters))]
        for text_behind, broker in zip(filters, behind, strict=True):
            if (broker >= target if target > source else broker <= target) and not parse_filter(text).covers(
                parse_filter(text_behind)
            ):
                wrong.add(number + 1)
    assert {each.row for each in found} == wrong
    assert notes == []


def test_the_pipeline_passes_the_note_on(tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_with(tmp_path / "scenario", ["x + y > 3"])
    notes: list[str] = []
    monkeypatch.setattr(pipeline, "note", notes.append)
    tables = {"attachments": [(100, 1), (101, 2)], **one_flow(scenario, [(0, 1, 2, "x < 0.7")])}
    made = {name: table_of(PLAN_TABLES[name], rows) for name, rows in tables.items()}
    pipeline.score(scenario, Plan.of(Header("test", ""), made))
    assert len(notes) == 1
    assert notes[0].startswith("taken on trust")
