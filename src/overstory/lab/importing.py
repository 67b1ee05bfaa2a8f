"""A scenario of files: an event log, an overlay, and subscriptions that are given, generated, or none.

Ids are given out in this order: brokers, clients that subscribe, clients that only publish. Where a file has whole
numbers for ids, they are kept; names are numbered in their order. What is left to chance depends on the seed and on
nothing else, and ``scenario.toml`` names files without their folders: the same files give the same scenario anywhere.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from overstory.errors import DataError, Problem, UsageError
from overstory.lab.graphs import HOP, MadeBy, as_tables, dice
from overstory.lab.logs import add_subscriptions
from overstory.lab.topologies import topology
from overstory.model.folders import problems_at, read_tables, rows_where
from overstory.model.network import Floats, Ints, Network
from overstory.model.scenario import Scenario, problems_of, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, LINKS, SUBSCRIPTIONS
from overstory.pipeline.importing import ByChance, Log, Roles, opened_log
from overstory.pipeline.log_files import CSV, JSON, checked_format, format_of
from overstory.pipeline.match import BROKER
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.predicates import problems_with


class Import(msgspec.Struct, frozen=True):
    events: Path
    topology: str  # as for ``topology()``, or the path of a file of links, or of a folder with an overlay
    brokers: int | None = None  # of a generated topology
    publisher: str | None = None  # the column of the log that tells who published; else it is left to chance
    time: str | None = None  # the column that tells the time; else it is the number of the event
    bytes: str | None = None  # the column that tells the size; else it is 1
    subscriptions: str | None = None  # how many to generate, or the path of a file
    selectivity: float = 0.01  # of generated subscriptions
    seed: int = 0
    columns: tuple[str, ...] | None = None  # the attributes to keep, if not all


class Overlay(NamedTuple):
    brokers: pa.Table
    links: pa.Table
    made_by: MadeBy

    @property
    def ids(self) -> Ints:
        found: Ints = self.brokers["id"].to_numpy()
        return found


class Clients(NamedTuple):
    ids: Ints
    brokers: Ints
    names: dict[str, int]  # those that have one, by it: whoever subscribes and publishes is one client

    def also(self, ids: Ints, brokers: Ints) -> "Clients":
        return Clients(np.concatenate((self.ids, ids)), np.concatenate((self.brokers, brokers)), self.names)

    def table(self) -> pa.Table:
        nowhere = pa.nulls(len(self.ids), pa.float64())
        return pa.table({"id": self.ids, "broker": self.brokers, "x": nowhere, "y": nowhere}, CLIENTS.schema)


def import_scenario(folder: Path, what: Import, pipeline: Pipeline) -> dict[str, int]:
    """Writes the scenario whole or not at all, and tells its sizes."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):  # before the log has been read
        raise UsageError(f"{folder} exists already; give another name, or remove it first")
    checked_format(what.events)
    overlay = overlay_of(what)
    count = _count_in(what.subscriptions)
    if count is None:
        assert what.subscriptions is not None
        subscribers, subscriptions = subscriptions_in(Path(what.subscriptions), overlay, what.seed)
    else:
        subscribers, subscriptions = _at_every_broker(overlay), SUBSCRIPTIONS.schema.empty_table()
    settings = Settings(name=what.events.name.partition(".")[0] or "import", made_by=_made_by(what, overlay))
    _check(Scenario(folder, settings, *overlay[:2], subscribers.table(), subscriptions, CHANGES.schema.empty_table()))
    roles = Roles(what.time, what.bytes, what.publisher)
    with _beside(folder) as beside, opened_log(pipeline, what.events, roles, beside, what.columns) as log:
        pipeline.tell("writing the events")
        events = beside / "events.parquet"
        clients = _write_events(events, log, overlay, subscribers, what)
        if count:
            pipeline.tell("drawing subscriptions")
            filters = add_subscriptions(events, count, what.seed, what.selectivity)
            subscriptions = _spread(filters, subscribers.ids, what.seed)
        tables = {"brokers": overlay.brokers, "links": overlay.links, "clients": clients.table()}
        write_scenario(folder, settings, tables | {"subscriptions": subscriptions}, events)
    return {
        "brokers": len(overlay.brokers),
        "links": len(Network.of(overlay.brokers, overlay.links).targets) // 2,
        "clients": len(clients.ids),
        "subscriptions": len(subscriptions),
        "events": log.events,
    }


def _made_by(what: Import, overlay: Overlay) -> MadeBy:
    found: MadeBy = {"kind": "import", "events": what.events.name, "seed": what.seed, **overlay.made_by}
    for name in ("publisher", "time", "bytes"):
        column = getattr(what, name)
        if column is not None:
            found[name] = column
    if what.columns is not None:
        found["columns"] = ", ".join(what.columns)
    count = _count_in(what.subscriptions)
    if count is None:
        found["subscriptions"] = Path(what.subscriptions or "").name
    elif count:
        found |= {"subscriptions": count, "selectivity": what.selectivity}
    return found


