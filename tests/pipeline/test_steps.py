"""Steps on Spark: neither partitions, nor the order of rows, nor shards change what they give."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory import parse_filter
from overstory.errors import DataError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.bound import bound_of
from overstory.pipeline.effort import ALL, Chosen, chosen_from
from overstory.pipeline.match import reduced
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.predicates import Predicates
from overstory.pipeline.rules import metered
from overstory.pipeline.score import totals_of
from overstory.pipeline.validate import Published, check_headroom
from overstory.planners.chains import make_plan

Row = tuple[object, ...]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("steps") / "net"
    make_localized(folder, topology("waxman", 25, 1), Localized(keywords=30, events=3000, locality=0.3), seed=4)
    return read_scenario(folder)


def predicates_of(scenario: Scenario) -> Predicates:
    found = Predicates()
    found.numbers(scenario.subscriptions["filter"])
    return found


def as_set(rows: object) -> set[Row]:
    names = ("part", "publisher", "events", "bytes")
    return {
        (*(row[name] for name in names), tuple(row["predicates"]))
        for row in rows.toArrow().to_pylist()  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("partitions", [1, 7])
def test_rows_are_the_same_however_they_are_made(
    pipeline: Pipeline, scenario: Scenario, tmp_path: Path, shards: int, partitions: int
) -> None:
    predicates = predicates_of(scenario)
    expected = as_set(pipeline.reduce(scenario, predicates))
    indexes = [
        path.rename(tmp_path / f"{partitions}-{shards}-{path.name}")
        for path in predicates.write_index(tmp_path, shards)
    ]
    events = pipeline.events(scenario).repartition(partitions, "keywords")
    assert as_set(reduced(pipeline.spark, events, indexes)) == expected
    assert sum(int(str(row[2])) for row in expected) == 3000


def test_rows_hold_the_predicates_that_match(pipeline: Pipeline, scenario: Scenario) -> None:
    predicates = predicates_of(scenario)
    filters = [parse_filter(text) for text in predicates.texts]
    found = as_set(pipeline.reduce(scenario, predicates))
    expected: dict[Row, int] = {}
    for event in pipeline.events(scenario).toArrow().to_pylist():
        matched = tuple(number for number, each in enumerate(filters) if each.matches({"keywords": event["keywords"]}))
        key = (event["$part"], event["$publisher"], matched)
        expected[key] = expected.get(key, 0) + 1
    assert {(row[0], row[1], row[4]): row[2] for row in found} == expected


def test_matching_is_done_when_its_step_is_over(pipeline: Pipeline, scenario: Scenario) -> None:
    """So that no later step is charged with it, and progress does not call it counting."""
    storage = pipeline.spark.sparkContext._jsc.sc()
    known = {each.id() for each in storage.getRDDStorageInfo()}
    predicates = Predicates()
    predicates.number("keywords HAS ANY ('nothing like it')")
    pipeline.reduce(scenario, predicates)
    fresh = [each for each in storage.getRDDStorageInfo() if each.id() not in known]
    assert len(fresh) == 1
    assert fresh[0].numCachedPartitions() == fresh[0].numPartitions() > 0


def test_a_log_with_more_bytes_than_can_be_counted_is_refused(
    pipeline: Pipeline, scenario: Scenario, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(scenario.folder, tmp_path / "net"))
    events = pq.read_table(folder / "events.parquet")
    column = events.schema.get_field_index("$bytes")

    def sized(size: int) -> Scenario:
        sizes = pa.array(np.full(events.num_rows, size))
        pq.write_table(events.set_column(column, "$bytes", sizes), folder / "events.parquet")
        return read_scenario(folder)

    with pytest.raises(DataError, match="give sizes in a larger unit"):
        pipeline.validate(sized(2**62 // 3000 + 1))
    largest = sized(2**62 // 3000)
    card = pipeline.score(largest, make_plan("spt", largest, pipeline, {})).card
    assert 0 < card.lower_bound <= card.core == float(card.core_bytes)


def test_counts_that_might_wrap_are_refused() -> None:
    log = Published(np.zeros(1, np.int64), bytes=2**60, largest=2**50)
    check_headroom(log, flows=7, frames=2**40)
    check_headroom(log, flows=10_000, frames=2**12)
    with pytest.raises(DataError, match="larger unit"):
        check_headroom(log, flows=8, frames=2**13)


def test_rows_follow_the_brokers_of_publishers(pipeline: Pipeline, scenario: Scenario) -> None:
    """Of many publishers, also where only a few in the middle have moved."""
    predicates = Predicates()
    predicates.number("$broker = 1")
    clients = np.arange(5000)
    for broker, expected in ((0, {()}), (1, {(0,)})):
        rows = pipeline.reduce(scenario, predicates, (clients, np.where((clients >= 25) & (clients < 50), broker, 0)))
        assert {row[4] for row in as_set(rows)} == expected


def test_events_with_the_same_id_are_refused_where_shards_would_mix_them(
    pipeline: Pipeline, scenario: Scenario, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(scenario.folder, tmp_path / "net"))
    events = pq.read_table(folder / "events.parquet")
    pq.write_table(pa.concat_tables([events, events.slice(7, 1)]), folder / "events.parquet")
    small = Pipeline("local[2]", memory=6000)
    small._spark = pipeline.spark  # the same session, which must not be stopped
    try:
        with pytest.raises(DataError, match=r"two events have the id 7"):
            small.reduce(read_scenario(folder), predicates_of(scenario))
    finally:
        small._spark = None
        small.close()


def test_parts_of_the_log_are_as_large_as_they_should_be(pipeline: Pipeline, scenario: Scenario) -> None:
    parts = np.bincount(pipeline.events(scenario).toArrow()["$part"].to_numpy()) / 3000
    assert parts == pytest.approx([0.6, 0.2, 0.2], abs=0.03)


def test_counts_do_not_depend_on_partitions(pipeline: Pipeline, scenario: Scenario) -> None:
    known = metered(scenario, make_plan("spt", scenario, pipeline, {}), pipeline.publishers(scenario))
    rows = pipeline.reduce(scenario, known.predicates)
    expected = totals_of(rows.repartition(1), known)
    bound = bound_of(rows.repartition(1), known, scenario.network)
    for partitions in (2, 9):
        again = rows.repartition(partitions, "low")
        for name, one, other in zip(expected._fields, expected, totals_of(again, known), strict=True):
            assert np.array_equal(one, other), name
        assert bound_of(again, known, scenario.network) == bound


def test_bounds_of_a_part_do_not_depend_on_partitions(pipeline: Pipeline, scenario: Scenario) -> None:
    known = metered(scenario, make_plan("spt", scenario, pipeline, {}), pipeline.publishers(scenario))
    rows = pipeline.reduce(scenario, known.predicates)
    bound = bound_of(rows.repartition(1), known, scenario.network, 25 * 100)
    assert 0 < bound.share < 1
    for partitions in (2, 9):
        assert bound_of(rows.repartition(partitions, "low"), known, scenario.network, 25 * 100) == bound


def test_less_effort_gives_a_weaker_bound_that_still_holds(pipeline: Pipeline, scenario: Scenario) -> None:
    plan = make_plan("spt", scenario, pipeline, {})
    none, some, most = (pipeline.score(scenario, plan, effort).card for effort in (0, 25 * 100, 10**9))
    assert 0 < none.lower_bound < some.lower_bound < most.lower_bound <= most.core
    assert none.bounded == 0 < some.bounded < most.bounded == 1
    assert pipeline.score(scenario, plan).card == most


def test_what_is_scaled_up_from_a_sample_is_called_an_estimate(pipeline: Pipeline, scenario: Scenario) -> None:
    plan = make_plan("spt", scenario, pipeline, {})
    none, some, most = (pipeline.score(scenario, plan, effort).card for effort in (0, 25 * 100, 10**9))
    assert none.lower_bound_estimate is None  # there is no sample
    assert most.lower_bound_estimate is None  # nothing is left to estimate
    assert some.lower_bound_estimate is not None
    assert some.lower_bound < some.lower_bound_estimate
    assert some.lower_bound_estimate == pytest.approx(most.lower_bound, rel=0.03)


def test_half_of_the_effort_goes_to_the_heaviest_sets() -> None:
    ranks, counts = np.array([9, 5, 1]), np.array([2, 4, 100])
    assert chosen_from(ranks, counts, 106) == chosen_from(ranks[:0], counts[:0], 0) == ALL
    some = chosen_from(ranks, counts, 12)
    assert some == Chosen(5, 6 * 2**32 // 100)
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 10_000)
    for rank, share_heavy, share_drawn in ((9, 1, 0), (5, 1, 0), (1, 0, 0.06)):
        heavy, drawn = some.among(np.full(10_000, rank), hashes)
        assert (heavy.mean(), drawn.mean()) == (share_heavy, pytest.approx(share_drawn, abs=0.01))
    heavy, drawn = chosen_from(ranks, counts, 3).among(ranks, np.zeros(3, np.int64))
    assert (heavy.tolist(), drawn.tolist()) == ([False] * 3, [True] * 3)


def test_a_small_budget_of_memory_means_shards(scenario: Scenario, pipeline: Pipeline) -> None:
    plan = make_plan("mst", scenario, pipeline, {})
    whole = pipeline.score(scenario, plan).card
    small = Pipeline("local[2]", memory=6000)
    small._spark = pipeline.spark  # the same session, which must not be stopped
    try:
        assert small.score(scenario, plan).card == whole
    finally:
        small._spark = None
        small.close()
