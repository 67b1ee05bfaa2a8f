"""Scenarios and plans from rows written out in a test."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import (
    ATTACHMENTS,
    BROKERS,
    CLIENTS,
    EVENTS,
    FILTERS,
    FLOWS,
    LINKS,
    MEMBERS,
    SUBSCRIPTIONS,
    TREES,
    Table,
)

Row = tuple[Any, ...]


def table_of(table: Table, rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(table.schema.names, row, strict=True)) for row in rows], schema=table.schema)


def events_table(rows: Iterable[Row], attributes: Mapping[str, pa.DataType]) -> pa.Table:
    """Of publisher, bytes, and the attributes."""
    schema = pa.schema([*EVENTS.schema, *attributes.items()])
    full = [(number, float(number), *row) for number, row in enumerate(rows)]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in full], schema=schema)


def scenario_tables(
    brokers: Iterable[int] = (),
    links: Iterable[Row] = (),
    clients: Iterable[int] = (),
    subscriptions: Iterable[Row] = (),
) -> dict[str, pa.Table]:
    """Links without delays; clients without brokers and places; subscriptions of id, client, filter, no_local."""
    return {
        "brokers": table_of(BROKERS, [(each, None, None, None) for each in brokers]),
        "links": table_of(LINKS, [(*link, 0.0) for link in links]),
        "clients": table_of(CLIENTS, [(each, None, None, None) for each in clients]),
        "subscriptions": table_of(SUBSCRIPTIONS, subscriptions),
    }


def scenario_of(folder: Path, settings: Settings, tables: Mapping[str, pa.Table], events: pa.Table) -> Scenario:
    write_scenario(folder, settings, tables, events)
    return read_scenario(folder)


def plan_of(
    scenario: Scenario,
    attachments: Mapping[int, int],
    flows: Sequence[Row],
    members: Iterable[Row],
    trees: Iterable[Row] = (),
    filters: Iterable[Row] = (),
) -> Plan:
    """Columns are those of the tables."""
    rows = (attachments.items(), flows, members, trees, filters)
    tables = (ATTACHMENTS, FLOWS, MEMBERS, TREES, FILTERS)
    return Plan.of(
        Header("test", scenario.fingerprint),
        {table.name: table_of(table, some) for table, some in zip(tables, rows, strict=True)},
    )
