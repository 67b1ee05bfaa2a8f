"""The tables of scenarios and plans: every column once, for reading, writing, checking and the documentation.

Brokers and clients share one space of ids. Columns whose names begin with ``$`` are ours; in ``events`` every other
column is an attribute.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    name: str
    type: pa.DataType
    meaning: str
    may_be_null: bool = False
    may_be_missing: bool = False  # then a table that is read has it all the same, full of nulls


class Table(NamedTuple):
    name: str
    meaning: str
    columns: tuple[Column, ...]
    optional: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table must have."""
        return _schema(column for column in self.columns if not column.may_be_missing)

    @property
    def full_schema(self) -> pa.Schema:
        """All columns, as a table has them that was read."""
        return _schema(self.columns)

    def stored(self, rows: pa.Table) -> pa.Table:
        """The rows as they are written: columns that may be missing are, if there is nothing in them."""
        kept = [
            column
            for column in self.columns
            if not column.may_be_missing
            or (column.name in rows.column_names and rows[column.name].null_count < rows.num_rows)
        ]
        return rows.select([column.name for column in kept]).cast(_schema(kept))

    def completed(self, rows: pa.Table) -> pa.Table:
        """With all columns, as if the rows had been read: those that may be missing are full of nulls if they are."""
        columns = {
            column.name: pa.nulls(rows.num_rows, column.type)
            if column.may_be_missing and column.name not in rows.column_names
            else rows[column.name]
            for column in self.columns
        }
        return pa.table(columns).cast(self.full_schema)

    @property
    def key(self) -> str:
        return self.columns[0].name


def _schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type, column.may_be_null) for column in columns])


ID, REAL, TEXT, TRUTH, REALS = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.list_(pa.float64())

BROKERS = Table(
    "brokers",
    "the brokers of the overlay",
    (
        Column("id", ID, "different from all other brokers and clients"),
        Column("name", TEXT, "for people", may_be_null=True),
        Column("x", REAL, "coordinate, for the metric and for drawing", may_be_null=True),
        Column("y", REAL, "the other coordinate", may_be_null=True),
        Column(
            "capacity",
            REAL,
            "bytes that its clients may send and get in the window of the log; null: any number",
            may_be_null=True,
            may_be_missing=True,
        ),
        Column(
            "share",
            REAL,
            "the part of all clients that it is meant to have; null: an equal part of what the others leave; 0: none",
            may_be_null=True,
            may_be_missing=True,
        ),
        Column("place", REALS, "network coordinates, for the metric places", may_be_null=True, may_be_missing=True),
    ),
)
LINKS = Table(
    "links",
    "one direction of a link between two brokers, or between a client and a broker",
    (
        Column("source", ID, "where it begins"),
        Column("target", ID, "where it ends"),
        Column("price", REAL, "of a byte that crosses it"),
        Column("delay", REAL, "of crossing it, in milliseconds"),
    ),
)
CLIENTS = Table(
    "clients",
    "who publishes and subscribes",
    (
        Column("id", ID, "different from all other brokers and clients"),
        Column("broker", ID, "where it is attached; null: wherever access is cheapest", may_be_null=True),
        Column("x", REAL, "coordinate, for the metric", may_be_null=True),
        Column("y", REAL, "the other coordinate", may_be_null=True),
        Column("name", TEXT, "what people call the client", may_be_null=True, may_be_missing=True),
        Column(
            "latest",
            REAL,
            "milliseconds that an event may take to it; null: as scenario.toml says",
            may_be_null=True,
            may_be_missing=True,
        ),
        Column("place", REALS, "network coordinates, for the metric places", may_be_null=True, may_be_missing=True),
    ),
)
SUBSCRIPTIONS = Table(
    "subscriptions",
    "what clients want",
    (
        Column("id", ID, "of the subscription"),
        Column("client", ID, "whose it is"),
        Column("filter", TEXT, "in the filter language"),
        Column("no_local", TRUTH, "whether it leaves out what its own client publishes"),
        Column("name", TEXT, "what people call the subscription", may_be_null=True, may_be_missing=True),
    ),
)
EVENTS = Table(
    "events",
    "the log; every column without a $ is an attribute",
    (
        Column("$id", ID, "of the event"),
        Column("$time", REAL, "in seconds"),
        Column("$publisher", ID, "the client that published it"),
        Column("$bytes", ID, "its size"),
    ),
)
CHANGES = Table(
    "changes",
    "the history of subscriptions, announcements and attachments",
    (
        Column("time", REAL, "in seconds"),
        Column("operation", TEXT, "subscribe, unsubscribe, announce, join, leave or move"),
        Column("client", ID, "whose change it is"),
        Column("subscription", ID, "which one, for subscribe and unsubscribe", may_be_null=True),
        Column("filter", TEXT, "for subscribe and announce", may_be_null=True),
        Column("broker", ID, "for join and move", may_be_null=True),
    ),
    optional=True,
)
DENSITIES = Table(
    "densities",
    "what clients are expected to publish, if that is known without a log: several rows of a client are a histogram",
    (
        Column("client", ID, "who publishes"),
        Column("filter", TEXT, "the events that it publishes, evenly spread over the values that the filter allows"),
        Column("bytes", REAL, "of these events, in a window as long as that of the log"),
    ),
    optional=True,
)
SCENARIO_TABLES = {each.name: each for each in (BROKERS, LINKS, CLIENTS, SUBSCRIPTIONS, EVENTS, CHANGES, DENSITIES)}
OPERATIONS = ("subscribe", "unsubscribe", "announce", "join", "leave", "move")

