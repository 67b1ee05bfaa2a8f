"""The workbench gives what the pipeline does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import UsageError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.workbench import Workbench, parts_of
from overstory.pipeline.xxhash import hashes_of
from overstory.planners.chains import make_plan
from overstory.planners.defaults import attachments
from overstory.planners.references import score_reference

EFFORT = 10**12


class Sharing(Pipeline):
    """With the session of another, which must not be stopped."""

    def __init__(self, other: Pipeline) -> None:
        super().__init__("local[2]")
        self._spark = other.spark

    def close(self, at_once: bool = False) -> None:
        self._spark = None
        super().close()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder: Path = tmp_path_factory.mktemp("workbench") / "scenario"
    make_localized(folder, topology("transit-stub", 60, 1), Localized(keywords=50, locality=0.2, events=600), 1)
    return read_scenario(folder)


def test_hashes_and_parts(pipeline: Pipeline) -> None:
    from pyspark.sql import functions as sql

    ids = np.sort([0, 1, -1, 2**62, -(2**63), *range(1000, 1100)])
    frame = pipeline.spark.createDataFrame(pa.table({"$id": ids})).withColumn("hash", sql.xxhash64("`$id`"))
    assert (
        hashes_of(ids).tolist()
        == frame.toArrow().sort_by("$id")["hash"].to_numpy()[np.argsort(np.argsort(ids))].tolist()
    )
    both = pipeline.spark.createDataFrame(pa.table({"a": ids, "b": ids[::-1]}))
    told = both.select("a", sql.xxhash64("a", "b").alias("hash")).toArrow().sort_by("a")["hash"].to_pylist()
    assert hashes_of(ids, ids[::-1]).tolist() == told
    assert np.bincount(parts_of(np.arange(10_000)), minlength=3).tolist() == pytest.approx([6000, 2000, 2000], rel=0.05)


def test_samples(pipeline: Pipeline, scenario: Scenario) -> None:
    bench, attached = Workbench(scenario), attachments(scenario)
    for most in (10**9, 50):
        ours, theirs = (each.sample(scenario, attached, most) for each in (bench, pipeline))
        assert [np.asarray(each).tolist() for each in ours] == [np.asarray(each).tolist() for each in theirs]
    crossed = [each.multiplicities(scenario, attached, "route").tolist() for each in (bench, pipeline)]
    assert crossed[0] == crossed[1]


@pytest.mark.parametrize("planner", ["tree-search", "semcast", "direct"])
def test_scores(pipeline: Pipeline, scenario: Scenario, planner: str) -> None:
    bench = Workbench(scenario)
    plan = make_plan(planner, scenario, bench, {}, 1)
    assert bench.score(plan, bounded=True) == pipeline.score(scenario, plan, EFFORT).card


def test_scores_at_prices_that_are_not_round(pipeline: Pipeline, scenario: Scenario) -> None:
    """Sums of bounds are then larger than 64 bits hold, and cross from Spark's workers to the driver."""
    prices = np.random.default_rng(1).choice([9e-11, 0.1, 1 / 3, 2e6], scenario.links.num_rows)
    links = scenario.links.set_column(scenario.links.schema.get_field_index("price"), "price", pa.array(prices))
    odd = replace(scenario, links=links)
    bench = Workbench(odd)
    card = bench.score(make_plan("direct", odd, bench, {}, 1), bounded=True)
    with Sharing(pipeline) as fresh:  # what the other keeps is known by the folder, which is the same
        assert fresh.score(odd, make_plan("direct", odd, bench, {}, 1), EFFORT).card == card
    assert 0 < card.lower_bound <= card.core


def test_the_reference(pipeline: Pipeline, scenario: Scenario) -> None:
    ours, theirs = (score_reference("opt", scenario, each, {}, EFFORT) for each in (Workbench(scenario), pipeline))
    assert ours == theirs


def test_a_share_of_the_events(scenario: Scenario) -> None:
    attached = attachments(scenario)
    few, many = (Workbench(scenario, share).sample(scenario, attached, 10**9) for share in (0.2, 1.0))
    assert 0.1 < few.bytes.sum() / many.bytes.sum() < 0.3
    with pytest.raises(UsageError, match="share=0"):
        Workbench(scenario, 0)
