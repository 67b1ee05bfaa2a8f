"""Import: a log in CSV, JSON lines or Parquet becomes the events of a scenario.

Three rules. Events are numbered from 0 in the order of their file, however Spark cuts it into partitions. A column has
one type, of all its values, and an absent value is null. And the file of events is the same, byte for byte, whatever
cores there are: Spark writes a part for each partition, and the parts are strung together, row group by row group.

The log is parsed once, and kept by Spark. ``log_types`` has the rule for the types of columns, and what was seen in the
log is told: no value becomes something else, or nothing, without a word.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import DataError, EngineError, Problem, UsageError
from overstory.model.naming import near_words
from overstory.model.tables import EVENTS
from overstory.pipeline.attributes import Described, OddValue, described
from overstory.pipeline.log_files import (
    CSV,
    JSON,
    PARQUET,
    LogFiles,
    Reader,
    blaming,
    check_events,
    columns_seen,
    files_of,
    first_objects,
    some_of,
)
from overstory.pipeline.log_types import (
    ANY_NUMBER,
    IN_WORDS,
    KINDS,
    MOMENTS,
    NUMBERS,
    TEXT,
    TRUTH,
    Counts,
    Leaf,
    converted,
    is_mixed,
    kind_of,
    kind_of_type,
    leaves_of,
    retyped,
    what_is,
    what_variant_is,
)
from overstory.pipeline.names import column as _column
from overstory.pipeline.pipeline import Pipeline, as_ours

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

ROW_GROUP = 1 << 17  # events in memory at once
MOST_PUBLISHERS = 1_000_000  # clients are held in memory
ROW, ROWS_BITS = "$row", 33  # Spark numbers rows by partition, and in it by the lower bits
ISO = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?\z"  # Spark reads more, such as a time of the present day
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
IN_FULL = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# The unit of times by their median: a clock that counts since 1970 in milliseconds passed 10^11 in 1973
UNIT_FROM = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
REFUSE, NULL = BAD_VALUES = "refuse", "null"
MOST_ODD_NAMED = 3  # different odd values of a column


class Roles(NamedTuple):
    """Which columns tell what is ours to know of an event. Time and bytes then are no attributes; the publisher and its
    broker are, since filters ask for their names."""

    time: str | None = None
    bytes: str | None = None
    publisher: str | None = None
    broker: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """How a log is to be read."""

    columns: tuple[str, ...] | None = None  # the attributes to keep, if not all
    types: dict[str, str] = {}  # of columns, as Spark calls them; the others are inferred
    bad_values: str = REFUSE  # or they become absent
    time_unit: str | None = None  # of numbers in the column of times; else it is inferred
    flatten: bool = False  # whether objects become columns with dots


class ByChance(NamedTuple):
    """Each event is published by one of so many clients, numbered from ``first``."""

    first: int
    clients: int
    seed: int


class LogSeen(msgspec.Struct, frozen=True):
    """What a log had in it."""

    attributes: tuple[Described, ...]
    notes: tuple[str, ...]  # in words: what was inferred, left out or made absent


def look_ahead(path: Path, roles: Roles, reading: Reading) -> LogFiles:
    """Raises what can be seen without Spark: files that are not there, columns that are not, values that no attribute
    can have in the first lines."""
    files = files_of(path)
    names = columns_seen(files)
    if names is not None and not reading.flatten:
        _check_names(files.path, names, roles, reading)
    check_events(files)
    if files.kind == JSON:
        for line, event in first_objects(files):
            _check_object(f"{files.files[0]} line {line}", event, "", reading, roles)
    return files


def _check_object(where: str, event: dict[str, Any], before: str, reading: Reading, roles: Roles) -> None:
    for key, value in event.items():
        name = before + key
        if before == "" and not _is_kept(name, reading, roles):
            continue
        if isinstance(value, dict):
            if not reading.flatten:
                inner = next(iter(value), "field")
                raise UsageError(
                    f"{where}: '{name}' is an object, and an attribute is not; give --flatten to have columns such as "
                    f"{name}.{inner}, or --columns to leave it out"
                )
            _check_object(where, value, f"{name}.", reading, roles)
        elif isinstance(value, list) and not all(isinstance(item, str | None) for item in value):
            raise UsageError(
                f"{where}: '{name}' is a list, and not one of strings, which alone an attribute can be; "
                "make strings of its values, or leave it out with --columns"
            )


@contextmanager
def opened_log(pipeline: Pipeline, files: LogFiles, roles: Roles, beside: Path, reading: Reading) -> Iterator["Log"]:
    """``beside`` is a folder for what is needed meanwhile."""
    _ = pipeline.spark  # which tells that it starts, and must not be the last to tell
    pipeline.tell("reading the log")
    reader = Reader(pipeline, files, beside)
    schema = reader.schema()
    leaves = _chosen(files, leaves_of(schema, reading.flatten), roles, reading)
    rows = _rows(reader, schema, leaves, reading).persist()
    try:
        with blaming(files):
            counts, kinds, notes = _inferred(reader, rows, schema, leaves, reading)
            if not counts:
                raise DataError(f"{files.path} has no events in it; give a log with at least one")
            log = Log(files, rows, leaves, kinds, counts, roles, reading, notes)
            log.check()
        yield log
    finally:
        rows.unpersist()


def _chosen(files: LogFiles, leaves: list[tuple[str, Leaf]], roles: Roles, reading: Reading) -> dict[str, Leaf]:
    _check_names(files.path, [name for name, _ in leaves], roles, reading)
    return {name: leaf for name, leaf in leaves if _is_kept(name, reading, roles)}


def _is_kept(name: str, reading: Reading, roles: Roles) -> bool:
    if reading.columns is None or name in roles:
        return True
    kept = [*reading.columns, *(role for role in roles if role is not None)]
    # The fields of an object are kept with it, and an object with a field of it
    return any(name == wanted or f"{name}.".startswith(f"{wanted}.") for wanted in kept) or (
        reading.flatten and any(wanted.startswith(f"{name}.") for wanted in kept)
    )


def _rows(reader: Reader, schema: "StructType", leaves: dict[str, Leaf], reading: Reading) -> "DataFrame":
    """The columns of a log by their names, numbered. What is to be text is read as the text that the file has."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructType

    needed = {leaf.path[0] for leaf in leaves.values()}
    narrow = StructType([field for field in schema.fields if field.name in needed])
    as_text: dict[tuple[str, ...], Any] = {
        leaf.path: StringType() for name, leaf in leaves.items() if _as_text(reader.files, name, leaf, reading)
    }
    read = reader.rows(retyped(narrow, as_text) if as_text else narrow)
    columns = [leaf.column().alias(name) for name, leaf in leaves.items()]
    return read.select(*columns).withColumn(ROW, sql.monotonically_increasing_id())


