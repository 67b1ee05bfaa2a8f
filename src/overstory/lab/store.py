"""Where results are kept: one Parquet file for each cell, under what it depends on.

1. A file's name is the fingerprint of the cell's settings, then that of the code. What was computed by other code, or
   with other settings, is never taken for it.
2. A file is written beside its place and moved there: it is whole, or it is not there. So a run that was killed goes on
   where it was.
3. A cell that failed leaves the reason instead, and is tried again by the next run.
4. When a cell is computed again by other code, and gives other numbers, that is noted in the new file.
5. Experiments that compute their cells by the same function share those of the same settings: whichever runs first
   keeps the result in its folder, and the others find it there. Not if one of them measures time, which must not be
   taken while other cells run.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import DataError, UsageError
from overstory.lab.code import code_fingerprint
from overstory.lab.experiment import Experiment, Row, Settings
from overstory.lab.experiments import EXPERIMENTS

FORMAT = 1
ABOUT = b"overstory"  # the metadata of a file
LAST_RUN = "last-run.json"
SAME = 1e-9  # relative: rounding may differ


@dataclass(frozen=True)
class Stored:
    settings: Settings
    rows: list[Row]
    seconds: float
    failure: str | None = None
    changed: str | None = None  # what is other than before, when other code computed it


@dataclass(frozen=True)
class Results:
    """The results of some cells of an experiment."""

    experiment: Experiment
    results: list[Stored]

    @property
    def rows(self) -> list[Row]:
        return [row for stored in self.results for row in stored.rows]

    @property
    def failed(self) -> list[Stored]:
        return [stored for stored in self.results if stored.failure is not None]

    @property
    def changed(self) -> list[Stored]:
        return [stored for stored in self.results if stored.changed is not None]


@dataclass(frozen=True)
class LastRun:
    parameters: Row
    quick: bool
    only: Row


class Store:
    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder, self.experiment = folder / experiment.name, experiment
        self._sharing = [self.folder, *(folder / other.name for other in _sharing(experiment))]

    @cached_property
    def code(self) -> str:
        """The fingerprint of what computes the experiment's cells. It takes a second, so nobody asks without need."""
        return code_fingerprint(self.experiment.run.__module__)

    def path_of(self, settings: Settings) -> Path:
        return self.folder / f"{fingerprint_of(settings)}-{self.code}.parquet"

    def get(self, settings: Settings) -> Stored | None:
        """The result of a cell, from this experiment or one that shares it; a failure only if there is no other."""
        failed = None
        for path in self._paths_of(settings):
            stored = read(path)
            if stored.failure is None:
                return stored
            failed = failed or stored
        return failed

    def put(self, settings: Settings, rows: list[Row], seconds: float, failure: str | None = None) -> Stored:
        changed = None if failure else self._changed(settings, rows)
        stored = Stored(settings, rows, seconds, failure, changed)
        write(self.path_of(settings), stored)
        return stored

    def every(self) -> list[Stored]:
        """All results of the code as it is now."""
        return [read(path) for path in sorted(self.folder.glob(f"*-{self.code}.parquet"))]

    def stale(self, cells: Iterable[Settings]) -> int:
        """How many of these cells have results, but only of other code."""
        return sum(not any(self._paths_of(cell)) and any(self._others(cell)) for cell in cells)

    def note_run(self, run: LastRun) -> None:
        about = {"format": FORMAT, "parameters": run.parameters, "quick": run.quick, "only": run.only}
        put_file(self.folder / LAST_RUN, json.dumps(about, indent=1).encode())

    def last_run(self) -> LastRun | None:
        path = self.folder / LAST_RUN
        if not path.exists():
            return None
        try:
            about = json.loads(path.read_text("utf-8"))
            if about["format"] != FORMAT:
                raise DataError(f"{path} is of another version ({about['format']}, not {FORMAT}); use another --store")
            return LastRun(about["parameters"], about["quick"], about["only"])
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} is not what a run leaves; remove it and run again") from None

    def _paths_of(self, settings: Settings) -> Iterator[Path]:
        """The files that there are of a cell, of the code as it is now; this experiment's own comes first."""
        name = self.path_of(settings).name
        return (folder / name for folder in self._sharing if (folder / name).exists())

    def _others(self, settings: Settings) -> Iterator[Path]:
        """Results of other code, the oldest first."""
        every = (path for folder in self._sharing for path in folder.glob(f"{fingerprint_of(settings)}-*.parquet"))
        name = self.path_of(settings).name
        yield from sorted((path for path in every if path.name != name), key=lambda path: path.stat().st_mtime)

    def _changed(self, settings: Settings, rows: list[Row]) -> str | None:
        for path in reversed(list(self._others(settings))):
            before = read(path)
            if before.failure is None:
                return difference(before.rows, rows, self.experiment.clocked)
        return None


def _sharing(experiment: Experiment) -> list[Experiment]:
    """The other experiments that would compute a cell in just the same way."""
    if experiment.alone:
        return []
    others = (other for other in EXPERIMENTS.values() if other.name != experiment.name and not other.alone)
    return [other for other in others if other.run is experiment.run]


def fingerprint_of(settings: Settings) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def difference(before: Sequence[Row], now: Sequence[Row], clocked: Sequence[str]) -> str | None:
    """The first thing that is not as it was."""
    if len(before) != len(now):
        return f"{len(now)} rows, where there were {len(before)}"
    for old, new in zip(before, now, strict=True):
        for name in sorted(old.keys() | new.keys()):
            was, is_ = old.get(name), new.get(name)
            if name not in clocked and not _same(was, is_):
                return f"{name} is {is_}, and was {was}"
    return None


def _same(one: object, other: object) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= SAME * max(abs(one), abs(other))
    return one == other


def write(path: Path, stored: Stored) -> None:
    about = {
        "format": FORMAT,
        "settings": stored.settings,
        "seconds": stored.seconds,
        "failure": stored.failure,
        "changed": stored.changed,
        "shapes": _shapes(stored.rows),
    }
    table = table_of(stored.rows)
    buffer = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({ABOUT: json.dumps(about).encode()}), buffer)
    put_file(path, buffer.getvalue().to_pybytes())


def table_of(rows: Sequence[Row]) -> pa.Table:
    """With a column for all that any row has: Arrow would take the first row's."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _shapes(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Which columns rows have: a table has all of them in every row, and a row that has none is not one with nothing in
    it."""
    found: dict[tuple[str, ...], int] = {}
    places = [found.setdefault(tuple(row), len(found)) for row in rows]
    return {"columns": list(found), "rows": places}


def _shaped(rows: list[Row], shapes: dict[str, list[Any]] | None) -> list[Row]:
    """The rows as they were before they became a table."""
    if shapes is None:
        return rows
    columns = [shapes["columns"][place] for place in shapes["rows"]]
    return [{name: row[name] for name in names} for row, names in zip(rows, columns, strict=True)]


def read(path: Path) -> Stored:
    try:
        table = pq.read_table(path)
        about: dict[str, Any] = json.loads((table.schema.metadata or {})[ABOUT])
    except (pa.ArrowInvalid, KeyError, ValueError):
        raise DataError(f"{path} is not a result of the lab; remove it and run again") from None
    if about["format"] != FORMAT:
        raise DataError(f"{path} is of another version ({about['format']}, not {FORMAT}); use another --store")
    rows = _shaped(table.to_pylist(), about.get("shapes"))
    return Stored(about["settings"], rows, about["seconds"], about["failure"], about["changed"])


def put_file(path: Path, content: bytes) -> None:
    """All of it, or nothing."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give another --store") from None
