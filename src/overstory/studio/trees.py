"""Which of a plan's flows are drawn, and what of them: a plan may have thousands, so it is those with most members."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.model.naming import told_apart
from overstory.model.network import Ints, Network
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import STEERED
from overstory.studio.clients import some_clients

MOST_TREES = 12  # of a plan
FEW = 5  # names of members, and of their clients, that are told of a tree


class FlowTree(msgspec.Struct, frozen=True):
    """A flow that is steered has no links: each event goes its own way."""

    flow: int
    members: int  # subscriptions
    links: Ints  # of the network, either direction once
    brokers: Ints  # by position: those with members
    wants: tuple[str, ...] = ()  # names of the members, or else filters, of which most members have the first ones
    wanted: int = 0  # how many different ones there are
    clients: str = ""  # that have members, in words; nothing if none of them has a name
    events: str = EVERYTHING
    steered: bool = False


def trees_of(scenario: Scenario, plan: Plan, most: int = MOST_TREES) -> tuple[FlowTree, ...]:
    """The flow with most members first."""
    flows = plan.flows.take(_largest(plan)[:most])
    members = _placed(plan.members.filter(pc.field("flow").isin(flows["flow"].to_pylist())), scenario, plan)
    named = told_apart(scenario.client_names)
    return tuple(_tree(scenario.network, plan, members, flow, named) for flow in flows.to_pylist())


def _largest(plan: Plan) -> Ints:
    flows = plan.flows["flow"].to_numpy()
    order = np.argsort(flows)
    at = np.searchsorted(flows, plan.members["flow"].to_numpy(), sorter=order)
    members = np.bincount(order[at], minlength=len(flows))
    return np.lexsort((flows, -members))


def _placed(members: pa.Table, scenario: Scenario, plan: Plan) -> pa.Table:
    """With the name or else the filter, the client and the broker of each."""
    subscriptions = _rows(scenario.subscriptions, "id", members["subscription"])
    brokers = _rows(plan.attachments, "client", subscriptions["client"])["broker"]
    labels = subscriptions["filter"]
    if "name" in subscriptions.column_names:
        labels = pc.coalesce(subscriptions["name"], labels)
    found = members.append_column("wants", labels).append_column("client", subscriptions["client"])
    return found.append_column("broker", brokers)


def _rows(table: pa.Table, key: str, wanted: pa.ChunkedArray) -> pa.Table:
    return table.take(pc.index_in(wanted, value_set=table[key]))


def _tree(network: Network, plan: Plan, members: pa.Table, flow: dict[str, Any], named: Mapping[int, str]) -> FlowTree:
    within = pc.field("flow") == flow["flow"]
    links, mine = plan.trees.filter(within), members.filter(within)
    counted = mine["wants"].value_counts()
    counts = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    wants = sorted(counts, key=lambda label: (-label[1], label[0]))
    clients = sorted(mine["client"].unique().to_pylist())
    ends = [network.positions(links[end].to_numpy()) for end in ("source", "target")]
    return FlowTree(
        flow=flow["flow"],
        members=len(mine),
        links=network.link_between(*ends),
        brokers=network.positions(mine["broker"].unique().to_numpy()),
        wants=tuple(label for label, _ in wants[:FEW]),
        wanted=len(wants),
        clients=some_clients(clients, named, FEW) if any(client in named for client in clients) else "",
        events=flow["events"],
        steered=flow["kind"] in STEERED,
    )


def joining(network: Network, tree: FlowTree) -> Ints:
    """The links of the tree that lie between its members; the others lead to them from where events are published."""
    links, member = tree.links, np.zeros(len(network), bool)
    member[tree.brokers] = True
    while True:
        ends = np.stack([network.sources[links], network.targets[links]])
        idle = (np.bincount(ends.reshape(-1), minlength=len(network)) == 1) & ~member
        if not idle.any():
            return links
        links = links[~idle[ends].any(axis=0)]
