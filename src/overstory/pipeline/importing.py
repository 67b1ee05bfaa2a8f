"""Import: a log in CSV, JSON lines or Parquet becomes the events of a scenario.

Three rules. Events are numbered from 0 in the order of their file, however Spark cuts it into partitions. A column has
one type, of all its values, and an absent value is null. And the file of events is the same, byte for byte, whatever
cores there are: Spark writes a part for each partition, and the parts are strung together, row group by row group.

The log is parsed once, and kept by Spark. CSV has no types of its own, so a column is what all its texts can be, by the
rule for MQTT's user properties: a JSON number or boolean, else a string.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import DataError, EngineError, UsageError
from overstory.model.tables import EVENTS
from overstory.model.values import JSON_NUMBER
from overstory.pipeline.log_files import CSV, blaming, format_of, read_log
from overstory.pipeline.pipeline import Pipeline, as_ours

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROW_GROUP = 1 << 17  # events in memory at once
MOST_PUBLISHERS = 1_000_000  # clients are held in memory
ROW, ROWS_BITS = "$row", 33  # Spark numbers rows by partition, and in it by the lower bits
# The types of attributes, as Spark and as Arrow call them
KINDS = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.string()),
}
WIDER = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
MOMENTS = ("date", "timestamp", "timestamp_ntz")
ISO = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?\z"  # Spark reads more, such as a time of the present day
WHOLE, LONG, NUMBER, TRUTH, TEXT = (1 << bit for bit in range(5))  # what a text can be; long: more than 64 bits
MAY_BE_LONG = 19  # characters; trying it on fewer takes its time
IS_WHOLE, IS_NUMBER = r"\A-?(0|[1-9][0-9]*)\z", rf"\A(?:{JSON_NUMBER.pattern})\z"
IS_TRUTH = r"\A(?i:true|false)\z"


class Roles(NamedTuple):
    """Which columns tell what is ours to know of an event. Time and bytes then are no attributes; the publisher is,
    since filters ask for its name."""

    time: str | None = None
    bytes: str | None = None
    publisher: str | None = None


class ByChance(NamedTuple):
    """Each event is published by one of so many clients, numbered from ``first``."""

    first: int
    clients: int
    seed: int


@contextmanager
def opened_log(
    pipeline: Pipeline, path: Path, roles: Roles, beside: Path, columns: tuple[str, ...] | None = None
) -> Iterator["Log"]:
    """``columns`` are the attributes to keep, if not all; ``beside`` is a folder for what is needed meanwhile."""
    _ = pipeline.spark  # which tells that it starts, and must not be the last to tell
    pipeline.tell("reading the log")
    raw = read_log(pipeline, path, beside)
    _check_names(path, raw.columns, roles, columns)
    wanted = [name for name in raw.columns if columns is None or name in columns or name in roles]
    rows = _numbered(raw.select(*map(_column, wanted))).persist()
    try:
        with blaming(path):
            counts, seen = _surveyed(rows, wanted if format_of(path) == CSV else [])
            if not counts:
                raise DataError(f"{path} has no events in it; give a log with at least one")
            kinds = {name: _kind_of_texts(bits) for name, bits in seen.items() if bits}
            log = Log(path, rows, kinds or _kinds_of_types(rows, path), counts, roles, columns)
            log.check()
        yield log
    finally:
        rows.unpersist()


class Log:
    """The rows of a log, checked, numbered and kept by Spark."""

    def __init__(
        self,
        path: Path,
        rows: "DataFrame",
        kinds: dict[str, str],
        counts: list[int],
        roles: Roles,
        columns: tuple[str, ...] | None,
    ) -> None:
        self.path, self.rows, self.roles, self.events = path, rows, roles, sum(counts)
        self.kinds = kinds  # of the columns that have values
        self.starts = list(accumulate(counts[:-1], initial=0))  # of each partition
        kept = kinds if columns is None else columns
        self.attributes = [name for name in kept if name in kinds and name not in (roles.time, roles.bytes)]

    def publishers(self, brokers: int, seed: int) -> pa.Table:
        """The different values of the publishers' column in their order: each as a ``name``, and the position of the
        ``broker`` that a hash of it chooses."""
        from pyspark.sql import functions as sql

        assert self.roles.publisher is not None
        value, name = self._value(self.roles.publisher), self._value(self.roles.publisher).cast("string")
        some = self.rows.select(value.alias("value"), name.alias("name")).distinct().limit(MOST_PUBLISHERS + 1)
        broker = sql.pmod(sql.xxhash64(sql.lit(seed), "name"), sql.lit(brokers))
        with as_ours(f"looking for the publishers in {self.path}"):
            found = some.withColumn("broker", broker.cast("bigint")).toArrow().sort_by("value")
        if len(found) > MOST_PUBLISHERS:
            raise UsageError(
                f"column '{self.roles.publisher}' of {self.path} has more than {MOST_PUBLISHERS:,} different values; "
                "name another one with --publisher, or none"
            )
        return found.select(["name", "broker"])

    def write(self, path: Path, publishers: pa.Table | ByChance) -> None:
        """One Parquet file. ``publishers`` are the ``name`` and the ``id`` of each, or clients to choose from."""
        parts = path.with_name("parts")
        with as_ours(f"writing the events of {self.path}"):
            rows = self._with_publishers(publishers)
            rows.select(*self._columns()).write.parquet(str(parts.absolute()))
        _join(sorted(parts.glob("part-*.parquet")), self._schema(), path)

    def check(self) -> None:
        """That every event has the time, the bytes and the publisher that columns are to tell."""
        from pyspark.sql import functions as sql

        wrong = self._wrong()
        sums = []
        for at, (name, (_, bad)) in enumerate(wrong.items()):
            place = sql.when(bad, self._id())
            sums += [sql.count(place).alias(f"many{at}"), sql.min(place).alias(f"first{at}")]
            sums.append(sql.min_by(_column(name).cast("string"), place).alias(f"value{at}"))
        found = self.rows.agg(*sums).first() if sums else None
        for at, (name, (what, _)) in enumerate(wrong.items()):
            if found is not None and found[f"many{at}"]:
                value = "nothing" if found[f"value{at}"] is None else repr(found[f"value{at}"][:60])
                raise DataError(
                    f"column '{name}' of {self.path} has to tell {what}, and does not in {found[f'many{at}']:,} of "
                    f"{self.events:,} events; the first is number {found[f'first{at}'] + 1}, which has {value}"
                )

    def _wrong(self) -> dict[str, tuple[str, "Column"]]:
        """By column: what it has to tell, and which events it does not tell it of."""
        from pyspark.sql import functions as sql

        for name in self.roles:
            if name is not None and name not in self.kinds:
                raise UsageError(f"column '{name}' of {self.path} has no values; name another one, or none")
        found = {}
        time, size, publisher = self.roles
        if time is not None:
            seconds = self._seconds(time)
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

    def _value(self, name: str) -> "Column":
        return _column(name).cast(self.kinds[name])

    def _id(self) -> "Column":
        """The rows of the partitions before, and those before in its own."""
        from pyspark.sql import functions as sql

        partition = sql.shiftright(_column(ROW), ROWS_BITS).cast("int")
        before = sql.element_at(sql.array(*[sql.lit(start).cast("bigint") for start in self.starts]), partition + 1)
        return before + _column(ROW).bitwiseAND(sql.lit((1 << ROWS_BITS) - 1))

    def _seconds(self, name: str) -> "Column":
        from pyspark.sql import functions as sql

        kind, column = self.kinds[name], _column(name)
        if kind in ("bigint", "double"):
            return column.cast("double")
        if kind != "string":
            raise UsageError(f"column '{name}' of {self.path} is of {kind}, not of times; name another one with --time")
        if self.rows.schema[name].dataType.simpleString() in MOMENTS:
            moment = column.cast("timestamp")
        else:
            moment = sql.when(column.rlike(ISO), column.try_cast("timestamp"))
        return sql.unix_micros(moment) / 1e6

    def _bytes(self, name: str) -> "Column":
        kind = self.kinds[name]
        if kind not in ("bigint", "double"):
            raise UsageError(f"column '{name}' of {self.path} is of {kind}, not of sizes; name another with --bytes")
        return self._value(name)

    def _with_publishers(self, publishers: pa.Table | ByChance) -> "DataFrame":
        from pyspark.sql import functions as sql

        rows = self.rows.withColumn("$id", self._id())
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

        time = self._seconds(self.roles.time) if self.roles.time is not None else _column("$id")
        size = self._bytes(self.roles.bytes) if self.roles.bytes is not None else sql.lit(1)
        ours = {"$id": _column("$id"), "$time": time, "$publisher": _column("$publisher"), "$bytes": size}
        kinds = {"$id": "bigint", "$time": "double", "$publisher": "bigint", "$bytes": "bigint"}
        attributes = [self._value(name).alias(name) for name in self.attributes]
        return [*(column.cast(kinds[name]).alias(name) for name, column in ours.items()), *attributes]

    def _schema(self) -> pa.Schema:
        return pa.schema([*EVENTS.schema, *(pa.field(name, KINDS[self.kinds[name]]) for name in self.attributes)])


def _check_names(path: Path, names: list[str], roles: Roles, columns: tuple[str, ...] | None) -> None:
    if not names:
        raise DataError(f"{path} has no columns with values; give a log whose events have attributes")
    for name in names:
        if name.startswith("$"):
            raise UsageError(f"column '{name}' of {path} begins with $, as only our own do; rename it")
    by_case: dict[str, str] = {}
    for name in names:
        other = by_case.setdefault(name.lower(), name)
        if other != name:
            raise UsageError(f"columns '{other}' and '{name}' of {path} differ in nothing but case; rename one")
    for wanted in (*roles, *(columns or ())):
        if wanted is not None and wanted not in names:
            raise UsageError(f"{path} has no column '{wanted}' with values; it has {', '.join(names[:20])}")


def _numbered(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    return rows.withColumn(ROW, sql.monotonically_increasing_id())


def _surveyed(rows: "DataFrame", texts: list[str]) -> tuple[list[int], dict[str, int]]:
    """The rows of each partition, and of each column of texts all that its values are."""
    from pyspark.sql import functions as sql

    partition = sql.shiftright(_column(ROW), ROWS_BITS)
    seen = [sql.bit_or(_what_is(_column(name))).alias(str(at)) for at, name in enumerate(texts)]
    found = rows.groupBy(partition.alias("partition")).agg(sql.count("*").alias("rows"), *seen).collect()
    counts = {row["partition"]: row["rows"] for row in found}
    bits = {name: reduce(or_, (row[str(at)] or 0 for row in found), 0) for at, name in enumerate(texts)}
    return [counts.get(at, 0) for at in range(max(counts, default=-1) + 1)], bits


def _what_is(text: "Column") -> "Column":
    """Null if it is absent."""
    from pyspark.sql import functions as sql

    fits = (sql.length(text) < MAY_BE_LONG) | text.try_cast("bigint").isNotNull()
    whole = sql.when(fits, WHOLE).otherwise(LONG)
    other = sql.when(text.rlike(IS_NUMBER), NUMBER).when(text.rlike(IS_TRUTH), TRUTH).otherwise(TEXT)
    return sql.when(text.isNull(), None).when(text.rlike(IS_WHOLE), whole).otherwise(other)


def _kind_of_texts(seen: int) -> str:
    if seen in (WHOLE, TRUTH):
        return "bigint" if seen == WHOLE else "boolean"
    return "double" if seen & NUMBER and not seen & (TRUTH | TEXT) else "string"


def _kinds_of_types(rows: "DataFrame", path: Path) -> dict[str, str]:
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields if field.name != ROW}
    found = {}
    for name, kind in types.items():
        narrow = "string" if kind in MOMENTS else "double" if kind.startswith("decimal") else kind
        found[name] = WIDER.get(narrow, narrow)
        if found[name] not in KINDS:
            raise DataError(
                f"column '{name}' of {path} is of {kind[:60]}{'…' * (len(kind) > 60)}, which no attribute can be; "
                "make scalars or a list of strings of it, or choose the columns to keep"
            )
    return found


def _join(parts: list[Path], schema: pa.Schema, path: Path) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        done = 0
        for table in _regrouped(_batches(parts, schema)):
            if table["$id"][0].as_py() != done:
                raise EngineError(f"Spark wrote the events of {path.parent} in another order; this is a fault of ours")
            writer.write_table(table, ROW_GROUP)
            done += len(table)


def _batches(parts: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    for part in parts:
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches():
                yield pa.Table.from_batches([batch]).cast(schema)


def _regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of the same size, so that where the parts were cut does not show."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        while rows >= ROW_GROUP:
            every = pa.concat_tables(waiting)
            yield every.slice(0, ROW_GROUP).combine_chunks()
            waiting, rows = [every.slice(ROW_GROUP)], rows - ROW_GROUP
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()


def _column(name: str) -> "Column":
    from pyspark.sql import functions as sql

    return sql.col("`" + name.replace("`", "``") + "`")
