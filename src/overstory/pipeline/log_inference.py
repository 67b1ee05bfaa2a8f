"""Of which type each column of a log is. ``log_types`` has the rule; Spark looks at all values."""

from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.errors import DataError
from overstory.pipeline.log_files import CSV, JSON, PARQUET, LogFiles, Reader
from overstory.pipeline.log_options import Reading
from overstory.pipeline.log_types import (
    ANY_NUMBER,
    KINDS,
    TEXT,
    TRUTH,
    Counts,
    Leaf,
    is_mixed,
    kind_of,
    kind_of_type,
    retyped,
    what_is,
    what_variant_is,
)
from overstory.pipeline.names import column as _column
from overstory.pipeline.numbered_log import ROW, ROWS_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def inferred(
    reader: Reader, rows: "DataFrame", schema: "StructType", leaves: dict[str, Leaf], reading: Reading
) -> tuple[list[int], dict[str, str], list[str]]:
    """The rows of each partition, the type of each column that has values, and what there is to say of it."""
    files = reader.files
    texts = [name for name, leaf in leaves.items() if leaf.type == "string" and files.kind != PARQUET]
    counts, bits = _surveyed(rows, texts)
    doubtful = [name for name in texts if name not in reading.types and _is_doubtful(files, bits[name])]
    counted = _counted(reader, rows, schema, {name: leaves[name] for name in doubtful})
    kinds, notes = {}, []
    for name, leaf in leaves.items():
        found = kind_of_type(leaf.type)
        if name in doubtful:
            seen, how_many = counted[name]
            found = kind_of(seen, how_many)
            notes += _notes(name, found, bits[name], how_many)
        elif name in bits:
            if not bits[name]:
                if name in reading.types:
                    notes.append(f"'{name}' has no values, and --type does not change that")
                continue
            found = kind_of(bits[name]) if files.kind == CSV else "string"
        _check_kind(files.path, name, found, leaf.type)
        kinds[name] = reading.types.get(name, found)
    return counts, kinds, notes


def _surveyed(rows: "DataFrame", texts: list[str]) -> tuple[list[int], dict[str, int]]:
    """The rows of each partition, and of each column of texts all that its values are."""
    from pyspark.sql import functions as sql

    partition = sql.shiftright(_column(ROW), ROWS_BITS)
    seen = [sql.bit_or(what_is(_column(name))).alias(str(at)) for at, name in enumerate(texts)]
    found = rows.groupBy(partition.alias("partition")).agg(sql.count("*").alias("rows"), *seen).collect()
    counts = {row["partition"]: row["rows"] for row in found}
    bits = {name: reduce(or_, (row[str(at)] or 0 for row in found), 0) for at, name in enumerate(texts)}
    return [counts.get(at, 0) for at in range(max(counts, default=-1) + 1)], bits


def _is_doubtful(files: LogFiles, bits: int) -> bool:
    """Texts of CSV are what they look like; those of JSON may be texts that look like numbers, or mixed with some."""
    return is_mixed(bits) if files.kind == CSV else bool(bits & (ANY_NUMBER | TRUTH))


def _counted(
    reader: Reader, rows: "DataFrame", schema: "StructType", leaves: dict[str, Leaf]
) -> dict[str, tuple[int, Counts]]:
    """Of columns: what their values are, and how many of them are what."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType, VariantType

    if not leaves:
        return {}
    if reader.files.kind == JSON:
        needed = {leaf.path[0] for leaf in leaves.values()}
        narrow = StructType([field for field in schema.fields if field.name in needed])
        read = reader.rows(retyped(narrow, {leaf.path: VariantType() for leaf in leaves.values()}))
        codes = read.select(*[what_variant_is(leaf.column()).alias(str(at)) for at, leaf in enumerate(leaves.values())])
    else:
        codes = rows.select(*[what_is(_column(name)).alias(str(at)) for at, name in enumerate(leaves)])
    sums = []
    for at in range(len(leaves)):
        code = sql.col(str(at))
        sums += [sql.bit_or(code).alias(f"bits{at}"), sql.count(code).alias(f"values{at}")]
        sums.append(sql.count_if(code.bitwiseAND(sql.lit(ANY_NUMBER)) > 0).alias(f"numbers{at}"))
        sums.append(sql.count_if(code == TRUTH).alias(f"truths{at}"))
    found = codes.agg(*sums).first()
    assert found is not None
    return {
        name: (found[f"bits{at}"] or TEXT, Counts(found[f"values{at}"], found[f"numbers{at}"], found[f"truths{at}"]))
        for at, name in enumerate(leaves)
    }


def _notes(name: str, kind: str, looks: int, counts: Counts) -> list[str]:
    """What a reader should know of a column of texts that are, or look like, something else."""
    if kind != "string":
        return []
    if not counts.numbers and not counts.truths:
        if is_mixed(looks) or not looks & ANY_NUMBER:
            return []
        return [f"'{name}' has texts that look like numbers; --type {name}=double reads them as numbers"]
    what, many = ("numbers", counts.numbers) if counts.numbers >= counts.truths else ("true or false", counts.truths)
    share = f"{many:,} of its {counts.values:,} values are {what}"
    return [f"'{name}' is of strings although {share}; --type {name}=… reads it as something else"]


def _check_kind(path: Path, name: str, kind: str, type_: str) -> None:
    if kind in KINDS:
        return
    cure = "give --flatten to have a column for each field" if type_.startswith("struct") else "make strings of them"
    raise DataError(
        f"column '{name}' of {path} is of {type_[:60]}{'…' * (len(type_) > 60)}, which no attribute can be; "
        f"{cure}, or choose the columns to keep with --columns"
    )