ATTACHMENTS = Table(
    "attachments",
    "where each client is attached",
    (Column("client", ID, "the client"), Column("broker", ID, "its broker")),
)
FLOWS = Table(
    "flows",
    "which events travel together",
    (
        Column("flow", ID, "its number"),
        Column("kind", TEXT, "tree; or, without a tree of its own, paths or steiner"),
        Column("events", TEXT, "the predicate E: which events enter it; it may use $broker, the publishing broker"),
        Column("associations", ID, "topics in the cluster, which upkeep prices"),
        Column(
            "members",
            TEXT,
            "listed: those of the table members; all: the share of E of every subscription; null: listed",
            may_be_null=True,
            may_be_missing=True,
        ),
        Column(
            "access",
            TEXT,
            "exact: a client gets what it wants; events: one that has a share of E gets all of E; null: exact",
            may_be_null=True,
            may_be_missing=True,
        ),
        Column(
            "ordered",
            TRUTH,
            "of a steered flow: whether its frames are numbered, and hosts release them in order; null: they are not",
            may_be_null=True,
            may_be_missing=True,
        ),
    ),
)
MEMBERS = Table(
    "members",
    "which subscriptions a flow serves",
    (
        Column("flow", ID, "the flow"),
        Column("subscription", ID, "a member"),
        Column("part", TEXT, "the part of the subscription that this flow serves; null: all of it", may_be_null=True),
    ),
)
TREES = Table(
    "trees",
    "the links of each flow's tree, either direction once",
    (Column("flow", ID, "the flow"), Column("source", ID, "one end"), Column("target", ID, "the other")),
)
FILTERS = Table(
    "filters",
    "what crosses a directed link in a flow, where it is not exactly what members behind it want; in a steered flow, "
    "from a broker to itself: the summary of what its members want, by which publishing brokers choose the ends; from "
    "a gateway to itself: the summary of its region",
    (
        Column("flow", ID, "the flow"),
        Column("source", ID, "where the link begins"),
        Column("target", ID, "the broker or client where it ends"),
        Column("filter", TEXT, "what crosses"),
    ),
)
REGIONS = Table(
    "regions",
    "the regions of steered flows: every broker is in one, which has the name of its gateway; a flow without rows here "
    "has no regions",
    (
        Column("flow", ID, "a steered flow"),
        Column("broker", ID, "a broker of the region"),
        Column("gateway", ID, "the broker of the region that events from other regions go to first"),
    ),
    optional=True,
)
PLAN_TABLES = {each.name: each for each in (ATTACHMENTS, FLOWS, MEMBERS, TREES, FILTERS, REGIONS)}
KINDS = TREE, PATHS, STEINER = "tree", "paths", "steiner"
STEERED = (PATHS, STEINER)  # the kinds without a tree of their own
LISTED, ALL = "listed", "all"  # which subscriptions are members of a flow
EXACT, WHOLE = "exact", "events"  # what a flow gives to a client that has a share of it
