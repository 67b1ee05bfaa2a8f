"""Small files beside a log: links, subscriptions, attachments. Read in memory, as texts; all that is wrong is said."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from overstory.errors import DataError, Problem
from overstory.model.folders import problems_at, rows_where
from overstory.model.naming import near_words
from overstory.model.network import Ints
from overstory.pipeline.log_files import CSV, JSON, checked_format, malformed_line, some_of

IN_WORDS = {pa.float64(): "a number", pa.bool_(): "true or false"}


class Columns(NamedTuple):
    """The columns of a file that were asked for, as texts, and the names of the others."""

    path: Path
    values: dict[str, pa.Array]
    others: list[str]

    def cast(self, name: str, kind: pa.DataType) -> pa.Array:
        return cast_column(self.path, name, self.values[name], kind)


def read_columns(path: Path, needed: tuple[str, ...], optional: tuple[str, ...]) -> Columns:
    """Those that are needed have no gaps."""
    read = _read(path, checked_format(path), (*needed, *optional))
    found = {}
    problems: list[Problem] = []
    for name in (*needed, *optional):
        if read.column_names.count(name) > 1:
            raise DataError(f"{path} has two columns '{name}'; rename one")
        if name in read.column_names:
            found[name] = cast_column(path, name, read[name].combine_chunks(), pa.string())
        elif name in needed:
            near = near_words(name, read.column_names) or f"; it has {some_of(read.column_names)}"
            raise DataError(f"{path} has no column '{name}', and needs {' and '.join(needed)}{near}")
        if name in needed:
            problems += problems_at(rows_where(pc.is_null(found[name])), path.name, name, lambda _: "has no value")
    if problems:
        raise DataError.about(str(path), problems)
    if not len(read):
        raise DataError(f"{path} has no rows in it; it needs {' and '.join(needed)} on each")
    return Columns(path, found, [name for name in read.column_names if name not in found])


def _read(path: Path, kind: str, names: tuple[str, ...]) -> pa.Table:
    try:
        if kind == CSV:
            return pa.csv.read_csv(
                path,
                parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
                ),
            )
        return pa.json.read_json(path) if kind == JSON else pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        fault = malformed_line(path, kind)
        if fault is not None:
            raise DataError(f"{path} {fault}") from None
        raise DataError(f"{path} cannot be read: {str(error).partition(chr(10))[0][:160]}") from None


def cast_column(path: Path, name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if kind not in IN_WORDS:
            what = "numbers, strings, or true and false"
            raise DataError(f"column '{name}' of {path} is of {values.type}; make it one of {what}") from None
        bad = [row for row, value in enumerate(values) if not _casts(value, kind)]
        what = IN_WORDS[kind]
        problems = problems_at(bad, path.name, name, lambda row: f"{values[row].as_py()!r} is not {what}")
        raise DataError.about(str(path), problems) from None


def _casts(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def whole_numbers(texts: pa.Array) -> Ints | None:
    """None if one of them is not, or has zeros in front, as names may have."""
    if not pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]*)$")).as_py():
        return None
    try:
        numbers: Ints = np.asarray(texts.cast(pa.int64()))
    except pa.ArrowInvalid:  # too long
        return None
    return numbers
