"""Scale: ten million events and a million filters, of which one wants everything, with ever more skew, on two cores.

Each run is a process of its own, so that its memory and that of the processes it starts can be seen:
python -m benchmarks.scale spark FOLDER CORES EVENTS, or alone FOLDER EVENTS. Both match and reduce the first events of
the log. COST (McSherry, Isard, Murray, HotOS 2015) is how many cores Spark needs to be faster than the kernel alone,
which has one core, reads the same Parquet file and reduces its batches, but does not even sum rows of different ones.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Measurement
from benchmarks.skewed import write_events, write_filters
from benchmarks.watch import Process, Stage, stages_of, watch
from overstory.matching import FrozenIndex
from overstory.pipeline.columns import batch_of
from overstory.pipeline.match import reduce_batch, reduced, split
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.predicates import Predicates

EXPONENTS = (0.0, 1.0, 1.5)
CORES = 2
MOST_MEMORY = 4  # GB of a process
BATCH = 1 << 16
MB, GB = 1e6, 1e9


def scale(quick: bool) -> Iterator[Measurement]:
    events, filters, some = (20_000, 2_000, 10_000) if quick else (10_000_000, 1_000_000, 1_000_000)
    for exponent in EXPONENTS[-1:] if quick else EXPONENTS:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_events(folder / "events.parquet", events, exponent)
            write_filters(folder / "filters.parquet", filters, events, exponent)
            yield from measured(folder, f"Zipf {exponent:g}", events, filters, some)


def measured(folder: Path, name: str, events: int, filters: int, some: int) -> Iterator[Measurement]:
    whole, processes = run("spark", folder, CORES, events)
    stages = stages_of(next((folder / f"log-{CORES}").iterdir()))
    alone, _ = run("alone", folder, some)
    yield Measurement("scale", f"{name}: {filters:,} filters and one for all, index", whole["built"], unit="s")
    size = f"{name}: {events:,} events, {whole['matches']:.1f} matches, largest of {whole['rows']:,} rows "
    size += f"{whole['largest']:.0%}"
    yield Measurement("scale", size, whole["seconds"], unit="s")
    yield from told_by_spark(name, stages)
    yield from told_by_processes(name, processes)
    spark, kernel = whole["seconds"] / events, alone["seconds"] / some
    peer = f"kernel alone, {some:,} events"
    yield Measurement("scale", f"{name}: an event, {CORES} cores", spark * 1e6, peer, kernel * 1e6)
    yield Measurement("scale", f"{name}: COST, if it scales on as to {CORES}", cost(spark, kernel), unit="cores")


def told_by_spark(name: str, stages: list[Stage]) -> Iterator[Measurement]:
    for number, stage in enumerate(stages):
        size = f"{name}: stage {number}, largest of {stage.tasks} tasks"
        yield Measurement("scale", size, stage.largest, "median task", stage.median, unit="s")
    read, written, spilled, to_disk = (
        sum(column) / MB for column in zip(*(stage[3:] for stage in stages), strict=True)
    )
    # What was spilled stands in the words, as it is mostly nothing.
    size = f"{name}: shuffled, {read:,.2f} MB read; spilled {spilled:,.2f} MB of memory as {to_disk:,.2f} MB of disk"
    yield Measurement("scale", size, written, unit="MB")


def told_by_processes(name: str, processes: list[Process]) -> Iterator[Measurement]:
    for role in dict.fromkeys(process.role for process in processes):
        same = [process for process in processes if process.role == role]
        anonymous, shared = max(each.anonymous for each in same), max(each.proportional for each in same)
        size = f"{name}: {role}, {anonymous / GB:.2f} GB anonymous, {shared / GB:.2f} GB proportional, resident"
        yield Measurement("scale", size, max(each.resident for each in same) / GB, bar=MOST_MEMORY, unit="GB")


def cost(spark: float, kernel: float) -> int:
    """The least number of cores with which Spark is faster than the kernel alone."""
    return int(CORES * spark / kernel) + 1


def run(kind: str, folder: Path, *arguments: int) -> tuple[dict[str, Any], list[Process]]:
    command = [sys.executable, "-m", "benchmarks.scale", kind, str(folder), *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, text=True)
        processes = watch(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        said.seek(0)
        return json.load(said), processes


def on_spark(folder: Path, cores: int, count: int) -> dict[str, float]:
    _use(cores)
    index, log = folder / "predicates-0.index", folder / f"log-{cores}"
    start = time.perf_counter()
    if not index.exists():
        predicates = Predicates()
        predicates.numbers(pq.read_table(folder / "filters.parquet")["filter"])
        predicates.write_index(folder)
    built = time.perf_counter() - start
    log.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    with Pipeline(f"local[{cores}]", settings) as pipeline:
        from pyspark.sql import functions as sql

        events = split(pipeline.spark.read.parquet(str(folder / "events.parquet"))).where(sql.col("`$id`") < count)
        start = time.perf_counter()
        rows = reduced(pipeline.spark, events, [index]).persist()  # as planning and scoring do
        matches = sql.sum(sql.col("events") * sql.size("predicates"))
        found = rows.agg(sql.count("*"), sql.sum("events"), matches, sql.max("events")).first()
        seconds = time.perf_counter() - start
    assert found is not None
    assert found[1] == count
    return {
        "built": built,
        "seconds": seconds,
        "rows": found[0],
        "matches": found[2] / count,
        "largest": found[3] / count,
    }


def alone(folder: Path, count: int) -> dict[str, float]:
    _use(1)
    pa.set_cpu_count(1)
    index = FrozenIndex(folder / "predicates-0.index")
    rows = 0
    start = time.perf_counter()
    for batch in _batches(folder / "events.parquet", count):
        part = pa.array(np.asarray(batch.column("$id")) % 3)  # any three parts cost the same
        offsets, found = index.match_batch(batch_of(batch))
        rows += reduce_batch(batch.append_column("$part", part), offsets, found).num_rows
    return {"seconds": time.perf_counter() - start, "rows": rows}


def _batches(path: Path, count: int) -> Iterator[pa.RecordBatch]:
    for batch in pq.ParquetFile(path).iter_batches(BATCH, use_threads=False):
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows


def _use(cores: int) -> None:
    """So that neither Java's own threads nor a library's take more; what we start inherits it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


if __name__ == "__main__":
    kind, place, *numbers = sys.argv[1:]
    print(json.dumps((on_spark if kind == "spark" else alone)(Path(place), *map(int, numbers))))
