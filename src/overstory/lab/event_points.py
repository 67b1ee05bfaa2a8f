"""Events of a real log as points of event space: two of its columns, scaled to the square that interests are in.

Numbers are scaled linearly from the least to the largest; ``log:`` before a name takes logarithms first, with their
sign, as suits sizes and delays; a column of times (2015-09-12T00:46:58) is the time of the day. Rows without both are
left out. A log with fewer events than are wanted is drawn from again and again, as many times each as comes.
"""

import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from overstory.errors import DataError, UsageError
from overstory.lab.interests import SIDE
from overstory.model.network import Floats

LOGARITHM = "log:"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def points_in(path: Path, columns: str, count: int, draw: np.random.Generator) -> Floats:
    """So many events, as rows of two coordinates below ``SIDE``."""
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if len(names) != 2:
        raise UsageError(f"--event-columns {columns}: name two columns, such as time,log:delta")
    rows = _rows(path, [name.removeprefix(LOGARITHM) for name in names])
    points = np.stack([_scaled(rows[:, at], name.startswith(LOGARITHM)) for at, name in enumerate(names)], axis=1)
    if count <= len(points):
        return np.asarray(points[draw.permutation(len(points))[:count]])
    return np.asarray(points[draw.integers(len(points), size=count)])


def _scaled(values: Floats, logarithm: bool) -> Floats:
    if logarithm:
        values = np.sign(values) * np.log1p(np.abs(values))
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / (high - low or 1.0) * np.nextafter(SIDE, 0))


def _rows(path: Path, names: list[str]) -> Floats:
    found = []
    try:
        with _opened(path) as file:
            for row in _records(path, file):
                values = [_number(row.get(name)) for name in names]
                if None not in values:
                    found.append(values)
    except (OSError, ValueError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a log of CSV or JSON lines: {str(error)[:100]}") from None
    if not found:
        raise DataError(f"{path} has no row with numbers or times in both {names[0]} and {names[1]}")
    return np.array(found, np.float64)


def _opened(path: Path) -> TextIO:
    opener = OPENERS.get(path.suffix)
    return path.open(encoding="utf-8") if opener is None else io.TextIOWrapper(opener(path, "rb"), "utf-8")


def _records(path: Path, file: TextIO) -> Iterator[dict[str, Any]]:
    if ".csv" in path.suffixes:
        yield from csv.DictReader(file)
        return
    for line in file:
        row = json.loads(line)
        if isinstance(row, dict):
            yield row


def _number(value: Any) -> float | None:
    """A number, or the seconds of the day of a time; None where there is neither."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError:
            return None
        return float(time.hour * 3600 + time.minute * 60 + time.second)
    return number if np.isfinite(number) else None
