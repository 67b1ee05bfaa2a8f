"""Which of a plan's flows are drawn, and what of them: a plan may have thousands, so it is those with most members."""

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
    filters: tuple[str, ...] = ()  # of the members, without repeats, the most frequent first
    events: str = EVERYTHING
    steered: bool = False


def trees_of(scenario: Scenario, plan: Plan, most: int = MOST_TREES) -> tuple[FlowTree, ...]:
    """The flow with most members first."""
    flows = plan.flows["flow"].to_numpy()
    order = np.argsort(flows)
    at = np.searchsorted(flows, plan.members["flow"].to_numpy(), sorter=order)
    members = np.bincount(order[at], minlength=len(flows))
    largest = np.lexsort((flows, -members))[:most]
    return tuple(_tree(scenario, plan, row) for row in plan.flows.take(largest).to_pylist())


def _tree(scenario: Scenario, plan: Plan, flow: dict[str, object]) -> FlowTree:
    network, within = scenario.network, pc.field("flow") == flow["flow"]
    links, subscriptions = plan.trees.filter(within), plan.members.filter(within)["subscription"]
    clients = _looked_up(subscriptions, scenario.subscriptions, "id", "client")
    brokers = _looked_up(clients, plan.attachments, "client", "broker")
    ends = [network.positions(links[end].to_numpy()) for end in ("source", "target")]
    return FlowTree(
        flow=int(str(flow["flow"])),
        members=len(subscriptions),
        links=network.link_between(*ends),
        brokers=network.positions(brokers.unique().to_numpy()),
        filters=_most_frequent(_looked_up(subscriptions, scenario.subscriptions, "id", "filter")),
        events=str(flow["events"]),
        steered=flow["kind"] == STEERED,
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


def _most_frequent(texts: pa.ChunkedArray) -> tuple[str, ...]:
    counted = [(-row["counts"], row["values"]) for row in texts.value_counts().to_pylist()]
    return tuple(text for _, text in sorted(counted))


def _looked_up(keys: pa.ChunkedArray, table: pa.Table, key: str, value: str) -> pa.ChunkedArray:
    return table[value].take(pc.index_in(keys, value_set=table[key]))
