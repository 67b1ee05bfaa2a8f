"""Scenarios and plans are folders of Parquet tables: read with all that is wrong said at once, written whole or not
at all, and known by a fingerprint of their contents."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import DataError, Problem, UsageError
from overstory.model.tables import Table

MOST_ROWS_NAMED = 5  # of the same problem
FORMAT_VERSION = 1  # of scenarios and plans
# By kind of folder: the file that it is known by, and how to come by one
SCENARIO, PLAN = "scenario", "plan"
KNOWN_BY = {SCENARIO: "scenario.toml", PLAN: "plan.json"}
MADE_WITH = {SCENARIO: "make one with 'overstory scenario make' or 'import'", PLAN: "make one with 'overstory plan'"}


def check_folder(folder: Path, kind: str) -> None:
    """Raises a ``DataError`` of one line if it is not there, or is something else than a scenario, or a plan."""
    if not folder.is_dir():
        what = "it is a file, not a folder" if folder.exists() else "there is no such folder"
        raise DataError(f"{folder} is not a {kind}: {what}; {MADE_WITH[kind]}")
    if (folder / KNOWN_BY[kind]).exists():
        return
    other = next((name for name, file in KNOWN_BY.items() if (folder / file).exists()), None)
    if other is not None:
        raise DataError(f"{folder} is not a {kind}: it is the folder of a {other}; {MADE_WITH[kind]}")
    if not any(folder.glob("*.parquet")):
        raise DataError(f"{folder} is not a {kind}: it has no {KNOWN_BY[kind]} in it; {MADE_WITH[kind]}")


def fault_of_version(file: str, version: int) -> list[Problem]:
    if version == FORMAT_VERSION:
        return []
    what = f"it is {version}, and this overstory reads {FORMAT_VERSION}; use the version that made the folder"
    return [Problem(file, None, "format_version", what)]


def decoding_fault(error: Exception) -> str:
    """What msgspec says, with the name of the field in front."""
    text, _, place = str(error).replace("`", "").partition(" - at $")
    field = place.strip(".")
    return f"{field}: {text[:1].lower()}{text[1:]}" if field else f"{text[:1].lower()}{text[1:]}"


def read_tables(folder: Path, tables: Mapping[str, Table], problems: list[Problem]) -> dict[str, pa.Table]:
    """What can be read of them; what cannot is added to ``problems``. Empty where an optional one is missing."""
    found = {}
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if path.exists():
            read = _read_table(path, table, problems)
        else:
            if not table.optional:
                problems.append(Problem(name, None, None, f"the file {path.name} is missing"))
            read = table.full_schema.empty_table()
        found[name] = read
    return found


def _read_table(path: Path, table: Table, problems: list[Problem]) -> pa.Table:
    try:
        read = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0][:120]
        problems.append(
            Problem(table.name, None, None, f"{path.name} is not a Parquet file that can be read: {reason}")
        )
        return table.full_schema.empty_table()
    columns = [_read_column(read, table, at, problems) for at in range(len(table.columns))]
    if any(column is None for column in columns):
        return table.full_schema.empty_table()
    return pa.table(dict(zip(table.full_schema.names, columns, strict=True)), schema=table.full_schema)


def _read_column(read: pa.Table, table: Table, at: int, problems: list[Problem]) -> pa.ChunkedArray | None:
    wanted = table.columns[at]
    if wanted.name not in read.column_names:
        if wanted.may_be_missing:
            return pa.chunked_array([pa.nulls(read.num_rows, wanted.type)])
        problems.append(Problem(table.name, None, wanted.name, "the column is missing"))
        return None
    values = read.column(wanted.name)
    if values.type != wanted.type:
        try:
            values = values.cast(wanted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            problem = f"the column is of {values.type}, and cannot be read as {wanted.type}"
            problems.append(Problem(table.name, None, wanted.name, problem))
            return None
    if values.null_count and not wanted.may_be_null:
        rows = rows_where(pc.is_null(values))
        problems += problems_at(rows, table.name, wanted.name, lambda _: "has no value")
        return None
    return values


def rows_where(mask: pa.ChunkedArray | pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found


def repeated_in(values: NDArray[np.int64]) -> list[int]:
    """The rows whose value stands in a row above."""
    order = np.argsort(values, kind="stable")
    found: list[int] = np.sort(order[1:][values[order[1:]] == values[order[:-1]]]).tolist()
    return found


def problems_at(rows: list[int], table: str, column: str, what: Callable[[int], str]) -> list[Problem]:
    """The same problem in several rows, of which the first few are named. Rows are counted from 0 here, and from 1 for
    people."""
    named = [Problem(table, row + 1, column, what(row)) for row in rows[:MOST_ROWS_NAMED]]
    if len(rows) > MOST_ROWS_NAMED:
        left = len(rows) - MOST_ROWS_NAMED
        same = "row has" if left == 1 else "rows have"
        named.append(Problem(table, None, column, f"{left:,} more {same} the same problem", left))
    return named


def check_can_be_made(folder: Path) -> None:
    """Raises a ``UsageError`` if there is something already, or nothing can be written there. Call it before the work
    whose result goes there."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists already; give another name, or remove it first")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None
    _check_above(folder, "folder")


def check_can_be_written(file: Path) -> None:
    """Raises a ``UsageError`` if no file can be written there; one that is there is written anew."""
    if file.is_dir():
        raise UsageError(f"cannot write {file}: it is a folder, not a file; give another file")
    _check_above(file, "file")


def _check_above(path: Path, kind: str) -> None:
    try:
        above = next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give another {kind}") from None
    if not above.is_dir():
        raise UsageError(f"cannot write {path}: {above} is a file, not a folder; give another {kind}")
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {path}: {above} is not yours to write to; give another {kind}")


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A new folder to write to, which takes its place when all is written, and is gone if that fails."""
    check_can_be_made(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    try:
        yield unfinished
        unfinished.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.rename(unfinished, folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}; nothing is left of it") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_table(folder: Path, table: Table, rows: pa.Table) -> None:
    pq.write_table(table.stored(rows), folder / f"{table.name}.parquet", compression="zstd")


def fingerprint_of(rows: pa.Table) -> bytes:
    """The same for the same rows in any order."""
    sortable = [field.name for field in rows.schema if not pa.types.is_list(field.type)]
    ordered = rows.sort_by([(name, "ascending") for name in sortable]).combine_chunks()
    digest = hashlib.sha256(str(ordered.schema.names).encode())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as stream:
        for batch in ordered.to_batches(1 << 16):
            stream.write_batch(batch)
    digest.update(sink.getvalue())
    return digest.digest()


def parts_of(path: Path) -> list[Path]:
    """The files of a Parquet table: itself, or its parts if it is a folder, as Spark writes one."""
    if not path.is_dir():
        return [path]
    return sorted(part for part in path.rglob("*.parquet") if not part.name.startswith(("_", ".")) and part.is_file())


def fingerprint_of_file(path: Path) -> bytes:
    """Of the bytes of a file, or of those of the parts of a folder in the order of their names."""
    digest = hashlib.sha256()
    for part in parts_of(path):
        with open(part, "rb") as file:
            found = hashlib.file_digest(file, "sha256").digest()
        if not path.is_dir():
            return found
        digest.update(found)
    return digest.digest()
