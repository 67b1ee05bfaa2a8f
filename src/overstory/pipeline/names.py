"""Names of columns for Spark, which takes a dot in a name for a field of a struct unless the name stands in backticks.

Whoever names a column of a log to Spark does it here: logs have columns such as ``order.price``, or with backticks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Batches = Iterable[pa.RecordBatch]


def quoted(name: str) -> str:
    """The name as Spark's SQL reads it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> "Column":
    """The column of exactly this name."""
    from pyspark.sql import functions as sql

    return sql.col(quoted(name))


def mapped(rows: "DataFrame", function: Callable[[Batches], Iterator[pa.RecordBatch]], ddl: str) -> "DataFrame":
    """``mapInArrow`` for columns of any name: it looks them up unquoted, so they go there by number."""
    names = list(rows.columns)

    def with_names(batches: Batches) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*[f"c{at}" for at in range(len(names))]).mapInArrow(with_names, ddl)
