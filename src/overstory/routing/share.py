"""A broker's share of a plan: what its router installs. Made from the whole plan, once, and checked there."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from overstory.errors import DataError, Problem
from overstory.filters import Filter, parse_filter
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import STEERED
from overstory.routing.messages import LATE

Link = tuple[int, int]


class FlowShare(msgspec.Struct, frozen=True):
    number: int
    events: Filter  # E
    neighbours: frozenset[int]  # in its tree
    rows: dict[int, Filter] = {}  # for links from here, to brokers and clients
    everyone_advertises: bool = True  # every broker, everything, until it narrows that; else only what it announces


class Member(msgspec.Struct, frozen=True):
    """A subscription of a client here, and the part of it that a flow serves."""

    flow: int
    subscription: int
    client: int
    filter: Filter
    no_local: bool = False
    version: int = 0


class Steered(msgspec.Struct, frozen=True):
    """A member of a steered flow, wherever it is: an entry broker has to know them all."""

    flow: int
    filter: Filter
    broker: int


class Share(msgspec.Struct, frozen=True):
    epoch: int
    flows: dict[int, FlowShare]  # LATE among them
    members: tuple[Member, ...] = ()
    planned: dict[int, int] = {}  # all subscriptions that the plan serves, here and elsewhere, and their versions
    steered: tuple[Steered, ...] = ()
    prices: dict[Link, float] = {}  # of links between brokers, for steered flows
    coalesce: bool = True
    clients: frozenset[int] = frozenset()  # attached here


def tree_shares(
    tree: Iterable[Link], epoch: int = 0, everyone_advertises: bool = True, brokers: Iterable[int] = ()
) -> dict[int, Share]:
    """Of a plan that has only the flow for late subscriptions, on this tree."""
    neighbours = _neighbours(tree, brokers)
    everything = parse_filter(EVERYTHING)
    return {
        broker: Share(epoch, {LATE: FlowShare(LATE, everything, near, {}, everyone_advertises)})
        for broker, near in neighbours.items()
    }


def shares_of(
    scenario: Scenario, plan: Plan, epoch: int, versions: Mapping[int, int] | None = None
) -> dict[int, Share]:
    """Of every broker. Raises a ``DataError`` if a tree is none. ``versions`` are those of subscriptions that clients
    have made since; those that only the scenario knows are version 0."""
    brokers: list[int] = scenario.brokers["id"].to_pylist()
    flows = _flow_shares(scenario, plan, brokers)
    members, steered, planned = _members(scenario, plan, versions or {})
    steering = {each.flow for each in steered}
    clients: dict[int, set[int]] = defaultdict(set)
    for row in plan.attachments.to_pylist():
        clients[row["broker"]].add(row["client"])
    prices = _prices(scenario) if steered else {}

    # Flows whose events have somewhere to go from a broker, tree or no tree
    used = {broker: {LATE, *steering, *(each.flow for each in members[broker])} for broker in brokers}
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
            steered,
            prices,
            scenario.settings.coalesce,
            frozenset(clients[broker]),
        )
        for broker in brokers
    }


def _flow_shares(scenario: Scenario, plan: Plan, brokers: list[int]) -> dict[int, dict[int, FlowShare]]:
    """All flows at all brokers; that for late subscriptions has the network's spanning tree."""
    trees = _trees(plan, brokers)
    ends = [scenario.network.ids[each].tolist() for each in minimum_spanning_tree(scenario.network)]
    late, everything = _neighbours(zip(*ends, strict=True), brokers), parse_filter(EVERYTHING)
    rows: dict[tuple[int, int], dict[int, Filter]] = defaultdict(dict)
    for row in plan.filters.to_pylist():
        rows[row["flow"], row["source"]][row["target"]] = parse_filter(row["filter"])
    events = {row["flow"]: parse_filter(row["events"]) for row in plan.flows.to_pylist()}
    return {
        broker: {LATE: FlowShare(LATE, everything, late[broker])}
        | {flow: FlowShare(flow, events[flow], trees[flow][broker], rows[flow, broker]) for flow in events}
        for broker in brokers
    }


def _prices(scenario: Scenario) -> dict[Link, float]:
    network = scenario.network
    sources, targets = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
    return dict(zip(zip(sources, targets, strict=True), network.prices.tolist(), strict=True))


def _trees(plan: Plan, brokers: list[int]) -> dict[int, dict[int, frozenset[int]]]:
    """The neighbours of every broker in each flow. All brokers are in each, alone if its tree does not hold them."""
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
    for flow, some in links.items():
        if len({_root(joined[flow], end) for link in some for end in link}) > 1:
            problems.append(Problem("trees", None, None, f"the tree of flow {flow} is in several pieces"))
    if problems:
        raise DataError("the plan cannot be installed:", problems)
    return {flow: _neighbours(some, brokers) for flow, some in links.items()}


def _root(joined: dict[int, int], broker: int) -> int:
    while joined.get(broker, broker) != broker:
        broker = joined[broker]
    return broker


def _neighbours(tree: Iterable[Link], brokers: Iterable[int]) -> dict[int, frozenset[int]]:
    near: dict[int, set[int]] = {broker: set() for broker in brokers}
    for u, v in tree:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    return {broker: frozenset(some) for broker, some in near.items()}


def _members(
    scenario: Scenario, plan: Plan, versions: Mapping[int, int]
) -> tuple[Mapping[int, list[Member]], tuple[Steered, ...], dict[int, int]]:
    """By broker; those of steered flows; and the versions of all of them."""
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    subscriptions = {row["id"]: row for row in scenario.subscriptions.to_pylist()}
    is_steered = {row["flow"]: row["kind"] == STEERED for row in plan.flows.to_pylist()}
    members: dict[int, list[Member]] = defaultdict(list)
    steered = []
    for row in plan.members.to_pylist():
        known = subscriptions[row["subscription"]]
        broker = broker_of[known["client"]]
        text = known["filter"] if row["part"] is None else f"({known['filter']}) AND ({row['part']})"
        wanted = parse_filter(text)
        version = versions.get(known["id"], 0)
        members[broker].append(Member(row["flow"], known["id"], known["client"], wanted, known["no_local"], version))
        if is_steered[row["flow"]]:
            steered.append(Steered(row["flow"], wanted, broker))
    planned = {id_: versions.get(id_, 0) for id_ in plan.members["subscription"].to_pylist()}
    return members, tuple(steered), planned
