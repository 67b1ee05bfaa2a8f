"""Telemetry, orders and alerts of industrial sites in the 37 countries of Géant, Europe's research network.

Each country has a broker and a site that publishes there. Seven events in eight are telemetry, one in ten is an order,
the rest are alerts; large sites publish more than small ones. Fifty subscriptions, each of a client of its own and
described in words, stand in ``sites.toml``: archives of a region, control rooms, warehouses, finance. It is a workload
that a person can check by reading it, made for the demo and fixed before any planner was tried on it.
"""

import tempfile
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.lab.graphs import Topology, as_tables, dice
from overstory.lab.known_networks import topohub_network
from overstory.model.network import Ints
from overstory.model.scenario import write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import CLIENTS, EVENTS, SUBSCRIPTIONS

NETWORK = "zoo:Geant2012"
REGIONS = {
    "north": "DK SE NO FI IS EE LV LT",
    "west": "UK IE NL BE LU FR",
    "centre": "DE CH AT CZ PL SK HU",
    "south": "PT ES IT MT GR CY SL HR",
    "east": "RO BG RS ME MK TR IL RU",
}
KINDS, KIND_SHARES, BYTES = ("telemetry", "order", "alert"), (0.875, 0.1, 0.025), (220, 900, 480)
SENSORS, PRODUCTS = ("temperature", "vibration", "power"), ("pump", "valve", "motor", "gearbox")
SEVERITY_SHARES = (0.4, 0.3, 0.17, 0.1, 0.03)
SECONDS = 3600.0  # that the log spans
ROW_GROUP = 1 << 17  # events in memory at once
TEXT, REAL, WHOLE = pa.string(), pa.float64(), pa.int64()
ATTRIBUTES = {
    "kind": TEXT,
    "site": TEXT,
    "region": TEXT,
    "sensor": TEXT,
    "value": REAL,
    "product": TEXT,
    "amount": REAL,
    "destination": TEXT,
    "to_region": TEXT,
    "severity": WHOLE,
}
EVENT_SCHEMA = pa.schema([*EVENTS.schema, *(pa.field(name, kind) for name, kind in ATTRIBUTES.items())])


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of ``sites.toml``."""

    name: str
    at: list[str]
    filter: str


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subscription: list[Wanted]


def make_sites(folder: Path, events: int, seed: int) -> None:
    """Writes the scenario of sites across Europe, with this many events."""
    if events < 0:
        raise UsageError(f"events must be 0 or more, not {events}")
    network = topohub_network(NETWORK)
    tables = as_tables(network) | _clients_and_subscriptions(network)
    settings = Settings(name="sites", made_by={"kind": "sites", "seed": seed, "events": events, **network.made_by})
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so that moving the file in is only a change of name
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-events-", dir=folder.parent) as beside:
            log = Path(beside) / "events.parquet"
            _write_events(log, network, events, dice(seed))
            write_scenario(folder, settings, tables, log)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None


def wanted() -> list[tuple[str, str, str]]:
    """The name, the country and the filter of every subscription."""
    listed = msgspec.toml.decode(files("overstory.lab").joinpath("sites.toml").read_bytes(), type=Listed)
    return [(row.name, country, row.filter) for row in listed.subscription for country in row.at]


def _clients_and_subscriptions(network: Topology) -> dict[str, pa.Table]:
    """First a publisher for each country, then a client for each subscription."""
    assert network.names is not None
    names = network.names
    rows = wanted()
    at = [*range(len(names)), *(names.index(country) for _, country, _ in rows)]
    ids = len(names) + np.arange(len(at))
    called = [f"site {country}" for country in names] + [f"{country}: {name}" for name, country, _ in rows]
    none = pa.nulls(len(at), REAL)
    clients = {"id": ids, "name": called, "broker": at, "x": none, "y": none}
    subscriptions = {
        "id": np.arange(len(rows)),
        "name": [f"{country}: {name}" for name, country, _ in rows],
        "client": ids[len(names) :],
        "filter": [text for _, _, text in rows],
        "no_local": np.zeros(len(rows), bool),
    }
    return {
        "clients": CLIENTS.completed(pa.table(clients)),
        "subscriptions": SUBSCRIPTIONS.completed(pa.table(subscriptions)),
    }


def _write_events(path: Path, network: Topology, events: int, draw: np.random.Generator) -> None:
    sizes = draw.pareto(1.5, network.brokers) + 0.3  # of the sites: some are large
    with pq.ParquetWriter(path, EVENT_SCHEMA, compression="zstd") as writer:
        for start in range(0, events, ROW_GROUP):
            ids = np.arange(start, min(start + ROW_GROUP, events))
            writer.write_table(_events(ids, events, network, sizes / sizes.sum(), draw), ROW_GROUP)


def _events(
    ids: Ints, events: int, network: Topology, sizes: NDArray[np.float64], draw: np.random.Generator
) -> pa.Table:
    """Attributes that a kind of event does not have are null."""
    count = len(ids)
    site, destination = (draw.choice(network.brokers, count, p=sizes) for _ in range(2))
    kind = draw.choice(len(KINDS), count, p=KIND_SHARES)
    telemetry, order, alert = (kind == number for number in range(len(KINDS)))
    names = np.array(network.names)
    region = np.array([next(name for name, codes in REGIONS.items() if code in codes.split()) for code in names])
    columns = {
        "$id": ids,
        "$time": ids * (SECONDS / max(events, 1)),
        "$publisher": network.brokers + site,
        "$bytes": np.array(BYTES)[kind],
        "kind": np.array(KINDS)[kind],
        "site": names[site],
        "region": region[site],
        "sensor": _where(telemetry, np.array(SENSORS)[draw.integers(len(SENSORS), size=count)]),
        "value": _where(telemetry, np.round(draw.gamma(4.0, 1.2, count), 2)),
        "product": _where(order, np.array(PRODUCTS)[draw.integers(len(PRODUCTS), size=count)]),
        "amount": _where(order, np.round(draw.lognormal(7.5, 1.2, count), 2)),
        "destination": _where(order, names[destination]),
        "to_region": _where(order, region[destination]),
        "severity": _where(alert, 1 + draw.choice(len(SEVERITY_SHARES), count, p=SEVERITY_SHARES)),
    }
    return pa.table(columns, EVENT_SCHEMA)


def _where(present: NDArray[np.bool_], values: NDArray[np.generic]) -> pa.Array:
    return pa.array(values, mask=~present)
