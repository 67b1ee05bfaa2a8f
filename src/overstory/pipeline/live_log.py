"""The live log of an observed network, read by Structured Streaming as it grows: events and bytes of each publisher in
each window, told when the window is over.

``python -m overstory.pipeline.live_log DIR SECONDS`` prints them until it is interrupted.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from overstory.errors import OverstoryError, UsageError
from overstory.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = "events.parquet"
WATERMARK = 1  # windows that a late part may be behind
PUBLISHER = "$publisher"


def follow_log(
    spark: "SparkSession", folder: Path, seconds: float, tell: Callable[[pa.Table], None], once: bool = False
) -> None:
    """Tells of windows when they are over, in batches with the columns window, publisher, events and bytes; ``once``:
    of those that are over now, and then ends. A part that has left the sliding window meanwhile is passed over."""
    if seconds <= 0:
        raise UsageError("a window is longer than 0 seconds")
    parts = sorted((folder / LOG).glob("[!.]*.parquet"))
    if not parts:
        raise UsageError(f"there is no log in {folder}; write one with 'overstory observe URL -o {folder}'")
    schema = spark.read.parquet(str(parts[0])).select(f"`{PUBLISHER}`", "`$time`", "`$bytes`").schema
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    windows = windows_in(spark.readStream.schema(schema).parquet(str(folder / LOG)), seconds)

    def tell_of(batch: "DataFrame", _: int) -> None:
        table = batch.toArrow()
        if table.num_rows:
            tell(table.sort_by([("window", "ascending"), ("publisher", "ascending")]))

    writer = windows.writeStream.outputMode("append").foreachBatch(tell_of)
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def windows_in(events: "DataFrame", seconds: float) -> "DataFrame":
    """By window and publisher, how many events and bytes; windows are numbered from 1970 on."""
    from pyspark.sql import functions as sql

    micros = round(seconds * 1e6)
    time = sql.timestamp_micros((sql.col("`$time`") * 1e6).cast("long"))
    rows = events.select(
        sql.col(f"`{PUBLISHER}`").alias("publisher"), time.alias("time"), sql.col("`$bytes`").alias("size")
    )
    late = rows.withWatermark("time", f"{WATERMARK * micros} microseconds")
    counted = late.groupBy("publisher", sql.window("time", f"{micros} microseconds")).agg(
        sql.count("*").alias("events"), sql.sum("size").alias("bytes")
    )
    number = sql.floor(sql.unix_micros("window.start") / sql.lit(micros))
    return counted.select(number.alias("window"), "publisher", "events", "bytes")


def main(folder: str, seconds: str) -> None:
    """Prints windows as they end."""
    spark = session.start(session.LOCAL, None)
    try:
        follow_log(spark, Path(folder), float(seconds), lambda table: print(_lines(table), flush=True))
    except KeyboardInterrupt:
        pass
    finally:
        session.stop(spark, True)


def _lines(table: pa.Table) -> str:
    found = table.group_by("window").aggregate([("events", "sum"), ("bytes", "sum"), ("publisher", "count")])
    rows = found.sort_by("window").to_pylist()
    return "\n".join(
        f"window {row['window']}: {row['events_sum']:,} events, {row['bytes_sum']:,} bytes of "
        f"{row['publisher_count']:,} publishers"
        for row in rows
    )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except (OverstoryError, TypeError, ValueError) as error:
        sys.exit(f"{error}; write it as python -m overstory.pipeline.live_log DIR SECONDS")
