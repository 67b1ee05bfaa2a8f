"""The ``changes`` of a scenario: checked row by row, and parted into the history and the churn.

``subscriptions`` and ``clients`` are the state at the first event. Changes before it are the *history* that led to that
state; the others are *churn*. So the state before the history follows from the tables:

1. A subscription that the history makes was not there before. All others of ``subscriptions`` were.
2. A client whose first join, leave or move is a join was away before it. All others were at their broker: that of the
   plan, since the table names no broker that a client moves away from.
3. Nobody had announced anything.

A client that leaves takes its subscriptions and its announcement along; where it joins again, rows say what it wants. A
client has one announcement, and a second one takes the place of the first.

Rows are looked at in their order, and times may not go backwards. A history that does not end in the tables is refused.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.errors import DataError, FilterError, Problem
from overstory.filters import Filter, parse_filter
from overstory.model.folders import parts_of
from overstory.model.scenario import Scenario
from overstory.pipeline.match import BROKER
from overstory.pipeline.predicates import STRING

TABLE = "changes"
NEEDED = {  # the columns that each operation needs beside its time and its client
    "subscribe": ("subscription", "filter"),
    "unsubscribe": ("subscription",),
    "announce": ("filter",),
    "join": ("broker",),
    "leave": (),
    "move": ("broker",),
}
PLACING = ("join", "leave", "move")
TIME = "$time"  # of events
MOST_NAMED = 20  # problems


class Change(NamedTuple):
    """A row of ``changes``. What its operation does not need is None."""

    row: int  # counted from 1
    time: float
    operation: str
    client: int
    subscription: int | None
    filter: Filter | None
    broker: int | None


class Timeline(NamedTuple):
    """The changes of a scenario, in order, and who is there at which time."""

    history: tuple[Change, ...]
    churn: tuple[Change, ...]
    away_before: frozenset[int]  # clients that are not there before the history
    away: frozenset[int]  # clients that are not there at the first event
    announced: dict[int, Filter]  # by clients that are there at the first event


def timeline_of(scenario: Scenario) -> Timeline:
    """The changes of a scenario. Raises a ``DataError`` that names the rows that make no sense. Spark is not needed."""
    timeline, problems = _walked(scenario)
    if problems:
        raise DataError(f"the scenario {scenario.folder} is not right:", problems)
    return timeline


def problems_of_changes(scenario: Scenario) -> list[Problem]:
    """The rows of ``changes`` that make no sense."""
    return _walked(scenario)[1] if scenario.changes.num_rows else []


def has_churn(scenario: Scenario) -> bool:
    """Whether anything changes from the first event on. Nothing is parsed for the answer."""
    times = scenario.changes["time"]
    return len(times) > 0 and bool(np.max(times.to_numpy()) >= first_event(scenario))


def first_event(scenario: Scenario) -> float:
    """The time of the first event. Without events it is before all times, so that every change is churn.

    The statistics of Parquet tell the time, if the files have them.
    """
    found = min((_earliest(pq.ParquetFile(part)) for part in parts_of(scenario.events)), default=math.inf)
    return found if found < math.inf else -math.inf


def _earliest(part: pq.ParquetFile) -> float:
    """The time of the first event of a file; infinite if there is none."""
    found = math.inf
    for group in range(part.metadata.num_row_groups):
        rows = part.metadata.row_group(group)
        columns = map(rows.column, range(rows.num_columns))
        known = next(column for column in columns if column.path_in_schema == TIME).statistics
        if known is not None and known.has_min_max:
            found = min(found, float(known.min))
        else:
            least = pc.min(part.read_row_group(group, columns=[TIME])[TIME]).as_py()
            found = found if least is None or math.isnan(least) else min(found, least)
    return found


class _Made(NamedTuple):
    """A subscription that is there."""

    client: int
    by: Change | None  # None: it is in ``subscriptions``, and was there before the history


class _Walk:
    """Goes through the rows in order, and keeps who is there and what is subscribed to."""

    def __init__(self, scenario: Scenario, away: set[int], made: set[int | None]) -> None:
        """``made`` are the subscriptions that the history makes, which are not there before."""
        self.problems: list[Problem] = []
        self.away = set(away)
        self.announced: dict[int, Filter] = {}
        self.placed: dict[int, Change] = {}  # the last join, leave or move of each client
        self.ended: dict[int, Change] = {}  # what ended subscriptions that are not there
        self.live: dict[int, _Made] = {}  # the subscriptions that are there
        self._of: dict[int, set[int]] = defaultdict(set)  # the subscriptions of each client
        ids, clients = (scenario.subscriptions[name].to_pylist() for name in ("id", "client"))
        for id_, client in zip(ids, clients, strict=True):
            if id_ not in made:
                self._add(id_, _Made(client, None))

    def go(self, changes: list[Change]) -> None:
        """Carries out the changes one after the other. One that makes no sense is named, and followed as far as that
        can be."""
        for change in changes:
            getattr(self, f"_{change.operation}")(change)

    def _say(self, change: Change, column: str, what: str) -> None:
        self.problems.append(Problem(TABLE, change.row, column, what))

    def _add(self, id_: int, made: _Made) -> None:
        self.live[id_] = made
        self._of[made.client].add(id_)

    def _end(self, id_: int, change: Change) -> None:
        self._of[self.live.pop(id_).client].discard(id_)
        self.ended[id_] = change

    def _is_here(self, change: Change) -> bool:
        if change.client in self.away:
            self._say(change, "client", f"client {change.client} is not there: it has to join first")
        return change.client not in self.away

    def _subscribe(self, change: Change) -> None:
        if not self._is_here(change) or change.subscription is None:
            return
        known = self.live.get(change.subscription)
        if known is not None:
            since = "the table subscriptions" if known.by is None else f"row {known.by.row}"
            self._say(change, "subscription", f"subscription {change.subscription} is there already, by {since}")
        else:
            self._add(change.subscription, _Made(change.client, change))
            self.ended.pop(change.subscription, None)

    def _unsubscribe(self, change: Change) -> None:
        if not self._is_here(change) or change.subscription is None:
            return
        known = self.live.get(change.subscription)
        if known is None:
            self._say(change, "subscription", f"there is no subscription {change.subscription} at that time")
        elif known.client != change.client:
            self._say(change, "client", f"subscription {change.subscription} is client {known.client}'s")
        else:
            self._end(change.subscription, change)

    def _announce(self, change: Change) -> None:
        if self._is_here(change) and change.filter is not None:
            self.announced[change.client] = change.filter

    def _join(self, change: Change) -> None:
        if change.client not in self.away:
            self._say(change, "client", f"client {change.client} is there already: it can only move")
        if self._of[change.client]:
            what = f"client {change.client} joins, and nothing says when it made subscription"
            self._say(change, "client", f"{what} {min(self._of[change.client])}, which is in the table subscriptions")
        self.away.discard(change.client)
        self.placed[change.client] = change

    def _leave(self, change: Change) -> None:
        if not self._is_here(change):
            return
        for id_ in sorted(self._of[change.client]):
            self._end(id_, change)
        self.announced.pop(change.client, None)
        self.away.add(change.client)
        self.placed[change.client] = change

    def _move(self, change: Change) -> None:
        if self._is_here(change):
            self.placed[change.client] = change


def _walked(scenario: Scenario) -> tuple[Timeline, list[Problem]]:
    """The timeline, and the rows that make no sense."""
    changes, problems = _read(scenario.changes)
    first = first_event(scenario)
    history = [change for change in changes if change.time < first]
    churn = changes[len(history) :]
    made = {change.subscription for change in history if change.operation == "subscribe"}
    before = _away_at_first(changes)
    walk = _Walk(scenario, before, made)
    walk.go(history)
    if not problems and not walk.problems:
        problems += _not_in_tables(scenario, walk)
    timeline = Timeline(tuple(history), tuple(churn), frozenset(before), frozenset(walk.away), dict(walk.announced))
    if not problems and not walk.problems:  # else later rows would only be named for what is wrong above
        walk.go(churn)
    found = sorted([*problems, *walk.problems], key=lambda problem: problem.row or 0)
    return timeline, _named(found)


def _away_at_first(changes: list[Change]) -> set[int]:
    """The clients whose first join, leave or move is a join."""
    first: dict[int, str] = {}
    for change in changes:
        if change.operation in PLACING:
            first.setdefault(change.client, change.operation)
    return {client for client, operation in first.items() if operation == "join"}


def _read(table: pa.Table) -> tuple[list[Change], list[Problem]]:
    """All rows, and what is wrong with each by itself. Texts that are equal are parsed once."""
    parsed: dict[str, Filter | str] = {}
    changes, problems, latest = [], [], -math.inf
    columns = [table[name].to_pylist() for name in ("time", "operation", "client", "subscription", "filter", "broker")]
    for row, values in enumerate(zip(*columns, strict=True), start=1):
        time, operation, client, subscription, text, broker = values
        needed = NEEDED[operation]
        given = {"subscription": subscription, "filter": text, "broker": broker}
        for name in needed:
            if given[name] is None:
                problems.append(Problem(TABLE, row, name, f"{operation} needs one"))
        if not math.isfinite(time):
            problems.append(Problem(TABLE, row, "time", f"{time} is not a time"))
        elif time < latest:
            problems.append(Problem(TABLE, row, "time", f"{time:g} is before the row above, which is at {latest:g}"))
        else:
            latest = time
        wanted = _parsed(text, parsed) if "filter" in needed and text is not None else None
        if isinstance(wanted, str):
            problems.append(Problem(TABLE, row, "filter", wanted))
            wanted = None
        kept = (given[name] if name in needed else None for name in ("subscription", "broker"))
        number, place = kept
        changes.append(Change(row, time, operation, client, number, wanted, place))
    return changes, problems


def _parsed(text: str, known: dict[str, Filter | str]) -> Filter | str:
    """The filter, or what is wrong with its text."""
    if text not in known:
        try:
            known[text] = parse_filter(text)
            if BROKER in STRING.sub("", text):
                known[text] = f"{BROKER} is not for clients: only plans may use it"
        except FilterError as error:
            known[text] = f"{error.summary()}: {text[:80]}"
    return known[text]


def _not_in_tables(scenario: Scenario, walk: _Walk) -> list[Problem]:
    """Rows of the history that lead to another state than that of ``subscriptions`` and ``clients``."""
    rows = {row["id"]: row for row in scenario.subscriptions.to_pylist()}
    made = [(id_, known.by) for id_, known in walk.live.items() if known.by is not None]
    found = [problem for id_, change in made if (problem := _unlike(change, rows.get(id_))) is not None]
    for id_, change in walk.ended.items():
        if id_ in rows:
            what = f"this ends subscription {id_}, and the table subscriptions has it at the first event"
            found.append(Problem(TABLE, change.row, "subscription" if change.subscription else "client", what))
    brokers = dict(zip(*(scenario.clients[name].to_pylist() for name in ("id", "broker")), strict=True))
    for client, change in walk.placed.items():
        if change.broker is not None and brokers[client] not in (None, change.broker):
            what = f"client {client} ends up here, and the table clients has it at broker {brokers[client]}"
            found.append(Problem(TABLE, change.row, "broker", what))
    return found


def _unlike(change: Change, row: dict[str, object] | None) -> Problem | None:
    """In what a subscription that the history made differs from that of the table, if it does."""
    if row is None:
        what = f"subscription {change.subscription} is still there at the first event, and not in the table"
        return Problem(TABLE, change.row, "subscription", f"{what} subscriptions")
    if row["client"] != change.client:
        what = f"the table subscriptions says that subscription {change.subscription} is client {row['client']}'s"
        return Problem(TABLE, change.row, "client", what)
    if change.filter is not None and not _says(str(row["filter"]), change.filter):
        what = f"the table subscriptions has another filter for subscription {change.subscription}"
        return Problem(TABLE, change.row, "filter", what)
    return None


def _says(text: str, wanted: Filter) -> bool:
    """Whether the text is this filter. One that does not parse is named elsewhere."""
    try:
        return parse_filter(text) == wanted
    except FilterError:
        return True


def _named(problems: list[Problem]) -> list[Problem]:
    """The first few, and how many more there are."""
    more = len(problems) - MOST_NAMED
    if more <= 0:
        return problems
    return [*problems[:MOST_NAMED], Problem(TABLE, None, None, f"{more:,} more rows make no sense")]
