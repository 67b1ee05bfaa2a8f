"""The pipeline on Spark: matching beside a range join of Spark SQL and beside the kernel alone; scoring many flows."""

import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.measure import Measurement
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.matching import FrozenIndex, freeze
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.columns import batch_of
from overstory.pipeline.match import ROWS, ddl, matching, ship, split
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.predicates import index_of
from overstory.pipeline.rules import metered
from overstory.pipeline.score import totals_of
from overstory.planners.defaults import attachments
from overstory.planners.trees.spt import paths_from

ATTRIBUTES = ("a", "b", "c", "d")
CORES = 2
FLOWS = 100


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@functools.cache
def spark() -> Pipeline:
    return Pipeline(f"local[{CORES}]")


def write_events(path: Path, count: int) -> None:
    dice = np.random.default_rng(1)
    columns = {name: dice.random(count) for name in ATTRIBUTES}
    ours = {"$id": np.arange(count), "$time": np.arange(count) / 1, "$publisher": np.arange(count) % 100}
    sizes = {"$bytes": np.ones(count, np.int64)}
    pq.write_table(pa.table(ours | sizes | columns), path, row_group_size=1 << 17)


def write_filters(count: int) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
    """Ranges in four attributes; about ten in a hundred thousand hold an event. As texts and as columns."""
    dice = np.random.default_rng(2)
    width = 0.1
    lows = {name: dice.random(count) * (1 - width) for name in ATTRIBUTES}
    texts = [
        " AND ".join(f"{name} BETWEEN {low[i]!r} AND {low[i] + width!r}" for name, low in lists.items())
        for lists in [{name: low.tolist() for name, low in lows.items()}]
        for i in range(count)
    ]
    return texts, lows | {f"{name}_high": low + width for name, low in lows.items()}


def match(quick: bool) -> Iterator[Measurement]:
    events_count = 2_000 if quick else 1_000_000
    pipeline = spark()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_events(folder / "events.parquet", events_count)
        events = split(pipeline.spark.read.parquet(str(folder / "events.parquet")))
        for count in (50, 100) if quick else (10_000, 100_000):
            texts, columns = write_filters(count)
            path = folder / f"{count}.index"
            freeze(index_of(texts), path)
            name = ship(pipeline.spark, path)

            def run(name: str = name) -> None:
                events.mapInArrow(matching(name, None), ddl(ROWS)).write.format("noop").mode("overwrite").save()

            run()  # workers have their kernels and the index
            ours = min(seconds(run) for _ in range(2))
            size = f"{events_count:,} events × {count:,} filters"
            if count in (50, 10_000):
                theirs = _join(pipeline, folder, columns, events_count // 10) * 10
                yield Measurement("spark-match", size, ours, "SQL range join", theirs, bar_ratio=50, unit="s")
            else:
                alone = _alone(path, folder / "events.parquet")
                bar = alone / CORES + 2.5
                yield Measurement("spark-match", size, ours, "kernel alone", alone, bar=bar, unit="s")


def _join(pipeline: Pipeline, folder: Path, columns: dict[str, NDArray[np.float64]], count: int) -> float:
    """The same question as a join, of some of the events."""
    filters = pa.table({"filter": np.arange(len(columns["a"]))} | columns)
    pq.write_table(filters, folder / "filters.parquet")
    from pyspark.sql import functions as sql

    left = pipeline.spark.read.parquet(str(folder / "events.parquet")).where(sql.col("`$id`") < count).alias("e")
    right = sql.broadcast(pipeline.spark.read.parquet(str(folder / "filters.parquet"))).alias("f")
    within = functools.reduce(
        lambda x, y: x & y, [sql.col(f"e.{n}").between(sql.col(f"f.{n}"), sql.col(f"f.{n}_high")) for n in ATTRIBUTES]
    )
    joined = left.join(right, within).groupBy("`$id`").agg(sql.sort_array(sql.collect_list("filter")))
    return seconds(lambda: joined.write.format("noop").mode("overwrite").save())


def _alone(index: Path, events: Path) -> float:
    """In one process, on one core."""
    frozen = FrozenIndex(index)
    batches = pq.read_table(events).to_batches(1 << 16)
    frozen.match_batch(batch_of(batches[0]))
    return seconds(lambda: [frozen.match_batch(batch_of(batch)) for batch in batches])


def score(quick: bool) -> Iterator[Measurement]:
    brokers, count = (20, 1_000) if quick else (2_000, 1_000_000)
    pipeline = spark()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        parameters = Localized(keywords=50 if quick else 1_000, events=count)
        make_localized(folder / "net", topology("transit-stub", brokers, 1), parameters, seed=1)
        scenario = read_scenario(folder / "net")
        plan = many_flows(scenario)
        known = metered(scenario, plan, pipeline.publishers(scenario))
        rows = pipeline.reduce(scenario, known.predicates)
        matching = seconds(rows.count)
        yield Measurement("spark-score", f"{count:,} events, {brokers:,} brokers: match and reduce", matching, unit="s")
        totals_of(rows.limit(10), known)  # workers have their kernels
        taken = seconds(lambda: totals_of(rows, known))
        size = f"{count:,} events, {FLOWS} flows, {brokers:,} brokers"
        yield Measurement("spark-score", size, taken, bar=30, unit="s")
        rows.unpersist()


def many_flows(scenario: Scenario) -> Plan:
    """Subscriptions to the same keyword travel together, on trees of cheapest paths from a hundred brokers."""
    network, table = scenario.network, scenario.subscriptions
    words = table["filter"].combine_chunks().dictionary_encode().indices.to_numpy()
    flows = min(FLOWS, len(network))
    _, before = paths_from(network, np.linspace(0, len(network) - 1, flows).astype(np.int64))
    flow, end = np.nonzero(before >= 0)
    tables = {
        "attachments": attachments(scenario),
        "flows": pa.table(
            {
                "flow": range(flows),
                "kind": ["tree"] * flows,
                "events": [EVERYTHING] * flows,
                "associations": [0] * flows,
            }
        ),
        "members": pa.table(
            {"flow": words % flows, "subscription": table["id"], "part": pa.nulls(len(words), pa.string())}
        ),
        "trees": pa.table({"flow": flow, "source": network.ids[before[flow, end]], "target": network.ids[end]}),
    }
    return Plan.of(Header("many", scenario.fingerprint), tables)
