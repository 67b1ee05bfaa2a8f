"""A Steiner tree as the set of its nodes, while it is being improved. Prices are mutual.

Whatever connects the nodes, a minimum spanning tree of them costs no more. So a change of a tree adds nodes and takes
nodes away, and ``span`` then says which links join them: the cost falls by what the change promised, or by more.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE


class Nodes(NamedTuple):
    """By node, unless said otherwise. What is said of nodes outside the tree is of no account."""

    inside: Array  # whether it is in the tree
    is_end: Array  # whether it is the root or a terminal
    parents: Array  # NONE at the node that the tree hangs from
    links: Array  # the link from the parent
    paid: Array  # the price of that link
    degrees: Array  # how many links of the tree it has
    members: Array  # a list of the tree's nodes, parents before their children; while it changes, also former nodes
    count: Array  # of one entry: how many members there are


@kernel
def new_nodes(size: int) -> Nodes:
    return Nodes(
        np.zeros(size, np.bool_),
        np.zeros(size, np.bool_),
        np.full(size, NONE, np.int64),
        np.full(size, NONE, np.int64),
        np.zeros(size, np.float64),
        np.zeros(size, np.int64),
        np.empty(2 * size, np.int64),
        np.zeros(1, np.int64),
    )


@kernel
def list_anew(nodes: Nodes) -> int:
    """Lists each node of the tree once, and none that was taken out. Returns how many they are."""
    members, inside, count = nodes.members, nodes.inside, 0
    for at in range(nodes.count[0]):
        if inside[members[at]]:
            members[count], inside[members[at]] = members[at], False
            count += 1
    for at in range(count):
        inside[members[at]] = True
    nodes.count[0] = count
    return count


@inlined
def take_in(nodes: Nodes, node: int) -> None:
    """Adds a node to the set. The tree has to be spanned after that."""
    if not nodes.inside[node]:
        nodes.inside[node] = True
        nodes.members[nodes.count[0]] = node
        nodes.count[0] += 1


@kernel
def forget(nodes: Nodes) -> None:
    """Empties the set."""
    for at in range(nodes.count[0]):
        nodes.inside[nodes.members[at]] = False
    nodes.count[0] = 0


@kernel
def span(graph: Graph, nodes: Nodes, root: int) -> float:
    """Makes a minimum spanning tree of the members, from the root, without leaves that are no ends; these leave the
    set. The next node is always that with the cheapest link, then with the lowest number. Returns what it costs."""
    members, paid, inside = nodes.members, nodes.paid, nodes.inside
    count = list_anew(nodes)
    for at in range(count):
        paid[members[at]] = np.inf
    nodes.parents[root], nodes.links[root], paid[root] = NONE, NONE, NONE
    members[0], reached = root, 1  # the links lead to all others again, so the list is made anew
    for done in range(count):
        best, least = done, paid[members[done]]
        for at in range(done + 1, reached):
            price = paid[members[at]]
            if price < least or (price == least and members[at] < members[best]):
                best, least = at, price
        here = members[best]
        members[best], members[done] = members[done], here
        inside[here] = False  # for as long as others are looked for
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there, price = graph.targets[link], graph.prices[link]
            if inside[there] and price < paid[there]:
                if paid[there] == np.inf:
                    members[reached] = there
                    reached += 1
                paid[there], nodes.parents[there], nodes.links[there] = price, here, link
    return _cut_leaves(nodes, count)


@kernel
def _cut_leaves(nodes: Nodes, count: int) -> float:
    """Takes the spanned nodes into the set again, except those that lead to no end. Returns what the rest costs."""
    members, degrees, paid = nodes.members, nodes.degrees, nodes.paid
    for at in range(count):
        degrees[members[at]] = 0
    paid[members[0]] = 0.0
    for at in range(count - 1, 0, -1):
        node = members[at]
        if nodes.is_end[node] or degrees[node] > 0:
            nodes.inside[node] = True
            degrees[node] += 1
            degrees[nodes.parents[node]] += 1
    nodes.inside[members[0]] = True
    kept, cost = 0, 0.0
    for at in range(count):
        if nodes.inside[members[at]]:
            members[kept] = members[at]
            cost += paid[members[at]]
            kept += 1
    nodes.count[0] = kept
    return cost


class Kept(NamedTuple):
    """The cheapest tree so far."""

    members: Array
    parents: Array  # of the members, as are the links
    links: Array
    count: Array  # of one entry
    cost: Array  # of one entry


@kernel
def new_kept(size: int) -> Kept:
    return Kept(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(1, np.int64),
        np.full(1, np.inf),
    )


@kernel
def keep(nodes: Nodes, kept: Kept, cost: float) -> None:
    for at in range(nodes.count[0]):
        node = nodes.members[at]
        kept.members[at], kept.parents[at], kept.links[at] = node, nodes.parents[node], nodes.links[node]
    kept.count[0], kept.cost[0] = nodes.count[0], cost


@kernel
def restore(graph: Graph, nodes: Nodes, kept: Kept) -> None:
    """Makes the kept tree the one at hand."""
    forget(nodes)
    for at in range(kept.count[0]):
        node, parent, link = kept.members[at], kept.parents[at], kept.links[at]
        take_in(nodes, node)
        nodes.parents[node], nodes.links[node], nodes.degrees[node] = parent, link, 0
        nodes.paid[node] = 0.0
        if parent != NONE:
            nodes.paid[node] = graph.prices[link]
            nodes.degrees[node] = 1
            nodes.degrees[parent] += 1
