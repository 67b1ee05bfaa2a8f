"""Validate: everything that is wrong with a log, with the filters, or with a plan, said at once."""

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.errors import DataError, Problem
from overstory.filters import parse_filter
from overstory.model.folders import problems_at, repeated_in, rows_where
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.regions import problems_of_regions
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, DENSITIES, EXACT, KINDS, LISTED, STEERED, WHOLE
from overstory.pipeline.boxes import Boxes, boxes_of
from overstory.pipeline.comparing import Comparing
from overstory.pipeline.coverage import Coverage
from overstory.pipeline.entering import may_enter
from overstory.pipeline.lawful import serves_everybody, surely_lawful
from overstory.pipeline.match import BROKER
from overstory.pipeline.possible import Possible
from overstory.pipeline.predicates import distinct, problems_with
from overstory.pipeline.tree_links import TreeLinks, repeated_rows
from overstory.pipeline.wanted import Wanted, broker_of
from overstory.routing.written_out import written_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
MOST_BYTES = 2**62  # of a log; sums are counted in 63 bits


def problems_of_filters(scenario: Scenario, boxes: Boxes | None = None) -> list[Problem]:
    """``boxes`` are those of the distinct filters of the subscriptions, if they are known."""
    return problems_with(scenario.subscriptions["filter"], "subscriptions", "filter", BROKER, boxes)


def problems_of_densities(scenario: Scenario) -> list[Problem]:
    return problems_with(scenario.densities["filter"], DENSITIES.name, "filter", BROKER)


class Published(NamedTuple):
    """What the steps have to know of a log."""

    publishers: Ints  # ascending
    bytes: int
    largest: int  # bytes of an event


def published_in(events: "DataFrame", scenario: Scenario) -> tuple[Published, list[Problem]]:
    """And what is wrong with the log; events are named by their ids, as a log has no rows."""
    from pyspark.sql import functions as sql

    empty = sql.col("`$id`").isNull() | sql.col("`$bytes`").isNull() | sql.col("`$publisher`").isNull()
    found = (
        events.groupBy("`$publisher`")
        .agg(
            sql.min("`$id`").alias("first"),
            sql.min("`$bytes`").alias("least"),
            sql.min_by("`$id`", "`$bytes`").alias("lightest"),
            sql.sum(empty.cast("long")).alias("empty"),
            sql.max("`$bytes`").alias("most"),
            sql.sum(sql.col("`$bytes`").cast("decimal(38,0)")).alias("bytes"),
        )
        .toArrow()
        .sort_by("$publisher")
    )
    problems = []
    empty_rows = pc.sum(found["empty"]).as_py() or 0
    if empty_rows:
        problems.append(Problem("events", None, None, f"{empty_rows:,} events lack an id, a publisher or their bytes"))
        found = found.filter(pc.is_valid(found["$publisher"]))
    unknown = rows_where(pc.invert(pc.is_in(found["$publisher"], scenario.clients["id"].combine_chunks())))
    for row in unknown[:5]:
        what = f"event {found['first'][row]} is published by {found['$publisher'][row]}, and there is no such client"
        problems.append(Problem("events", None, "$publisher", what))
    if len(unknown) > 5:
        problems.append(Problem("events", None, "$publisher", f"{len(unknown) - 5:,} more publishers are no clients"))
    for row in rows_where(pc.less(found["least"], 0))[:5]:
        problems.append(
            Problem("events", None, "$bytes", f"event {found['lightest'][row]} has {found['least'][row]} bytes")
        )
    size = sum(int(size_) for size_ in found["bytes"].to_pylist() if size_ is not None)
    if size >= MOST_BYTES:
        what = f"{size:,} bytes in all, and no more than {MOST_BYTES - 1:,} can be counted; give sizes in a larger unit"
        problems.append(Problem("events", None, "$bytes", what))
    return Published(found["$publisher"].to_numpy(), size, pc.max(found["most"]).as_py() or 0), problems


def check_headroom(log: Published, flows: int, frames: int) -> None:
    """Raises a ``DataError`` where counts of bytes may have left 63 bits: on no link an event is more often than there
    are flows, and on none there are more bytes than frames of the largest size. ``frames`` are those of the busiest."""
    if min(log.bytes * max(flows, 1), log.largest * frames) >= 2**63:
        raise DataError(
            f"{log.bytes:,} bytes in {flows:,} flows may be more than can be counted on a link; "
            "give the sizes of events in a larger unit"
        )