def _as_text(files: LogFiles, name: str, leaf: Leaf, reading: Reading) -> bool:
    return files.kind == JSON and reading.types.get(name) == "string" and leaf.type in KINDS


def _inferred(
    reader: Reader, rows: "DataFrame", schema: "StructType", leaves: dict[str, Leaf], reading: Reading
) -> tuple[list[int], dict[str, str], list[str]]:
    """The rows of each partition, the type of each column that has values, and what there is to say of it."""
    files = reader.files
    texts = [name for name, leaf in leaves.items() if leaf.type == "string" and files.kind != PARQUET]
    counts, bits = _surveyed(rows, texts)
    doubtful = [name for name in texts if name not in reading.types and _is_doubtful(files, bits[name])]
    counted = _counted(reader, rows, schema, {name: leaves[name] for name in doubtful})
    kinds, notes = {}, []
    for name, leaf in leaves.items():
        found = kind_of_type(leaf.type)
        if name in doubtful:
            seen, how_many = counted[name]
            found = kind_of(seen, how_many)
            notes += _notes(name, found, bits[name], how_many)
        elif name in bits:
            if not bits[name]:
                if name in reading.types:
                    notes.append(f"'{name}' has no values, and --type does not change that")
                continue
            found = kind_of(bits[name]) if files.kind == CSV else "string"
        _check_kind(files.path, name, found, leaf.type)
        kinds[name] = reading.types.get(name, found)
    return counts, kinds, notes


def _is_doubtful(files: LogFiles, bits: int) -> bool:
    """Texts of CSV are what they look like; those of JSON may be texts that look like numbers, or mixed with some."""
    return is_mixed(bits) if files.kind == CSV else bool(bits & (ANY_NUMBER | TRUTH))


