"""Spanning trees as arrays, and groups of items on trees as the tables of a plan."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.kernels.paths import root_forest
from overstory.kernels.tree_cost import tree_costs
from overstory.model.network import Floats, Ints, Network
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import FLOWS, MEMBERS, TREE, TREES
from overstory.planners.trees.demand import Demand, Instances, Rows


class Tree(NamedTuple):
    """The parent of each broker, -1 at the top, and the prices of the links from and to it, 0 at the top."""

    parent: Ints
    down: Floats
    up: Floats


def tree_of(network: Network, sources: Ints, targets: Ints) -> Tree:
    """From both ends of its links; it must span the network."""
    one, other = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    order = np.lexsort((other, one))
    offsets = np.searchsorted(one[order], np.arange(len(network) + 1))
    parent, depth = np.empty(len(network), np.int64), np.empty(len(network), np.int64)
    extra = root_forest(offsets, other[order], parent, depth)
    if extra or len(sources) != len(network) - 1:
        raise ValueError("these links are no spanning tree")
    return priced(network, parent)


def priced(network: Network, parent: Ints) -> Tree:
    below = np.flatnonzero(parent >= 0)
    down, up = np.zeros(len(parent)), np.zeros(len(parent))
    down[below] = network.prices[network.link_between(parent[below], below)]
    up[below] = network.prices[network.link_between(below, parent[below])]
    return Tree(parent, down, up)


def cost_on(tree: Tree, rows: Rows, instances: Instances, group: int = 0) -> float:
    """Of one group: bytes times the prices of the links that they cross."""
    first, last = instances.group_offsets[group : group + 2]
    mine = instances.rows[first:last]
    costs = np.empty(len(mine))
    offsets = instances.terminal_offsets[first : last + 1]
    tree_costs(*tree, rows.roots[mine], offsets, instances.terminals, costs)
    return float((costs * rows.bytes[mine]).sum())


def as_tables(scenario: Scenario, demand: Demand, item_group: Ints, trees: list[Tree]) -> dict[str, pa.Table]:
    """A flow for each group that has a subscription, numbered from 0."""
    ids = demand.network.ids
    group = item_group[demand.item_of]
    used, flow = np.unique(group, return_inverse=True)
    ends = [np.flatnonzero(trees[number].parent >= 0) for number in used.tolist()]
    parents = [trees[number].parent[below] for number, below in zip(used.tolist(), ends, strict=True)]
    sizes = [len(below) for below in ends]
    flows = {
        "flow": np.arange(len(used)),
        "kind": [TREE] * len(used),
        "events": [EVERYTHING] * len(used),
        "associations": np.zeros(len(used), np.int64),
    }
    order = np.argsort(flow, kind="stable")
    members = {
        "flow": flow[order],
        "subscription": scenario.subscriptions["id"].to_numpy()[order],
        "part": pa.nulls(len(flow), pa.string()),
    }
    none = np.empty(0, np.int64)
    links = {
        "flow": np.repeat(np.arange(len(used)), sizes),
        "source": ids[np.concatenate([none, *parents])],
        "target": ids[np.concatenate([none, *ends])],
    }
    return {
        "flows": pa.table(flows, schema=FLOWS.schema),
        "members": pa.table(members, schema=MEMBERS.schema),
        "trees": pa.table(links, schema=TREES.schema),
    }
