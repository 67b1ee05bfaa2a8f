"""What becomes of a plan when subscriptions come and go: section VI of Majumder et al.

1. A new subscription joins the flow where it adds least to the cost of the recent window; of equal ones that with the
   lowest number. So a subscription that the window knows nothing about stays in the late flow.
2. A deleted subscription leaves its flow, and a flow goes with its last member. The numbers and trees of the other
   flows do not change. The late flow is in no plan, and always exists (DESIGN.md, rule 5): so it is in every window.
3. A new plan replaces the present one only if it saves more than a threshold of what the window costs now.

All that is about flows of routing trees: every event enters them and their trees span the network, so any of them can
take any subscription, and each subscription is in one. A ``Window`` says what a plan costs; it is followed from change
to change by ``enter`` and ``leave``, as the plan itself is by ``plan_with`` and ``plan_without``.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array, hstack

from overstory.kernels.coalesced import Rows, Trees, Units, coalesced_costs
from overstory.model.network import Floats, Ints, Network
from overstory.model.plan import EVERYTHING, LATE, Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import MEMBERS, TREE
from overstory.planners.trees.demand import Demand
from overstory.planners.trees.demand import Rows as Sampled
from overstory.planners.trees.objective import TOGETHER
from overstory.planners.trees.spanning import tree_of

THRESHOLD = 0.10  # of the present cost, which a new plan has to save
EQUAL = 1e-12  # what sums of prices may differ by, relatively, and still be equal


class Window(NamedTuple):
    """The recent rows under a plan. A member is all subscriptions with the same filter, broker and flow; brokers are
    known by position, and flows by their place in ``flows``, which is that of their trees."""

    flows: Ints  # their numbers, ascending, from the late flow on
    trees: Trees
    member_flow: Ints
    member_broker: Ints
    roots: Ints  # by row: where it is published
    weights: Floats  # by row: bytes
    matches: csr_array  # row by member: 1 where the row's events match it


class Newcomer(NamedTuple):
    broker: int
    rows: Ints  # those of the window that it matches


class Joined(NamedTuple):
    flow: int  # its number
    added: float  # to the cost of the window


@dataclass(frozen=True)
class Decision:
    """Whether to replace the present plan: ``gain`` is the part of its cost that the proposed one saves."""

    present: float
    proposed: float
    gain: float
    switch: bool


def join(window: Window, newcomer: Newcomer, barred: frozenset[int] = frozenset()) -> Joined:
    """The flow i with the least cost(S_i ∪ {s}, T_i) − cost(S_i, T_i), of those that are not barred. If frames
    coalesce, that is what the different ways of all flows cost with s in flow i, less what they cost now."""
    added = _added_costs(window, newcomer)
    if barred:
        added = np.where(np.isin(window.flows, sorted(barred)), np.inf, added)
    least = int(np.argmax(added <= added.min() * (1 + EQUAL)))
    return Joined(int(window.flows[least]), float(added[least]))


def saved_by(window: Window, newcomer: Newcomer, joined: Joined) -> float:
    """What a newcomer adds less where it joins than it would in the late flow."""
    return float(_added_costs(window, newcomer)[_place_of(window.flows, LATE)]) - joined.added


def replan(present: float, proposed: float, threshold: float = THRESHOLD) -> Decision:
    """By what the same window costs under either plan. The threshold keeps plans that are about as good from taking
    turns; what costs nothing cannot be improved."""
    gain = (present - proposed) / present if present > 0 else 0.0
    return Decision(present, proposed, gain, gain > threshold)


def cost_of(window: Window) -> float:
    """Bytes times the prices of the links that they cross: see ``kernels.coalesced``."""
    matches = window.matches.sorted_indices()  # sums in one order, however the matrix was made
    offsets, members = matches.indptr.astype(np.int64), matches.indices.astype(np.int64)
    rows = Rows(window.roots, offsets, members, window.weights)
    units = Units(np.arange(len(window.member_broker) + 1), window.member_broker)
    costs = np.empty(len(window.roots))
    coalesced_costs(window.trees, rows, units, window.member_flow, costs)
    return float(costs @ window.weights)


def _added_costs(window: Window, newcomer: Newcomer) -> Floats:
    """What the newcomer adds to the cost of each flow. Its way is free for as long as the row goes it anyway, and paid
    from there to its end."""
    trees, flows = window.trees, np.arange(len(window.flows))
    toward, rest = _ways_to(trees, newcomer.broker)
    added = np.zeros(len(flows))
    for row in np.unique(newcomer.rows).tolist():
        root, taken = int(window.roots[row]), _ways_of(window, row)
        parted = np.full(len(flows), root)
        shared = np.isin(toward[:, root], [broker for _, broker in taken])  # few flows get past the first link
        for flow in np.flatnonzero(shared).tolist():
            way = int(trees.begin[flow])
            while known := taken.get((way, int(toward[flow, parted[flow]]))):
                way, parted[flow] = known, toward[flow, parted[flow]]
        added += window.weights[row] * rest[flows, parted]
    return added


def _ways_to(trees: Trees, goal: int) -> tuple[Ints, Floats]:
    """By flow and broker: where the way to the goal goes next, and what the rest of it costs."""
    toward, rest = trees.parent.copy(), trees.up.copy()
    for flow in range(len(toward)):
        node = goal
        while (over := trees.parent[flow, node]) >= 0:  # links above the goal are crossed downwards
            toward[flow, over], rest[flow, over] = node, trees.down[flow, node]
            node = over
        toward[flow, goal], rest[flow, goal] = goal, 0.0
    beyond = toward
    while (beyond != goal).any():  # twice as far each time
        rest = rest + np.take_along_axis(rest, beyond, axis=1)
        beyond = np.take_along_axis(beyond, beyond, axis=1)
    return toward, rest


def _ways_of(window: Window, row: int) -> dict[tuple[int, int], int]:
    """All ways that the row goes: by the way before, and the broker that is next. Ways have numbers below zero, but
    for those that begin."""
    taken: dict[tuple[int, int], int] = {}
    for member in window.matches.indices[window.matches.indptr[row] : window.matches.indptr[row + 1]].tolist():
        flow = window.member_flow[member]
        way = int(window.trees.begin[flow])
        for broker in _way(window.trees.parent[flow], int(window.roots[row]), int(window.member_broker[member])):
            way = taken.setdefault((way, broker), -1 - len(taken))
    return taken


def _way(parent: Ints, root: int, goal: int) -> list[int]:
    """The brokers behind the root, up to the goal."""
    above = [root]
    while (over := int(parent[above[-1]])) >= 0:
        above.append(over)
    place = {broker: at for at, broker in enumerate(above)}
    down = []
    while goal not in place:
        down.append(goal)
        goal = int(parent[goal])
    return above[1 : place[goal] + 1] + down[::-1]


def enter(window: Window, newcomer: Newcomer, flow: int) -> Window:
    """The window with one member more, behind the others."""
    rows = np.unique(newcomer.rows)
    column = csr_array((np.ones(len(rows)), (rows, np.zeros_like(rows))), shape=(len(window.roots), 1))
    return window._replace(
        member_flow=np.append(window.member_flow, _place_of(window.flows, flow)),
        member_broker=np.append(window.member_broker, newcomer.broker),
        matches=hstack([window.matches, column], format="csr"),
    )


def leave(window: Window, member: int) -> Window:
    """The window without this member, whose last subscription has been deleted."""
    stays = np.arange(len(window.member_flow)) != member
    flow, member_flow = window.member_flow[member], window.member_flow[stays]
    left = window._replace(
        member_flow=member_flow, member_broker=window.member_broker[stays], matches=window.matches[:, stays]
    )
    if flow in member_flow or window.flows[flow] == LATE:
        return left
    kept = np.arange(len(window.flows)) != flow
    trees = Trees(*(column[kept] for column in window.trees))
    return left._replace(flows=window.flows[kept], trees=trees, member_flow=member_flow - (member_flow > flow))


def window_of(scenario: Scenario, demand: Demand, rows: Sampled, plan: Plan) -> Window:
    """These rows of the demand under a plan whose attachments are those that the demand was made with. Nobody is in
    the late flow yet."""
    flows = np.union1d([LATE], plan.flows["flow"].to_numpy())
    ids = scenario.subscriptions["id"].to_numpy()
    order = np.argsort(ids)
    subscription = order[np.searchsorted(ids[order], plan.members["subscription"].to_numpy())]
    flow = np.searchsorted(flows, plan.members["flow"].to_numpy())
    keys = np.unique(demand.item_of[subscription] * len(flows) + flow)
    item, member_flow = np.divmod(keys, len(flows))
    shape = len(rows.roots), demand.items
    matches = csr_array((np.ones(len(rows.items)), rows.items, rows.offsets), shape=shape)[:, item]
    trees = _trees_of(demand.network, plan, flows, scenario.settings.coalesce)
    weights = rows.bytes.astype(np.float64)
    return Window(flows, trees, member_flow, demand.item_broker[item], rows.roots, weights, matches)


def _trees_of(network: Network, plan: Plan, flows: Ints, coalesce: bool) -> Trees:
    """By flow, the late one first: its tree is the one that routers give it."""
    flow, source, target = (plan.trees[name].to_numpy() for name in ("flow", "source", "target"))
    order = np.argsort(flow, kind="stable")
    ends = [network.positions(end[order]) for end in (source, target)]
    starts, stops = (np.searchsorted(flow[order], flows, side) for side in ("left", "right"))
    begin = np.full(len(flows), TOGETHER) if coalesce else np.arange(1, len(flows) + 1, dtype=np.uint64)
    shape = len(flows), len(network)
    trees = Trees(np.empty(shape, np.int64), np.empty(shape), np.empty(shape), begin)
    links = [[end[start:stop] for end in ends] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    links[0] = [*minimum_spanning_tree(network)]
    for at, (sources, targets) in enumerate(links):
        trees.parent[at], trees.down[at], trees.up[at] = tree_of(network, sources, targets)
    return trees


def _place_of(flows: Ints, number: int) -> int:
    found = np.flatnonzero(flows == number)
    if not len(found):
        raise ValueError(f"there is no flow {number}")
    return int(found[0])


def plan_with(plan: Plan, subscription: int, flow: int) -> Plan:
    """The plan with this subscription behind the other members of the flow; its client must be attached already. The
    header goes on saying what was planned, and for what. A subscription that stays late needs no change of the plan."""
    if flow == LATE:
        raise ValueError(f"subscription {subscription} is in no plan while it is late")
    if not _is_for_all_events(plan, flow):
        raise ValueError(f"flow {flow} is no tree for all events, and cannot take all of subscription {subscription}")
    if pc.any(pc.and_(pc.equal(plan.filters["flow"], flow), pc.not_equal(plan.filters["filter"], EVERYTHING))).as_py():
        raise ValueError(f"flow {flow} has filters that need not cover subscription {subscription}")
    if subscription in plan.members["subscription"].to_numpy():
        raise ValueError(f"subscription {subscription} is in a flow already")
    before = np.flatnonzero(plan.members["flow"].to_numpy() <= flow)
    row = int(before[-1]) + 1 if len(before) else 0
    new = pa.table({"flow": [flow], "subscription": [subscription], "part": [None]}, schema=MEMBERS.schema)
    members = pa.concat_tables([plan.members.slice(0, row), new, plan.members.slice(row)])
    return replace(plan, members=members.combine_chunks())


def plan_without(plan: Plan, subscription: int) -> Plan:
    """The plan without this subscription, and without the flows that it was the last member of."""
    leaving = pc.equal(plan.members["subscription"], subscription)
    members = plan.members.filter(pc.invert(leaving)).combine_chunks()
    left = pc.unique(plan.members["flow"].filter(leaving))
    if not len(left):
        raise ValueError(f"subscription {subscription} is in no flow")
    gone = left.filter(pc.invert(pc.is_in(left, members["flow"].combine_chunks())))
    if not len(gone):
        return replace(plan, members=members)
    kept = {name: _without(getattr(plan, name), gone) for name in ("flows", "trees", "filters", "regions")}
    return replace(plan, members=members, **kept)


def _is_for_all_events(plan: Plan, flow: int) -> bool:
    at = _place_of(plan.flows["flow"].to_numpy(), flow)
    return (plan.flows["kind"][at].as_py(), plan.flows["events"][at].as_py()) == (TREE, EVERYTHING)


def _without(table: pa.Table, flows: pa.Array) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["flow"], flows))).combine_chunks()
