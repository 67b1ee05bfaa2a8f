"""Changes that make no sense are named by row and column, without Spark; history and churn part at the first event."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from overstory.errors import DataError
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.model.tables import CHANGES
from overstory.pipeline.history import has_churn, timeline_of
from overstory.pipeline.pipeline import Pipeline

from ..tables import events_table, scenario_of, scenario_tables, table_of

A, B = 0, 1  # brokers
ANNA, BEN = 10, 11  # clients: Anna has subscription 7, Ben nothing
Row = tuple[float, str, int, int | None, str | None, int | None]


def scenario_with(folder: Path, rows: list[Row], events: int = 3) -> Scenario:
    """Events at 0, 1 and 2."""
    tables = scenario_tables([A, B], [(A, B, 1.0), (B, A, 1.0)], [ANNA, BEN], [(7, ANNA, "x > 1", False)])
    log = events_table([(ANNA, 1, 0.5)] * events, {"x": pa.float64()})
    return scenario_of(folder / "scenario", Settings(), tables | {"changes": table_of(CHANGES, rows)}, log)


def subscribe(time: float, client: int, id_: int | None, text: str | None = "x > 1") -> Row:
    return (time, "subscribe", client, id_, text, None)


def at(time: float, operation: str, client: int, broker: int | None = None) -> Row:
    return (time, operation, client, None, None, broker)


BAD: list[tuple[str, list[Row], int, str, str]] = [
    ("ends what is not there", [(5, "unsubscribe", ANNA, 8, None, None)], 1, "subscription", "no subscription 8"),
    ("ends another's", [(5, "unsubscribe", BEN, 7, None, None)], 1, "client", "is client 10's"),
    ("twice", [subscribe(5, BEN, 8), subscribe(6, BEN, 8)], 2, "subscription", "is there already, by row 1"),
    ("as in the table", [subscribe(5, ANNA, 7)], 1, "subscription", "is there already, by the table subscriptions"),
    ("moves after it left", [at(5, "leave", BEN), at(6, "move", BEN, B)], 2, "client", "client 11 is not there"),
    ("subscribes after it left", [at(5, "leave", BEN), subscribe(6, BEN, 8)], 2, "client", "client 11 is not there"),
    ("joins twice", [at(5, "join", BEN, A), at(6, "join", BEN, B)], 2, "client", "is there already"),
    ("joins with a past", [at(5, "join", ANNA, A)], 1, "client", "nothing says when it made subscription 7"),
    ("announces nonsense", [(5, "announce", ANNA, None, "x >", None)], 1, "filter", "expected a value"),
    ("asks for the broker", [subscribe(5, BEN, 8, "$broker = 1")], 1, "filter", "only plans may use it"),
    ("no filter", [subscribe(5, BEN, 8, None)], 1, "filter", "subscribe needs one"),
    ("no announced filter", [at(5, "announce", BEN)], 1, "filter", "announce needs one"),
    ("no subscription", [subscribe(5, BEN, None)], 1, "subscription", "subscribe needs one"),
    ("no broker to join", [at(5, "join", BEN)], 1, "broker", "join needs one"),
    ("no broker to move to", [at(5, "move", BEN)], 1, "broker", "move needs one"),
    ("backwards", [subscribe(6, BEN, 8), subscribe(5, BEN, 9)], 2, "time", "5 is before the row above, which is at 6"),
    ("no time", [subscribe(float("nan"), BEN, 8)], 1, "time", "is not a time"),
    ("left in the past", [at(-2, "leave", ANNA)], 1, "client", "ends subscription 7, and the table"),
    ("not in the table", [subscribe(-2, BEN, 8)], 1, "subscription", "not in the table subscriptions"),
    ("another's in the table", [subscribe(-2, BEN, 7)], 1, "client", "subscription 7 is client 10's"),
    ("another filter", [subscribe(-2, ANNA, 7, "x > 2")], 1, "filter", "another filter for subscription 7"),
]


@pytest.mark.parametrize(("rows", "row", "column", "what"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_makes_no_sense_is_named(
    rows: list[Row], row: int, column: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by whoever validates, and without Spark."""
    scenario = scenario_with(tmp_path, rows)
    with pytest.raises(DataError) as caught:
        timeline_of(scenario)
    (problem,) = caught.value.problems
    assert (problem.table, problem.row, problem.column) == ("changes", row, column)
    assert what in problem.what
    monkeypatch.setattr(Pipeline, "spark", property(lambda _: pytest.fail("Spark was started")))
    with Pipeline() as pipeline, pytest.raises(DataError, match=f"changes row {row} column {column}"):
        pipeline.validate(scenario)


def test_a_client_that_ends_up_elsewhere_is_named(tmp_path: Path) -> None:
    scenario = scenario_with(tmp_path, [at(-2, "move", BEN, B)])
    clients: Any = scenario.clients.set_column(1, "broker", pa.array([A, A]))
    with pytest.raises(DataError, match="changes row 1 column broker: client 11 ends up here"):
        timeline_of(replace(scenario, clients=clients))
    assert timeline_of(scenario).history  # where the table names no broker, any will do


def test_history_and_churn_part_at_the_first_event(tmp_path: Path) -> None:
    """A change at the time of the first event is churn."""
    rows = [
        at(-3, "join", ANNA, A),
        subscribe(-2, ANNA, 7),
        (-1, "announce", ANNA, None, "x > 5", None),
        subscribe(0, BEN, 8),
        at(2, "leave", BEN),
        at(3, "join", BEN, B),
    ]
    timeline = timeline_of(scenario_with(tmp_path, rows))
    assert [change.row for change in timeline.history] == [1, 2, 3]
    assert [change.row for change in timeline.churn] == [4, 5, 6]
    assert timeline.away_before == {ANNA}
    assert not timeline.away
    assert list(timeline.announced) == [ANNA]


def test_without_events_all_is_churn(tmp_path: Path) -> None:
    scenario = scenario_with(tmp_path, [subscribe(-5, BEN, 8)], events=0)
    assert not timeline_of(scenario).history
    assert has_churn(scenario)


def test_a_history_alone_is_no_churn(tmp_path: Path) -> None:
    assert not has_churn(scenario_with(tmp_path, [subscribe(-2, ANNA, 7)]))
    assert not has_churn(replace(scenario_with(tmp_path / "b", []), changes=CHANGES.full_schema.empty_table()))


def test_many_problems_are_counted(tmp_path: Path) -> None:
    rows: list[Row] = [(5, "unsubscribe", ANNA, 100 + number, None, None) for number in range(50)]
    with pytest.raises(DataError, match="30 more rows make no sense"):
        timeline_of(scenario_with(tmp_path, rows))
