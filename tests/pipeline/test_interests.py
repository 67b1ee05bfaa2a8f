"""Interests are read from filters in any spelling; and Spark counts what plain code does."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import DataError, UsageError
from overstory.filters import parse_filter
from overstory.lab.topics import Topics, make_topics
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.settings import Settings
from overstory.pipeline.interests import SURELY_WITHIN, all_plain, partners_here, partners_on, wanted_topics
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.topic_windows import follow, growing_windows_of, last_time, rates_in, riding_on, windows_of
from overstory.pipeline.workbench import Workbench
from overstory.planners.topics.demand import asked_in

from ..tables import events_table, scenario_of, scenario_tables

SPELLINGS = {
    "topic = 'a'": ["a"],
    "topic IN ('b', 'a')": ["b", "a"],
    "topic in ('a','b')": ["a", "b"],
    "topic = 'a' OR topic = 'c'": ["a", "c"],
    "topic IN ('it''s')": ["it's"],
    "topic = 'x)'": ["x)"],
    "FALSE": [],
}


def scenario_with(folder: Path, filters: list[str]) -> Scenario:
    clients = range(10, 10 + len(filters))
    links = [(0, each, 1.0) for each in clients] + [(each, 0, 0.0) for each in clients]
    rows = [(at, 10 + at, text, False) for at, text in enumerate(filters)]
    tables = scenario_tables([0], links, clients, rows)
    return scenario_of(folder, Settings(), tables, events_table([(10, 1, "a")], {"topic": pa.string()}))


def test_topics_in_any_spelling(tmp_path: Path) -> None:
    offsets, names = wanted_topics(scenario_with(tmp_path / "s", list(SPELLINGS)))
    found = [sorted(names[a:b].to_pylist()) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    assert found == [sorted(each) for each in SPELLINGS.values()]


@pytest.mark.parametrize("text", ["price > 3", "topic = 'a' AND price > 3", "topic LIKE 'a%'", "TRUE"])
def test_what_is_no_subscription_to_topics_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no subscription to topics"):
        wanted_topics(scenario_with(tmp_path / "s", ["topic = 'a'", text]))


@given(st.lists(st.text(st.characters(exclude_characters="'", exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_what_is_taken_as_a_plain_list_of_topics_parses(names: list[str]) -> None:
    for text in ("topic IN (" + ", ".join(f"'{name}'" for name in names) + ")", f"topic = '{names[0]}'"):
        assert all_plain(pa.chunked_array([[text]]))
        assert parse_filter(text).boxes


def test_the_longest_plain_list_of_topics_is_within_all_limits() -> None:
    names = [f"'{at:x}'" for at in range(3000)]
    while len(text := f"topic IN ({', '.join(names)})") > SURELY_WITHIN:
        names.pop()
    assert all_plain(pa.chunked_array([[text]]))
    assert parse_filter(text).boxes
    assert not all_plain(pa.chunked_array([[text + " " * SURELY_WITHIN]]))
    assert not all_plain(pa.chunked_array([["topic = 'a'", "topic = 'a' AND b = 1"]]))
    assert not all_plain(pa.chunked_array([["topic = 'a'", "topic = 'it''s'"]]))


def test_spark_counts_what_plain_code_does(tmp_path: Path, pipeline: Pipeline) -> None:
    make_topics(tmp_path / "s", Topics(users=80, topics=30, natural_clusters=3, intervals=30, changes=False), seed=1)
    scenario = read_scenario(tmp_path / "s")
    one, other = asked_in(scenario, pipeline), asked_in(scenario, Workbench(scenario))
    assert one.interests.names == other.interests.names
    assert (one.demand.topics == other.demand.topics).all()
    assert one.demand.rates == pytest.approx(other.demand.rates)
    known = one.demand.both_ways()
    for spark, plain in zip(partners_on(pipeline.spark, known, 5), partners_here(known, 5), strict=True):
        assert np.array_equal(spark, plain)


def test_windows_of_a_log_and_of_one_that_grows(tmp_path: Path, pipeline: Pipeline) -> None:
    make_topics(tmp_path / "s", Topics(users=5, topics=6, natural_clusters=0, intervals=20, changes=False), seed=1)
    log = read_scenario(tmp_path / "s").events
    rows = pq.read_table(log)
    expected: dict[tuple[str, int], int] = {}
    for topic, time in zip(rows["topic"].to_pylist(), rows["$time"].to_pylist(), strict=True):
        length = 720.0 if topic == "t0" else 360.0
        expected[topic, int(time // length)] = expected.get((topic, int(time // length)), 0) + 1
    found = windows_of(pipeline.spark.read.parquet(str(log)), 360.0, {"t0": 720.0}).toArrow()
    got = {(row["topic"], row["window"]): row["events"] for row in found.to_pylist()}
    assert got == expected
    last = last_time(pipeline.spark.read.parquet(str(log)))
    assert last is not None
    assert last == max(rows["$time"].to_pylist())
    rates = rates_in(found, last, 360.0, {"t0": 720.0})
    for at, topic in enumerate(rates.topics):
        mine = [count for (name, _), count in expected.items() if name == topic]
        length = 720.0 if topic == "t0" else 360.0
        assert (rates.seconds[at], rates.windows[at]) == (length, int(last // length) + 1)
        assert (rates.events[at], rates.busy[at], rates.most[at]) == (sum(mine), len(mine), max(mine))
        assert rates.bytes[at] == pytest.approx(sum(mine) / rates.windows[at])  # each has one byte
    with pytest.raises(UsageError, match="longer than 0 seconds"):
        windows_of(pipeline.spark.read.parquet(str(log)), 0.0)
    folder = tmp_path / "growing"
    folder.mkdir()
    pq.write_table(rows, folder / "part.parquet")
    stream = pipeline.spark.readStream.schema(pipeline.spark.read.parquet(str(log)).schema).parquet(str(folder))
    windows = growing_windows_of(stream, 360.0, {"t0": 720.0})
    query = windows.writeStream.format("memory").queryName("grown").outputMode("complete")
    query.trigger(availableNow=True).start().awaitTermination()
    grown = pipeline.spark.table("grown").toArrow()
    assert {(row["topic"], row["window"]): row["events"] for row in grown.to_pylist()} == expected


def test_a_growing_log_tells_of_windows_that_are_over(tmp_path: Path, pipeline: Pipeline) -> None:
    """In two files, the second one with an event that is too late; every window that is told of is whole."""
    folder = tmp_path / "log"
    batches: list[pa.Table] = []
    folder.mkdir()
    with pytest.raises(UsageError, match="no Parquet file"):
        follow(pipeline.spark, folder, 10.0, batches.append, once=True)
    kinds = {"topic": pa.string()}
    times = [[1.0, 2.0, 12.0, 55.0], [3.0, 61.0, 62.0, 150.0]]
    for number, some in enumerate(times):
        table = events_table([(10, 2, "a" if time < 60 else "b") for time in some], kinds)
        table = table.set_column(table.column_names.index("$time"), "$time", pa.array(some))
        pq.write_table(table, folder / f"part-{number}.parquet")
        os.utime(folder / f"part-{number}.parquet", (number + 1, number + 1))
    with pytest.raises(UsageError, match="longer than 0 seconds"):
        follow(pipeline.spark, folder, 10.0, batches.append, once=True, own={"b": 0.0})
    follow(pipeline.spark, folder, 10.0, batches.append, once=True, own={"b": 20.0})
    told = [row for batch in batches for row in batch.to_pylist()]
    found = {(row["topic"], row["window"]): (row["events"], row["bytes"]) for row in told}
    assert len(told) == len(found)
    assert found[("b", 3)] == (2, 4)  # windows of its own length
    assert found[("a", 1)] == (1, 2)
    assert found[("a", 0)][0] in (2, 3)  # the late event is counted only if both files came as one batch
    assert ("b", 7) not in found  # it is not over yet


def test_keep_alives_ride_on_events(tmp_path: Path, pipeline: Pipeline) -> None:
    make_topics(tmp_path / "s", Topics(users=5, topics=6, natural_clusters=0, intervals=20, changes=False), seed=1)
    log = read_scenario(tmp_path / "s").events
    rows = pq.read_table(log).select(["topic", "$time"]).to_pylist()
    channels = [(["t0"], 360.0), (["t1", "t2"], 720.0), (["t0", "t1", "t2", "t3", "t4", "t5"], 360.0), (["t9"], 60.0)]
    found = riding_on(pipeline.spark.read.parquet(str(log)), channels)
    last = max(row["$time"] for row in rows)
    for share, (topics, length) in zip(found.tolist(), channels, strict=True):
        busy = {int(row["$time"] // length) for row in rows if row["topic"] in topics}
        assert share == pytest.approx(len(busy) / np.ceil(last / length))
    assert found[0] <= found[2]
    assert found[3] == 0
