"""Which of a plan's flows are drawn, and what of them: a plan may have thousands, so it is those with most members."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.model.network import Ints, Network
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import STEERED

MOST_TREES = 12  # of a plan


class FlowTree(msgspec.Struct, frozen=True):
    """A flow that is steered has no links: each event goes its own way."""

    flow: int
    members: int  # subscriptions
    links: Ints  # of the network, either direction once
    brokers: Ints  # by position: those with members
    filter: str | None = None  # that most of the members have, the first by name on ties
    filters: int = 0  # how many different ones they have
    events: str = EVERYTHING
    steered: bool = False


def trees_of(scenario: Scenario, plan: Plan, most: int = MOST_TREES) -> tuple[FlowTree, ...]:
    """The flow with most members first."""
    flows = plan.flows.take(_largest(plan)[:most])
    members = _placed(plan.members.filter(pc.field("flow").isin(flows["flow"].to_pylist())), scenario, plan)
    return tuple(_tree(scenario.network, plan, members, flow) for flow in flows.to_pylist())


def _largest(plan: Plan) -> Ints:
    flows = plan.flows["flow"].to_numpy()
    order = np.argsort(flows)
    at = np.searchsorted(flows, plan.members["flow"].to_numpy(), sorter=order)
    members = np.bincount(order[at], minlength=len(flows))
    return np.lexsort((flows, -members))


def _placed(members: pa.Table, scenario: Scenario, plan: Plan) -> pa.Table:
    """With the filter and the broker of each."""
    subscriptions = _rows(scenario.subscriptions, "id", members["subscription"])
    brokers = _rows(plan.attachments, "client", subscriptions["client"])["broker"]
    return members.append_column("filter", subscriptions["filter"]).append_column("broker", brokers)


def _rows(table: pa.Table, key: str, wanted: pa.ChunkedArray) -> pa.Table:
    return table.take(pc.index_in(wanted, value_set=table[key]))


def _tree(network: Network, plan: Plan, members: pa.Table, flow: dict[str, Any]) -> FlowTree:
    within = pc.field("flow") == flow["flow"]
    links, mine = plan.trees.filter(within), members.filter(within)
    filters = mine["filter"].value_counts()
    most = pc.equal(filters.field("counts"), pc.max(filters.field("counts")))
    ends = [network.positions(links[end].to_numpy()) for end in ("source", "target")]
    return FlowTree(
        flow=flow["flow"],
        members=len(mine),
        links=network.link_between(*ends),
        brokers=network.positions(mine["broker"].unique().to_numpy()),
        filter=pc.min(filters.field("values").filter(most)).as_py(),
        filters=len(filters),
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
