"""Clusters of items, with the Steiner trees of their instances: what Algorithms 1 to 3 work on.

``Ground`` is what all clusters share. A cluster made of two others keeps the Steiner trees of all rows whose terminals
are those of one of them, so that a whole dendrogram needs few more trees than its leaves do.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from overstory.kernels.clusters import NEW, collect, unite
from overstory.kernels.distances import Distances, distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner import ROUTE, steiner_trees
from overstory.model.network import Floats, Ints, Network
from overstory.planners.trees.demand import Demand, Rows


class Edges(NamedTuple):
    """The network without directions. Links that lead only one way are in no tree, and in none of these."""

    one: Ints
    other: Ints  # the higher end
    there: Floats  # the price from one to the other
    back: Floats
    of_link: Ints  # by directed link of the graph


@dataclass(frozen=True, eq=False)
class Ground:
    network: Network
    rows: Rows
    graph: Graph  # links that lead both ways
    edges: Edges
    ends: Ints  # brokers that publish or want something

    @cached_property
    def distances(self) -> Distances:
        return distances_to(self.graph.offsets, self.graph.targets, self.graph.prices, self.ends)

    def steiner(self, roots: Ints, offsets: Ints, terminals: Ints) -> tuple[Ints, Ints]:
        """Offsets by instance, and the links of its tree. A dendrogram asks for very many."""
        trees = steiner_trees(self.graph, self.distances, roots, offsets, terminals, ROUTE)
        return trees.offsets, trees.links


def ground_of(demand: Demand, rows: Rows) -> Ground:
    network = demand.network
    both = network.back >= 0
    sources, targets, prices = network.sources[both], network.targets[both], network.prices[both]
    graph = graph_of(np.searchsorted(sources, np.arange(len(network) + 1)), targets, prices)
    ends = np.unique(np.concatenate([rows.roots, demand.item_broker]))
    return Ground(network, rows, graph, _edges(network), ends)


def _edges(network: Network) -> Edges:
    once = np.flatnonzero((network.sources < network.targets) & (network.back >= 0))
    of_link = np.full(len(network.targets), NONE)
    of_link[once] = of_link[network.back[once]] = np.arange(len(once))
    there, back = network.prices[once], network.prices[network.back[once]]
    return Edges(network.sources[once], network.targets[once], there, back, of_link[of_link >= 0])


class Cluster(NamedTuple):
    """Its instances, by row. The terminals of instance i are ascending, between ``terminal_offsets`` i and i + 1; the
    links of its Steiner tree, apx_steiner in the paper, between ``link_offsets`` i and i + 1."""

    rows: Ints
    terminal_offsets: Ints
    terminals: Ints
    link_offsets: Ints
    links: Ints


def clusters_of(ground: Ground, demand: Demand, item_group: Ints, groups: int) -> list[Cluster]:
    """One for each group of items; those of groups without instances are empty."""
    found = demand.instances(ground.rows, item_group, groups)
    instance = np.repeat(np.arange(len(found.rows)), np.diff(found.terminal_offsets))
    terminals = found.terminals[np.lexsort((found.terminals, instance))]
    link_offsets, links = ground.steiner(ground.rows.roots[found.rows], found.terminal_offsets, terminals)
    clusters = []
    for first, last in zip(found.group_offsets[:-1].tolist(), found.group_offsets[1:].tolist(), strict=True):
        ends, trees = found.terminal_offsets[first : last + 1], link_offsets[first : last + 1]
        clusters.append(
            Cluster(
                found.rows[first:last],
                ends - ends[0],
                terminals[ends[0] : ends[-1]],
                trees - trees[0],
                links[trees[0] : trees[-1]],
            )
        )
    return clusters


def join(ground: Ground, one: Cluster, other: Cluster) -> Cluster:
    """The cluster that has the members of both."""
    rows, offsets, terminals, origin, place = unite(*one[:3], *other[:3])
    new = np.flatnonzero(origin == NEW)
    sizes = np.diff(offsets)[new]
    wanted = terminals[np.repeat(origin == NEW, np.diff(offsets))]
    trees = ground.steiner(ground.rows.roots[rows[new]], np.concatenate([[0], np.cumsum(sizes)]), wanted)
    return Cluster(rows, offsets, terminals, *collect(origin, place, *one[3:], *other[3:], *trees))
