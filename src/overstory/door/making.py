"""Scenarios made in Python: generated, of a graph, or of a log. Without a folder they go when Python ends."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from overstory.door.engine import warm
from overstory.door.folders import Where, new_folder
from overstory.door.scenario import Scenario, read_scenario
from overstory.errors import UsageError
from overstory.lab.graphs import Topology, as_tables
from overstory.lab.importing import Import, import_scenario
from overstory.lab.localized import Localized, make_localized
from overstory.lab.networkx_graphs import topology_of
from overstory.lab.sites import make_sites
from overstory.lab.topologies import topology as topology_named
from overstory.model.folders import check_can_be_made, write_table
from overstory.model.naming import near_words
from overstory.model.tables import BROKERS, LINKS
from overstory.pipeline.log_types import types_in

TABLES = {"brokers": BROKERS, "links": LINKS}


def localized(
    folder: Where = None, *, topology: str = "transit-stub", brokers: int | None = None, seed: int = 0, **workload: Any
) -> Scenario:
    """Keywords wanted by brokers near each other, as in the routing-trees paper. ``workload`` are the options of
    ``overstory scenario make localized``: ``keywords``, ``events``, ``locality`` and so on."""
    return _localized(new_folder(folder, "localized"), topology_named(topology, brokers, seed), seed, workload)


def sites(folder: Where = None, *, events: int = 10_000, seed: int = 0) -> Scenario:
    """Telemetry, orders and alerts of sites across Europe, as in the demo."""
    path = new_folder(folder, "sites")
    make_sites(path, events, seed)
    return read_scenario(path)


def from_networkx(
    graph: Any,
    folder: Where = None,
    *,
    price: str | None = "weight",
    delay: str | None = "delay",
    seed: int = 0,
    **workload: Any,
) -> Scenario:
    """The network of a NetworkX graph, with the workload of ``localized`` on it; ``import_log`` takes graphs as well,
    and brings a log. ``price`` and ``delay`` name attributes of edges; nodes may have ``name``, and ``x`` and ``y`` or
    ``pos``."""
    return _localized(new_folder(folder, "graph"), topology_of(graph, price, delay), seed, workload)


def _localized(folder: Path, network: Topology, seed: int, workload: dict[str, Any]) -> Scenario:
    known = Localized.__struct_fields__
    for name in workload.keys() - set(known):
        near = near_words(name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no option '{name}' of this workload{near}")
    make_localized(folder, network, Localized(**workload), seed)
    return Scenario(read_scenario(folder).model, network.notes)


def import_log(
    events: str | Path | pd.DataFrame,
    topology: Any,
    folder: Where = None,
    *,
    subscriptions: str | Path | int | Sequence[str] | pd.DataFrame | None = None,
    price: str | None = "weight",
    delay: str | None = "delay",
    **options: Any,
) -> Scenario:
    """A scenario of a log: a file, a pattern, or a table. ``topology`` is a name (``zoo:Geant2012``), a file or a
    NetworkX graph; ``subscriptions`` is a file, filters, a table with the columns ``client`` and ``filter``, or a
    number to generate. ``options`` are those of ``overstory scenario import``: ``publisher``, ``time``, ``types``."""
    path = new_folder(folder, "import")
    check_can_be_made(path)
    with tempfile.TemporaryDirectory(prefix="overstory-import-") as beside:
        files = Path(beside)
        what = _import(
            events=_log_file(events, files),
            topology=_topology(topology, files, price, delay),
            subscriptions=_subscriptions(subscriptions, files),
            **options,
        )
        made = import_scenario(path, what, warm())
    return Scenario(read_scenario(path).model, (*made.log.notes, *made.notes))


def _import(types: "dict[str, str] | None" = None, columns: Sequence[str] | None = None, **given: Any) -> Import:
    known = Import.__struct_fields__
    for name in given.keys() - set(known):
        near = near_words(name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no option '{name}' of an import{near}")
    attach = given.pop("attach", None)
    return Import(
        **given,
        attach=None if attach is None else Path(attach),
        columns=None if columns is None else tuple(columns),
        types=types_in([f"{name}={kind}" for name, kind in (types or {}).items()]),
    )


def _log_file(events: str | Path | pd.DataFrame, files: Path) -> Path:
    if not isinstance(events, pd.DataFrame):
        return Path(events)
    path = files / "events.parquet"
    events.to_parquet(path, index=False)
    return path


def _topology(topology: Any, files: Path, price: str | None, delay: str | None) -> str:
    """As ``scenario import`` takes it: the overlay of a graph is put into a folder for that."""
    if isinstance(topology, str | Path):
        return str(topology)
    folder = files / "graph"
    folder.mkdir()
    for name, rows in as_tables(topology_of(topology, price, delay)).items():
        write_table(folder, TABLES[name], rows)
    return str(folder)


def _subscriptions(given: str | Path | int | Sequence[str] | pd.DataFrame | None, files: Path) -> str | None:
    if given is None or isinstance(given, str | Path | int):
        return None if given is None else str(given)
    if isinstance(given, pd.DataFrame):
        path = files / "subscriptions.parquet"
        given.to_parquet(path, index=False)
        return str(path)
    lines = files / "subscriptions.txt"
    if any("\n" in text for text in given):
        raise UsageError("a filter of this list has more than one line; write it on one")
    lines.write_text("".join(f"{text}\n" for text in given), "utf-8")
    return str(lines)
