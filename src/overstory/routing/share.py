"""A broker's share of a plan, which its router installs. All shares are made from the whole plan at once.

The trees of the plan are checked on that occasion.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from overstory.errors import DataError, Problem
from overstory.filters import Filter, parse_filter
from overstory.kernels.nothing import NONE
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.regions import problems_of_regions, regions_of
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import STEERED, TREE
from overstory.routing.messages import LATE, Key
from overstory.routing.regions import ABOVE, Tree, above, places_of
from overstory.routing.written_out import written_out

Link = tuple[int, int]


class FlowShare(msgspec.Struct, frozen=True):
    """One flow of a plan, as one broker needs to know it."""

    number: int
    events: Filter  # E
    neighbours: frozenset[int]  # of the broker in the flow's tree
    rows: dict[int, Filter] = {}  # the plan's filters for links from the broker, by neighbour or client
    everyone_advertises: bool = True  # every broker advertises everything until it narrows that; else what it announces
    kind: str = TREE  # a steered flow has the late flow's neighbours, for its summaries, and its own summary among rows
    ordered: bool = False  # whether the frames of a steered flow are numbered, and released in order
    # Of a steered flow with regions, and of the one above it (``regions``): the gateway of every broker; the neighbour
    # on the way to that of this broker; and the neighbours behind whom there are brokers of other regions
    gateway_of: dict[int, int] = {}
    towards: int = NONE
    outward: frozenset[int] = frozenset()


class Member(msgspec.Struct, frozen=True):
    """A subscription of a client of the broker, and the part of the subscription that a flow serves."""

    flow: int
    subscription: int
    client: int
    filter: Filter
    no_local: bool = False
    version: int = 0


class Foreseen(NamedTuple):
    """A subscription that a plan says is in a flow, as one broker sees it (``foreseen``)."""

    flow: int
    hop: int  # the neighbour that would tell of it; NONE: this broker is its host
    host: int
    key: Key
    filter: Filter


class Share(msgspec.Struct, frozen=True):
    """All that one broker needs to know of a plan."""

    epoch: int
    flows: dict[int, FlowShare]  # LATE among them
    members: tuple[Member, ...] = ()
    planned: dict[int, int] = {}  # all subscriptions that the plan serves, here and elsewhere, and their versions
    prices: dict[Link, float] = {}  # of links between brokers, if there are steered flows
    coalesce: bool = True
    clients: frozenset[int] = frozenset()  # attached here
    foreseen: Collection[Foreseen] = ()  # subscriptions that no broker has to be told of


def tree_shares(
    tree: Iterable[Link], epoch: int = 0, everyone_advertises: bool = True, brokers: Iterable[int] = ()
) -> dict[int, Share]:
    """The shares of all brokers of a plan that has only the late flow, on this tree."""
    neighbours = _neighbours(tree, brokers)
    everything = parse_filter(EVERYTHING)
    return {
        broker: Share(epoch, {LATE: FlowShare(LATE, everything, peers, {}, everyone_advertises)})
        for broker, peers in neighbours.items()
    }


def shares_of(
    scenario: Scenario, plan: Plan, epoch: int, versions: Mapping[int, int] | None = None
) -> dict[int, Share]:
    """The shares of all brokers of a plan. Raises a ``DataError`` if a flow's links are not a tree.

    ``versions`` has the versions of subscriptions that clients have made; those that only the scenario knows have
    version 0.
    """
    plan = written_out(scenario, plan)
    if problems := problems_of_regions(scenario, plan):
        raise DataError("the plan cannot be installed:", problems)
    brokers: list[int] = scenario.brokers["id"].to_pylist()
    flows = _flow_shares(scenario, plan, brokers)
    regions = regions_of(plan)
    for number, gateway_of in regions.items():
        late = {broker: flows[broker][LATE].neighbours for broker in brokers}
        made = with_regions({broker: flows[broker][number] for broker in brokers}, late, gateway_of)
        for broker, both in made.items():
            flows[broker] |= {flow.number: flow for flow in both}
    members, planned = _members(scenario, plan, versions or {})
    steering = {row["flow"] for row in plan.flows.to_pylist() if row["kind"] in STEERED} | set(map(above, regions))
    clients: dict[int, set[int]] = defaultdict(set)
    for row in plan.attachments.to_pylist():
        clients[row["broker"]].add(row["client"])
    prices = _prices(scenario) if steering else {}

    # Flows that a broker needs though it has no neighbour in their trees and no rows for them
    used = {broker: {LATE, *steering, *(member.flow for member in members[broker])} for broker in brokers}
    return {
        broker: Share(
            epoch,
            {
                number: flow
                for number, flow in flows[broker].items()
                if flow.neighbours or flow.rows or number in used[broker]
            },
            tuple(members[broker]),
            planned,
            prices,
            scenario.settings.coalesce,
            frozenset(clients[broker]),
        )
        for broker in brokers
    }


def with_regions(flows: Mapping[int, FlowShare], tree: Tree, gateway_of: dict[int, int]) -> dict[int, list[FlowShare]]:
    """A steered flow at all brokers as the two that it is where it has regions: itself, and the one above."""
    places = places_of(tree, gateway_of)
    found: dict[int, list[FlowShare]] = defaultdict(list)
    for broker, flow in flows.items():
        inside = frozenset(peer for peer in flow.neighbours if gateway_of[peer] == gateway_of[broker])
        of_region = {broker: flow.rows[broker]} if broker in flow.rows and gateway_of[broker] == broker else {}
        rows = {peer: row for peer, row in flow.rows.items() if peer not in of_region}
        lower = msgspec.structs.replace(
            flow, neighbours=inside, rows=rows, gateway_of=gateway_of, towards=places[broker].towards
        )
        upper = msgspec.structs.replace(
            flow,
            number=above(flow.number),
            kind=ABOVE,
            rows=of_region,
            gateway_of=gateway_of,
            outward=places[broker].outward,
        )
        found[broker] = [lower, upper]
    return found


def _flow_shares(scenario: Scenario, plan: Plan, brokers: list[int]) -> dict[int, dict[int, FlowShare]]:
    """All flows at all brokers. The late flow has the network's minimum spanning tree."""
    trees = _trees(plan, brokers)
    ends = [scenario.network.ids[side].tolist() for side in minimum_spanning_tree(scenario.network)]
    late, everything = _neighbours(zip(*ends, strict=True), brokers), parse_filter(EVERYTHING)
    rows: dict[tuple[int, int], dict[int, Filter]] = defaultdict(dict)
    for row in plan.filters.to_pylist():
        rows[row["flow"], row["source"]][row["target"]] = parse_filter(row["filter"])
    flows = {row["flow"]: (row, parse_filter(row["events"])) for row in plan.flows.to_pylist()}
    return {
        broker: {LATE: FlowShare(LATE, everything, late[broker])}
        | {
            flow: FlowShare(
                flow,
                events,
                late[broker] if row["kind"] in STEERED else trees[flow][broker],
                rows[flow, broker],
                kind=row["kind"],
                ordered=bool(row["ordered"]),
            )
            for flow, (row, events) in flows.items()
        }
        for broker in brokers
    }


