"""Validate: everything that is wrong with a log, with the filters, or with a plan, said at once."""

from collections import defaultdict
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.errors import DataError, FilterLimitError, Problem
from overstory.filters import Filter, parse_filter
from overstory.model.folders import problems_at, rows_where
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, EXACT, KINDS, LISTED, MEMBERS, STEERED, WHOLE
from overstory.pipeline.match import BROKER
from overstory.pipeline.possible import Possible, names_in
from overstory.pipeline.predicates import problems_with
from overstory.pipeline.tree_links import TreeLinks, repeated_rows
from overstory.routing.written_out import written_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
MOST_BYTES = 2**62  # of a log; sums are counted in 63 bits
MOST_COMPARED = 20_000  # pairs of filters that are compared before the rest is taken on trust


def problems_of_filters(scenario: Scenario) -> list[Problem]:
    return problems_with(scenario.subscriptions["filter"], "subscriptions", "filter", reserved=BROKER)


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


def problems_of_plan(scenario: Scenario, plan: Plan, publishers: Ints) -> list[Problem]:
    """How a plan breaks the law on this scenario."""
    found = _dangling(scenario, plan)
    found += problems_with(plan.flows["events"], "flows", "events")
    found += problems_with(plan.members["part"], "members", "part")
    found += problems_with(plan.filters["filter"], "filters", "filter")
    if found:
        return found  # the rest would only say the same again
    plan = written_out(scenario, plan)
    wanting = scenario.subscriptions["id"].filter(_wants_something(scenario, plan))
    found = _left_out(wanting, plan.members["subscription"], "members", "subscription", "is in no flow")
    if found:
        return found
    check = _Check(scenario, plan, publishers)
    return check.trees() + check.rows() + check.exactly_once()


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
    again = np.setdiff1d(np.arange(len(numbers)), np.unique(numbers, return_index=True)[1]).tolist()
    return problems_at(again, table, column, lambda row: f"{column} {numbers[row]} has been given above")


def _left_out(every: pa.ChunkedArray, given: pa.ChunkedArray, table: str, column: str, what: str) -> list[Problem]:
    missing = np.setdiff1d(every.to_numpy(), given.to_numpy())
    if not len(missing):
        return []
    more = f" ({len(missing):,} such ones)" if len(missing) > 1 else ""
    return [Problem(table, None, column, f"{column} {missing[0]} {what}{more}")]


class Member(NamedTuple):
    subscription: int
    part: str | None


