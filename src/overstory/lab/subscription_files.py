"""Subscriptions from a file: CSV, JSON lines or Parquet with columns, or a text with one filter a line.

In a text, blank lines and lines that begin with # say nothing. A line is a filter, or ``name: filter`` with the name of
the client that wants it: a filter has no colon outside of quotes, so the two cannot be confused. A line without a name
is a client of its own.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import DataError, Problem
from overstory.lab.overlays import Overlay
from overstory.lab.small_tables import cast_column, read_columns, whole_numbers
from overstory.model.folders import problems_at, rows_where
from overstory.model.network import Ints
from overstory.model.tables import SUBSCRIPTIONS
from overstory.pipeline.log_files import format_of, lines_of
from overstory.pipeline.match import BROKER
from overstory.pipeline.predicates import problems_with

NAMED = re.compile(r"""([^'":]+?)\s*:\s*(.*)""", re.DOTALL)


class Wanted(NamedTuple):
    """Subscriptions, and the clients that have them."""

    subscriptions: pa.Table
    ids: Ints  # of the clients, ascending by name
    names: list[str]
    told: dict[int, int]  # brokers of clients that a column tells
    notes: tuple[str, ...] = ()


def wanted_in(path: Path, overlay: Overlay, first: int) -> Wanted:
    """``first`` is the first id that clients may have who have names."""
    return _in_columns(path, overlay, first) if format_of(path) is not None else _in_lines(path, first)


def _in_lines(path: Path, first: int) -> Wanted:
    lines, clients, filters = [], [], []
    for number, line in lines_of(path):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        named = NAMED.fullmatch(text)
        lines.append(number)
        clients.append(named[1].strip() if named else f"line {number}")
        filters.append(named[2] if named else text)
    if not filters:
        raise DataError(f"{path} has no filters in it; write one on each line")
    column = pa.array(filters, pa.string())
    problems = [
        Problem(f"{path.name} line {lines[problem.row - 1]}", None, None, problem.what) if problem.row else problem
        for problem in problems_with(pa.chunked_array([column]), path.name, "filter", reserved=BROKER)
    ]
    if problems:
        raise DataError.about(str(path), problems)
    ids, names, at = _numbered(pa.array(clients, pa.string()), first, np.empty(0, np.int64))
    return Wanted(_table(ids[at], column), ids, names, {})


def _in_columns(path: Path, overlay: Overlay, first: int) -> Wanted:
    columns = read_columns(path, ("client", "filter"), ("broker", "no_local", "name"))
    read = columns.values
    problems = problems_with(pa.chunked_array([read["filter"]]), path.name, "filter", reserved=BROKER)
    if problems:
        raise DataError.about(str(path), problems)
    ids, names, at = _numbered(read["client"], first, overlay.ids)
    told = _told(path, overlay, read["broker"], ids[at]) if "broker" in read else {}
    local = read.get("no_local", pa.nulls(len(at), pa.bool_()))
    no_local = cast_column(path, "no_local", local, pa.bool_()).fill_null(False)
    table = _table(ids[at], read["filter"], no_local, read.get("name"))
    notes = (f"{path.name}: not used: {', '.join(columns.others)}",) if columns.others else ()
    return Wanted(table, ids, names, told, notes)


def _numbered(clients: pa.Array, first: int, taken: Ints) -> tuple[Ints, list[str], Ints]:
    """The ids of the different clients, their names, and which one each row has. Numbers are kept for ids, unless one
    is that of a broker: then they are names like others."""
    names = pc.unique(clients).take(pc.array_sort_indices(pc.unique(clients)))
    at = np.asarray(pc.index_in(clients, names)).astype(np.int64)
    numbers = whole_numbers(names)
    if numbers is None or np.isin(numbers, taken).any():
        numbers = first + np.arange(len(names))
    return numbers, names.to_pylist(), at


def _told(path: Path, overlay: Overlay, brokers: pa.Array, clients: Ints) -> dict[int, int]:
    rows = rows_where(pc.is_valid(brokers))
    known = overlay.named()
    unknown = [row for row in rows if brokers[row].as_py() not in known]
    if unknown:
        what = problems_at(unknown, path.name, "broker", lambda row: overlay.unknown(brokers[row].as_py()))
        raise DataError.about(str(path), what)
    told: dict[int, int] = {}
    torn = [
        row
        for row in rows
        if told.setdefault(int(clients[row]), known[brokers[row].as_py()]) != known[brokers[row].as_py()]
    ]
    if torn:
        what = problems_at(
            torn, path.name, "broker", lambda _: "the client has another one above; a client has one broker"
        )
        raise DataError.about(str(path), what)
    return told


def _table(
    clients: Ints, filters: pa.Array, no_local: pa.Array | None = None, names: pa.Array | None = None
) -> pa.Table:
    count = len(clients)
    columns = {
        "id": np.arange(count),
        "client": clients,
        "filter": filters,
        "no_local": np.zeros(count, bool) if no_local is None else no_local,
        "name": pa.nulls(count, pa.string()) if names is None else names,
    }
    return SUBSCRIPTIONS.completed(pa.table(columns))