def _prices(scenario: Scenario) -> dict[Link, float]:
    """The prices of the links between brokers."""
    network = scenario.network
    sources, targets = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
    return dict(zip(zip(sources, targets, strict=True), network.prices.tolist(), strict=True))


def _trees(plan: Plan, brokers: list[int]) -> dict[int, dict[int, frozenset[int]]]:
    """The neighbours of every broker in each flow's tree. A broker outside a tree has none there."""
    links: dict[int, list[Link]] = {flow: [] for flow in plan.flows["flow"].to_pylist()}
    problems = []
    joined: dict[int, dict[int, int]] = {flow: {} for flow in links}
    for number, row in enumerate(plan.trees.to_pylist(), start=1):
        flow, u, v = row["flow"], row["source"], row["target"]
        if flow not in links:
            problems.append(Problem("trees", number, "flow", f"there is no flow {flow}"))
        elif not {u, v} <= set(brokers):
            problems.append(Problem("trees", number, None, f"{u}–{v} is not a link between brokers"))
        elif _root(joined[flow], u) == _root(joined[flow], v):
            problems.append(Problem("trees", number, None, f"{u}–{v} closes a cycle in flow {flow}"))
        else:
            joined[flow][_root(joined[flow], u)] = _root(joined[flow], v)
            links[flow].append((u, v))
    for flow, tree in links.items():
        if len({_root(joined[flow], end) for link in tree for end in link}) > 1:
            problems.append(Problem("trees", None, None, f"the tree of flow {flow} is in several pieces"))
    if problems:
        raise DataError("the plan cannot be installed:", problems)
    return {flow: _neighbours(tree, brokers) for flow, tree in links.items()}


def _root(joined: dict[int, int], broker: int) -> int:
    """The broker that stands for all brokers that are connected to this one so far."""
    while joined.get(broker, broker) != broker:
        broker = joined[broker]
    return broker


def _neighbours(tree: Iterable[Link], brokers: Iterable[int]) -> dict[int, frozenset[int]]:
    """The neighbours of every broker in a tree."""
    neighbours: dict[int, set[int]] = {broker: set() for broker in brokers}
    for u, v in tree:
        neighbours.setdefault(u, set()).add(v)
        neighbours.setdefault(v, set()).add(u)
    return {broker: frozenset(peers) for broker, peers in neighbours.items()}


def _members(
    scenario: Scenario, plan: Plan, versions: Mapping[int, int]
) -> tuple[Mapping[int, list[Member]], dict[int, int]]:
    """The members by broker, and the versions of all planned subscriptions."""
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    subscriptions = {row["id"]: row for row in scenario.subscriptions.to_pylist()}
    parsed = cache(parse_filter)  # one object in all flows, so that what is found out about it is found out once
    members: dict[int, list[Member]] = defaultdict(list)
    for row in plan.members.to_pylist():
        known = subscriptions[row["subscription"]]
        broker = broker_of[known["client"]]
        text = known["filter"] if row["part"] is None else f"({known['filter']}) AND ({row['part']})"
        wanted = parsed(text)
        version = versions.get(known["id"], 0)
        members[broker].append(Member(row["flow"], known["id"], known["client"], wanted, known["no_local"], version))
    planned = {id_: versions.get(id_, 0) for id_ in plan.members["subscription"].to_pylist()}
    return members, planned
