"""Reductions: a thinner network in which a cheapest tree for the same ends costs the same. Prices are mutual.

1. *Long links* go. Between any two ends there is a way whose stretches from end to end are at most as long as the
   longest link of a minimum spanning tree of the ends' distances. So if a link is longer than that, and longer than the
   ways from its two nodes to their nearest ends, a tree that uses it is not a cheapest: without the link it falls into
   two parts, and a shorter stretch joins them. Where both nodes have the same nearest end, that tree does not matter.
2. Nodes with one link that are no ends go, and so on from their neighbours.
3. Nodes with two links that are no ends become the middle of one link, which leads *through* them and costs as much.

Nodes keep their numbers. A tree of the thin network is expanded into one of the original by ``expand``.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Kept, Nodes

STAYS, GONE, THROUGH = 0, 1, 2  # what becomes of a node
SURELY = 1 + 1e-6  # times as long: tables of distances have short floats


class Thin(NamedTuple):
    """A thin network, and how it came about. Of the links that leave node v, those between offsets v and v + 1."""

    offsets: Array
    targets: Array
    prices: Array
    whole: Array  # prices as integers
    firsts: Array  # the link of the original that this one begins with
    fates: Array  # by node
    ways: Array  # by node that links lead through: its two links of the original
    degrees: Array  # by node: how many links of the original it has left
    near: Array  # by node: how far the nearest end is
    nearest: Array  # by node: which end that is
    short: Array  # by link of the original: whether it is not too long
    waiting: Array  # nodes that may have to go; and room for a tree of the ends


@kernel
def new_thin(size: int, links: int) -> Thin:
    return Thin(
        np.zeros(size + 1, np.int64),
        np.empty(links, np.int64),
        np.empty(links, np.float64),
        np.empty(links, np.int64),
        np.empty(links, np.int64),
        np.empty(size, np.int8),
        np.empty((2, size), np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(links, np.bool_),
        np.empty(size, np.int64),
    )


@kernel
def reduce(graph: Graph, distances: Distances, whole: Array, is_end: Array, ends: Array, thin: Thin) -> Graph:
    """The thin network for some ends; ``whole`` are the graph's prices as integers."""
    _find_nearest(distances, ends, thin)
    _find_short(graph, thin, longest_stretch(distances, ends, thin))
    _drop_ends_of_ways(graph, is_end, thin)
    _find_through(graph, is_end, thin)
    count = _join_links(graph, whole, thin)
    return Graph(thin.offsets, thin.targets[:count], thin.prices[:count], True, False)


@kernel
def _find_nearest(distances: Distances, ends: Array, thin: Thin) -> None:
    near, nearest = thin.near, thin.nearest
    near[:] = np.inf
    for end in ends:
        row = distances.far[distances.row_of[end]]
        for node in range(len(near)):
            if row[node] < near[node]:
                near[node], nearest[node] = row[node], end


@kernel
def longest_stretch(distances: Distances, ends: Array, thin: Thin) -> float:
    """The longest link of a minimum spanning tree of the ends (Prim's algorithm, over the table of distances)."""
    outside, far, left, longest = thin.waiting, thin.prices, len(ends) - 1, 0.0
    for at in range(left):
        outside[at], far[at] = ends[at + 1], np.inf
    here = ends[0]
    while left:
        best, row = 0, distances.far[distances.row_of[here]]
        for at in range(left):
            far[at] = min(far[at], float(row[outside[at]]))
            if far[at] < far[best]:
                best = at
        here, longest, left = outside[best], max(longest, far[best]), left - 1
        outside[best], far[best] = outside[left], far[left]
    return longest


@kernel
def _find_short(graph: Graph, thin: Thin, longest: float) -> None:
    offsets, targets, prices, near, nearest = graph.offsets, graph.targets, graph.prices, thin.near, thin.nearest
    for node in range(len(offsets) - 1):
        degree = 0
        for link in range(offsets[node], offsets[node + 1]):
            there = targets[link]
            stretch = max(near[node], near[there])
            if nearest[node] != nearest[there]:
                stretch = max(stretch, longest)
            thin.short[link] = there != node and prices[link] <= stretch * SURELY
            degree += thin.short[link]
        thin.degrees[node] = degree


