"""Windows: how many events each topic has in each maintenance interval, from a log or from one that still grows.

All topics share one length of interval, or each has its own. Where keep-alives ride on events, an interval with one
needs none: ``quiet`` is the share of intervals that do.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.topics import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WATERMARK = 2  # intervals that a late event of a growing log may be behind


def windows_of(events: "DataFrame", seconds: float, own: Mapping[str, float] | None = None) -> "DataFrame":
    """Columns ``topic``, ``window`` (its number, from time 0) and ``events``. ``own`` are lengths of some topics."""
    from pyspark.sql import functions as sql

    number = sql.floor(sql.col("`$time`") / _length(seconds, own))
    rows = events.select(sql.col(TOPIC), number.alias("window"))
    return rows.groupBy(TOPIC, "window").agg(sql.count("*").alias("events"))


def growing_windows_of(events: "DataFrame", seconds: float) -> "DataFrame":
    """The same of a stream: events that are more than ``WATERMARK`` intervals late are not counted."""
    from pyspark.sql import functions as sql

    time = sql.timestamp_micros((sql.col("`$time`") * 1e6).cast("long"))
    timed = events.select(sql.col(TOPIC), time.alias("time"))
    length = f"{round(seconds * 1e6)} microseconds"
    windows = timed.withWatermark("time", f"{round(WATERMARK * seconds * 1e6)} microseconds")
    counted = windows.groupBy(TOPIC, sql.window("time", length)).agg(sql.count("*").alias("events"))
    number = sql.floor(sql.unix_micros("window.start") / sql.lit(seconds * 1e6))
    return counted.select(TOPIC, number.alias("window"), "events")


def _length(seconds: float, own: Mapping[str, float] | None) -> "Column":
    from pyspark.sql import functions as sql

    if seconds <= 0 or any(each <= 0 for each in (own or {}).values()):
        raise UsageError("a maintenance interval is longer than 0 seconds")
    found = sql.lit(float(seconds))
    for topic, each in (own or {}).items():
        found = sql.when(sql.col(TOPIC) == topic, sql.lit(float(each))).otherwise(found)
    return found


def rates_in(windows: pa.Table, intervals: int) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Topics, ascending; their events in an interval on average; and the share of intervals that had none."""
    names = sorted(set(windows[TOPIC].to_pylist()))
    number = {name: at for at, name in enumerate(names)}
    at = np.array([number[name] for name in windows[TOPIC].to_pylist()], np.int64)
    events = np.bincount(at, windows["events"].to_numpy(), minlength=len(names))
    busy = np.bincount(at, minlength=len(names))
    return names, events / max(intervals, 1), 1 - busy / max(intervals, 1)
