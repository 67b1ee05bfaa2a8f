"""Which way each flow goes: all trees of a plan as one forest, with what its rows let across each edge."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from overstory.kernels.metering import NODE, NONE
from overstory.kernels.paths import root_forest
from overstory.pipeline.lookups import pairs_looked_up
from overstory.pipeline.numbered import Numbered

Ints = NDArray[np.int64]


def forest_of(given: Numbered) -> dict[str, NDArray[Any]]:
    """The fields of ``Rules`` that are about trees."""
    brokers = len(given.network)
    tree_flows = np.flatnonzero(~given.steered)
    flow_tree = np.full(len(given.steered), NONE, np.int64)
    flow_tree[tree_flows] = np.arange(len(tree_flows))
    tables = given.plan.trees
    tree = flow_tree[given.flows(tables["flow"].to_numpy())]
    one, other = (given.network.positions(tables[name].to_numpy()) for name in ("source", "target"))
    used = np.zeros(len(tree_flows) * brokers, bool)
    for keys in (tree * brokers + one, tree * brokers + other, _lone(given, flow_tree)):
        used[keys] = True
    node_keys = np.flatnonzero(used)
    place = np.full(len(tree_flows) * brokers, NONE, np.int32)
    place[node_keys] = np.arange(len(node_keys))
    ends = place[tree * brokers + one], place[tree * brokers + other]
    here, there, offsets = both_ways(*ends, len(node_keys))
    source, target = (node_keys % brokers)[here], (node_keys % brokers)[there]
    parent, depth = np.empty(len(node_keys), np.int64), np.empty(len(node_keys), np.int64)
    root_forest(offsets, there, parent, depth)
    flow = tree_flows[node_keys // brokers]
    return {
        "flow_tree": flow_tree,
        "place": place.reshape(len(tree_flows), brokers),
        "nodes": _nodes(given, flow, node_keys % brokers, parent, depth),
        "edge_offsets": offsets,
        "edge_node": there,
        "edge_link": given.network.link_between(source, target),
        "edge_row": _broker_rows(given, flow[here], source, target),
    }


def _nodes(given: Numbered, flow: Ints, broker: Ints, parent: Ints, depth: Ints) -> NDArray[np.void]:
    above = broker[parent]  # of a root anything: it is not asked for its links
    nodes = np.empty(len(broker), NODE)
    nodes["flow"], nodes["broker"], nodes["parent"], nodes["depth"] = flow, broker, parent, depth
    nodes["down"], nodes["up"] = given.network.link_between(above, broker), given.network.link_between(broker, above)
    return nodes


def _lone(given: Numbered, flow_tree: Ints) -> Ints:
    """Nodes of trees without links: the one broker of a flow's members, or of clients that have rows."""
    flow = given.flows(given.plan.members["flow"].to_numpy())
    clients = given.scenario.subscriptions["client"].to_numpy()[given.subscriptions]
    broker = given.network.positions(given.broker_of(clients))
    with_links = np.unique(given.flows(given.plan.trees["flow"].to_numpy()))
    to_clients = ~given.is_broker_row
    everywhere = np.unique(given.network.positions(given.broker_of(given.scenario.subscriptions["client"].to_numpy())))
    for_all = np.setdiff1d(np.flatnonzero(given.serves_all), with_links)
    flow = np.concatenate([flow, given.rows[0][to_clients], np.repeat(for_all, len(everywhere))])
    broker = np.concatenate(
        [broker, given.network.positions(given.rows[1][to_clients]), np.tile(everywhere, len(for_all))]
    )
    bare = ~np.isin(flow, with_links) & ~given.steered[flow]
    return flow_tree[flow[bare]] * len(given.network) + broker[bare]


def _broker_rows(given: Numbered, flow: Ints, source: Ints, target: Ints) -> Ints:
    flows, sources, targets, predicate = (column[given.is_broker_row] for column in given.rows)
    brokers = len(given.network)
    keys = flows, given.network.positions(sources) * brokers + given.network.positions(targets)
    return pairs_looked_up((flow, source * brokers + target), keys, predicate)


def both_ways(one: Ints, other: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """Undirected edges as directed ones, by their ends; and offsets by the first. Linear, where sorting is not."""
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    matrix = coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    matrix.sort_indices()
    offsets = matrix.indptr.astype(np.int64)
    return np.repeat(np.arange(nodes), np.diff(offsets)), matrix.indices.astype(np.int64), offsets
