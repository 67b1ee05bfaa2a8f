"""Trees around cores: a Steiner tree of the brokers that want something, and every other broker on its cheapest way to
it.

An event for these brokers can be published anywhere. It takes the cheapest way to the core, and there what it needs of
a tree that is close to the least: so such a tree need not know where events come from.

An event that is in two flows goes once for as long as their ways are the same. Many ways are equally cheap; if links
with much traffic count as a little cheaper than they are, trees of different groups come to choose the same.
"""

from dataclasses import replace

import numpy as np

from overstory.kernels.attach import hang_on_cores
from overstory.kernels.graphs import graph_of
from overstory.kernels.steiner import PLAN, steiner_trees
from overstory.kernels.tree_cost import tree_traffic
from overstory.model.network import Floats, Ints
from overstory.planners.trees.clusters import Ground
from overstory.planners.trees.demand import Demand

LEANING = 0.2  # of the price


def core_trees(ground: Ground, offsets: Ints, brokers: Ints) -> Ints:
    """By core, the parent of each broker. The brokers of core i are between offsets i and i + 1, at least one."""
    graph = ground.graph
    tops = brokers[offsets[:-1]]
    trees = steiner_trees(graph, ground.distances, tops, offsets, brokers, PLAN)
    parents = np.empty((len(tops), len(ground.network)), np.int64)
    hang_on_cores(graph._replace(prices=_inward(ground)), tops, trees.offsets, trees.links, parents)
    return parents


def leaning_ground(ground: Ground, traffic: Floats) -> Ground:
    """Where a link is up to ``LEANING`` cheaper, the more traffic it has; by its logarithm, which spans decades."""
    graph = ground.graph
    share = np.log1p(traffic) / max(np.log1p(traffic.max(initial=0)), 1.0)
    prices = graph.prices * (1 - LEANING * share)
    return replace(ground, graph=graph_of(graph.offsets, graph.targets, prices))


def traffic_of(ground: Ground, demand: Demand, item_group: Ints, parents: Ints) -> Floats:
    """By link of the graph, the bytes that cross it either way, with a copy for each group that has a tree; items
    without one are in the group behind these."""
    found = demand.instances(ground.rows, item_group, len(parents) + 1)
    roots, weights = ground.rows.roots[found.rows], ground.rows.bytes[found.rows].astype(np.float64)
    edges = np.zeros(len(ground.edges.one))
    for group in np.flatnonzero(np.diff(found.group_offsets[:-1])).tolist():
        mine = slice(*found.group_offsets[group : group + 2])
        offsets = found.terminal_offsets[mine.start : mine.stop + 1]
        crossed = np.zeros(len(ground.network))
        tree_traffic(parents[group], roots[mine], offsets, found.terminals, weights[mine], crossed)
        below = np.flatnonzero(crossed)
        edges[_edge_between(ground, below, parents[group][below])] += crossed[below]
    return edges[ground.edges.of_link]


def _edge_between(ground: Ground, one: Ints, other: Ints) -> Ints:
    edges, size = ground.edges, len(ground.network)
    return np.searchsorted(edges.one * size + edges.other, np.minimum(one, other) * size + np.maximum(one, other))


def _inward(ground: Ground) -> Floats:
    """By link of the graph, the price of the one that leads back."""
    graph, size = ground.graph, len(ground.network)
    sources = np.repeat(np.arange(size), np.diff(graph.offsets))
    return graph.prices[np.searchsorted(sources * size + graph.targets, graph.targets * size + sources)]
