"""What an experiment found: a table, and what it comes to."""

from typing import NamedTuple

Cell = str | int | float | None


class Result(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    totals: dict[str, Cell]
