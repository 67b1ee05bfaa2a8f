"""The tree of brokers on which subscribers are assigned: the one flow's tree of the base, below the publishers."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.access import access_of
from overstory.model.delays import MICRO, in_micros
from overstory.model.network import Floats, Ints, Network
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps


class Brokers(NamedTuple):
    """Nodes are all brokers of the tree but the root: leaves first, each before its parent."""

    network: Network
    root: int  # its position
    nodes: Ints  # their positions
    parent: Ints  # by node: its parent's number among the nodes, -1 below the root
    prices: Floats  # by node: of a byte on the link to it
    leaves: Ints  # positions of the leaves, which are the first nodes
    leaf_of: Ints  # by position: the number of the leaf, -1 if it is none
    before: Floats  # by position: milliseconds from the publishers, as the meter counts them
    hops: Ints  # by position: links from the root


def brokers_of(scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table]) -> Brokers:
    network = scenario.network
    root = _root(scenario, pipeline, base)
    parent, order = _rooted(network, root, base["trees"])
    below = order[1:]
    links = network.link_between(parent[below], below)
    if (links < 0).any():
        raise UsageError(f"there is no link from the publishers' side to broker {network.ids[below[links < 0][0]]}")
    before, hops, prices = np.zeros(len(network)), np.zeros(len(network), np.int64), np.zeros(len(network))
    before[root] = _uplink(scenario, pipeline, int(network.ids[root]))
    for broker, link in zip(below.tolist(), links.tolist(), strict=True):
        before[broker] = before[parent[broker]] + in_micros(network.delays[link])
        hops[broker], prices[broker] = hops[parent[broker]] + 1, network.prices[link]
    inner = np.zeros(len(network), bool)
    inner[parent[below]] = True
    leaves = np.sort(below[~inner[below]])
    nodes = np.concatenate([leaves, below[inner[below]][::-1]])  # the deepest first
    number = np.full(len(network), -1)
    number[nodes] = np.arange(len(nodes))
    leaf_of = np.where(number < len(leaves), number, -1)
    above = np.where(parent[nodes] == root, -1, number[parent[nodes]])
    return Brokers(network, root, nodes, above, prices[nodes], leaves, leaf_of, before / MICRO, hops)


def _uplink(scenario: Scenario, pipeline: Steps, root: int) -> float:
    """The longest way of an event to the root, in microseconds."""
    publishers = pipeline.publishers(scenario)
    delays = access_of(scenario).up(publishers, np.full(len(publishers), root)).delays
    return float(in_micros(delays).max(initial=0.0))


def _root(scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table]) -> int:
    publishers = pipeline.publishers(scenario)
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(attached)
    found = np.unique(brokers[order][np.searchsorted(attached, publishers, sorter=order)])
    if len(found) != 1:
        raise UsageError(
            f"events are published at {len(found):,} brokers; planners of assignment need one, the root of the tree"
        )
    return int(scenario.network.positions(found)[0])


def _rooted(network: Network, root: int, trees: pa.Table) -> tuple[Ints, Ints]:
    """By position the parent, and all brokers of the tree from the root down."""
    flows = np.unique(trees["flow"].to_numpy())
    if len(flows) != 1:
        raise UsageError(
            f"the base has {len(flows):,} flows with trees; planners of assignment need one tree of brokers"
        )
    ends = network.positions(trees["source"].to_numpy()), network.positions(trees["target"].to_numpy())
    one, other = np.concatenate(ends), np.concatenate(ends[::-1])
    by_one = np.argsort(one, kind="stable")
    offsets = np.searchsorted(one[by_one], np.arange(len(network) + 1))
    parent, order = np.full(len(network), -1), [root]
    for broker in order:
        for there in other[by_one[offsets[broker] : offsets[broker + 1]]].tolist():
            if there != parent[broker]:
                parent[there] = broker
                order.append(there)
    return parent, np.array(order)
