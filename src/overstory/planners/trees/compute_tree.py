"""Algorithm 1 of Majumder et al., ComputeTree: one tree for the events of one cluster.

G' is the union of the Steiner trees of the cluster's events, and the multiplicity m of its edges says how many bytes'
trees they are in. On a spanning tree of G' the events cost at most the sum of m times the distance of each edge's ends
in the tree: so it is to have low stretch. What they cost does not depend on how the other brokers are attached, and
that is done only to trees that are kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.attach import attach_rest
from overstory.kernels.clusters import compact, hang, multiplicities
from overstory.kernels.low_stretch import low_stretch_forest
from overstory.kernels.nothing import NONE
from overstory.kernels.tree_cost import tree_costs
from overstory.model.network import Floats, Ints
from overstory.planners.trees.clusters import Cluster, Ground
from overstory.planners.trees.spanning import Tree

Mask = NDArray[np.bool_]


class Union(NamedTuple):
    """G', with vertices numbered from 0. Edges are listed in the order of the ground's."""

    names: Ints  # the brokers that the vertices are
    one: Ints
    other: Ints
    edges: Ints  # their numbers in the ground
    m: Ints
    prices: Floats  # the mean of both directions


class Forest(NamedTuple):
    """A spanning tree of each component of G', and what the cluster costs on it."""

    cost: float
    edges: Ints


def compute_tree(ground: Ground, cluster: Cluster, seeds: Sequence[int]) -> Forest:
    """Of one low-stretch tree for each seed the cheapest, without the brokers that are not in G'."""
    weights = ground.rows.bytes[cluster.rows]
    edges = ground.edges
    m = multiplicities(cluster.link_offsets, cluster.links, weights, edges.of_link, len(edges.one))
    union = union_of(ground, m)
    best = Forest(np.inf, union.edges[:0])
    for seed in seeds:
        chosen = low_stretch(union, seed)
        cost = _cost(ground, cluster, union, chosen)
        if cost < best.cost:
            best = Forest(cost, union.edges[chosen])
        if chosen.all():  # G' is a forest itself
            break
    return best


def union_of(ground: Ground, m: Ints) -> Union:
    """From the multiplicities of all edges of the network."""
    used = np.flatnonzero(m)
    ends = ground.edges.one[used], ground.edges.other[used]
    prices = (ground.edges.there[used] + ground.edges.back[used]) / 2
    return Union(*compact(*ends, len(ground.network)), used, m[used], prices)


def low_stretch(union: Union, seed: int) -> Mask:
    """Which edges of G' are in the tree."""
    return low_stretch_forest(union.names, union.one, union.other, union.m, union.prices, seed)


def _cost(ground: Ground, cluster: Cluster, union: Union, chosen: Mask) -> float:
    parent, by = (np.full(len(ground.network), NONE) for _ in range(2))
    hang(union.names, union.one[chosen], union.other[chosen], union.edges[chosen], parent, by)
    costs = np.empty(len(cluster.rows))
    roots = ground.rows.roots[cluster.rows]
    tree_costs(*_priced(ground, parent, by), roots, cluster.terminal_offsets, cluster.terminals, costs)
    return float((costs * ground.rows.bytes[cluster.rows]).sum())


def _priced(ground: Ground, parent: Ints, by: Ints) -> Tree:
    """From parents, and the edges to them."""
    below = by >= 0
    edge = by[below]
    downwards = ground.edges.one[edge] == parent[below]
    there, back = ground.edges.there[edge], ground.edges.back[edge]
    down, up = np.zeros(len(parent)), np.zeros(len(parent))
    down[below], up[below] = np.where(downwards, there, back), np.where(downwards, back, there)
    return Tree(parent, down, up)


def spanning(ground: Ground, forest: Ints) -> Tree:
    """With all other brokers, and the other trees of the forest, attached to its first tree by cheapest paths."""
    graph, edges = ground.graph, ground.edges
    kept = np.zeros(len(edges.one), bool)
    kept[forest] = True
    means = (edges.there + edges.back) / 2
    start = int(edges.one[forest[0]]) if len(forest) else 0
    link = np.empty(len(ground.network), np.int64)
    attach_rest(graph._replace(prices=means[edges.of_link]), kept[edges.of_link], start, link)
    below = np.flatnonzero(link >= 0)
    by, parent = (np.full(len(link), NONE) for _ in range(2))
    by[below] = edges.of_link[link[below]]
    parent[below] = edges.one[by[below]] + edges.other[by[below]] - below
    return _priced(ground, parent, by)