def repeated_id(events: "DataFrame") -> int | None:
    """An id that two events have."""
    from pyspark.sql import functions as sql

    counts = events.groupBy("`$id`").agg(sql.count("*").alias("events")).where("events > 1")
    found = counts.limit(1).toArrow()["$id"].to_pylist()
    return found[0] if found else None


def problems_of_plan(
    scenario: Scenario,
    plan: Plan,
    publishers: Ints,
    boxes: Boxes | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Problem]:
    """How a plan breaks the law on this scenario. ``boxes`` are those of the distinct filters of the subscriptions, if
    they are known. ``note`` hears, in a line, what had to be taken on trust."""
    found = _dangling(scenario, plan)
    found += problems_of_regions(scenario, plan)
    found += problems_with(plan.flows["events"], "flows", "events")
    found += problems_with(plan.members["part"], "members", "part")
    found += problems_with(plan.filters["filter"], "filters", "filter")
    if found:
        return found  # the rest would only say the same again
    if boxes is None:
        boxes = boxes_of(distinct(scenario.subscriptions["filter"])[0])
    if serves_everybody(plan) and surely_lawful(scenario, plan, publishers, boxes):
        return []
    plan = written_out(scenario, plan)
    wanting = scenario.subscriptions["id"].filter(_wants_something(scenario, plan))
    found = _left_out(wanting, plan.members["subscription"], "members", "subscription", "is in no flow")
    if found:
        return found
    check = _Check(scenario, plan, publishers, boxes)
    found = check.trees() + check.rows() + check.exactly_once()
    if check.trusted():
        note(check.trusted())
    return found


def _dangling(scenario: Scenario, plan: Plan) -> list[Problem]:
    brokers, clients = scenario.brokers["id"], scenario.clients["id"]
    flows, subscriptions = plan.flows["flow"], scenario.subscriptions["id"]
    found = [
        *_unknown(plan.attachments["client"], clients, "attachments", "client", "client"),
        *_unknown(plan.attachments["broker"], brokers, "attachments", "broker", "broker"),
        *_repeated(plan.attachments["client"], "attachments", "client"),
        *_repeated(flows, "flows", "flow"),
        *_unknown(plan.flows["kind"], pa.chunked_array([pa.array(KINDS)]), "flows", "kind", "kind of flow"),
        *_unknown(plan.flows["members"], _texts(LISTED, ALL, None), "flows", "members", "kind of membership"),
        *_unknown(plan.flows["access"], _texts(EXACT, WHOLE, None), "flows", "access", "kind of access"),
        *_listed_though_all(plan),
        *_negative(plan.flows["associations"], "flows", "associations"),
        *_unknown(plan.members["flow"], flows, "members", "flow", "flow"),
        *_unknown(plan.members["subscription"], subscriptions, "members", "subscription", "subscription"),
    ]
    for table in ("trees", "filters"):
        rows = getattr(plan, table)
        found += _unknown(rows["flow"], flows, table, "flow", "flow")
        ends = brokers if table == "trees" else pa.chunked_array(brokers.chunks + clients.chunks, pa.int64())
        found += _unknown(rows["source"], brokers, table, "source", "broker")
        found += _unknown(rows["target"], ends, table, "target", "broker" if table == "trees" else "broker or client")
    found += _left_out(clients, plan.attachments["client"], "attachments", "client", "is not attached")
    return found