def _count_in(subscriptions: str | None) -> int | None:
    """How many are to be generated; None if they are in a file."""
    if subscriptions is None:
        return 0
    if subscriptions.isascii() and subscriptions.isdigit():
        return int(subscriptions)
    if format_of(Path(subscriptions)) is None:
        raise UsageError(f"subscriptions '{subscriptions}' are neither a number nor a .csv, .jsonl or .parquet file")
    return None


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder on the same disk, so that moving the events in is only a change of name."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(prefix=f".{folder.name}-events-", dir=folder.parent)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None
    with made as path:
        try:
            yield Path(path)
        except OSError as error:
            raise UsageError(f"cannot write {folder}: {error.strerror or error}; nothing is left of it") from None


def _check(scenario: Scenario) -> None:
    problems = problems_of(scenario)
    if problems:
        raise DataError("the overlay and the subscriptions cannot be those of a scenario:", problems)


def overlay_of(what: Import) -> Overlay:
    path = Path(what.topology)
    if format_of(path) is not None:
        overlay = links_in(path)
    elif path.is_dir():
        overlay = _overlay_in(path)
    else:
        made = topology(what.topology, what.brokers, what.seed)
        tables = as_tables(made)
        return Overlay(tables["brokers"], tables["links"], {"topology": what.topology, **made.made_by})
    if what.brokers not in (None, len(overlay.brokers)):
        raise UsageError(f"{path} has {len(overlay.brokers)} brokers, not {what.brokers}; leave out the number")
    return overlay


def _overlay_in(folder: Path) -> Overlay:
    """Takes the overlay of another scenario, without its clients."""
    problems: list[Problem] = []
    tables = read_tables(folder, {"brokers": BROKERS, "links": LINKS}, problems)
    if problems:
        raise DataError(f"the folder {folder} has no overlay to take:", problems)
    ids, links = tables["brokers"]["id"].combine_chunks(), tables["links"]
    inner = pc.and_(pc.is_in(links["source"], ids), pc.is_in(links["target"], ids))
    return Overlay(tables["brokers"], links.filter(inner), {"topology": folder.resolve().name})


def links_in(path: Path) -> Overlay:
    """A row is one direction of a link. Where no row goes the other way, it is the same both ways."""
    read = read_columns(path, ("source", "target"), ("price", "delay"))
    ends = pa.concat_arrays([read["source"], read["target"]])
    numbers = whole_numbers(ends)
    if numbers is not None:
        ids, at = np.unique(numbers, return_inverse=True)
        names = pa.nulls(len(ids), pa.string())
    else:
        names = pc.unique(ends).take(pc.array_sort_indices(pc.unique(ends)))
        ids, at = np.arange(len(names)), np.asarray(pc.index_in(ends, names)).astype(np.int64)
    source, target = np.split(at, 2)
    price, delay = (_from_zero_up(path, name, read.get(name), len(source)) for name in ("price", "delay"))
    alone = ~np.isin(target * len(ids) + source, source * len(ids) + target)
    sources, targets = np.concatenate((source, target[alone])), np.concatenate((target, source[alone]))
    order = np.lexsort((targets, sources))
    columns = [ids[sources], ids[targets], *(np.concatenate((column, column[alone])) for column in (price, delay))]
    links = dict(zip(LINKS.schema.names, (column[order] for column in columns), strict=True))
    nowhere = pa.nulls(len(ids), pa.float64())
    brokers = pa.table({"id": ids, "name": names, "x": nowhere, "y": nowhere}, BROKERS.schema)
    return Overlay(brokers, pa.table(links, LINKS.schema), {"topology": path.name})


def _from_zero_up(path: Path, name: str, values: pa.Array | None, rows: int) -> Floats:
    if values is None:
        return np.full(rows, HOP)
    found: Floats = np.asarray(_cast(path, name, values, pa.float64()).fill_null(HOP))
    bad = np.flatnonzero(~((found >= 0) & np.isfinite(found))).tolist()
    if bad:
        problems = problems_at(bad, "links", name, lambda row: f"{found[row]} is not a number from 0 up")
        raise DataError(f"the links in {path} are not right:", problems)
    return found


def subscriptions_in(path: Path, overlay: Overlay, seed: int) -> tuple[Clients, pa.Table]:
    """Clients are attached where their rows say, or else in turn to brokers in a random order."""
    read = read_columns(path, ("client", "filter"), ("broker", "no_local"))
    problems = problems_with(pa.chunked_array([read["filter"]]), "subscriptions", "filter", reserved=BROKER)
    if problems:
        raise DataError(f"the subscriptions in {path} are not right:", problems)
    names = pc.unique(read["client"]).take(pc.array_sort_indices(pc.unique(read["client"])))
    at = np.asarray(pc.index_in(read["client"], names)).astype(np.int64)
    numbers = whole_numbers(names)
    ids = _after(overlay.ids) + np.arange(len(names)) if numbers is None else numbers
    taken = np.intersect1d(ids, overlay.ids)
    if len(taken):
        raise DataError(
            f"client {taken[0]} in {path} is also the id of a broker, and they share their ids; "
            f"give clients names, or ids from {_after(overlay.ids)} up"
        )
    brokers = dice(seed).permutation(overlay.ids)[np.arange(len(names)) % len(overlay.ids)]
    if "broker" in read:
        rows = rows_where(pc.is_valid(read["broker"]))
        given = _brokers(path, overlay, read["broker"], rows)
        brokers[at[rows]] = given
        torn = np.flatnonzero(brokers[at[rows]] != given).tolist()
        if torn:
            what = problems_at([rows[row] for row in torn], "subscriptions", "broker", lambda _: "differs from others")
            raise DataError(f"clients in {path} have more than one broker each:", what)
    local = read.get("no_local", pa.nulls(len(at), pa.bool_()))
    subscriptions = {
        "id": np.arange(len(at)),
        "client": ids[at],
        "filter": read["filter"],
        "no_local": _cast(path, "no_local", local, pa.bool_()).fill_null(False),
    }
    clients = Clients(ids, brokers, dict(zip(names.to_pylist(), ids.tolist(), strict=True)))
    return clients, pa.table(subscriptions, SUBSCRIPTIONS.schema)


