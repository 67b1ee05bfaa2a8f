"""One event's way through each plan, hop by hop, for a few events of the log. The law says how it travels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.filters import Filter, parse_filter
from overstory.model.folders import parts_of
from overstory.model.naming import told_apart
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL
from overstory.routing.law import Event, Journey, Law
from overstory.studio.text import plain, shortened

LOOKED_AT = 60  # events at the beginning of the log, of which some are told
TOLD = 6  # events
MOST_FILTERS, MOST_ROWS = 5_000, 20_000  # different filters, and rows of a plan's filters or clients, read for it
MOST_OF_AN_EVENT, MOST_HOPS = 90, 400  # characters of its attributes, crossings that are told


class Hop(msgspec.Struct, frozen=True):
    """A copy that crosses a link, by the positions of both brokers."""

    source: int
    target: int
    delay: float  # milliseconds since it was published
    wanted: bool


class Way(msgspec.Struct, frozen=True):
    """The way of one event: from the broker where it is published, over hops, to the clients of brokers."""

    entry: int
    hops: tuple[Hop, ...]
    served: tuple[tuple[int, int], ...]  # brokers by position, with how many subscriptions get it there


class Told(msgspec.Struct, frozen=True):
    """An event in words."""

    label: str
    publisher: str


def some_ways(scenario: Scenario, plans: Sequence[tuple[Plan | None, bool]]) -> tuple[list[Told], list[list[Way]]]:
    """A few events, and for each plan (with whether copies travel as one while they can) the way of each of them.
    Nothing where the scenario or a plan has too many filters to read for a picture."""
    texts = scenario.subscriptions["filter"].unique()
    rows = [max(len(plan.filters), len(plan.attachments)) for plan, _ in plans if plan is not None]
    if len(texts) > MOST_FILTERS or max(rows, default=0) > MOST_ROWS:
        return [], [[] for _ in plans]
    known = {text: parse_filter(text) for text in texts.to_pylist()}
    wanted = {event: wants for event in _events(scenario) if (wants := _matching(known, event))}
    chosen = _chosen(wanted)
    asked = pa.array(sorted({text for event in chosen for text in wanted[event]}), pa.string())
    small = _restricted(scenario, asked)
    told = [_told(scenario, event) for event in chosen]
    return told, [[] if plan is None else _ways(small, plan, coalesce, chosen) for plan, coalesce in plans]


class _Event(msgspec.Struct, frozen=True, eq=False):
    event: Event

    def __hash__(self) -> int:
        return self.event.id


def _events(scenario: Scenario) -> list[_Event]:
    """The first of the log."""
    rows: list[dict[str, Any]] = []
    with pq.ParquetFile(parts_of(scenario.events)[0]) as file:
        for batch in file.iter_batches(batch_size=LOOKED_AT):
            rows = batch.to_pylist()
            break
    return [
        _Event(
            Event(
                row["$id"],
                row["$publisher"],
                row["$bytes"],
                {name: value for name, value in row.items() if not name.startswith("$") and value is not None},
            )
        )
        for row in rows
    ]


def _matching(known: Mapping[str, Filter], event: _Event) -> list[str]:
    return [text for text, each in known.items() if each.matches(event.event.attributes)]


def _chosen(wanted: Mapping[_Event, list[str]]) -> list[_Event]:
    """From those that few want to those that many want, in equal steps; each publisher once as far as that goes."""
    ordered = sorted(wanted, key=lambda event: (len(wanted[event]), event.event.id))
    first = list({event.event.publisher: event for event in reversed(ordered)}.values())[::-1]
    ordered = first if len(first) >= TOLD else ordered
    steps = min(TOLD, len(ordered))
    places = [round(step * (len(ordered) - 1) / max(steps - 1, 1)) for step in range(steps)]
    return [ordered[place] for place in dict.fromkeys(places)]


def _restricted(scenario: Scenario, filters: pa.Array) -> Scenario:
    """With the subscriptions alone that want one of the events, and no changes."""
    subscriptions = scenario.subscriptions.filter(pc.is_in(scenario.subscriptions["filter"], filters))
    return replace(scenario, subscriptions=subscriptions, changes=scenario.changes.slice(0, 0))


def _ways(scenario: Scenario, plan: Plan, coalesce: bool, events: Sequence[_Event]) -> list[Way]:
    counted = replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=coalesce))
    law = Law(counted, _that_carry(scenario, plan))
    return [_way(scenario, law.travel(event.event)) for event in events]


def _that_carry(scenario: Scenario, plan: Plan) -> Plan:
    """The plan with the flows alone that may carry something: with a member left, or with filters of their own."""
    ids = scenario.subscriptions["id"].combine_chunks()
    members = plan.members.filter(pc.is_in(plan.members["subscription"], ids))
    listed = pa.concat_arrays([table["flow"].combine_chunks() for table in (members, plan.filters)])
    everyone = pc.fill_null(pc.equal(plan.flows["members"], ALL), False)
    flows = plan.flows.filter(pc.or_(pc.is_in(plan.flows["flow"], listed), everyone))
    trees = plan.trees.filter(pc.is_in(plan.trees["flow"], flows["flow"].combine_chunks()))
    return replace(plan, members=members, flows=flows, trees=trees)


def _way(scenario: Scenario, journey: Journey) -> Way:
    at = {broker: place for place, broker in enumerate(scenario.network.ids.tolist())}
    hops = [Hop(at[each.source], at[each.target], round(each.delay, 3), each.wanted) for each in journey.crossings]
    served: dict[int, int] = {}
    for copy in journey.copies:
        served[at[copy.broker]] = served.get(at[copy.broker], 0) + len(copy.subscriptions)
    return Way(at[journey.uplink[1]], tuple(hops[:MOST_HOPS]), tuple(sorted(served.items())))


def _told(scenario: Scenario, event: _Event) -> Told:
    values = ", ".join(f"{name} {_value(value)}" for name, value in event.event.attributes.items())
    named = told_apart(scenario.client_names)
    publisher = named.get(event.event.publisher, f"client {event.event.publisher}")
    return Told(f"event {event.event.id}: {shortened(plain(values), MOST_OF_AN_EVENT)}", plain(publisher))


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
