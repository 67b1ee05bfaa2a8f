"""What is in the columns of a log: how many values, which range, which different ones. Spark computes it."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FEW = 12  # so many different texts are named
LONGEST_NAMED = 60  # characters of a text that is named


class OddValue(msgspec.Struct, frozen=True):
    """A value that does not convert."""

    value: str
    events: int
    place: str  # of the first


class Described(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attribute of a log."""

    name: str
    type: str
    values: int  # events that have it
    absent: int  # events that do not
    least: int | float | None = None  # of numbers
    most: int | float | None = None
    distinct: int | None = None  # of texts and booleans; about, if there are many
    examples: tuple[str, ...] = ()  # all of them, if they are few
    odd: int = 0  # values in the file that do not convert
    odd_values: tuple[OddValue, ...] = ()
    note: str = ""

    def in_words(self) -> str:
        """The range, or the different values."""
        if not self.values:
            return "no values"
        if self.least is not None:
            return (
                f"{self.least:g} to {self.most:g}" if isinstance(self.least, float) else f"{self.least} to {self.most}"
            )
        if self.examples:
            return ", ".join(repr(value) for value in self.examples)
        return "" if self.distinct is None else f"about {self.distinct:,} different"


def described(rows: "DataFrame", columns: "dict[str, tuple[Column, str]]") -> dict[str, Described]:
    """Describes the attributes of a log, by name.

    ``columns`` are the values and the type of each, as Spark calls it."""
    from overstory.pipeline.log_types import IN_WORDS

    events, first = _sums(rows, columns)
    few = [name for name in columns if 0 < (first[name].get("distinct") or 0) <= FEW and columns[name][1] == "string"]
    values = _values(rows, {name: columns[name][0] for name in few})
    return {
        name: Described(
            name,
            IN_WORDS[kind],
            first[name]["values"],
            events - first[name]["values"],
            first[name].get("least"),
            first[name].get("most"),
            len(values[name]) if name in values else first[name].get("distinct"),
            values.get(name, ()),
        )
        for name, (_, kind) in columns.items()
    }


def _sums(rows: "DataFrame", columns: "dict[str, tuple[Column, str]]") -> "tuple[int, dict[str, dict[str, int]]]":
    from pyspark.sql import functions as sql

    sums, keys = [sql.count("*").alias("events")], []
    for at, (name, (value, kind)) in enumerate(columns.items()):
        wanted = {"values": sql.count(value)}
        if kind == "double":
            finite = sql.when(~sql.isnan(value), value)
            wanted |= {"least": sql.min(finite), "most": sql.max(finite)}
        elif kind == "bigint":
            wanted |= {"least": sql.min(value), "most": sql.max(value)}
        elif kind in ("string", "boolean"):
            wanted["distinct"] = sql.approx_count_distinct(value)
        for key, column in wanted.items():
            sums.append(column.alias(f"{key}{at}"))
            keys.append((name, key, f"{key}{at}"))
    found = rows.agg(*sums).first()
    assert found is not None
    by_name: dict[str, dict[str, int]] = {name: {} for name in columns}
    for name, key, alias in keys:
        by_name[name][key] = found[alias]
    return found["events"], by_name


def _values(rows: "DataFrame", columns: "dict[str, Column]") -> dict[str, tuple[str, ...]]:
    """The different texts of columns that have few."""
    from pyspark.sql import functions as sql

    if not columns:
        return {}
    sets = [
        sql.sort_array(sql.collect_set(sql.substring(value, 1, LONGEST_NAMED))).alias(str(at))
        for at, value in enumerate(columns.values())
    ]
    found = rows.agg(*sets).first()
    assert found is not None
    return {name: tuple(found[str(at)]) for at, name in enumerate(columns)}
