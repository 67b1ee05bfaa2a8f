"""The files of a log: CSV, JSON lines or Parquet, zipped or not, as Spark's rows.

Spark says that something is malformed, and not where. So if it fails to read a file, we look for the line ourselves.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from overstory.errors import DataError, EngineError, UsageError
from overstory.model.values import JSON_NUMBER
from overstory.pipeline.pipeline import Pipeline, as_ours
from overstory.pipeline.session import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CSV, JSON, PARQUET = "csv", "json", "parquet"
FORMATS = {".csv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".parquet": PARQUET}
ZIPPED = ".gz"
KNOWN = ".csv, .json or .jsonl (also with .gz), or .parquet"
SETTINGS = {"spark.sql.caseSensitive": "true"}  # so that we see columns that differ only in case, and can say so
CHUNK = 1 << 20  # bytes


def format_of(path: Path) -> str | None:
    name = path.name.lower()
    found = FORMATS.get(Path(name.removesuffix(ZIPPED)).suffix)
    return None if found == PARQUET and name.endswith(ZIPPED) else found


def checked_format(path: Path) -> str:
    found = format_of(path)
    if found is None:
        raise UsageError(f"{path} has no ending that is known; give a file that ends in {KNOWN}")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise UsageError(f"{path} {what}; give the path of a file that ends in {KNOWN}")
    return found


def read_log(pipeline: Pipeline, path: Path, beside: Path) -> "DataFrame":
    """As it is in the file; the values of CSV are texts, and null where there is none."""
    kind = checked_format(path)
    header = _header(path) if kind == CSV else None
    # Spark hides files whose names begin with _ or a dot, and knows a zipped one by its ending
    link = beside / f"log.{kind}{ZIPPED if path.name.lower().endswith(ZIPPED) else ''}"
    link.symlink_to(path.resolve())
    with blaming(path):
        return _read(_session(pipeline), link, kind, header)


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """If Spark fails to read the log, it is the line that is at fault."""
    try:
        with as_ours(f"reading {path}"):
            yield
    except EngineError as error:
        with _unreadable(path):
            fault = {CSV: _fault_in_csv, JSON: _fault_in_json}.get(checked_format(path), lambda _: None)(path)
        raise error if fault is None else DataError(f"{path} {fault}") from None


def _header(path: Path) -> list[str]:
    with _unreadable(path), _opened(path) as file:
        names = next(csv.reader(file), [])
    for name in names:
        if not name.strip() or JSON_NUMBER.fullmatch(name):
            raise DataError(f"{path} has no header: '{name}' is not the name of a column; name all on the first line")
        if names.count(name) > 1:
            raise DataError(f"{path} has two columns '{name}'; rename one")
    if not names:
        raise DataError(f"{path} has no header; name the columns on the first line")
    return names


def _session(pipeline: Pipeline) -> "SparkSession":
    """With settings of its own, in the same Spark."""
    spark = pipeline.spark.newSession()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def _read(spark: "SparkSession", path: Path, kind: str, header: list[str] | None) -> "DataFrame":
    where = spark_path(path)
    if kind == PARQUET:
        return spark.read.parquet(where)
    if header is None:
        return spark.read.json(
            where,
            mode="FAILFAST",
            dropFieldIfAllNull=True,
            allowSingleQuotes=False,
            columnNameOfCorruptRecord="$malformed",
        )
    from pyspark.sql.types import StringType, StructField, StructType

    # As RFC 4180 has it: a quote is doubled. Where there may be quoted line ends, one core has to read it all
    lines = _has_quotes(path)
    schema = StructType([StructField(name, StringType()) for name in header])
    read = spark.read.schema(schema).csv(where, header=True, multiLine=lines, quote='"', escape='"', mode="FAILFAST")
    return read.replace("", None)


def _has_quotes(path: Path) -> bool:
    """Taken for granted in an archive, which one core reads in any case."""
    if path.suffix == ZIPPED:
        return True
    with open(path, "rb") as file:
        return any(b'"' in chunk for chunk in iter(lambda: file.read(CHUNK), b""))


def _fault_in_csv(path: Path) -> str | None:
    with _opened(path) as file:
        records = csv.reader(file)
        width = len(next(records))
        for record in records:
            if record and len(record) != width:
                return f"line {records.line_num}: it has {len(record)} values, and the header names {width} columns"
    return None


def _fault_in_json(path: Path) -> str | None:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return f"line {number}: it is not a JSON object; write one on each line"
            except json.JSONDecodeError as error:
                return (
                    f"line {number}: it is not JSON: {error.msg} (column {error.colno}); write an object on each line"
                )
    return None


def _opened(path: Path) -> IO[str]:
    if path.name.lower().endswith(ZIPPED):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise DataError(f"{path} is not in UTF-8; convert it first") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {str(error)[:120]}") from None
