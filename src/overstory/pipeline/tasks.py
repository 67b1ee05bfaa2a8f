"""Work that is no step on tables: a function of a text, run as one Spark task."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_task(spark: "SparkSession", function: Callable[[str], str], argument: str) -> str:
    """``function`` must be importable by its name in Spark's workers. Threads may call this beside each other: each
    call is a job of one task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("argument").to_pylist():
                yield pa.RecordBatch.from_pydict({"result": [function(text)]})

    given = spark.createDataFrame(pa.table({"argument": [argument]})).coalesce(1)
    (found,) = given.mapInArrow(run, "result string").toArrow()["result"].to_pylist()
    return str(found)
