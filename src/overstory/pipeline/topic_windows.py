"""Windows: how many events each topic has in each maintenance interval, from a log or from one that still grows.

All topics share one length of interval, or each has its own. Where keep-alives ride on events, a channel needs none in
an interval with an event: ``riding_on`` tells how often that is.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.topics import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NO_LENGTH = "a maintenance interval is longer than 0 seconds"
WATERMARK = 2  # intervals that a late event of a growing log may be behind


def windows_of(events: "DataFrame", seconds: float, own: Mapping[str, float] | None = None) -> "DataFrame":
    """Columns ``topic``, ``window`` (its number, from time 0), ``events`` and ``bytes``. ``own`` are lengths of some
    topics."""
    from pyspark.sql import functions as sql

    number = sql.floor(sql.col("`$time`") / _length(seconds, own))
    rows = events.select(sql.col(TOPIC), number.alias("window"), sql.col("`$bytes`").alias("size"))
    return rows.groupBy(TOPIC, "window").agg(sql.count("*").alias("events"), sql.sum("size").alias("bytes"))


def growing_windows_of(events: "DataFrame", seconds: float, own: Mapping[str, float] | None = None) -> "DataFrame":
    """The same of a stream. A window is told of when it is over, and events that come more than ``WATERMARK`` of the
    longest intervals late need not be counted. An event's time is the end of its window, so that windows of several
    lengths share one watermark."""
    from pyspark.sql import functions as sql

    length = _length(seconds, own)
    number = sql.floor(sql.col("`$time`") / length)
    end = sql.timestamp_micros(((number + 1) * length * 1e6).cast("long"))
    rows = events.select(sql.col(TOPIC), number.alias("window"), end.alias("end"), sql.col("`$bytes`").alias("size"))
    late = (WATERMARK + 1) * max(seconds, *(own or {}).values(), 0.0)  # an end is at most an interval after its event
    timed = rows.withWatermark("end", f"{round(late * 1e6)} microseconds")
    counted = timed.groupBy(TOPIC, "window", "end").agg(sql.count("*").alias("events"), sql.sum("size").alias("bytes"))
    return counted.select(TOPIC, "window", "events", "bytes")


def follow(
    spark: "SparkSession",
    log: Path,
    seconds: float,
    tell: Callable[[pa.Table], None],
    once: bool,
    own: Mapping[str, float] | None = None,
) -> None:
    """Reads a folder of Parquet files to which files are added, and tells of windows when they are over, in batches;
    ``once``: of those that are there, and then ends."""
    if not any(log.glob("*.parquet")):
        raise UsageError(f"there is no Parquet file in {log} yet; give the folder to which the log's files are added")
    known = spark.read.parquet(str(log))
    missing = [name for name in (TOPIC, "$time", "$bytes") if name not in known.columns]
    if missing:
        raise UsageError(f"the log {log} has no column {missing[0]}; a log of topics has topic, $time and $bytes")
    windows = growing_windows_of(spark.readStream.schema(known.schema).parquet(str(log)), seconds, own)

    def tell_of(batch: "DataFrame", _: int) -> None:
        table = batch.toArrow()
        if table.num_rows:
            tell(table)

    writer = windows.writeStream.outputMode("append").foreachBatch(tell_of)
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def riding_on(events: "DataFrame", channels: Sequence[tuple[Sequence[str], float]]) -> NDArray[np.float64]:
    """By channel, which has topics and an interval of so many seconds, the share of intervals with an event: its
    keep-alives then ride on it."""
    from pyspark.sql import functions as sql

    if any(seconds <= 0 for _, seconds in channels):
        raise UsageError(NO_LENGTH)
    rows = [(topic, at, float(seconds)) for at, (topics, seconds) in enumerate(channels) for topic in topics]
    pairs = pa.table(dict(zip((TOPIC, "channel", "seconds"), zip(*rows, strict=True), strict=True))) if rows else None
    last = last_time(events)
    found = np.zeros(len(channels))
    if pairs is None or last is None:
        return found
    named = events.select(sql.col(TOPIC), sql.col("`$time`").alias("time"))
    joined = named.join(sql.broadcast(events.sparkSession.createDataFrame(pairs)), TOPIC)
    busy = joined.groupBy("channel").agg(sql.countDistinct(sql.floor(sql.col("time") / sql.col("seconds"))).alias("n"))
    counted = busy.toArrow()
    lengths = np.array([seconds for _, seconds in channels])
    found[counted["channel"].to_numpy()] = counted["n"].to_numpy()
    share: NDArray[np.float64] = np.minimum(found / np.maximum(np.ceil(last / lengths), 1), 1.0)
    return share


def last_time(events: "DataFrame") -> float | None:
    """When the last event of a log is; None: there is none."""
    from pyspark.sql import functions as sql

    found: float | None = events.agg(sql.max("`$time`")).toArrow().column(0)[0].as_py()
    return found


def _length(seconds: float, own: Mapping[str, float] | None) -> "Column":
    from pyspark.sql import functions as sql

    if seconds <= 0 or any(each <= 0 for each in (own or {}).values()):
        raise UsageError(NO_LENGTH)
    found = sql.lit(float(seconds))
    for topic, each in (own or {}).items():
        found = sql.when(sql.col(TOPIC) == topic, sql.lit(float(each))).otherwise(found)
    return found


class Rates(NamedTuple):
    """Of topics, ascending: how long their windows are, how many of these the log has, and what they hold."""

    topics: list[str]
    seconds: NDArray[np.float64]
    windows: NDArray[np.int64]
    busy: NDArray[np.int64]  # windows with an event
    events: NDArray[np.int64]  # in the whole log
    most: NDArray[np.int64]  # events in one window
    bytes: NDArray[np.float64]  # in a window, on average


def rates_in(windows: pa.Table, last: float, seconds: float, own: Mapping[str, float] | None = None) -> Rates:
    """From the windows of a log whose last event is at ``last``."""
    names = sorted(set(windows[TOPIC].to_pylist()))
    number = {name: at for at, name in enumerate(names)}
    at = np.array([number[name] for name in windows[TOPIC].to_pylist()], np.int64)
    lengths = np.array([(own or {}).get(name, seconds) for name in names])
    counts = np.maximum(np.floor(last / lengths), 0).astype(np.int64) + 1  # the last event is in the last window
    events = windows["events"].to_numpy()
    most = np.zeros(len(names), np.int64)
    np.maximum.at(most, at, events)
    sums = [np.bincount(at, column, minlength=len(names)) for column in (events, windows["bytes"].to_numpy())]
    busy = np.bincount(at, minlength=len(names))
    return Rates(names, lengths, counts, busy, sums[0].astype(np.int64), most, sums[1] / counts)