class _Check:
    """What needs both the scenario and the plan."""

    def __init__(self, scenario: Scenario, plan: Plan, publishers: Ints) -> None:
        self.scenario, self.plan, self.network = scenario, plan, scenario.network
        attached = dict(zip(*(plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
        owner = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "client")), strict=True))
        self.attached = attached
        self.text_of = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "filter")), strict=True))
        self.entering = sorted({attached[client] for client in publishers.tolist()})
        flows = plan.flows.to_pylist()
        self.flows = {flow["flow"]: flow for flow in flows}
        self.hosts: dict[int, set[int]] = defaultdict(set)  # by flow: the brokers of its members
        self.shares: dict[int, list[tuple[int, str | None]]] = defaultdict(list)  # by subscription: flows, and parts
        self.members_at: dict[tuple[int, int], list[Member]] = defaultdict(list)  # by flow, and by client or broker
        for flow, subscription, part in zip(
            *(plan.members[name].to_pylist() for name in MEMBERS.schema.names), strict=True
        ):
            client = owner[subscription]
            self.hosts[flow].add(attached[client])
            self.shares[subscription].append((flow, part))
            if plan.filters.num_rows:
                for end in (client, attached[client]):
                    self.members_at[flow, end].append(Member(subscription, part))
        self.links = TreeLinks(plan.trees)
        self.possible = Possible(scenario.attributes, self.entering)
        self.compared = 0

    def trees(self) -> list[Problem]:
        found = []
        steered = {flow for flow, row in self.flows.items() if row["kind"] in STEERED}
        for flow in sorted(steered & set(self.links.flows.tolist())):
            what = f"flow {flow} is steered, and has no tree of its own"
            found.append(Problem("trees", self.links.of(flow)[0][0] + 1, "flow", what))
        strangers = self.links.strangers(self.network)
        for row in strangers[:5].tolist():
            found.append(Problem("trees", row + 1, None, f"there is no link between {self.links.ends_of(row)}"))
        known_bad = steered | set(self.links.flow[strangers].tolist())
        return found + [problem for flow in self._doubtful(known_bad) for problem in self._tree(flow)]

    def _doubtful(self, others: set[int]) -> list[int]:
        """Flows, without some, whose links are no tree, or not one of all brokers that it must hold."""
        flows = [flow for flow in self.flows if flow not in others]
        wanted = [sorted(self.hosts[flow] | set(self._entering(flow))) for flow in flows]
        sizes = [len(brokers) for brokers in wanted]
        every = np.fromiter((broker for brokers in wanted for broker in brokers), np.int64, sum(sizes))
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        faults = self.links.faults(self.network, np.array(flows, np.int64), offsets, self.network.positions(every))
        return [flows[at] for at in np.flatnonzero(faults).tolist()]

    def _entering(self, flow: int) -> list[int]:
        """Brokers at which events may enter a flow that has members, or links."""
        if not self.hosts[flow] and flow not in self.links:
            return []
        events = _parsed(self.flows[flow]["events"])
        if events is None or any(BROKER not in box.sets for box in events.boxes):
            return self.entering
        return [broker for broker in self.entering if any(box.sets[BROKER].contains(broker) for box in events.boxes)]

    def _tree(self, flow: int) -> list[Problem]:
        """What is wrong with the tree of a flow, in words."""
        rows, hosts, entering = self.links.of(flow), self.hosts[flow], set(self._entering(flow))
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
                reached |= _behind(neighbours, broker, broker) | {broker}
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
        """Rows must stand on a link of the flow's tree, or on that of a client, and cover what is wanted behind it."""
        found = []
        table = self.plan.filters
        flows, sources, targets = (table[name].to_numpy() for name in ("flow", "source", "target"))
        again = repeated_rows(flows, sources, targets)
        for at in again.tolist():
            found.append(Problem("filters", at + 1, "target", "this link has a row above, in the same flow"))
        # A row that lets everything through cannot leave anything out: if its link is there, it is in order.
        fine = pc.equal(table["filter"], EVERYTHING).to_numpy() & self.links.have(flows, sources, targets)
        fine[again] = True
        neighbours: dict[int, dict[int, set[int]]] = {}
        for number in np.flatnonzero(~fine).tolist():
            flow, source, target = int(flows[number]), int(sources[number]), int(targets[number])
            if flow not in neighbours:
                neighbours[flow] = _neighbours(self.links.of(flow))
            if target in self.attached:
                if self.attached[target] != source:
                    what = f"client {target} is attached to broker {self.attached[target]}, not to {source}"
                    found.append(Problem("filters", number + 1, "source", what))
                    continue
                behind = {target}
            elif target in neighbours[flow].get(source, ()):
                behind = _behind(neighbours[flow], source, target)
            else:
                what = f"there is no link from {source} to {target} in the tree of flow {flow}"
                found.append(Problem("filters", number + 1, "target", what))
                continue
            lost = self._lost(flow, table["filter"][number].as_py(), behind)
            if lost is not None:
                found.append(
                    Problem("filters", number + 1, "filter", f"it does not cover subscription {lost}, which is behind")
                )
        return found

    def _lost(self, flow: int, text: str, behind: set[int]) -> int | None:
        """A subscription behind the link that surely wants more than the row lets through."""
        seen = set()
        for member in (member for end in behind for member in self.members_at.get((flow, end), ())):
            want = self._wanted(flow, member.subscription, member.part)
            if want in seen:
                continue
            seen.add(want)
            self.compared += 1
            if self.compared > MOST_COMPARED:
                return None
            if self._leaves_out([text], want):
                return member.subscription
        return None

    def _leaves_out(self, texts: list[str], want: str) -> bool:
        """Whether some possible event that is wanted surely matches none of the texts."""
        parsed = [part for part in map(_parsed, (want, *texts)) if part is not None]
        if len(parsed) <= len(texts):
            return False
        wanted, whole = parsed[0], parsed[1].union(*parsed[2:])
        if not whole.leaves_out(wanted):
            return False
        possible = self.possible.of(wanted, names_in(parsed[1:]))
        return possible is not None and whole.leaves_out(possible)

    def _share(self, one: Filter, other: Filter) -> bool:
        """Whether some possible event surely matches both."""
        if not one.intersects(other) or not one.is_exact_with(other):
            return False
        possible = self.possible.of(one, names_in([one, other]))
        return possible is not None and possible.intersects(other)

    def _wanted(self, flow: int, subscription: int, part: str | None) -> str:
        texts = [self.text_of[subscription], self.flows[flow]["events"], part or EVERYTHING]
        return " AND ".join(f"({text})" for text in texts if text != EVERYTHING) or EVERYTHING

    def exactly_once(self) -> list[Problem]:
        """Of each subscription, the flows' shares are disjoint and cover it. Equal cases are looked at once."""
        cases: dict[tuple[str, tuple[tuple[int, str | None], ...]], int] = {}
        plain = {(flow, None) for flow, row in self.flows.items() if row["events"] == EVERYTHING}
        for subscription, shares in self.shares.items():
            if len(shares) > 1 or shares[0] not in plain:
                cases.setdefault((self.text_of[subscription], tuple(shares)), subscription)
        found = []
        self.compared = 0
        for (text, parts), subscription in cases.items():
            what = self._not_once(text, [self._wanted(flow, subscription, part) for flow, part in parts])
            if what:
                found.append(Problem("members", None, "subscription", f"subscription {subscription} {what}"))
        return found[:20]

    def _not_once(self, text: str, texts: list[str]) -> str:
        self.compared += 1 + len(texts) * len(texts)  # pairs, and as many again for all of them together
        if self.compared > MOST_COMPARED:
            return ""
        parts = [part for part in map(_parsed, texts) if part is not None]
        if any(self._share(one, other) for one, other in combinations(parts, 2)):
            return "is served twice: two of its flows take the same events"
        return "is not served whole: its flows leave events out" if self._leaves_out(texts, text) else ""


@lru_cache(MOST_COMPARED)
def _parsed(text: str) -> Filter | None:
    """None if it is too large, as a conjunction of filters can be: then it is taken on trust."""
    try:
        return parse_filter(text)
    except FilterLimitError:
        return None


def _neighbours(links: list[tuple[int, int, int]]) -> dict[int, set[int]]:
    found = defaultdict(set)
    for _, one, other in links:
        found[one].add(other)
        found[other].add(one)
    return found


def _behind(neighbours: dict[int, set[int]], source: int, target: int) -> set[int]:
    found, ahead = {source, target}, [target]
    while ahead:
        for other in neighbours[ahead.pop()] - found:
            found.add(other)
            ahead.append(other)
    return found - {source}