def _texts(*values: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def _listed_though_all(plan: Plan) -> list[Problem]:
    for_all = plan.flows["flow"].filter(pc.fill_null(pc.equal(plan.flows["members"], ALL), False))
    rows = rows_where(pc.is_in(plan.members["flow"], for_all.combine_chunks()))
    flows = plan.members["flow"]
    return problems_at(rows, "members", "flow", lambda row: f"flow {flows[row]} serves all, and lists no members")


def _wants_something(scenario: Scenario, plan: Plan) -> pa.ChunkedArray:
    """A subscription that no event can match may be in no flow; only those that are in none are looked at."""
    table = scenario.subscriptions
    inside = pc.is_in(table["id"], plan.members["subscription"].combine_chunks())
    alone = table["filter"].filter(pc.invert(inside)).unique()
    idle = [text for text in alone.to_pylist() if not parse_filter(text).boxes]
    return pc.invert(pc.is_in(table["filter"], pa.array(idle, pa.string())))


def _unknown(values: pa.ChunkedArray, known: pa.ChunkedArray, table: str, column: str, what: str) -> list[Problem]:
    rows = rows_where(pc.invert(pc.is_in(values, known.combine_chunks())))
    return problems_at(rows, table, column, lambda row: f"there is no {what} {values[row]}")


def _negative(values: pa.ChunkedArray, table: str, column: str) -> list[Problem]:
    rows = rows_where(pc.less(values, 0))
    return problems_at(rows, table, column, lambda row: f"there cannot be {values[row]} {column}")


def _repeated(values: pa.ChunkedArray, table: str, column: str) -> list[Problem]:
    numbers = values.to_numpy()
    return problems_at(repeated_in(numbers), table, column, lambda row: f"{column} {numbers[row]} has been given above")


def _left_out(every: pa.ChunkedArray, given: pa.ChunkedArray, table: str, column: str, what: str) -> list[Problem]:
    missing = np.sort(every.to_numpy()[~np.isin(every.to_numpy(), given.to_numpy())])
    if not len(missing):
        return []
    more = f" ({len(missing):,} such ones)" if len(missing) > 1 else ""
    return [Problem(table, None, column, f"{column} {missing[0]} {what}{more}")]


class _Check:
    """What needs both the scenario and the plan."""

    def __init__(self, scenario: Scenario, plan: Plan, publishers: Ints, boxes: Boxes) -> None:
        self.scenario, self.plan, self.network = scenario, plan, scenario.network
        self.entering: list[int] = np.unique(broker_of(plan, publishers)).tolist()
        self.wanted = Wanted(scenario, plan, boxes, self.entering)
        self.links = TreeLinks(plan.trees)
        self.coverage = Coverage(self.wanted, Comparing(Possible(scenario.attributes, self.entering)))

    def trees(self) -> list[Problem]:
        found = []
        flows, steered = self.wanted.flow_ids.tolist(), set(self._steered_flows)
        for flow in sorted(steered & set(self.links.flows.tolist())):
            what = f"flow {flow} is steered, and has no tree of its own"
            found.append(Problem("trees", self.links.of(flow)[0][0] + 1, "flow", what))
        strangers = self.links.strangers(self.network)
        for row in strangers[:5].tolist():
            found.append(Problem("trees", row + 1, None, f"there is no link between {self.links.ends_of(row)}"))
        known_bad = steered | set(self.links.flow[strangers].tolist())
        numbers = [number for number, flow in enumerate(flows) if flow not in known_bad]
        return found + [problem for number in self._doubtful(numbers) for problem in self._tree(number)]

    @cached_property
    def _steered_flows(self) -> list[int]:
        """The ids of the flows in which each event has a tree of its own."""
        kinds = self.plan.flows["kind"].to_pylist()
        return [flow for flow, kind in zip(self.wanted.flow_ids.tolist(), kinds, strict=True) if kind in STEERED]

    def _doubtful(self, numbers: list[int]) -> list[int]:
        """Of some flows, those whose links are no tree, or not one of all brokers that it must hold."""
        size = len(self.network)
        asked = np.concatenate([self._hosts, *(number * size + self._entering(number) for number in numbers)])
        offsets, wanted = [0], []
        keys = np.unique(asked)
        for number in numbers:
            first, last = np.searchsorted(keys, [number * size, (number + 1) * size])
            wanted.append(keys[first:last] - number * size)
            offsets.append(offsets[-1] + int(last - first))
        flows = self.wanted.flow_ids[numbers]
        every = np.concatenate([np.empty(0, np.int64), *wanted])
        faults = self.links.faults(self.network, flows, np.array(offsets, np.int64), every)
        return [numbers[at] for at in np.flatnonzero(faults).tolist()]

    @cached_property
    def _hosts(self) -> Ints:
        """The flow and the broker of each member, as one number, ascending."""
        return np.unique(self.wanted.flow * len(self.network) + self.wanted.broker)

    def _hosts_of(self, number: int) -> Ints:
        size = len(self.network)
        first, last = np.searchsorted(self._hosts, [number * size, (number + 1) * size])
        return self._hosts[first:last] - number * size

    def _entering(self, number: int) -> Ints:
        """Positions of brokers at which events may enter a flow that has members, or links."""
        if not len(self._hosts_of(number)) and int(self.wanted.flow_ids[number]) not in self.links:
            return np.empty(0, np.int64)
        brokers = may_enter(self.plan.flows["events"][number].as_py(), self.entering)
        return self.network.positions(np.array(brokers, np.int64))

    def _tree(self, number: int) -> list[Problem]:
        """What is wrong with the tree of a flow, in words."""
        flow = int(self.wanted.flow_ids[number])
        hosts = set(self.network.ids[self._hosts_of(number)].tolist())
        entering = set(self.network.ids[self._entering(number)].tolist())
        rows = self.links.of(flow)
        if not rows:
            every = hosts | entering
            if not hosts:
                return []
            return [Problem("trees", None, "flow", f"flow {flow} has no links, but {len(every):,} brokers to join")]
        neighbours = _neighbours(rows)
        reached, pieces = set[int](), 0
        for broker in neighbours:
            if broker not in reached:
                pieces += 1
                reached |= _reached(neighbours, broker)
        circle = len(rows) > len(neighbours) - pieces
        if circle or pieces > 1:
            what = "has a circle" if circle else f"is in {pieces} pieces"
            return [Problem("trees", rows[0][0] + 1, "flow", f"the tree of flow {flow} {what}")]
        outside = [
            *((broker, "a member's") for broker in sorted(hosts - neighbours.keys())),
            *((broker, "a publisher's") for broker in sorted(entering - neighbours.keys())),
        ]
        return [
            Problem("trees", None, "flow", f"the tree of flow {flow} lacks broker {broker}, {whose}")
            for broker, whose in outside[:5]
        ]

    def rows(self) -> list[Problem]:
        """Rows must be summaries, or stand on a link of the flow's tree or of a client, and cover what is behind it."""
        found = []
        table = self.plan.filters
        flows, sources, targets = (table[name].to_numpy() for name in ("flow", "source", "target"))
        again = repeated_rows(flows, sources, targets)
        for at in again.tolist():
            found.append(Problem("filters", at + 1, "target", "this link has a row above, in the same flow"))
        linked = self.links.have(flows, sources, targets)
        to_client = ~np.isin(targets, self.network.ids)
        home = np.full(len(targets), -1)
        home[to_client] = broker_of(self.plan, targets[to_client])
        summary = (sources == targets) & np.isin(flows, self._steered_flows)
        standing = np.where(to_client, home == sources, linked | summary)
        standing_or_said = standing.copy()
        standing_or_said[again] = True
        for row in np.flatnonzero(~standing_or_said).tolist():
            if to_client[row]:
                what = f"client {targets[row]} is attached to broker {home[row]}, not to {sources[row]}"
            elif flows[row] in self._steered_flows:
                what = f"flow {flows[row]} is steered: its rows are for clients, or from a broker to itself"
            else:
                what = f"there is no link from {sources[row]} to {targets[row]} in the tree of flow {flows[row]}"
            found.append(Problem("filters", row + 1, "source" if to_client[row] else "target", what))
        # A row that lets everything through cannot leave anything out
        asked = standing & ~pc.equal(table["filter"], EVERYTHING).to_numpy()
        asked[again] = False
        return found + self.coverage.rows_too_narrow(np.flatnonzero(asked))

    def exactly_once(self) -> list[Problem]:
        """Of each subscription, the flows' shares are disjoint and cover it."""
        return self.coverage.not_once()

    def trusted(self) -> str:
        """What nobody could tell, in words; nothing if all could be told."""
        counts = (
            (self.coverage.trusted_rows, "pairs of a row of filters and a subscription behind it"),
            (self.coverage.trusted_subscriptions, "subscriptions and the flows that share them"),
        )
        said = " and ".join(f"{count:,} {what}" for count, what in counts if count)
        return said and f"taken on trust, as arithmetic and patterns cannot always be compared: {said}"


def _neighbours(links: list[tuple[int, int, int]]) -> dict[int, set[int]]:
    found = defaultdict(set)
    for _, one, other in links:
        found[one].add(other)
        found[other].add(one)
    return found


def _reached(neighbours: dict[int, set[int]], start: int) -> set[int]:
    found, ahead = {start}, [start]
    while ahead:
        for other in neighbours[ahead.pop()] - found:
            found.add(other)
            ahead.append(other)
    return found
