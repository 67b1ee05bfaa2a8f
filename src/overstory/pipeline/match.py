"""Match: which predicates does each event meet? And reduce: how many events, and bytes, meet the same ones?

A frozen index goes to every executor as a file, which its workers map into memory: one copy a host. Each Arrow batch of
events is matched by one call of the kernels, and reduced before it leaves the worker to one row for each part of the
log, publisher and set of predicates. Sets are known by 128 bits of hash, so that Spark sums rows with its own
aggregates: a set that a third of all events has is one row of each batch.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.sets import hash_sets
from overstory.matching import FrozenIndex
from overstory.pipeline.columns import batch_of
from overstory.pipeline.names import mapped, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = NDArray[np.int64]
FIT, CHOOSE, HELD_OUT = 0, 1, 2  # parts of the log
SHARES = (60, 80)  # of a hundred: below the first is fit, below the second is choose
BROKER = "$broker"
GOLDEN = np.int64(-7046029254386353131)  # spreads small numbers over 64 bits

ROWS = pa.schema(
    [
        ("part", pa.int64()),
        ("publisher", pa.int64()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("predicates", pa.list_(pa.int32())),
        ("events", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
PARTIAL = pa.schema([("$id", pa.int64()), ("$part", pa.int64()), ("$publisher", pa.int64()), ("$bytes", pa.int64())])
PARTIAL = PARTIAL.append(pa.field("predicates", pa.list_(pa.int32())))


def split(events: "DataFrame") -> "DataFrame":
    """Gives each event its part of the log, by the hash of its id."""
    from pyspark.sql import functions as sql

    share = sql.pmod(sql.xxhash64("`$id`"), sql.lit(100))
    part = sql.when(share < SHARES[0], FIT).when(share < SHARES[1], CHOOSE).otherwise(HELD_OUT)
    return events.withColumn("$part", part.cast("long"))


def reduced(
    spark: "SparkSession", events: "DataFrame", indexes: list[Path], brokers: tuple[Ints, Ints] | None = None
) -> "DataFrame":
    """One row for each part, publisher and set of predicates. ``brokers``, if predicates ask for ``$broker``, are the
    publishers in order and the broker of each."""
    names = [ship(spark, path) for path in indexes]
    if len(names) == 1:
        rows = mapped(events, matching(names[0], brokers), ddl(ROWS))
    else:
        rows = _merged(events, names, brokers).mapInArrow(_reducing, ddl(ROWS))
    return summed(rows)


def summed(rows: "DataFrame") -> "DataFrame":
    """The set itself is a key beside its hash: as a value it would make Spark sort all rows, where it can hash them."""
    from pyspark.sql import functions as sql

    keys = ("part", "publisher", "high", "low", "predicates")
    return rows.groupBy(*keys).agg(sql.sum("events").alias("events"), sql.sum("bytes").alias("bytes"))


def _merged(events: "DataFrame", names: list[str], brokers: tuple[Ints, Ints] | None) -> "DataFrame":
    """With several indexes: what each of them finds for an event is brought together by a shuffle."""
    from pyspark.sql import functions as sql

    shards = [
        mapped(events, matching_shard(name, shard, len(names), brokers), ddl(PARTIAL))
        for shard, name in enumerate(names)
    ]
    every = reduce(lambda a, b: a.union(b), shards)
    keys = ["`$id`", "`$part`", "`$publisher`", "`$bytes`"]
    return every.groupBy(*keys).agg(sql.sort_array(sql.flatten(sql.collect_list("predicates"))).alias("predicates"))


def ship(spark: "SparkSession", path: Path) -> str:
    spark.sparkContext.addFile(str(path))
    return path.name


# What follows runs in Spark's Python workers.

_opened: dict[str, FrozenIndex] = {}

Batches = Iterable[pa.RecordBatch]


def opened(name: str) -> FrozenIndex:
    from pyspark import SparkFiles

    path = SparkFiles.get(name)
    if path not in _opened:
        _opened.clear()  # a worker serves one step after the other
        _opened[path] = FrozenIndex(path)
    return _opened[path]


def matching(name: str, brokers: tuple[Ints, Ints] | None) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def match(batches: Batches) -> Iterator[pa.RecordBatch]:
        index = opened(name)
        for batch in batches:
            if batch.num_rows:
                offsets, found = index.match_batch(batch_of(batch, _extra(batch, brokers), index.numbers))
                yield reduce_batch(batch, offsets, found)

    return match


def matching_shard(
    name: str, shard: int, shards: int, brokers: tuple[Ints, Ints] | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def match(batches: Batches) -> Iterator[pa.RecordBatch]:
        index = opened(name)
        for batch in batches:
            offsets, found = index.match_batch(batch_of(batch, _extra(batch, brokers), index.numbers))
            sets = _lists(offsets, found * shards + shard)
            columns = [batch.column(name) for name in PARTIAL.names[:-1]]
            yield pa.RecordBatch.from_arrays([*columns, sets], schema=PARTIAL)

    return match


def _reducing(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            sets = batch.column("predicates")
            yield reduce_batch(batch, np.asarray(sets.offsets).astype(np.int64), np.asarray(sets.values))


def _extra(batch: pa.RecordBatch, brokers: tuple[Ints, Ints] | None) -> dict[str, Ints] | None:
    if brokers is None:
        return None
    publishers, theirs = brokers
    return {BROKER: theirs[np.searchsorted(publishers, np.asarray(batch.column("$publisher")))]}


def reduce_batch(batch: pa.RecordBatch, offsets: Ints, found: NDArray[np.integer]) -> pa.RecordBatch:
    """One row for each part, publisher and set."""
    high, low = hash_sets(offsets, np.ascontiguousarray(found, np.int64))
    part, publisher = np.asarray(batch.column("$part")), np.asarray(batch.column("$publisher"))
    # One key brings equal rows together. Should different ones share it, a row is cut in two, and summed by Spark.
    order = np.argsort(high + publisher * GOLDEN + part)
    first = np.zeros(len(order), bool)
    first[0] = True
    for column in (low, high, publisher, part):
        ordered = column[order]
        first[1:] |= ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    kept = order[starts]
    sizes = np.asarray(batch.column("$bytes"))[order]
    counts = np.diff(np.append(starts, len(order)))
    lengths = np.diff(offsets)[kept]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    chosen = np.repeat(offsets[kept] - ends[:-1], lengths) + np.arange(ends[-1])
    columns = [part[kept], publisher[kept], high[kept], low[kept]]
    return pa.RecordBatch.from_arrays(
        [
            *map(pa.array, columns),
            _lists(ends, found[chosen]),
            pa.array(counts),
            pa.array(np.add.reduceat(sizes, starts)),
        ],
        schema=ROWS,
    )


def _lists(offsets: Ints, values: NDArray[np.integer]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values.astype(np.int32)))


def ddl(schema: pa.Schema) -> str:
    names = {pa.int64(): "bigint", pa.list_(pa.int32()): "array<int>"}
    return ", ".join(f"{quoted(field.name)} {names[field.type]}" for field in schema)