def _counted(
    reader: Reader, rows: "DataFrame", schema: "StructType", leaves: dict[str, Leaf]
) -> dict[str, tuple[int, Counts]]:
    """Of columns: what their values are, and how many of them are what."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType, VariantType

    if not leaves:
        return {}
    if reader.files.kind == JSON:
        needed = {leaf.path[0] for leaf in leaves.values()}
        narrow = StructType([field for field in schema.fields if field.name in needed])
        read = reader.rows(retyped(narrow, {leaf.path: VariantType() for leaf in leaves.values()}))
        codes = read.select(*[what_variant_is(leaf.column()).alias(str(at)) for at, leaf in enumerate(leaves.values())])
    else:
        codes = rows.select(*[what_is(_column(name)).alias(str(at)) for at, name in enumerate(leaves)])
    sums = []
    for at in range(len(leaves)):
        code = sql.col(str(at))
        sums += [sql.bit_or(code).alias(f"bits{at}"), sql.count(code).alias(f"values{at}")]
        sums.append(sql.count_if(code.bitwiseAND(sql.lit(ANY_NUMBER)) > 0).alias(f"numbers{at}"))
        sums.append(sql.count_if(code == TRUTH).alias(f"truths{at}"))
    found = codes.agg(*sums).first()
    assert found is not None
    return {
        name: (found[f"bits{at}"] or TEXT, Counts(found[f"values{at}"], found[f"numbers{at}"], found[f"truths{at}"]))
        for at, name in enumerate(leaves)
    }


def _notes(name: str, kind: str, looks: int, counts: Counts) -> list[str]:
    """What a reader should know of a column of texts that are, or look like, something else."""
    if kind != "string":
        return []
    if not counts.numbers and not counts.truths:
        if is_mixed(looks) or not looks & ANY_NUMBER:
            return []
        return [f"'{name}' has texts that look like numbers; --type {name}=double reads them as numbers"]
    what, many = ("numbers", counts.numbers) if counts.numbers >= counts.truths else ("true or false", counts.truths)
    share = f"{many:,} of its {counts.values:,} values are {what}"
    return [f"'{name}' is of strings although {share}; --type {name}=… reads it as something else"]


def _check_kind(path: Path, name: str, kind: str, type_: str) -> None:
    if kind in KINDS:
        return
    cure = "give --flatten to have a column for each field" if type_.startswith("struct") else "make strings of them"
    raise DataError(
        f"column '{name}' of {path} is of {type_[:60]}{'…' * (len(type_) > 60)}, which no attribute can be; "
        f"{cure}, or choose the columns to keep with --columns"
    )


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
        self.starts = list(accumulate(counts[:-1], initial=0))  # of each partition
        self.attributes = _in_order(kinds, roles, reading)
        self.notes = [*files.notes, *notes]
        # The column that tells where publishers are: also one that is called so, unless it says something else
        by_itself = "broker" if roles.publisher and kinds.get("broker") in ("string", "bigint") else None
        self.told_by = roles.broker or by_itself
        self._leaves = leaves
        self._unit = "s"
        self._odd: dict[str, tuple[int, tuple[OddValue, ...]]] = {}

    def check(self) -> None:
        """That values convert, and that every event has the time, the bytes and the publisher that columns are to
        tell."""
        for name in self.roles:
            if name is not None and name not in self.kinds:
                raise UsageError(f"column '{name}' of {self.path} has no values; name another one, or none")
        self._unit = self._unit_of_times()
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
        return LogSeen(tuple(attributes), tuple(self.notes + self._notes_on_time()))

    def publishers(self, brokers: int, seed: int) -> pa.Table:
        """The different values of the publishers' column in their order: each as a ``name``, and the position of the
        ``broker`` that a hash of it chooses. If a column tells their brokers, also the ``least`` and the ``most`` of
        what it says."""
        from pyspark.sql import functions as sql

        assert self.roles.publisher is not None
        value = self._value(self.roles.publisher)
        told = (self._value(self.told_by) if self.told_by else sql.lit(None)).cast("string")
        rows = self.rows.select(value.alias("value"), value.cast("string").alias("name"), told.alias("told"))
        some = rows.groupBy("value", "name").agg(sql.min("told").alias("least"), sql.max("told").alias("most"))
        broker = sql.pmod(sql.xxhash64(sql.lit(seed), "name"), sql.lit(brokers))
        with as_ours(f"looking for the publishers in {self.path}"):
            limited = some.limit(MOST_PUBLISHERS + 1).withColumn("broker", broker.cast("bigint"))
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
        _join(sorted(parts.glob("part-*.parquet")), self._schema(), path)

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
            _column(name).cast("string").alias("value"), self._id().alias("id")
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
            which = sql.when(bad, self._id())
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

    def _unit_of_times(self) -> str:
        """As it is given, or by the median of the numbers."""
        from pyspark.sql import functions as sql

        name, given = self.roles.time, self.reading.time_unit
        if name is None or self.kinds[name] not in NUMBERS:
            if given is not None:
                what = "there is no --time" if name is None else f"column '{name}' of {self.path} has no numbers"
                raise UsageError(f"--time-unit {given} is for times that are numbers, and {what}; leave it out")
            return "s"
        if given is not None:
            return given
        median = self.rows.agg(sql.percentile_approx(self._value(name).cast("double"), 0.5)).first()
        size = abs(median[0]) if median is not None and median[0] is not None else 0.0
        return next((unit for least, unit in UNIT_FROM if size >= least), "s")

    def _notes_on_time(self) -> list[str]:
        from pyspark.sql import functions as sql

        name = self.roles.time
        if name is None:
            return ["no column tells the time (--time): events have their numbers for seconds"]
        seconds = self._seconds(name)
        found = self.rows.agg(sql.min(seconds).alias("first"), sql.max(seconds).alias("last")).first()
        assert found is not None
        first, last = found["first"], found["last"]
        if self.kinds[name] not in NUMBERS:
            how = "in ISO 8601"
        elif self.reading.time_unit is not None:
            how = f"in {IN_FULL[self._unit]}, as --time-unit says"
        else:
            how = f"in {IN_FULL[self._unit]} by the size of the numbers (--time-unit says otherwise)"
        return [f"'{name}' is the time, {how}: {_moment(first)} to {_moment(last)}, {last - first:,.0f} s"]

    def _leaf_type(self, name: str) -> str:
        return "string" if _as_text(self.files, name, self._leaves[name], self.reading) else self._leaves[name].type

    def _value(self, name: str) -> "Column":
        return converted(_column(name), self._leaf_type(name), self.kinds[name], name in self.reading.types)

    def _id(self) -> "Column":
        """The rows of the partitions before, and those before in its own."""
        from pyspark.sql import functions as sql

        partition = sql.shiftright(_column(ROW), ROWS_BITS).cast("int")
        before = sql.element_at(sql.array(*[sql.lit(start).cast("bigint") for start in self.starts]), partition + 1)
        return before + _column(ROW).bitwiseAND(sql.lit((1 << ROWS_BITS) - 1))

    def _seconds(self, name: str) -> "Column":
        from pyspark.sql import functions as sql

        kind, column = self.kinds[name], _column(name)
        if kind in NUMBERS:
            return self._value(name).cast("double") / UNITS[self._unit]
        if kind != "string":
            raise UsageError(f"column '{name}' of {self.path} is of {kind}, not of times; name another one with --time")
        if self.rows.schema[name].dataType.simpleString() in MOMENTS:
            moment = column.cast("timestamp")
        else:
            moment = sql.when(column.rlike(ISO), column.try_cast("timestamp"))
        return sql.unix_micros(moment) / 1e6

    def _bytes(self, name: str) -> "Column":
        kind = self.kinds[name]
        if kind not in NUMBERS:
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


def _moment(seconds: float) -> str:
    """A time since 1970 as a date, if it is one that a clock may have shown."""
    if 1e8 <= seconds < 1e11:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{seconds:g}"


def _in_order(kinds: dict[str, str], roles: Roles, reading: Reading) -> list[str]:
    """The attributes, as the log has them or as they were chosen."""
    inner = [name for name in kinds if name not in (roles.time, roles.bytes)]
    if reading.columns is None:
        return inner
    found: dict[str, None] = {}
    for wanted in reading.columns:
        found |= dict.fromkeys(name for name in inner if name == wanted or name.startswith(f"{wanted}."))
    return list(found)


def _check_names(path: Path, names: list[str], roles: Roles, reading: Reading) -> None:
    if not names:
        raise DataError(f"{path} has no columns with values; give a log whose events have attributes")
    for name in names:
        if name.startswith("$"):
            raise UsageError(f"column '{name}' of {path} begins with $, as only our own do; rename it")
    by_case: dict[str, str] = {}
    for name in names:
        if by_case.get(name.lower()) == name:
            raise UsageError(f"{path} has two columns '{name}', one of them a field of an object; rename one")
        other = by_case.setdefault(name.lower(), name)
        if other != name:
            raise UsageError(f"columns '{other}' and '{name}' of {path} differ in nothing but case; rename one")
    for wanted in (*roles, *(reading.columns or ()), *reading.types):
        inner = wanted is not None and any(name.startswith(f"{wanted}.") for name in names)
        if wanted is not None and wanted not in names and not (inner and wanted in (reading.columns or ())):
            near = near_words(wanted, names)
            raise UsageError(f"{path} has no column '{wanted}' with values{near or f'; it has {some_of(names)}'}")


def _surveyed(rows: "DataFrame", texts: list[str]) -> tuple[list[int], dict[str, int]]:
    """The rows of each partition, and of each column of texts all that its values are."""
    from pyspark.sql import functions as sql

    partition = sql.shiftright(_column(ROW), ROWS_BITS)
    seen = [sql.bit_or(what_is(_column(name))).alias(str(at)) for at, name in enumerate(texts)]
    found = rows.groupBy(partition.alias("partition")).agg(sql.count("*").alias("rows"), *seen).collect()
    counts = {row["partition"]: row["rows"] for row in found}
    bits = {name: reduce(or_, (row[str(at)] or 0 for row in found), 0) for at, name in enumerate(texts)}
    return [counts.get(at, 0) for at in range(max(counts, default=-1) + 1)], bits


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
