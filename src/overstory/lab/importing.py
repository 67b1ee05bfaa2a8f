"""A scenario of files: an event log, an overlay, and subscriptions that are given, generated, or none.

Ids are given out in this order: brokers, clients that subscribe, clients that only publish. Where a file has whole
numbers for ids, they are kept; names are numbered in their order, and stay. What is left to chance depends on the seed
and on nothing else, and ``scenario.toml`` names files without their folders: the same files give the same scenario
anywhere.

What can be refused is refused before the log is read; what was inferred, left out or left to chance is said.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from overstory.errors import DataError, UsageError
from overstory.lab.attaching import (
    Clients,
    at_every_broker,
    attached,
    attachments_in,
    in_words,
    strangers,
    told_by_column,
)
from overstory.lab.graphs import MadeBy, dice
from overstory.lab.logs import add_subscriptions, check_draw
from overstory.lab.overlays import Overlay, overlay_of
from overstory.lab.subscription_files import wanted_in
from overstory.model.checks import problems_of
from overstory.model.folders import check_can_be_made
from overstory.model.network import Ints, Network
from overstory.model.scenario import Scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, SUBSCRIPTIONS
from overstory.pipeline.importing import opened_log
from overstory.pipeline.log import ByChance, Log, LogSeen
from overstory.pipeline.log_options import BAD_VALUES, Reading, Roles
from overstory.pipeline.log_preview import look_ahead
from overstory.pipeline.log_times import UNITS
from overstory.pipeline.log_types import IN_WORDS
from overstory.pipeline.pipeline import Pipeline

ROLES = ("time", "bytes", "publisher", "broker")  # of columns
MOST_SUBSCRIPTIONS = 10_000_000  # that are generated


class Import(msgspec.Struct, frozen=True):
    events: Path  # a file, a folder of files, or a pattern
    topology: str  # as for ``topology()``, or the path of a file of links, or of a folder with an overlay
    brokers: int | None = None  # of a generated topology
    publisher: str | None = None  # the column of the log that tells who published; else it is left to chance
    time: str | None = None  # the column that tells the time; else it is the number of the event
    bytes: str | None = None  # the column that tells the size; else it is 1
    subscriptions: str | None = None  # how many to generate, or the path of a file
    selectivity: float = 0.01  # of generated subscriptions
    seed: int = 0
    columns: tuple[str, ...] | None = None  # the attributes to keep, if not all
    broker: str | None = None  # the column that tells where the publisher is attached
    attach: Path | None = None  # a file that tells where clients are attached
    types: dict[str, str] = {}  # of columns, as Spark calls them
    bad_values: str = "refuse"  # values that do not convert: or "null"
    time_unit: str | None = None
    flatten: bool = False

    def reading(self) -> Reading:
        return Reading(self.columns, self.types, self.bad_values, self.time_unit, self.flatten)

    def roles(self) -> Roles:
        return Roles(self.time, self.bytes, self.publisher, self.broker)


class Imported(NamedTuple):
    """What was made, and what a user should know of it."""

    sizes: dict[str, int]
    log: LogSeen
    attached: dict[str, int]  # how many clients were attached how
    notes: tuple[str, ...]  # in words


def import_scenario(folder: Path, what: Import, pipeline: Pipeline) -> Imported:
    """Writes the scenario whole or not at all."""
    check_can_be_made(folder)
    count = _count_in(what)
    files = look_ahead(what.events, what.roles(), what.reading())
    overlay = overlay_of(what.topology, what.brokers, what.seed)
    subscribers, subscriptions, notes = _subscribers(what, count, overlay)
    by_file = attachments_in(what.attach, overlay) if what.attach is not None else {}
    settings = Settings(name=what.events.name.partition(".")[0] or "import", made_by=_made_by(what, overlay))
    before = attached(subscribers, overlay, by_file).table
    brokers, clients = BROKERS.completed(overlay[0]), CLIENTS.completed(before)
    _check(Scenario(folder, settings, brokers, overlay[1], clients, subscriptions, CHANGES.schema.empty_table()), what)
    with _beside(folder) as beside, opened_log(pipeline, files, what.roles(), beside, what.reading()) as log:
        pipeline.tell("writing the events")
        events = beside / "events.parquet"
        clients = _write_events(events, log, overlay, subscribers, what, notes)
        if count:
            pipeline.tell("drawing subscriptions")
            filters = add_subscriptions(events, count, what.seed, what.selectivity)
            subscriptions = _spread(filters, subscribers.ids, what.seed)
        pipeline.tell("looking at the log")
        seen = log.seen()
        placed = attached(clients, overlay, by_file)
        tables = {"brokers": overlay.brokers, "links": overlay.links, "clients": placed.table}
        write_scenario(folder, settings, tables | {"subscriptions": subscriptions}, events)
    if what.attach is not None:
        notes += strangers(what.attach, by_file, clients)
    sizes = {
        "brokers": len(overlay.brokers),
        "links": len(Network.of(overlay.brokers, overlay.links).targets) // 2,
        "clients": len(clients.ids),
        "subscriptions": len(subscriptions),
        "events": log.events,
    }
    return Imported(sizes, seen, placed.ways, (*overlay.notes, *notes, in_words(placed.ways)))


def _made_by(what: Import, overlay: Overlay) -> MadeBy:
    found: MadeBy = {"kind": "import", "events": what.events.name, "seed": what.seed, **overlay.made_by}
    for name in ("publisher", "time", "bytes", "broker", "time_unit"):
        given = getattr(what, name)
        if given is not None:
            found[name] = given
    if what.columns is not None:
        found["columns"] = ", ".join(what.columns)
    if what.types:
        found["types"] = ", ".join(f"{name}={IN_WORDS[kind]}" for name, kind in what.types.items())
    if what.bad_values != BAD_VALUES[0]:
        found["bad_values"] = what.bad_values
    if what.flatten:
        found["flatten"] = True
    if what.attach is not None:
        found["attach"] = what.attach.name
    count = _count_in(what)
    if count is None:
        found["subscriptions"] = Path(what.subscriptions or "").name
    elif count:
        found |= {"subscriptions": count, "selectivity": what.selectivity}
    return found


def _count_in(what: Import) -> int | None:
    """How many subscriptions are to be generated; None if they are in a file. Checks the options as well."""
    if what.bad_values not in BAD_VALUES:
        raise UsageError(f"bad values can be refused or become null, not {what.bad_values!r}")
    if what.time_unit is not None and what.time_unit not in UNITS:
        raise UsageError(f"there is no unit of time {what.time_unit!r}; use {', '.join(UNITS)}")
    if what.time_unit is not None and what.time is None:
        raise UsageError(f"--time-unit {what.time_unit} is for times that are numbers; name their column with --time")
    for role in ("time", "bytes"):
        same = [other for other in ROLES if getattr(what, other) == getattr(what, role) is not None and other != role]
        if same:
            raise UsageError(f"--{role} and --{same[0]} name the same column '{getattr(what, role)}'; name another")
    if what.broker is not None and what.publisher is None:
        raise UsageError(f"--broker {what.broker} tells where publishers are; name their column with --publisher, too")
    dice(what.seed)
    if what.subscriptions is None:
        return 0
    if what.subscriptions.isascii() and what.subscriptions.isdigit():
        count = int(what.subscriptions)
        check_draw(count, what.selectivity)
        if count > MOST_SUBSCRIPTIONS:
            raise UsageError(f"--subscriptions: it is from 0 to {MOST_SUBSCRIPTIONS:,}, not {count:,}")
        return count
    if not Path(what.subscriptions).is_file():
        raise UsageError(
            f"--subscriptions {what.subscriptions} is neither a whole number nor a file that is there: "
            "a .csv, .jsonl or .parquet file, or a text with one filter a line"
        )
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


def _check(scenario: Scenario, what: Import) -> None:
    problems = problems_of(scenario)
    if problems:
        raise DataError.about(f"the overlay {what.topology} with the subscriptions", problems)


def _subscribers(what: Import, count: int | None, overlay: Overlay) -> tuple[Clients, pa.Table, list[str]]:
    """Clients of a file are attached as ``attaching`` says, or in turn to brokers in a random order; where
    subscriptions are to be generated, there is a client at every broker."""
    if count is not None:
        here = at_every_broker(np.sort(overlay.ids), _after(overlay.ids))
        return here, SUBSCRIPTIONS.schema.empty_table(), []
    assert what.subscriptions is not None
    wanted = wanted_in(Path(what.subscriptions), overlay, _after(overlay.ids))
    chosen = dice(what.seed).permutation(overlay.ids)[np.arange(len(wanted.ids)) % len(overlay.ids)]
    return Clients(wanted.ids, list(wanted.names), chosen, wanted.told), wanted.subscriptions, list(wanted.notes)


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


def _after(*ids: Ints) -> int:
    return max(0, *(int(column.max()) + 1 for column in ids if len(column)))


def _write_events(
    events: Path, log: Log, overlay: Overlay, subscribers: Clients, what: Import, notes: list[str]
) -> Clients:
    """Also tells who the clients are: publishers are added to those that subscribe."""
    brokers = np.sort(overlay.ids)
    first = _after(brokers, subscribers.ids)
    if what.publisher is None:
        if subscribers.everywhere:
            clients, first = subscribers, int(subscribers.ids[0])
        else:
            clients = subscribers.also(at_every_broker(brokers, first))
        log.write(events, ByChance(first, len(brokers), what.seed))
        notes.append("no column tells who published (--publisher): each event is published at a broker by chance")
        return clients
    publishers = log.publishers(len(brokers), what.seed)
    known = subscribers.by_name()
    names = publishers["name"].to_pylist()
    ids = np.array([known.get(name, -1) for name in names], np.int64)
    new = ids < 0
    ids[new] = first + np.arange(new.sum())
    log.write(events, publishers.append_column("id", pa.array(ids)))
    told = _told(log, overlay, publishers.append_column("id", pa.array(ids)), subscribers.told, notes)
    chosen = brokers[publishers["broker"].to_numpy()[new]]
    new_names = [name for name, is_new in zip(names, new.tolist(), strict=True) if is_new]
    return subscribers.also(Clients(ids[new], new_names, chosen, told))


def _told(log: Log, overlay: Overlay, publishers: pa.Table, before: dict[int, int], notes: list[str]) -> dict[int, int]:
    """The brokers of publishers that a column of the log tells, if one does. A column that was not named to do so, and
    says something else, is an attribute and no more."""
    if log.told_by is None:
        return {}
    told, fault = told_by_column(publishers, overlay, before)
    if fault and log.roles.broker is not None:
        raise DataError(f"column '{log.told_by}' of {log.path} has to tell where publishers are: {fault}")
    if fault:
        notes.append(f"'{log.told_by}' of the log is an attribute alone, and attaches nobody: {fault}")
        return {}
    return told
