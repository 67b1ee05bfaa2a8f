"""What the columns of a log are: the rule by which types are inferred, and how values are converted to them.

The rule, for texts (all values of CSV, and in JSON lines the columns in which texts stand beside other values):

1. If all values are whole numbers of 64 bits, the column is of int64; if all are numbers, of double; if all are true or
   false, of bool; else of strings.
2. If at least nine values in ten are numbers (or true or false), the column is of those all the same, and the others
   are *odd*: they do not convert, and whoever imports has to say what becomes of them.
3. Digits with a zero in front are codes (02139), and one of them makes strings of all. So does a whole number of more
   than 64 bits, unless there are fractions as well.

A number is one of JSON. In JSON lines a value in quotes is a text, whatever it looks like. Parquet has its own types.
"""

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.values import JSON_NUMBER

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

# The types of attributes, as Spark and as Arrow call them
KINDS = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.string()),
}
# What users call them, the first as our tables do
WORDS = {
    "boolean": ("bool", "boolean"),
    "bigint": ("int64", "int", "integer", "long", "bigint"),
    "double": ("double", "float", "number"),
    "string": ("string", "str", "text"),
}
IN_WORDS = {kind: words[0] for kind, words in WORDS.items()} | {"array<string>": "list<string>"}
BY_WORD = {word: kind for kind, words in WORDS.items() for word in words}
NUMBERS = ("bigint", "double")
WIDER = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
MOMENTS = ("date", "timestamp", "timestamp_ntz")
MOST = 0.9  # of the values: then the column is what they are, and the others are odd
WHOLE, LONG, NUMBER, CODE, TRUTH, TEXT = (1 << bit for bit in range(6))  # what a text can be
ANY_NUMBER = WHOLE | LONG | NUMBER
MAY_BE_LONG = 19  # characters; trying it on fewer takes its time
IS_WHOLE, IS_NUMBER = r"\A-?(0|[1-9][0-9]*)\z", rf"\A(?:{JSON_NUMBER.pattern})\z"
IS_CODE = r"\A0[0-9]+\z"
LOOSE_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"  # where a number is asked for
FIRST_OF_NUMBER, LAST_OF_NUMBER = ord("-"), ord("9")
EXACT = float(1 << 53)  # up to here a double that is whole is the whole number


class Leaf(NamedTuple):
    """A column that an attribute may come from: in a struct if its path has several names."""

    path: tuple[str, ...]
    type: str  # as Spark calls it

    def column(self) -> "Column":
        from overstory.pipeline.names import column

        found = column(self.path[0])
        for name in self.path[1:]:
            found = found.getField(name)
        return found


class Counts(NamedTuple):
    """Of the values of a column: how many there are, and how many are what."""

    values: int
    numbers: int
    truths: int


def leaves_of(schema: "StructType", flatten: bool) -> list[tuple[str, Leaf]]:
    """The columns with their names; the fields of structs too, with dots, if they are to be flattened."""
    from pyspark.sql.types import StructType

    found = []
    for field in schema.fields:
        if flatten and isinstance(field.dataType, StructType):
            inner = leaves_of(field.dataType, flatten)
            found += [(f"{field.name}.{name}", Leaf((field.name, *leaf.path), leaf.type)) for name, leaf in inner]
        else:
            found.append((field.name, Leaf((field.name,), field.dataType.simpleString())))
    return found


