"""The files of a log: CSV, JSON lines or Parquet, zipped or not; one file, a folder of parts, or a pattern.

Two rules. Several files are read in the order of their names, so that events have the same numbers wherever Spark runs.
And what plain Python sees in the first lines is refused before Spark starts.

Spark says that something is malformed, and not where. So if it fails to read a file, we look for the line ourselves.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import DataError, EngineError, UsageError
from overstory.model.folders import KNOWN_BY
from overstory.model.values import JSON_NUMBER
from overstory.pipeline.pipeline import Pipeline, as_ours
from overstory.pipeline.session import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CSV, JSON, PARQUET = "csv", "json", "parquet"
FORMATS = {".csv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".parquet": PARQUET}
ZIPPED = (".gz", ".zst")
KNOWN = ".csv, .json or .jsonl (also with .gz or .zst), or .parquet"
SETTINGS = {"spark.sql.caseSensitive": "true"}  # so that we see columns that differ only in case, and can say so
CHUNK = 1 << 20  # bytes
FIRST_LINES = 200  # of a log, that are looked at before Spark starts
OTHER_SEPARATORS = ";\t|"
MOST_FILES = 1000  # each is a relation of its own to Spark


class NotANumberError(ValueError):
    """NaN or Infinity, which Python would read."""


class LogFiles(NamedTuple):
    """A log as the user named it, and the files that it is, in order."""

    path: Path
    kind: str
    files: list[Path]
    notes: tuple[str, ...] = ()

    def place(self, event: int) -> str:
        """Where an event stands, counted from 0: its line or, in Parquet, its row; and its file, if there are some."""
        for file in self.files:
            count, line = _line_of(file, self.kind, event)
            if line is not None:
                where = f"{'row' if self.kind == PARQUET else 'line'} {line}"
                return where if len(self.files) == 1 else f"{file.name} {where}"
            event -= count
        return f"event {event}"


def format_of(path: Path) -> str | None:
    name = path.name.lower()
    zipped = name.endswith(ZIPPED)
    found = FORMATS.get(Path(Path(name).stem if zipped else name).suffix)
    return None if found == PARQUET and zipped else found


def checked_format(path: Path) -> str:
    found = format_of(path)
    if found is None:
        raise UsageError(f"{path} has no ending that is known; give a file that ends in {KNOWN}")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise UsageError(f"{path} {what}; give the path of a file that ends in {KNOWN}")
    return found


def files_of(path: Path) -> LogFiles:
    """The files of a log that is one, or a folder of them, or a pattern such as ``logs/*.json.gz``."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path))
        found = [file for file in inside if format_of(file) is not None]
        if any((path / file).exists() for file in KNOWN_BY.values()):
            raise UsageError(f"the folder {path} is a scenario or a plan, not a log; give the log that it was made of")
        if not found:
            raise UsageError(f"the folder {path} has no files that end in {KNOWN}; give another one")
        torn = next((file for file in found if any("=" in part for part in file.relative_to(path).parts[:-1])), None)
        if torn is not None:
            raise UsageError(f"{torn} has an attribute in the name of its folder; write the log without partitionBy")
        others = [file.name for file in inside if format_of(file) is None]
        notes = (f"{path}: {len(others):,} files are no logs and were left out ({others[0]})",) if others else ()
        return _of_one_kind(path, found, notes)
    if not path.exists() and any(sign in str(path) for sign in "*?["):
        found = sorted(file for file in map(Path, glob(str(path), recursive=True)) if file.is_file())
        if not found:
            raise UsageError(f"no file is called {path}; give a pattern that some are called by")
        return _of_one_kind(path, found, ())
    return LogFiles(path, checked_format(path), [path])


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


def _of_one_kind(path: Path, files: list[Path], notes: tuple[str, ...]) -> LogFiles:
    kinds = [checked_format(file) for file in files]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            raise UsageError(
                f"{path} has files of several kinds, such as {files[0].name} and {file.name}; give one kind"
            )
    if len(files) > MOST_FILES:
        raise UsageError(
            f"{path} has {len(files):,} files, and at most {MOST_FILES:,} are read; put them together first"
        )
    return LogFiles(path, kinds[0], files, notes)


def columns_seen(files: LogFiles) -> list[str] | None:
    """The columns, as far as they show without reading it all: None for JSON lines, of which each has its own."""
    if files.kind == CSV:
        return _header(files)
    if files.kind == PARQUET:
        with _unreadable(files.files[0]):
            return list(pq.read_schema(files.files[0]).names)
    return None


def first_objects(files: LogFiles) -> list[tuple[int, dict[str, Any]]]:
    """The first lines of JSON with their numbers. Raises a ``DataError`` if one of them is no object."""
    path, found = files.files[0], []
    with _unreadable(path), opened(path) as file:
        for number, line in enumerate(islice(file, FIRST_LINES), 1):
            if number == 1 and line.lstrip().startswith("["):
                raise DataError(f"{path} is one JSON list; write an object on each line, as jq -c '.[]' does")
            if number == 1 and line.strip() == "{":
                raise DataError(f"{path} has objects over several lines; write each on one line, as jq -c . does")
            if line.strip():
                fault = _fault_in_line(line)
                if fault:
                    raise DataError(f"{path} line {number}: {fault}")
                found.append((number, json.loads(line)))
    return found


def check_events(files: LogFiles) -> None:
    """Raises a ``DataError`` if there are none, or one of the first records of CSV has too many values or too few."""
    if not any(_has_events(file, files.kind) for file in files.files):
        raise DataError(f"{files.path} has no events in it; give a log with at least one")
    if files.kind == CSV:
        with _unreadable(files.files[0]):
            fault = _fault_in_csv(files.files[0], FIRST_LINES)
        if fault is not None:
            raise DataError(f"{files.files[0]} {fault}")


def _has_events(path: Path, kind: str) -> bool:
    with _unreadable(path):
        if kind == PARQUET:
            return bool(pq.read_metadata(path).num_rows)
        with opened(path) as file:
            return next(_lines_of_events(file, kind), None) is not None


class Reader:
    """Reads the files of a log with Spark, as often as another schema is wanted."""

    def __init__(self, pipeline: Pipeline, files: LogFiles, beside: Path) -> None:
        self.files, self._spark = files, _session(pipeline)
        self._header = _header(files) if files.kind == CSV else None
        self._links = []
        for number, file in enumerate(files.files):
            # Spark hides files whose names begin with _ or a dot, and knows a zipped one by its ending
            ending = file.suffix.lower() if file.name.lower().endswith(ZIPPED) else ""
            link = beside / f"log-{number:04}.{files.kind}{ending}"
            link.symlink_to(file.resolve())
            self._links.append(link)
        # As RFC 4180 has it: a quote is doubled. Where there may be quoted line ends, one core has to read it all
        self._multi_line = files.kind == CSV and any(map(_has_quotes, self._links))

    def schema(self) -> "StructType":
        """That of all files together. The values of CSV are texts."""
        from pyspark.sql.types import StringType, StructField, StructType

        if self._header is not None:
            return StructType([StructField(name, StringType()) for name in self._header])
        paths = [spark_path(link) for link in self._links]
        with blaming(self.files):
            if self.files.kind == PARQUET:
                return self._spark.read.option("mergeSchema", len(paths) > 1).parquet(*paths).schema
            return self._spark.read.json(
                paths,
                mode="FAILFAST",
                dropFieldIfAllNull=True,
                allowSingleQuotes=False,
                allowNonNumericNumbers=False,
                columnNameOfCorruptRecord="$malformed",
            ).schema

    def rows(self, schema: "StructType") -> "DataFrame":
        """All files, one after the other; null where there is no value."""
        parts = [self._part(link, schema) for link in self._links]
        while len(parts) > 1:  # in pairs, or Spark would analyse the first ones again for each of the others
            parts = [
                parts[at].union(parts[at + 1]) if at + 1 < len(parts) else parts[at] for at in range(0, len(parts), 2)
            ]
        return parts[0]

    def _part(self, link: Path, schema: "StructType") -> "DataFrame":
        read, where = self._spark.read.schema(schema), spark_path(link)
        if self.files.kind == PARQUET:
            return read.parquet(where)
        if self.files.kind == JSON:
            return read.json(
                where,
                mode="FAILFAST",
                allowSingleQuotes=False,
                allowNonNumericNumbers=False,
                columnNameOfCorruptRecord="$malformed",
            )
        rows = read.csv(where, header=True, multiLine=self._multi_line, quote='"', escape='"', mode="FAILFAST")
        return rows.replace("", None)


@contextmanager
def blaming(files: LogFiles) -> Iterator[None]:
    """If Spark fails to read the log, it is the line that is at fault."""
    try:
        with as_ours(f"reading {files.path}"):
            yield
    except EngineError as error:
        for file in files.files:
            fault = malformed_line(file, files.kind)
            if fault is not None:
                raise DataError(f"{file} {fault}") from None
        raise error from None


def malformed_line(path: Path, kind: str) -> str | None:
    """The first line of CSV or JSON that cannot be read, and why."""
    with _unreadable(path):
        return {CSV: _fault_in_csv, JSON: _fault_in_json}.get(kind, lambda _: None)(path)


def _header(files: LogFiles) -> list[str]:
    headers = [_header_of(file) for file in files.files]
    for file, names in zip(files.files, headers, strict=True):
        if names != headers[0]:
            raise DataError(f"{file} has other columns than {files.files[0]}; all files of a log must have the same")
    return headers[0]


def _header_of(path: Path) -> list[str]:
    with _unreadable(path), opened(path) as file:
        names = next(csv.reader(file), [])
    for name in names:
        if not name.strip() or JSON_NUMBER.fullmatch(name):
            raise DataError(f"{path} has no header: '{name}' is not the name of a column; name all on the first line")
        if names.count(name) > 1:
            raise DataError(f"{path} has two columns '{name}'; rename one")
    if not names:
        raise DataError(f"{path} has no header; name the columns on the first line")
    sign = next((sign for sign in OTHER_SEPARATORS if len(names) == 1 and sign in names[0]), None)
    if sign is not None:
        raise DataError(f"{path} has one column, '{names[0]}'; write {sign!r} between values as a comma")
    return names


def _session(pipeline: Pipeline) -> "SparkSession":
    """With settings of its own, in the same Spark."""
    spark = pipeline.spark.newSession()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def _has_quotes(path: Path) -> bool:
    """Taken for granted in an archive, which one core reads in any case."""
    if path.suffix in ZIPPED:
        return True
    with open(path, "rb") as file:
        return any(b'"' in chunk for chunk in iter(lambda: file.read(CHUNK), b""))


def _fault_in_csv(path: Path, most: int | None = None) -> str | None:
    with opened(path) as file:
        records = csv.reader(file)
        width = len(next(records, []))
        for record in records if most is None else islice(records, most):
            if record and len(record) != width:
                values = f"it has {len(record)} values, and the header names {width} columns"
                return f"line {records.line_num}: {values}; a value with a comma in it stands in double quotes"
    return None


def _fault_in_json(path: Path) -> str | None:
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            fault = _fault_in_line(line)
            if fault:
                return f"line {number}: {fault}"
    return None


def _fault_in_line(line: str) -> str:
    try:
        if line.strip() and not isinstance(json.loads(line, parse_constant=_no_number), dict):
            return "it is not a JSON object; write one on each line"
    except json.JSONDecodeError as error:
        return f"it is not JSON: {error.msg} (column {error.colno}); write an object on each line"
    except NotANumberError as error:
        return f"{error} is no number of JSON; write null instead"
    return ""


def _no_number(text: str) -> NoReturn:
    raise NotANumberError(text)


def _line_of(path: Path, kind: str, event: int) -> tuple[int, int | None]:
    """How many events a file has, and the line, or row, of one of them: None if it is not in there. Called for the few
    events that a message names."""
    if kind == PARQUET:
        count = pq.read_metadata(path).num_rows
        return count, event + 1 if event < count else None
    seen = -1
    with _unreadable(path), opened(path) as file:
        for line in _lines_of_events(file, kind):
            seen += 1
            if seen == event:
                return seen, line
    return seen + 1, None


def _lines_of_events(file: IO[str], kind: str) -> Iterator[int]:
    """The line on which each event begins; a record of CSV may have several lines."""
    if kind == JSON:
        yield from (number for number, line in enumerate(file, 1) if line.strip())
        return
    records = csv.reader(file)
    next(records, None)
    before = records.line_num
    for record in records:
        if record:
            yield before + 1
        before = records.line_num


def opened(path: Path) -> IO[str]:
    """A text file, zipped or not."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if ending == ".zst":
        # Arrow has the codec, and gives a stream of bytes
        stream = cast(Any, pa.input_stream(str(path), compression="zstd"))
        return io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a small text file with their numbers."""
    with _unreadable(path), opened(path) as file:
        yield from enumerate((line.rstrip("\r\n") for line in file), 1)


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise DataError(f"{path} is not in UTF-8; convert it first") from None
    except (OSError, EOFError, zlib.error, csv.Error, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {str(error).partition(chr(10))[0][:120]}") from None


def some_of(names: Sequence[str], most: int = 20) -> str:
    """The first of many names, for a message."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
