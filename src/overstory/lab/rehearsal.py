"""A scenario rehearsed on a live network: its clients publish its log, and what was measured stands beside the meter's.

1. The size of an event is that of its plain PUBLISH packet of QoS 0. ``sized`` gives a scenario these sizes, so that
   the meter counts what links count.
2. ``measured`` says how many events and bytes crossed each directed link; where the scenario counts headers, the bytes
   of steering headers are among them. Framing and control messages are not.
3. ``wanted`` says which events each client should get, by an index of its filters and no network.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.broker.reports import Report
from overstory.errors import DataError, Problem
from overstory.filters import parse_filter
from overstory.lab.crowd import NO_TOPIC, TOPIC, Crowd, Wish, publish_of
from overstory.lab.live import Network
from overstory.matching import FilterIndex
from overstory.matching.batch import Batch
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.topics import topic_attributes
from overstory.pipeline.history import TIME

Ints = NDArray[np.int64]
TYPES = {pa.bool_(): "boolean", pa.int64(): "number", pa.float64(): "number", pa.string(): "string"}
BATCH = 10_000


class Log(NamedTuple):
    """The events of a scenario, as packets."""

    ids: list[int]
    publishers: list[int]
    packets: list[bytes]
    attributes: list[dict[str, Any]]

    @property
    def by_publisher(self) -> dict[int, list[bytes]]:
        """The packets of each client, in the order of the log."""
        found: dict[int, list[bytes]] = defaultdict(list)
        for publisher, packet in zip(self.publishers, self.packets, strict=True):
            found[publisher].append(packet)
        return found


class Rehearsed(NamedTuple):
    """What a live network did."""

    events: Ints  # on each directed link, in the order of the scenario's network
    bytes: Ints
    control: Ints  # bytes
    framing: Ints  # bytes of frames with events beyond the events
    got: dict[int, Ints]  # ids of the events that each client got, in the order in which they came
    reports: dict[int, Report]


def types_of(scenario: Scenario) -> dict[str, str]:
    """The types of attributes, as brokers are to read them."""
    attributes = scenario.attributes.items()
    return {name: TYPES.get(kind, "list") for name, kind in attributes if name != TOPIC}


def log_of(scenario: Scenario) -> Log:
    """The events of a scenario in the order of their times, as clients publish them."""
    rows = pq.read_table(scenario.events).to_pylist()
    rows.sort(key=lambda row: -np.inf if row[TIME] is None else row[TIME])
    attributes = [{name: value for name, value in row.items() if not name.startswith("$")} for row in rows]
    problems = [
        Problem("events", number, name, "a list without words cannot be published")
        for number, row in enumerate(attributes, 1)
        for name, value in row.items()
        if value == []
    ]
    if problems:
        raise DataError.about("the log", problems[:10])
    packets = [publish_of(row["$id"], values) for row, values in zip(rows, attributes, strict=True)]
    return Log([row["$id"] for row in rows], [row["$publisher"] for row in rows], packets, attributes)


def sized(scenario: Scenario, folder: Path) -> Scenario:
    """A copy of a scenario in which the size of each event is that of its packet."""
    table = pq.read_table(scenario.events)
    rows = table.to_pylist()
    sizes = [
        len(publish_of(row["$id"], {name: value for name, value in row.items() if not name.startswith("$")}))
        for row in rows
    ]
    table = table.set_column(table.column_names.index("$bytes"), "$bytes", pa.array(sizes, pa.int64()))
    names = "brokers", "links", "clients", "subscriptions", "changes"
    write_scenario(folder, scenario.settings, {name: getattr(scenario, name) for name in names}, table)
    return read_scenario(folder)


def plan_for_sized(plan: Plan, scenario: Scenario) -> Plan:
    """The plan, as one of the scenario with other sizes: none of its decisions depends on them any more."""
    return replace(plan, header=msgspec.structs.replace(plan.header, scenario=scenario.fingerprint))


def wanted(scenario: Scenario, log: Log, without: Sequence[int] = ()) -> dict[int, set[int]]:
    """The events that each client should get, ``without`` some of the subscriptions."""
    rows = [row for row in scenario.subscriptions.to_pylist() if row["id"] not in set(without)]
    index = FilterIndex()
    numbers = {index.add(parse_filter(row["filter"])): row for row in rows}
    found: dict[int, set[int]] = defaultdict(set)
    for at in range(0, len(log.ids), BATCH):
        attributes = [
            {**values, **topic_attributes(values.get(TOPIC) or NO_TOPIC)} for values in log.attributes[at : at + BATCH]
        ]
        matches = index.match_batch(Batch.of(attributes))
        events = np.repeat(np.arange(len(attributes)), np.diff(matches.offsets)) + at
        for event, number in zip(events.tolist(), matches.filters.tolist(), strict=True):
            row = numbers[number]
            if not row["no_local"] or log.publishers[event] != row["client"]:
                found[row["client"]].add(log.ids[event])
    return found


class Rehearsal:
    """The clients of a scenario on a live network."""

    def __init__(self, scenario: Scenario, plan: Plan, network: Network, takes_clusters: bool = False) -> None:
        """Whether clients take all events of their clusters, or just those that they have asked for."""
        self.scenario, self.network = scenario, network
        self.home = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
        self.log = log_of(scenario)
        self.crowd = Crowd(takes_clusters=takes_clusters)
        self.published = 0

    async def join(self) -> None:
        """All clients that subscribe or publish connect, and make their subscriptions."""
        wishes: dict[int, list[Wish]] = defaultdict(list)
        for row in self.scenario.subscriptions.to_pylist():
            wishes[row["client"]].append(Wish(row["filter"], row["no_local"]))
        names = self.scenario.client_names
        for id_ in sorted({*wishes, *self.log.publishers}):
            await self.crowd.connect(id_, names.get(id_, str(id_)), self.network.address(self.home[id_]))
        await asyncio.gather(*(self.crowd.subscribe(id_, mine) for id_, mine in wishes.items()))
        await self.settle()

    async def play(self) -> None:
        """The log is published, and everything is delivered."""
        await self.crowd.publish(self.log.by_publisher)
        self.published += len(self.log.ids)
        await self.settle()

    async def settle(self) -> None:
        """Waits until nothing is under way."""
        await self.crowd.settle()  # else a network is idle that has not read yet what clients have just sent
        await asyncio.to_thread(self.network.wait_until_idle, self.published)
        await self.crowd.settle()

    async def leave(self, subscriptions: Sequence[int]) -> None:
        """Clients take these subscriptions back, one after the other."""
        rows = {row["id"]: row for row in self.scenario.subscriptions.to_pylist()}
        for id_ in subscriptions:
            self.crowd.unsubscribe(rows[id_]["client"], [rows[id_]["filter"]])
            await self.settle()

    def result(self) -> Rehearsed:
        """What brokers and clients have counted since the network started."""
        reports = self.network.reports()
        return Rehearsed(
            *measured(self.scenario, reports),
            {id_: client.events() for id_, client in self.crowd.clients.items()},
            reports,
        )


def measured(scenario: Scenario, reports: Mapping[int, Report]) -> tuple[Ints, Ints, Ints, Ints]:
    """Events, bytes, bytes of control and of framing on each directed link, in the order of the network."""
    network = scenario.network
    sources, targets = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
    place = {link: at for at, link in enumerate(zip(sources, targets, strict=True))}
    found = np.zeros((4, len(place)), np.int64)
    for broker, report in reports.items():
        for link in report.links:
            traffic = link.traffic
            header = traffic.header_bytes if scenario.settings.headers else 0
            found[:, place[broker, link.peer]] = (
                traffic.events,
                traffic.event_bytes + header,
                traffic.control_bytes,
                traffic.frame_bytes - traffic.event_bytes - traffic.header_bytes,
            )
    return found[0], found[1], found[2], found[3]


async def rehearse(rehearsal: Rehearsal) -> Rehearsed:
    """Joins, plays the log, and says what was measured."""
    try:
        await rehearsal.join()
        await rehearsal.play()
        return rehearsal.result()
    finally:
        rehearsal.crowd.close()