@kernel
def _drop_ends_of_ways(graph: Graph, is_end: Array, thin: Thin) -> None:
    offsets, targets, short, fates, degrees = graph.offsets, graph.targets, thin.short, thin.fates, thin.degrees
    waiting, count = thin.waiting, 0
    for node in range(len(offsets) - 1):
        fates[node] = STAYS
        if degrees[node] < 2 and not is_end[node]:
            fates[node], waiting[count] = GONE, node
            count += 1
    while count:
        count -= 1
        node = waiting[count]
        for link in range(offsets[node], offsets[node + 1]):
            there = targets[link]
            if short[link] and fates[there] == STAYS:
                degrees[there] -= 1
                if degrees[there] < 2 and not is_end[there]:
                    fates[there], waiting[count] = GONE, there
                    count += 1


@kernel
def _find_through(graph: Graph, is_end: Array, thin: Thin) -> None:
    offsets, targets, short, fates, ways = graph.offsets, graph.targets, thin.short, thin.fates, thin.ways
    for node in range(len(offsets) - 1):
        if fates[node] == GONE or is_end[node] or thin.degrees[node] != 2:
            continue
        fates[node], found = THROUGH, 0
        for link in range(offsets[node], offsets[node + 1]):
            if short[link] and fates[targets[link]] != GONE:
                ways[found, node] = link
                found += 1


@inlined
def _onward(targets: Array, ways: Array, before: int, node: int) -> int:
    """The link by which a way through a node goes on; NONE if it has to go back."""
    for side in range(2):
        if targets[ways[side, node]] != before:
            return ways[side, node]
    return NONE


@kernel
def _join_links(graph: Graph, whole: Array, thin: Thin) -> int:
    """Makes links that lead from node to node that stays. Returns how many there are."""
    # All arrays by names of their own: to look them up in a tuple for each link would take longer than all the rest.
    offsets, targets, prices = graph.offsets, graph.targets, graph.prices
    fates, short, ways = thin.fates, thin.short, thin.ways
    thin_targets, thin_prices, thin_whole, firsts = thin.targets, thin.prices, thin.whole, thin.firsts
    count = 0
    for start in range(len(offsets) - 1):
        thin.offsets[start] = count
        if fates[start] != STAYS:
            continue
        for first in range(offsets[start], offsets[start + 1]):
            if not short[first] or fates[targets[first]] == GONE:
                continue
            before, node, price, units = start, targets[first], prices[first], whole[first]
            while node != start and fates[node] == THROUGH:
                link = _onward(targets, ways, before, node)
                before, node = node, start if link == NONE else targets[link]
                price += prices[link]
                units += whole[link]
            if node != start:  # a way that only leads back is none
                thin_targets[count], thin_prices[count], thin_whole[count] = node, price, units
                firsts[count] = first
                count += 1
    thin.offsets[len(offsets) - 1] = count
    return count


@kernel
def expand(graph: Graph, thin: Thin, nodes: Nodes, kept: Kept) -> float:
    """Keeps a tree of the thin network as the tree of the original that it stands for. Returns what that costs."""
    kept.members[0], kept.parents[0], kept.links[0] = nodes.members[0], NONE, NONE
    count, cost = 1, 0.0
    for at in range(1, nodes.count[0]):
        goal, above = nodes.members[at], nodes.parents[nodes.members[at]]
        link = thin.firsts[nodes.links[goal]]
        while True:
            there = graph.targets[link]
            kept.members[count], kept.parents[count], kept.links[count] = there, above, link
            count += 1
            cost += graph.prices[link]
            if there == goal:
                break
            link, above = _onward(graph.targets, thin.ways, above, there), there
    kept.count[0], kept.cost[0] = count, cost
    return cost
