"""Between two plannings: subscriptions that came find a flow, and those that went leave theirs.

1. A subscription that is gone leaves its flow, and a flow goes with its last member (section VI of Majumder et al.).
2. A late subscription goes where it costs least on the recent window: into one of the flows that take every event, as
   ``planners.trees.change`` says. Where flows divide the events among them, it joins all flows whose events it may
   want: together they cover it.
3. What has no place in the plan stays late. ``with_late`` writes the late flow out as an ordinary one, so that the
   meter can price a plan together with those who are late.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.filters import parse_filter
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING, LATE, Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import ALL, FLOWS, MEMBERS, TREE, TREES
from overstory.planners.steps import Steps
from overstory.planners.trees.change import Newcomer, enter, join, saved_by, window_of
from overstory.planners.trees.demand import Demand, demand_of

MOST_ROWS = 2_000  # of a window, by which late subscriptions are placed


class Joined(NamedTuple):
    """Where a late subscription goes; ``LATE`` if it stays where it is."""

    subscription: int
    flow: int
    added: float  # to the cost of the window's sample


class Placed(NamedTuple):
    """A plan for the subscriptions that there are now."""

    plan: Plan
    joined: tuple[Joined, ...]
    left: int  # how many subscriptions are gone


def placed(
    plan: Plan,
    scenario: Scenario,
    steps: Steps,
    most: int = MOST_ROWS,
    worth: float = 0.0,
    barred: frozenset[int] = frozenset(),
) -> Placed:
    """The plan with those who came and without those who went. Its clients must be attached already. Where somebody
    goes is decided by at most so many distinct rows of the window; who would save less than ``worth`` of their cost
    stays late. Nobody joins a ``barred`` flow."""
    known, now = plan.members["subscription"].to_numpy(), scenario.subscriptions["id"].to_numpy()
    gone = np.setdiff1d(known, now)
    kept = without(plan, gone)
    if pc.any(pc.equal(plan.flows["members"], ALL)).as_py():
        return Placed(kept, (), len(gone))  # such a plan takes everybody in by itself
    late = np.setdiff1d(now, known)
    if not len(late):
        return Placed(kept, (), len(gone))
    if all(events == EVERYTHING for events in kept.flows["events"].to_pylist()):
        demand = demand_of(scenario, steps, {"attachments": kept.attachments}, most)
        found = _cheapest(kept, scenario, demand, late, worth, barred)
    else:
        found = _by_events(kept, scenario, late, barred)
    return Placed(_with(kept, found), tuple(found), len(gone))


def without(plan: Plan, subscriptions: Ints) -> Plan:
    """The plan without these subscriptions, and without flows whose members they all were."""
    if not len(subscriptions):
        return plan
    leaving = pc.is_in(plan.members["subscription"], pa.array(subscriptions))
    members = plan.members.filter(pc.invert(leaving)).combine_chunks()
    left = np.unique(plan.members["flow"].filter(leaving).to_numpy())
    empty = pa.array(np.setdiff1d(left, members["flow"].to_numpy()))
    tables = {
        name: getattr(plan, name).filter(pc.invert(pc.is_in(getattr(plan, name)["flow"], empty))).combine_chunks()
        for name in ("flows", "trees", "filters", "regions")
    }
    return replace(plan, members=members, **tables)


def with_late(plan: Plan, scenario: Scenario) -> Plan:
    """The plan with a flow of its own for everyone who is in no flow: the late one, along the tree that routers give
    it. A plan without anybody late is returned as it is."""
    if pc.any(pc.equal(plan.flows["members"], ALL)).as_py():
        return plan
    late = np.setdiff1d(scenario.subscriptions["id"].to_numpy(), plan.members["subscription"].to_numpy())
    if not len(late):
        return plan
    number = int(pc.max(plan.flows["flow"]).as_py() or 0) + 1 if plan.flows.num_rows else 0
    flow = {"flow": [number], "kind": [TREE], "events": [EVERYTHING], "associations": [0]}
    sources, targets = (scenario.network.ids[end] for end in minimum_spanning_tree(scenario.network))
    tree = {"flow": np.full(len(sources), number), "source": sources, "target": targets}
    return replace(
        plan,
        flows=pa.concat_tables([plan.flows, FLOWS.completed(pa.table(flow, schema=FLOWS.schema))]).combine_chunks(),
        trees=pa.concat_tables([plan.trees, pa.table(tree, schema=TREES.schema)]).combine_chunks(),
        members=pa.concat_tables([plan.members, _members({number: late.tolist()})]).combine_chunks(),
    )


def _cheapest(
    plan: Plan, scenario: Scenario, demand: Demand, late: Ints, worth: float, barred: frozenset[int]
) -> list[Joined]:
    """Each late subscription in the flow where it adds least; those with the same filter at the same broker go
    together, and later ones find the earlier ones in place."""
    window = window_of(scenario, demand, demand.fit, plan)
    barred = barred | _with_rows(plan)
    items = _items(scenario, demand, late)
    found: list[Joined] = []
    for item, subscriptions in items.items():
        newcomer = Newcomer(int(demand.item_broker[item]), _rows_with(demand, item))
        best = join(window, newcomer, barred)
        stays = saved_by(window, newcomer, best) < worth * len(subscriptions)
        flow = LATE if stays else best.flow
        window = enter(window, newcomer, flow)
        found += [Joined(one, flow, best.added) for one in subscriptions]
    return sorted(found)


def _items(scenario: Scenario, demand: Demand, late: Ints) -> dict[int, list[int]]:
    """The late subscriptions by their items: equal filters at one broker."""
    ids = scenario.subscriptions["id"].to_numpy()
    order = np.argsort(ids)
    found: dict[int, list[int]] = {}
    for subscription, item in zip(
        late.tolist(), demand.item_of[order[np.searchsorted(ids[order], late)]].tolist(), strict=True
    ):
        found.setdefault(item, []).append(subscription)
    return found


def _rows_with(demand: Demand, item: int) -> Ints:
    """The rows of the window that match an item."""
    places = np.flatnonzero(demand.fit.items == item)
    return np.searchsorted(demand.fit.offsets, places, side="right") - 1


def _with_rows(plan: Plan) -> set[int]:
    """Flows with filters that need not cover a newcomer."""
    narrow = plan.filters.filter(pc.not_equal(plan.filters["filter"], EVERYTHING))
    return set(narrow["flow"].to_pylist())


def _by_events(plan: Plan, scenario: Scenario, late: Ints, barred: frozenset[int]) -> list[Joined]:
    """Each late subscription in all flows whose events it may want, if these take all that it wants."""
    events = {row["flow"]: parse_filter(row["events"]) for row in plan.flows.to_pylist()}
    texts = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "filter")), strict=True))
    barred = barred | _with_rows(plan)
    found: list[Joined] = []
    for subscription in late.tolist():
        wanted = parse_filter(texts[subscription])
        mine = [flow for flow, each in events.items() if each.intersects(wanted)]
        union = parse_filter(" OR ".join(f"({events[flow]})" for flow in mine)) if mine else None
        if union is not None and union.covers(wanted) and not barred.intersection(mine):
            found += [Joined(subscription, flow, 0.0) for flow in mine]
        else:
            found.append(Joined(subscription, LATE, 0.0))
    return found


def _with(plan: Plan, joined: list[Joined]) -> Plan:
    """The plan with all who have found a flow."""
    by_flow: dict[int, list[int]] = {}
    for one in joined:
        if one.flow != LATE:
            by_flow.setdefault(one.flow, []).append(one.subscription)
    if not by_flow:
        return plan
    members = pa.concat_tables([plan.members, _members(by_flow)])
    order = np.lexsort((members["subscription"].to_numpy(), members["flow"].to_numpy()))
    return replace(plan, members=members.take(pa.array(order)).combine_chunks())


def _members(by_flow: Mapping[int, list[int]]) -> pa.Table:
    rows = [(flow, subscription) for flow, subscriptions in by_flow.items() for subscription in subscriptions]
    columns = {"flow": [row[0] for row in rows], "subscription": [row[1] for row in rows], "part": pa.nulls(len(rows))}
    return pa.table(columns, schema=MEMBERS.schema)