def retyped(schema: "StructType", types: "dict[tuple[str, ...], DataType]") -> "StructType":
    """The schema with other types at some paths."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema.fields:
        inner = {path[1:]: type_ for path, type_ in types.items() if path[0] == field.name}
        type_ = field.dataType
        if () in inner:
            type_ = inner[()]
        elif inner and isinstance(type_, StructType):
            type_ = retyped(type_, inner)
        fields.append(StructField(field.name, type_))
    return StructType(fields)


def what_is(text: "Column") -> "Column":
    """What a text can be; null if it is absent."""
    from pyspark.sql import functions as sql

    bare = sql.trim(text)
    fits = (sql.length(bare) < MAY_BE_LONG) | bare.try_cast("bigint").isNotNull()
    number = (
        sql.when(bare.rlike(IS_WHOLE), sql.when(fits, WHOLE).otherwise(LONG))
        .when(bare.rlike(IS_NUMBER), NUMBER)
        .when(bare.rlike(IS_CODE), CODE)
        .otherwise(TEXT)
    )
    other = sql.when(sql.lower(bare).isin("true", "false"), TRUTH).otherwise(TEXT)
    may_be_number = sql.ascii(bare).between(FIRST_OF_NUMBER, LAST_OF_NUMBER)
    return sql.when(text.isNull(), None).when(may_be_number, number).otherwise(other)


def what_variant_is(value: "Column") -> "Column":
    """The same of a value of JSON as it was written, with or without quotes."""
    from pyspark.sql import functions as sql

    kind = sql.schema_of_variant(value)
    number = sql.when(kind.rlike(r"\A(FLOAT|DOUBLE|DECIMAL\([0-9]+,[1-9])"), NUMBER).when(
        kind.startswith("DECIMAL"), LONG
    )
    code = (
        sql.when(kind == "BIGINT", WHOLE).when(kind == "BOOLEAN", TRUTH).otherwise(sql.coalesce(number, sql.lit(TEXT)))
    )
    return sql.when(value.isNull() | (kind == "VOID"), None).otherwise(code)


def is_mixed(bits: int) -> bool:
    """Whether the rule has to count, as values of several kinds are there."""
    families = (bits & ANY_NUMBER > 0) + (bits & TRUTH > 0) + (bits & TEXT > 0)
    return families > 1 and not bits & CODE


def kind_of(bits: int, counts: Counts | None = None) -> str:
    """The rule: see above. ``counts`` are needed where values of several kinds are there."""
    if bits & CODE:
        return "string"
    if bits & ANY_NUMBER == bits or (counts is not None and counts.numbers >= MOST * counts.values):
        return "double" if bits & NUMBER else "string" if bits & LONG else "bigint"
    if bits == TRUTH or (counts is not None and counts.truths >= MOST * counts.values):
        return "boolean"
    return "string"


def kind_of_type(type_: str) -> str:
    """What a column with a type of its own is; not one of ``KINDS`` if no attribute can be that."""
    narrow = "string" if type_ in MOMENTS else "double" if type_.startswith("decimal") else type_
    return WIDER.get(narrow, narrow)


def converted(value: "Column", source: str, kind: str, loose: bool) -> "Column":
    """A value of one type as one of another, null where it does not convert. ``loose`` takes what only somebody who was
    told the type can read as it: ``+5``, ``007``, and 1 for true."""
    from pyspark.sql import functions as sql

    if kind == kind_of_type(source):
        return value.cast(kind)
    if source.startswith("array") or kind.startswith("array") or (source in MOMENTS and kind != "string"):
        raise UsageError(f"a column of {source} cannot be read as {IN_WORDS[kind]}; leave out --type for it")
    if kind == "string":
        return value.cast("string")
    text = sql.trim(value.cast("string"))
    if kind == "boolean":
        yes, no = (("true", "1"), ("false", "0")) if loose else (("true",), ("false",))
        return sql.when(sql.lower(text).isin(*yes), True).when(sql.lower(text).isin(*no), False)
    if source == "boolean":
        return value.cast(kind)
    number = sql.when(text.rlike(LOOSE_NUMBER if loose else IS_NUMBER), text.try_cast("double"))
    if kind == "double":
        return number
    rounded = sql.when((number == sql.floor(number)) & (sql.abs(number) <= EXACT), number.cast("bigint"))
    return sql.coalesce(sql.when(text.rlike(r"\A[+-]?[0-9]+\z"), text.try_cast("bigint")), rounded)


def types_in(pairs: list[str]) -> dict[str, str]:
    """What ``--type temp=double`` says, by column."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, word = pair.rpartition("=")
        if not sign or not name:
            raise UsageError(f"--type {pair}: write it as COLUMN=TYPE, for example temp=double")
        if word not in BY_WORD:
            raise UsageError(f"--type {pair}: there is no type '{word}'; use {', '.join(w[0] for w in WORDS.values())}")
        if found.setdefault(name, BY_WORD[word]) != BY_WORD[word]:
            raise UsageError(f"--type is given twice for '{name}', and says different things")
    return found
