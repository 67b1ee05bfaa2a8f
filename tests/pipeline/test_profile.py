"""The profile of a scenario: matches, publishers and ranges are those that asking every filter and event gives."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from overstory import parse_filter
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.profile import profile_of, warnings_of

from ..tables import events_table, scenario_of, scenario_tables

TYPES = {"status": pa.string(), "temp": pa.float64(), "a.b": pa.int64(), "tags": pa.list_(pa.string())}
FILTERS = [
    "temp > 20",
    "status = 'fail'",
    "temp > 20",
    "a.b IN (1, 2) AND tags HAS ANY ('x')",
    "status IS NULL OR status IS NOT NULL",
    "temp > 1000",
    "stauts = 'ok'",
    "status = 'failed'",
    "temp < 5 OR zone = 'z'",
]

PLAIN = Settings()


def scenario_with(folder: Path, filters: list[str], settings: Settings = PLAIN, events: int = 300) -> Scenario:
    dice = random.Random(2)
    rows: list[Any] = [
        (
            dice.choice([10, 11, 11]),
            1,
            dice.choice(["ok", "fail", None]),
            dice.choice([None, dice.uniform(0, 40)]),
            dice.randint(0, 5),
            dice.choice([["x"], ["y", "z"], [], None]),
        )
        for _ in range(events)
    ]
    wanted = [(at, 10 + at % 2, text, False) for at, text in enumerate(filters)]
    tables = scenario_tables([0, 1, 2], [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)], [10, 11], wanted)
    return scenario_of(folder, settings, tables, events_table(rows, TYPES))


def test_a_profile_is_what_asking_every_filter_gives(tmp_path: Path, pipeline: Pipeline) -> None:
    scenario = scenario_with(tmp_path / "made", FILTERS)
    events = pa.parquet.read_table(scenario.events).to_pylist()
    profile = profile_of(pipeline, scenario)
    matches = profile.matches
    assert matches.events == len(events)
    different = list(dict.fromkeys(FILTERS))
    parsed = [parse_filter(text) for text in different]
    assert list(matches.filters) == different
    assert list(matches.counts) == [sum(wanted.matches(event) for event in events) for wanted in parsed]
    assert list(matches.subscriptions) == [2, 1, 1, 1, 1, 1, 1, 1]
    assert matches.wanted == sum(any(wanted.matches(event) for wanted in parsed) for event in events)
    assert matches.publishers == Counter(event["$publisher"] for event in events)
    histogram = matches.histogram()
    assert (histogram["none"], histogram["all"], sum(histogram.values())) == (3, 1, len(different))
    temps = [event["temp"] for event in events if event["temp"] is not None]
    (temp,) = [about for about in profile.attributes if about.name == "temp"]
    assert (temp.values, temp.least, temp.most) == (len(temps), min(temps), max(temps))
    (status,) = [about for about in profile.attributes if about.name == "status"]
    assert status.examples == ("fail", "ok")
    assert profile.clients == {0: 0, 1: 0, 2: 0}
    assert list(profile.warnings) == warnings_of(pipeline, scenario)
    assert [warning.partition(" matches")[0] for warning in profile.warnings[:3]] == [
        "subscription 5",
        "subscription 6",
        "subscription 7",
    ]
    assert f"'temp' is {temp.in_words()}" in profile.warnings[0]
    assert "no event has 'stauts'; near to it: status" in profile.warnings[1]
    assert "'status' is 'fail', 'ok'" in profile.warnings[2]
    assert profile.warnings[3].startswith(
        "a part of this filter matches no event: temp < 5 OR zone = 'z' (no event has"
    )


def test_a_log_that_nobody_wants_is_said_in_words(tmp_path: Path, pipeline: Pipeline) -> None:
    settings = Settings(made_by={"kind": "import", "bytes": "size"})
    nobody = warnings_of(pipeline, scenario_with(tmp_path / "made", ["size > 1"], settings))
    assert nobody == [
        "nobody wants any of the 300 events: no filter matches one, so every plan costs nothing",
        "subscription 0 matches no event: size > 1 ('size' is no attribute, as --bytes took the column)",
    ]
    none = warnings_of(pipeline, scenario_with(tmp_path / "none", []))
    assert none == ["there are no subscriptions: nobody wants any of the 300 events, and plans cost nothing"]
    many = warnings_of(pipeline, scenario_with(tmp_path / "many", [f"temp > {100 + at}" for at in range(9)]))
    assert many[-1] == "4 more filters match no event"


@pytest.mark.parametrize("events", [0, 1])
def test_a_log_with_hardly_anything_has_a_profile(events: int, tmp_path: Path, pipeline: Pipeline) -> None:
    profile = profile_of(pipeline, scenario_with(tmp_path / "made", ["temp > 100"], events=events))
    assert profile.matches.events == events
    assert profile.matches.histogram()["none"] == 1
