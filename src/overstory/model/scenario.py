"""A scenario: brokers, links, clients, what they want, and a log of events. A folder, so that others can make one."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from functools import cached_property
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.errors import DataError, Problem
from overstory.model.checks import problems_of
from overstory.model.folders import (
    FORMAT_VERSION,
    KNOWN_BY,
    SCENARIO,
    check_folder,
    decoding_fault,
    fault_of_version,
    fingerprint_of,
    fingerprint_of_file,
    parts_of,
    read_tables,
    write_table,
    written_whole,
)
from overstory.model.network import Network
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, DENSITIES, EVENTS, LINKS, SCENARIO_TABLES, SUBSCRIPTIONS

SETTINGS_FILE = KNOWN_BY[SCENARIO]
SMALL = {name: table for name, table in SCENARIO_TABLES.items() if table is not EVENTS}
ATTRIBUTE_TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.list_(pa.string()))


class Written(msgspec.Struct):
    """All that is looked at before the format is known."""

    format_version: int = FORMAT_VERSION


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
    densities: pa.Table = with_default(default_factory=DENSITIES.schema.empty_table)

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
    def network_fingerprint(self) -> str:
        """Of the brokers and the links alone: plans of one network can follow each other on running brokers."""
        digest = hashlib.sha256(fingerprint_of(self.brokers) + fingerprint_of(self.links))
        return digest.hexdigest()[:32]

    @cached_property
    def fingerprint(self) -> str:
        """Of the tables, in whatever order their rows are, the events as they are in their file, and the settings.

        The currency has no part in it: it is only printed, and no plan depends on it. Nor have settings and tables that
        came later than others, where they say nothing: folders that were made before have the fingerprint that they
        had."""
        settings = msgspec.to_builtins(self.settings)
        del settings["currency"]
        if self.settings.access.seed == 0:
            del settings["access"]["seed"]
        for name in ("curves", "headers"):
            if not settings[name]:
                del settings[name]
        digest = hashlib.sha256(msgspec.json.encode(settings, order="sorted"))
        for name in SMALL:
            rows = getattr(self, name)
            if rows.num_rows or name != DENSITIES.name:
                digest.update(fingerprint_of(SMALL[name].stored(rows)))
        digest.update(fingerprint_of_file(self.events))
        return digest.hexdigest()[:32]


def _names(rows: pa.Table) -> dict[int, str]:
    if "name" not in rows.column_names:
        return {}
    named = rows.filter(pc.is_valid(rows["name"]))
    return dict(zip(named["id"].to_pylist(), named["name"].to_pylist(), strict=True))


def read_scenario(folder: Path) -> Scenario:
    """Raises a ``DataError`` with all that is wrong, as far as it shows without the filters and the events."""
    check_folder(folder, SCENARIO)
    problems: list[Problem] = []
    settings = _read_settings(folder / SETTINGS_FILE, problems)
    tables = read_tables(folder, SMALL, problems)
    scenario = Scenario(folder, settings, **tables)
    _check_events(scenario.events, problems)
    if not problems:
        problems += problems_of(scenario)
    if problems:
        raise DataError.about(f"the scenario {folder}", problems)
    return scenario


def _read_settings(path: Path, problems: list[Problem]) -> Settings:
    try:
        data = path.read_bytes()
        fault = fault_of_version(SETTINGS_FILE, msgspec.toml.decode(data, type=Written).format_version)
        if not fault:
            return msgspec.toml.decode(data, type=Settings)
        problems += fault
    except OSError as error:
        problems.append(Problem(SETTINGS_FILE, None, None, f"cannot be read: {error.strerror}"))
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"{decoding_fault(error)}; docs/scenarios.md has all settings"
        problems.append(Problem(SETTINGS_FILE, None, None, what))
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


def write_scenario(
    folder: Path,
    settings: Settings,
    tables: Mapping[str, pa.Table],
    events: pa.Table | Path,
) -> None:
    """``events`` is a table, or a Parquet file that is moved in. Tables that are not given are empty."""
    with written_whole(folder) as unfinished:
        (unfinished / SETTINGS_FILE).write_bytes(msgspec.toml.encode(settings, order="deterministic"))
        for table in (BROKERS, LINKS, CLIENTS, SUBSCRIPTIONS, CHANGES, DENSITIES):
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
