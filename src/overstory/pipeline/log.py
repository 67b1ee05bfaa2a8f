"""A log that is open: its rows are checked, told of in words, and written as the events of a scenario."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa

from overstory.errors import DataError, Problem, UsageError
from overstory.model.tables import EVENTS
from overstory.pipeline.attributes import Described, OddValue, described
from overstory.pipeline.events_file import join_parts
from overstory.pipeline.log_files import LogFiles
from overstory.pipeline.log_options import NULL, Reading, Roles
from overstory.pipeline.log_times import NO_TIMES, Times
from overstory.pipeline.log_types import IN_WORDS, KINDS, NUMBERS, Leaf, converted, kind_of_type
from overstory.pipeline.names import column as _column
from overstory.pipeline.numbered_log import is_read_as_text, number_of_row
from overstory.pipeline.pipeline import as_ours

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_PUBLISHERS = 1_000_000  # clients are held in memory
MOST_ODD_NAMED = 3  # different odd values of a column


class ByChance(NamedTuple):
    """Each event is published by one of so many clients, numbered from ``first``."""

    first: int
    clients: int
    seed: int


class LogSeen(msgspec.Struct, frozen=True):
    """What a log had in it."""

    attributes: tuple[Described, ...]
    notes: tuple[str, ...]  # in words: what was inferred, left out or made absent


class Log:
    """The rows of a log, checked, numbered and kept by Spark."""

    def __init__(
        self,
        files: LogFiles,
        rows: "DataFrame",
        leaves: dict[str, Leaf],
        kinds: dict[str, str],
        counts: list[int],
        roles: Roles,
        reading: Reading,
        notes: list[str],
    ) -> None:
        self.files, self.path, self.rows, self.roles, self.reading = files, files.path, rows, roles, reading
        self.kinds = kinds  # of the columns that have values
        self.events = sum(counts)
        self._number = number_of_row(counts)
        self.attributes = _in_order(kinds, roles, reading)
        self.notes = [*files.notes, *notes]
        # The column that tells where publishers are: also one that is called so, unless it says something else
        by_itself = "broker" if roles.publisher and kinds.get("broker") in ("string", "bigint") else None
        self.told_by = roles.broker or by_itself
        self._leaves = leaves
        self._times: Times | None = None
        self._odd: dict[str, tuple[int, tuple[OddValue, ...]]] = {}

    def check(self) -> None:
        """That values convert, and that every event has the time, the bytes and the publisher that columns are to
        tell."""
        for name in self.roles:
            if name is not None and name not in self.kinds:
                raise UsageError(f"column '{name}' of {self.path} has no values; name another one, or none")
        self._times = self._times_with_unit()
        self._check_roles()
        self._check_odd()

    def seen(self) -> LogSeen:
        """What is in the attributes, for people."""
        columns = {name: (self._value(name), self.kinds[name]) for name in self.attributes}
        found = described(self.rows, columns)
        attributes = []
        for name, about in found.items():
            odd, values = self._odd.get(name, (0, ()))
            attributes.append(msgspec.structs.replace(about, odd=odd, odd_values=values))
        on_time = NO_TIMES if self._times is None else self._times.in_words(self.rows)
        return LogSeen(tuple(attributes), (*self.notes, on_time))

    def publishers(self, brokers: int, seed: int) -> pa.Table:
        """The different values of the publishers' column in their order: each as a ``name``, and the position of the
        ``broker`` that a hash of it chooses. If a column tells their brokers, also the ``least`` and the ``most`` of
        what it says."""
        from pyspark.sql import functions as sql

        assert self.roles.publisher is not None
        value = self._value(self.roles.publisher)
        told = (self._value(self.told_by) if self.told_by else sql.lit(None)).cast("string")
        rows = self.rows.select(value.alias("value"), value.cast("string").alias("name"), told.alias("told"))
        grouped = rows.groupBy("value", "name").agg(sql.min("told").alias("least"), sql.max("told").alias("most"))
        broker = sql.pmod(sql.xxhash64(sql.lit(seed), "name"), sql.lit(brokers))
        with as_ours(f"looking for the publishers in {self.path}"):
            limited = grouped.limit(MOST_PUBLISHERS + 1).withColumn("broker", broker.cast("bigint"))
            found = limited.toArrow().sort_by("value")
        if len(found) > MOST_PUBLISHERS:
            raise UsageError(
                f"column '{self.roles.publisher}' of {self.path} has more than {MOST_PUBLISHERS:,} different values; "
                "name another one with --publisher, or none"
            )
        return found.select(["name", "broker", "least", "most"])

    def write(self, path: Path, publishers: pa.Table | ByChance) -> None:
        """Writes the events as one Parquet file.

        ``publishers`` are the ``name`` and the ``id`` of each, or clients to choose from."""
        parts = path.with_name("parts")
        with as_ours(f"writing the events of {self.path}"):
            rows = self._with_publishers(publishers)
            rows.select(*self._columns()).write.parquet(str(parts.absolute()))
        join_parts(sorted(parts.glob("part-*.parquet")), self._schema(), path)

    def _times_with_unit(self) -> Times | None:
        name, given = self.roles.time, self.reading.time_unit
        if name is None:
            if given is not None:
                raise UsageError(
                    f"--time-unit {given} is for times that are numbers, and there is no --time; leave it out"
                )
            return None
        as_read = self.rows.schema[name].dataType.simpleString()
        value = self._value(name)
        return Times(self.path, name, self.kinds[name], _column(name), as_read, value, given).with_unit(self.rows)

    def _check_odd(self) -> None:
        """Counts the values that do not convert, and refuses them unless they are to be absent."""
        from pyspark.sql import functions as sql

        may_be_odd = [name for name in self.attributes if self._may_be_odd(name)]
        if not may_be_odd:
            return
        sums = [sql.count_if(self._is_odd(name)).alias(str(at)) for at, name in enumerate(may_be_odd)]
        found = self.rows.agg(*sums).first()
        assert found is not None
        self._odd = {
            name: (found[str(at)], self._odd_values(name)) for at, name in enumerate(may_be_odd) if found[str(at)]
        }
        if self._odd and self.reading.bad_values != NULL:
            problems = [Problem(str(self.path), None, name, self._odd_in_words(name)) for name in self._odd]
            first = next(iter(self._odd))
            cure = f"give --bad-values null to make them absent, or --type {first}=string to keep them as text"
            if len(problems) == 1:
                raise DataError(f"column '{first}' of {self.path}: {problems[0].what}; {cure}")
            raise DataError(f"{self.path} has values that do not convert in {len(problems)} columns; {cure}:", problems)

    def _may_be_odd(self, name: str) -> bool:
        return kind_of_type(self._leaf_type(name)) != self.kinds[name]

    def _is_odd(self, name: str) -> "Column":
        return _column(name).isNotNull() & self._value(name).isNull()

    def _odd_values(self, name: str) -> tuple[OddValue, ...]:
        """The most frequent ones, each with the place of the first."""
        from pyspark.sql import functions as sql

        odd = self.rows.where(self._is_odd(name)).select(
            _column(name).cast("string").alias("value"), self._number.alias("id")
        )
        groups = odd.groupBy("value").agg(sql.count("*").alias("events"), sql.min("id").alias("first"))
        rows = groups.orderBy(sql.desc("events"), "first").limit(MOST_ODD_NAMED).collect()
        return tuple(OddValue(row["value"][:60], row["events"], self.files.place(row["first"])) for row in rows)

    def _odd_in_words(self, name: str) -> str:
        many, values = self._odd[name]
        named = ", ".join(f"{odd.value!r} ({odd.events:,}, first on {odd.place})" for odd in values)
        more = ", …" if sum(odd.events for odd in values) < many else ""
        kind = IN_WORDS[self.kinds[name]]
        return f"it is of {kind}, and {many:,} of {self.events:,} events have something else: {named}{more}"

    def _check_roles(self) -> None:
        from pyspark.sql import functions as sql

        wrong = self._wrong()
        sums = []
        for at, (name, (_, bad)) in enumerate(wrong.items()):
            which = sql.when(bad, self._number)
            sums += [sql.count(which).alias(f"many{at}"), sql.min(which).alias(f"first{at}")]
            sums.append(sql.min_by(_column(name).cast("string"), which).alias(f"value{at}"))
        found = self.rows.agg(*sums).first() if sums else None
        for at, (name, (what, _)) in enumerate(wrong.items()):
            if found is not None and found[f"many{at}"]:
                value = "nothing" if found[f"value{at}"] is None else repr(found[f"value{at}"][:60])
                place = self.files.place(found[f"first{at}"])
                raise DataError(
                    f"column '{name}' of {self.path} has to tell {what}, and does not in {found[f'many{at}']:,} of "
                    f"{self.events:,} events; the first is on {place}, which has {value}"
                )

    def _wrong(self) -> dict[str, tuple[str, "Column"]]:
        """By column: what it has to tell, and which events it does not tell it of."""
        from pyspark.sql import functions as sql

        found = {}
        time, size, publisher, _ = self.roles
        if time is not None:
            assert self._times is not None
            seconds = self._times.seconds()
            found[time] = "the time, in seconds or in ISO 8601", seconds.isNull() | sql.isnan(seconds)
        if size is not None:
            value = self._bytes(size)
            bad = (value < 0) | (value != sql.floor(value))
            found[size] = "the bytes, a whole number from 0 up", sql.coalesce(bad, sql.lit(True))
        if publisher is not None:
            if self.kinds[publisher] == "array<string>":
                raise UsageError(f"column '{publisher}' of {self.path} is of lists; name another one with --publisher")
            found[publisher] = "who published", _column(publisher).isNull()
        return found

    def _leaf_type(self, name: str) -> str:
        return (
            "string" if is_read_as_text(self.files, name, self._leaves[name], self.reading) else self._leaves[name].type
        )

    def _value(self, name: str) -> "Column":
        return converted(_column(name), self._leaf_type(name), self.kinds[name], name in self.reading.types)

    def _bytes(self, name: str) -> "Column":
        kind = self.kinds[name]
        if kind not in NUMBERS:
            raise UsageError(f"column '{name}' of {self.path} is of {kind}, not of sizes; name another with --bytes")
        return self._value(name)

    def _with_publishers(self, publishers: pa.Table | ByChance) -> "DataFrame":
        from pyspark.sql import functions as sql

        rows = self.rows.withColumn("$id", self._number)
        if isinstance(publishers, ByChance):
            chosen = sql.pmod(sql.xxhash64(sql.lit(publishers.seed), "`$id`"), sql.lit(publishers.clients))
            return rows.withColumn("$publisher", sql.lit(publishers.first) + chosen)
        assert self.roles.publisher is not None
        known = publishers.select(["name", "id"]).rename_columns(["$name", "$publisher"])
        known_rows = self.rows.sparkSession.createDataFrame(known)
        name = self._value(self.roles.publisher).cast("string")
        return rows.withColumn("$name", name).join(sql.broadcast(known_rows), "$name", "left")

    def _columns(self) -> list["Column"]:
        from pyspark.sql import functions as sql

        time = self._times.seconds() if self._times is not None else _column("$id")
        size = self._bytes(self.roles.bytes) if self.roles.bytes is not None else sql.lit(1)
        ours = {"$id": _column("$id"), "$time": time, "$publisher": _column("$publisher"), "$bytes": size}
        kinds = {"$id": "bigint", "$time": "double", "$publisher": "bigint", "$bytes": "bigint"}
        attributes = [self._value(name).alias(name) for name in self.attributes]
        return [*(column.cast(kinds[name]).alias(name) for name, column in ours.items()), *attributes]

    def _schema(self) -> pa.Schema:
        return pa.schema([*EVENTS.schema, *(pa.field(name, KINDS[self.kinds[name]]) for name in self.attributes)])


def _in_order(kinds: dict[str, str], roles: Roles, reading: Reading) -> list[str]:
    """The attributes, as the log has them or as they were chosen."""
    inner = [name for name in kinds if name not in (roles.time, roles.bytes)]
    if reading.columns is None:
        return inner
    found: dict[str, None] = {}
    for wanted in reading.columns:
        found |= dict.fromkeys(name for name in inner if name == wanted or name.startswith(f"{wanted}."))
    return list(found)
