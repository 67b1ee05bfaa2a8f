"""A scenario: brokers, links, clients, what they want, and a log of events. A folder, so that others can make one."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.errors import DataError, Problem
from overstory.model.folders import (
    fingerprint_of,
    fingerprint_of_file,
    parts_of,
    problems_at,
    read_tables,
    rows_where,
    write_table,
    written_whole,
)
from overstory.model.network import Network
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, EVENTS, LINKS, OPERATIONS, SCENARIO_TABLES, SUBSCRIPTIONS

SETTINGS_FILE = "scenario.toml"
SMALL = {name: table for name, table in SCENARIO_TABLES.items() if table is not EVENTS}
ATTRIBUTE_TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.list_(pa.string()))


@dataclass(frozen=True, eq=False)
class Scenario:
    """All but the events are in memory; those stay in their file, or folder of parts, which only the pipeline reads."""

    folder: Path
    settings: Settings
    brokers: pa.Table
    links: pa.Table
    clients: pa.Table
    subscriptions: pa.Table
    changes: pa.Table

    @property
    def events(self) -> Path:
        return self.folder / "events.parquet"

    @cached_property
    def network(self) -> Network:
        return Network.of(self.brokers, self.links)

    @cached_property
    def attributes(self) -> dict[str, pa.DataType]:
        """The columns of the events that are attributes."""
        schema = pq.read_schema(parts_of(self.events)[0])
        return {field.name: field.type for field in schema if not field.name.startswith("$")}

    @cached_property
    def client_names(self) -> dict[int, str]:
        """What people call the clients that have a name, by id."""
        return _names(self.clients)

    @cached_property
    def subscription_names(self) -> dict[int, str]:
        """What people call the subscriptions that have a name, by id."""
        return _names(self.subscriptions)

    @cached_property
    def broker_names(self) -> dict[int, str]:
        """What people call the brokers that have a name, by id."""
        return _names(self.brokers)

    @cached_property
    def fingerprint(self) -> str:
        """Of the tables, in whatever order their rows are, the events as they are in their file, and the settings.

        The currency has no part in it: it is only printed, and no plan depends on it."""
        settings = msgspec.to_builtins(self.settings)
        del settings["currency"]
        digest = hashlib.sha256(msgspec.json.encode(settings, order="sorted"))
        for name in SMALL:
            digest.update(fingerprint_of(SMALL[name].stored(getattr(self, name))))
        digest.update(fingerprint_of_file(self.events))
        return digest.hexdigest()[:32]


def _names(rows: pa.Table) -> dict[int, str]:
    if "name" not in rows.column_names:
        return {}
    named = rows.filter(pc.is_valid(rows["name"]))
    return dict(zip(named["id"].to_pylist(), named["name"].to_pylist(), strict=True))


def read_scenario(folder: Path) -> Scenario:
    """Raises a ``DataError`` with all that is wrong, as far as it shows without the filters and the events."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a scenario: there is no such folder; make one with 'overstory scenario make'")
    problems: list[Problem] = []
    settings = _read_settings(folder / SETTINGS_FILE, problems)
    tables = read_tables(folder, SMALL, problems)
    scenario = Scenario(folder, settings, **tables)
    _check_events(scenario.events, problems)
    if not problems:
        problems += problems_of(scenario)
    if problems:
        raise DataError(f"the scenario {folder} is not right:", problems)
    return scenario


def _read_settings(path: Path, problems: list[Problem]) -> Settings:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Settings)
    except OSError as error:
        problems.append(Problem(SETTINGS_FILE, None, None, f"cannot be read: {error.strerror}"))
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(SETTINGS_FILE, None, None, f"is not right: {error}"))
    return Settings()


def _check_events(path: Path, problems: list[Problem]) -> None:
    parts = parts_of(path)
    try:
        schemas = [pq.read_schema(part) for part in parts]
    except FileNotFoundError:
        problems.append(Problem("events", None, None, f"the file {path.name} is missing"))
        return
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0][:120]
        problems.append(Problem("events", None, None, f"{path.name} is not a Parquet file that can be read: {reason}"))
        return
    if not schemas:
        problems.append(Problem("events", None, None, f"the folder {path.name} has no Parquet files in it"))
        return
    for part, schema in zip(parts, schemas, strict=True):
        if not schema.equals(schemas[0]):
            what = f"{part.name} has other columns than {parts[0].name}"
            problems.append(Problem("events", None, None, f"{what}, and all parts of {path.name} must have the same"))
            return
    _check_columns(schemas[0], problems)


def _check_columns(schema: pa.Schema, problems: list[Problem]) -> None:
    for wanted in EVENTS.columns:
        if wanted.name not in schema.names:
            problems.append(Problem("events", None, wanted.name, "the column is missing"))
        elif schema.field(wanted.name).type != wanted.type:
            what = f"the column is of {schema.field(wanted.name).type}, where {wanted.type} is wanted"
            problems.append(Problem("events", None, wanted.name, what))
    for field in schema:
        if not field.name.startswith("$") and field.type not in ATTRIBUTE_TYPES:
            what = f"an attribute cannot be of {field.type}; bool, int64, double, string and list<string> are known"
            problems.append(Problem("events", None, field.name, what))


