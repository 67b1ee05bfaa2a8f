"""The rows of a log with their columns by name, numbered in the order of the files however Spark cuts them."""

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from overstory.pipeline.log_files import JSON, LogFiles, Reader
from overstory.pipeline.log_options import Reading
from overstory.pipeline.log_types import KINDS, Leaf, retyped
from overstory.pipeline.names import column as _column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

ROW, ROWS_BITS = "$row", 33  # Spark numbers rows by partition, and in it by the lower bits


def numbered_rows(reader: Reader, schema: "StructType", leaves: dict[str, Leaf], reading: Reading) -> "DataFrame":
    """The columns of a log by their names, numbered. What is to be text is read as the text that the file has."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    needed = {leaf.path[0] for leaf in leaves.values()}
    narrow = StructType([field for field in schema.fields if field.name in needed])
    as_text: dict[tuple[str, ...], Any] = {
        leaf.path: StringType() for name, leaf in leaves.items() if is_read_as_text(reader.files, name, leaf, reading)
    }
    read = reader.rows(retyped(narrow, as_text) if as_text else narrow)
    columns = [leaf.column().alias(name) for name, leaf in leaves.items()]
    return read.select(*columns).withColumn(ROW, sql.monotonically_increasing_id())


def is_read_as_text(files: LogFiles, name: str, leaf: Leaf, reading: Reading) -> bool:
    return files.kind == JSON and reading.types.get(name) == "string" and leaf.type in KINDS


def number_of_row(counts: list[int]) -> "Column":
    """The rows of the partitions before, and those before in its own. ``counts`` are the rows of each partition."""
    from pyspark.sql import functions as sql

    starts = accumulate(counts[:-1], initial=0)
    partition = sql.shiftright(_column(ROW), ROWS_BITS).cast("int")
    before = sql.element_at(sql.array(*[sql.lit(start).cast("bigint") for start in starts]), partition + 1)
    return before + _column(ROW).bitwiseAND(sql.lit((1 << ROWS_BITS) - 1))
