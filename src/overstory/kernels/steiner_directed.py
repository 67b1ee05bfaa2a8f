"""Local search where a link may cost something else than the link back: trees lead away from the root.

1. *Reattachment.* A key path (from a branch or an end down to the next) goes, and what is below hangs on a cheapest way
   from the rest of the tree, if that costs less. Ways come from the table of distances, so the lower node must have a
   row there; all ends have.
2. *Insertion.* A node outside joins by its cheapest link from the tree. Every node that it has a link to, except those
   above it, may then hang from it instead, if the link costs less than the key path that led there.

Both change parents only, and never those above the node that they begin at: so no circle can come about.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes, list_anew, take_in


class Entries(NamedTuple):
    """By node outside the tree: its cheapest link from the tree."""

    links: Array  # NONE: there is none
    sources: Array
    claimed: Array  # by node of the tree: whether the key path above it is to go
    chosen: Array  # a list of links to nodes that are to hang from the new one


@kernel
def new_entries(size: int, links: int) -> Entries:
    return Entries(
        np.full(size, NONE, np.int64), np.empty(size, np.int64), np.zeros(size, np.bool_), np.empty(links, np.int64)
    )


@kernel
def find_entries(graph: Graph, nodes: Nodes, entries: Entries) -> None:
    entries.links[:] = NONE
    for at in range(nodes.count[0]):
        node = nodes.members[at]
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            best = entries.links[graph.targets[link]]
            if best == NONE or graph.prices[link] < graph.prices[best]:
                entries.links[graph.targets[link]], entries.sources[graph.targets[link]] = link, node


@kernel
def arrange(graph: Graph, nodes: Nodes, root: int) -> float:
    """Makes a tree of what parents say: leaves that are no ends leave the set, parents are listed before their
    children, and degrees and prices are right. Returns what the tree costs."""
    members, parents, degrees = nodes.members, nodes.parents, nodes.degrees
    count = list_anew(nodes)
    for at in range(count):
        degrees[members[at]] = 0
    for at in range(count):
        if members[at] != root:
            degrees[parents[members[at]]] += 1
    for at in range(count):
        leaf = members[at]
        while degrees[leaf] == 0 and not nodes.is_end[leaf] and nodes.inside[leaf]:
            nodes.inside[leaf] = False
            leaf = parents[leaf]
            degrees[leaf] -= 1
    return _list_from_above(graph, nodes, root, count)


@kernel
def _list_from_above(graph: Graph, nodes: Nodes, root: int, count: int) -> float:
    """Lists each node behind its parent; nodes that are listed are marked by being outside, for as long as it takes."""
    members, old, way = nodes.members, nodes.members[:count].copy(), np.empty(count + 1, np.int64)
    members[0], nodes.inside[root], nodes.paid[root] = root, False, 0.0
    listed, cost = 1, 0.0
    for node in old:
        length, above = 0, node
        while nodes.inside[above]:
            way[length] = above
            length += 1
            nodes.inside[above] = False
            above = nodes.parents[above]
        for at in range(length - 1, -1, -1):
            members[listed] = way[at]
            listed += 1
    for at in range(listed):
        node = members[at]
        nodes.inside[node] = True
        if node != root:
            nodes.paid[node] = graph.prices[nodes.links[node]]
            nodes.degrees[node] += 1
            cost += nodes.paid[node]
    nodes.count[0] = listed
    return cost


@kernel
def improve_directed(
    graph: Graph, distances: Distances, nodes: Nodes, entries: Entries, root: int, cost: float, rounds: int
) -> float:
    """Of an arranged tree; returns what it costs in the end."""
    for _ in range(rounds):
        before, least = cost, 1e-9 * cost
        for at in range(nodes.count[0]):
            # What was taken away meanwhile is outside; what has joined is left to the next round.
            node = nodes.members[at]
            if node == root or not nodes.inside[node] or distances.row_of[node] == NONE:
                continue
            if reattach(graph, distances, nodes, root, node, least) > 0:
                cost = arrange(graph, nodes, root)
        find_entries(graph, nodes, entries)
        for node in range(len(graph.offsets) - 1):
            if nodes.inside[node] or entries.links[node] == NONE or not nodes.inside[entries.sources[node]]:
                continue
            if insert_directed(graph, nodes, entries, root, node, least) > 0:
                cost = arrange(graph, nodes, root)
        if cost >= before:
            break
    return cost


@kernel
def _top_of_path(nodes: Nodes, root: int, node: int) -> tuple[int, float]:
    """Where the key path to a node begins, and what it costs. (A node inside a tree has one link in and one out.)"""
    total = 0.0
    while True:
        total += nodes.paid[node]
        node = nodes.parents[node]
        if node == root or nodes.is_end[node] or nodes.degrees[node] > 2:
            return node, total


@kernel
def _take_out_way(nodes: Nodes, node: int, top: int) -> None:
    """Takes out the nodes between, and the degree of the upper."""
    node = nodes.parents[node]
    while node != top:
        nodes.inside[node] = False
        node = nodes.parents[node]
    nodes.degrees[top] -= 1


@kernel
def reattach(graph: Graph, distances: Distances, nodes: Nodes, root: int, node: int, least: float) -> float:
    """Returns what is gained, 0 if nothing changes. The tree has to be arranged after that."""
    if not nodes.is_end[node] and nodes.degrees[node] < 3:
        return 0.0  # inside a key path
    top, price = _top_of_path(nodes, root, node)
    row, nearest, near = distances.row_of[node], NONE, price - least
    for at in range(nodes.count[0]):
        other = nodes.members[at]
        if nodes.inside[other] and distances.far[row, other] < near and not _is_below(nodes, other, node, top):
            near, nearest = float(distances.far[row, other]), other
    if nearest == NONE:
        return 0.0
    here = _last_in_rest(graph, distances, nodes, nearest, node, top)
    _take_out_way(nodes, node, top)
    while here != node:
        link = graph.offsets[here] + distances.first[row, here]
        there = graph.targets[link]
        take_in(nodes, there)
        nodes.parents[there], nodes.links[there] = here, link
        here = there
    return price - near


@kernel
def _last_in_rest(graph: Graph, distances: Distances, nodes: Nodes, start: int, node: int, top: int) -> int:
    """Where the way from a node of the rest leaves the rest for good: links without a price can lead within it."""
    row, last, here = distances.row_of[node], start, start
    while here != node:
        here = graph.targets[graph.offsets[here] + distances.first[row, here]]
        if nodes.inside[here] and not _is_below(nodes, here, node, top):
            last = here
    return last


@kernel
def _is_below(nodes: Nodes, other: int, node: int, top: int) -> bool:
    """Whether a node hangs below another one, or inside the key path to it that begins at ``top``."""
    inner = node
    while inner != top:
        if inner == other:
            return True
        inner = nodes.parents[inner]
    while other != NONE:
        if other == node:
            return True
        other = nodes.parents[other]
    return False


@kernel
def insert_directed(graph: Graph, nodes: Nodes, entries: Entries, root: int, new: int, least: float) -> float:
    """Returns what is gained, 0 if nothing changes. The tree has to be arranged after that."""
    entry, above = entries.links[new], entries.sources[new]
    nodes.degrees[above] += 1  # so that no key path through it is taken away
    gain, count = _choose(graph, nodes, entries, root, new, above)
    gain -= graph.prices[entry]
    if gain <= least:
        nodes.degrees[above] -= 1
        return 0.0
    take_in(nodes, new)
    nodes.parents[new], nodes.links[new], nodes.paid[new] = above, entry, graph.prices[entry]
    nodes.degrees[new] = len(nodes.degrees)  # nor is the new node taken away again
    for at in range(count):
        there = graph.targets[entries.chosen[at]]
        top, _ = _top_of_path(nodes, root, there)
        _take_out_way(nodes, there, top)
        nodes.parents[there], nodes.links[there] = new, entries.chosen[at]
    return gain


@kernel
def _choose(graph: Graph, nodes: Nodes, entries: Entries, root: int, new: int, above: int) -> tuple[float, int]:
    """What hangs from a new node at less cost than where it is; no two of the key paths that go have a link in common.
    Returns what is gained, and how many links are chosen."""
    gain, count = 0.0, 0
    for link in range(graph.offsets[new], graph.offsets[new + 1]):
        there = graph.targets[link]
        if there == root or there == new or not nodes.inside[there] or _is_above(nodes, there, above):
            continue
        top, length = _top_of_path(nodes, root, there)
        if length > graph.prices[link] and not _is_claimed(nodes, entries, there, top):
            gain += length - graph.prices[link]
            _claim(nodes, entries, there, top, True)
            entries.chosen[count] = link
            count += 1
    for at in range(count):
        there = graph.targets[entries.chosen[at]]
        top, _ = _top_of_path(nodes, root, there)
        _claim(nodes, entries, there, top, False)
    return gain, count


@kernel
def _is_claimed(nodes: Nodes, entries: Entries, node: int, top: int) -> bool:
    while node != top:
        if entries.claimed[node]:
            return True
        node = nodes.parents[node]
    return False


@kernel
def _claim(nodes: Nodes, entries: Entries, node: int, top: int, claimed: bool) -> None:
    while node != top:
        entries.claimed[node] = claimed
        node = nodes.parents[node]


@kernel
def _is_above(nodes: Nodes, node: int, below: int) -> bool:
    while below != NONE:
        if below == node:
            return True
        below = nodes.parents[below]
    return False