def problems_of(scenario: Scenario) -> list[Problem]:
    """What is wrong between tables that are right by themselves."""
    brokers, clients = scenario.brokers["id"], scenario.clients["id"]
    ends = pa.chunked_array(brokers.chunks + clients.chunks, pa.int64())
    found = [*_twice(brokers, "brokers", "id"), *_twice(clients, "clients", "id")]
    found += _twice(scenario.subscriptions["id"], "subscriptions", "id")
    both = rows_where(pc.is_in(clients, brokers.combine_chunks()))
    found += problems_at(both, "clients", "id", lambda row: f"{clients[row]} is also the id of a broker")
    found += _dangling(scenario.clients["broker"], brokers, "clients", "broker", "broker")
    for column in ("source", "target"):
        found += _dangling(scenario.links[column], ends, "links", column, "broker or client")
    found += _dangling(scenario.subscriptions["client"], clients, "subscriptions", "client", "client")
    for column in ("price", "delay"):
        found += _not_from_zero_up(scenario.links[column], column)
    operations = scenario.changes["operation"]
    unknown = rows_where(pc.invert(pc.is_in(operations, pa.array(OPERATIONS))))
    found += problems_at(unknown, "changes", "operation", lambda row: f"{operations[row].as_py()!r} is not known")
    found += _dangling(scenario.changes["client"], clients, "changes", "client", "client")
    found += _dangling(scenario.changes["broker"], brokers, "changes", "broker", "broker")
    if scenario.settings.access.metric == "euclidean":
        found += _no_coordinates(scenario.brokers, "brokers") + _no_coordinates(scenario.clients, "clients")
    if not len(brokers):
        found.append(Problem("brokers", None, None, "there is none"))
    if not found:
        found += _disconnected(scenario)
    return found


def _twice(ids: pa.ChunkedArray, table: str, column: str) -> list[Problem]:
    values = ids.to_numpy()
    order = np.argsort(values, kind="stable")
    again = np.sort(order[1:][values[order[1:]] == values[order[:-1]]]).tolist()
    return problems_at(again, table, column, lambda row: f"{values[row]} has been used above")


def _dangling(ids: pa.ChunkedArray, known: pa.ChunkedArray, table: str, column: str, what: str) -> list[Problem]:
    missing = pc.and_(pc.is_valid(ids), pc.invert(pc.is_in(ids, known.combine_chunks())))
    return problems_at(rows_where(missing), table, column, lambda row: f"there is no {what} {ids[row]}")


def _not_from_zero_up(column: pa.ChunkedArray, name: str) -> list[Problem]:
    values = column.to_numpy()
    bad = np.flatnonzero(~((values >= 0) & np.isfinite(values))).tolist()
    return problems_at(bad, "links", name, lambda row: f"{values[row]} is not a number from 0 up")


def _no_coordinates(rows: pa.Table, table: str) -> list[Problem]:
    known = [np.isfinite(rows[name].to_numpy()) for name in ("x", "y")]  # null is NaN there
    missing = np.flatnonzero(~(known[0] & known[1])).tolist()
    return problems_at(missing, table, "x", lambda _: "the euclidean metric of scenario.toml needs both coordinates")


def _disconnected(scenario: Scenario) -> list[Problem]:
    network = scenario.network
    unreached = network.unreached()
    if not len(unreached):
        return []
    some = ", ".join(map(str, network.ids[unreached[:5]].tolist()))
    what = f"the network is not connected: {len(unreached):,} brokers cannot be reached from broker {network.ids[0]}"
    which = f"(broker {some}{', …' if len(unreached) > 5 else ''})"
    return [Problem(LINKS.name, None, None, f"{what} and back over the same links {which}")]


def write_scenario(
    folder: Path,
    settings: Settings,
    tables: Mapping[str, pa.Table],
    events: pa.Table | Path,
) -> None:
    """``events`` is a table, or a Parquet file that is moved in. Tables that are not given are empty."""
    with written_whole(folder) as unfinished:
        (unfinished / SETTINGS_FILE).write_bytes(msgspec.toml.encode(settings, order="deterministic"))
        for table in (BROKERS, LINKS, CLIENTS, SUBSCRIPTIONS, CHANGES):
            if table.name in tables or not table.optional:
                write_table(unfinished, table, tables.get(table.name, table.schema.empty_table()))
        if isinstance(events, Path):
            events.replace(unfinished / "events.parquet")
        else:
            pq.write_table(events.cast(_as_read(events.schema)), unfinished / "events.parquet", compression="zstd")


def _as_read(schema: pa.Schema) -> pa.Schema:
    """Items of lists are called as they are when Parquet is read, so that what was read is written as it was."""
    words = pa.list_(pa.field("element", pa.string()))
    return pa.schema([field.with_type(words) if field.type == words else field for field in schema])