def _brokers(path: Path, overlay: Overlay, values: pa.Array, rows: list[int]) -> Ints:
    """By their ids or names, of which an id goes first, and a name must be of one broker alone."""
    ids, names = overlay.ids.tolist(), overlay.brokers["name"].to_pylist()
    times = Counter(names)
    known = {name: id_ for name, id_ in zip(names, ids, strict=True) if name is not None and times[name] == 1}
    known |= {str(id_): id_ for id_ in ids}
    unknown = [row for row in rows if values[row].as_py() not in known]
    if unknown:
        what = problems_at(unknown, "subscriptions", "broker", lambda row: f"there is no broker {values[row]}")
        raise DataError(f"the subscriptions in {path} are not right:", what)
    return np.array([known[values[row].as_py()] for row in rows], np.int64)


def _spread(filters: list[str], clients: Ints, seed: int) -> pa.Table:
    """In turn, over the clients in a random order."""
    order = dice(seed).permutation(clients)
    subscriptions = {
        "id": np.arange(len(filters)),
        "client": order[np.arange(len(filters)) % len(order)],
        "filter": pa.array(filters, pa.string()),
        "no_local": np.zeros(len(filters), bool),
    }
    return pa.table(subscriptions, SUBSCRIPTIONS.schema)


def _at_every_broker(overlay: Overlay) -> Clients:
    ids = np.sort(overlay.ids)
    return Clients(_after(ids) + np.arange(len(ids)), ids, {})


def _after(*ids: Ints) -> int:
    return max(0, *(int(column.max()) + 1 for column in ids if len(column)))


def _write_events(events: Path, log: Log, overlay: Overlay, subscribers: Clients, what: Import) -> Clients:
    """Also tells who the clients are: publishers are added to those that subscribe."""
    brokers = np.sort(overlay.ids)
    first = _after(brokers, subscribers.ids)
    if what.publisher is None:
        everywhere = not subscribers.names
        clients = subscribers if everywhere else subscribers.also(first + np.arange(len(brokers)), brokers)
        chance = ByChance(int(subscribers.ids[0]) if everywhere else first, len(brokers), what.seed)
        log.write(events, chance)
        return clients
    publishers = log.publishers(len(brokers), what.seed)
    ids = np.array([subscribers.names.get(name, -1) for name in publishers["name"].to_pylist()], np.int64)
    new = ids < 0
    ids[new] = first + np.arange(new.sum())
    log.write(events, publishers.append_column("id", pa.array(ids)))
    return subscribers.also(ids[new], brokers[publishers["broker"].to_numpy()[new]])


def read_columns(path: Path, needed: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, pa.Array]:
    """As texts, and those that are needed without gaps."""
    read = _read(path, checked_format(path), (*needed, *optional))
    found = {}
    problems: list[Problem] = []
    for name in (*needed, *optional):
        if read.column_names.count(name) > 1:
            raise DataError(f"{path} has two columns '{name}'; rename one")
        if name in read.column_names:
            found[name] = _cast(path, name, read[name].combine_chunks(), pa.string())
        elif name in needed:
            raise DataError(f"{path} has no column '{name}'; it needs {' and '.join(needed)}")
        if name in needed:
            problems += problems_at(rows_where(pc.is_null(found[name])), path.name, name, lambda _: "has no value")
    if problems:
        raise DataError(f"{path} is not right:", problems)
    if not len(read):
        raise DataError(f"{path} has no rows in it")
    return found


def _read(path: Path, kind: str, names: tuple[str, ...]) -> pa.Table:
    try:
        if kind == CSV:
            return pa.csv.read_csv(
                path,
                parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
                ),
            )
        return pa.json.read_json(path) if kind == JSON else pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {str(error).partition(chr(10))[0][:160]}") from None


def _cast(path: Path, name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise DataError(f"column '{name}' of {path} is not of {kind} throughout: {reason}") from None


def whole_numbers(texts: pa.Array) -> Ints | None:
    """None if one of them is not, or has zeros in front, as names may have."""
    if not pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]*)$")).as_py():
        return None
    try:
        numbers: Ints = np.asarray(texts.cast(pa.int64()))
    except pa.ArrowInvalid:  # too long
        return None
    return numbers
