"""Steiner vertices put into a tree: a node outside joins by its links, and what these make superfluous goes.

Each link to the tree beyond the first closes a cycle. Between ends, branches and the nodes that the new one is joined
to, the tree's links come in *segments*: nothing needs the nodes inside one but the segment itself. So a whole segment
of the cycle, the dearest, can go if it costs more than the link. (With prices that are all the same no single link is
dearer than another, but a segment of two links is dearer than one.)

A node is tried on the tree itself. If it does not gain, all is put back as it was.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes, list_anew


class Past(NamedTuple):
    """What a trial has changed, one entry for each change of a node."""

    nodes: Array
    parents: Array  # as they were
    paid: Array
    degrees: Array
    worth: Array  # by node: the most that its links to the tree can gain; of a node of the tree, the key path above it
    cheapest: Array  # by node outside: the least price of a link to the tree
    candidates: Array  # nodes outside that have links to the tree


@kernel
def new_past(size: int) -> Past:
    room = 8 * size + 64
    return Past(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.float64),
        np.empty(room, np.int64),
        np.zeros(size),
        np.full(size, np.inf),
        np.empty(size, np.int64),
    )


@kernel
def insert_all(graph: Graph, nodes: Nodes, past: Past, least: float) -> float:
    """Tries every node beside a spanned tree that may gain, in the order in which the tree comes upon them; keeps those
    that gain more than ``least``. Returns what is gained.

    After that parents are those of a tree that may hang from another node, and the tree has to be spanned.
    """
    found = _candidates(graph, nodes, past, least)
    gained = 0.0
    for at in range(found):
        gain, changes = try_insertion(graph, nodes, past, past.candidates[at])
        if gain > least:
            gained += gain
            settle(nodes, past.candidates[at])
        else:
            put_back(nodes, past, past.candidates[at], changes)
    return gained


@kernel
def _candidates(graph: Graph, nodes: Nodes, past: Past, least: float) -> int:
    """Lists the nodes that would gain if every link of theirs but the first took away a segment as dear as the dearest.
    Returns how many there are."""
    dearest, found = _dearest_key_path(nodes, past), 0
    worth, cheapest, candidates = past.worth, past.cheapest, past.candidates
    for at in range(nodes.count[0]):
        node = nodes.members[at]
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            there, price = graph.targets[link], graph.prices[link]
            if nodes.inside[there] or price >= dearest:
                continue
            if cheapest[there] == np.inf:
                candidates[found], worth[there] = there, 0.0
                found += 1
            worth[there] += dearest - price
            cheapest[there] = min(cheapest[there], price)
    kept = 0
    for at in range(found):
        there = candidates[at]
        if worth[there] - dearest > least:  # the cheapest link is worth less than nothing: its price
            candidates[kept] = there
            kept += 1
        cheapest[there] = np.inf
    return kept


@inlined
def _dearest_key_path(nodes: Nodes, past: Past) -> float:
    dearest = 0.0
    for at in range(nodes.count[0]):
        node = nodes.members[at]
        parent = nodes.parents[node]
        if parent == NONE:
            continue
        past.worth[node] = nodes.paid[node]
        if not nodes.is_end[parent] and nodes.degrees[parent] == 2:
            past.worth[node] += past.worth[parent]
        dearest = max(dearest, past.worth[node])
    return dearest


@inlined
def try_insertion(graph: Graph, nodes: Nodes, past: Past, new: int) -> tuple[float, int]:
    """Joins a node to the tree, and takes away what costs more than the new links. Returns what is gained, and how many
    changes there are in the past; nodes that were taken away are marked as outside."""
    first, price = _cheapest_link(graph, nodes, new)
    if first == NONE:
        return -np.inf, 0
    changes = _hang_from(nodes, past, new, graph.targets[first], price)
    gain = -price
    for link in range(graph.offsets[new], graph.offsets[new + 1]):
        there, price = graph.targets[link], graph.prices[link]
        if link == first or there == new or not nodes.inside[there] or nodes.parents[there] == new:
            continue
        if changes + 2 * nodes.count[0] + 8 > len(past.nodes):
            break
        dearest, low, high = _dearest_segment(nodes, there, new)
        if dearest > price:
            gain += dearest - price
            changes = _swap(nodes, past, changes, new, there, price, low, high)
    return gain, changes


@inlined
def _cheapest_link(graph: Graph, nodes: Nodes, new: int) -> tuple[int, float]:
    best, price = NONE, np.inf
    for link in range(graph.offsets[new], graph.offsets[new + 1]):
        if graph.prices[link] < price and nodes.inside[graph.targets[link]]:
            best, price = link, graph.prices[link]
    return best, price


@inlined
def _note(nodes: Nodes, past: Past, changes: int, node: int) -> int:
    past.nodes[changes], past.parents[changes] = node, nodes.parents[node]
    past.paid[changes], past.degrees[changes] = nodes.paid[node], nodes.degrees[node]
    return changes + 1


@inlined
def _hang_from(nodes: Nodes, past: Past, new: int, first: int, price: float) -> int:
    """Hangs all of the tree from the new node, by its first link. Returns how many changes that is."""
    nodes.inside[new] = True
    nodes.parents[new], nodes.paid[new], nodes.degrees[new] = NONE, 0.0, 1
    changes, node, above, paid = 0, first, new, price
    while node != NONE:
        changes = _note(nodes, past, changes, node)
        following, next_paid = nodes.parents[node], nodes.paid[node]
        nodes.parents[node], nodes.paid[node] = above, paid
        node, above, paid = following, node, next_paid
    nodes.degrees[first] += 1
    return changes


@inlined
def _dearest_segment(nodes: Nodes, start: int, top: int) -> tuple[float, int, int]:
    """Of those on the way from a node up to the top: the price, and the lower and the upper node."""
    dearest, low, high = -1.0, start, start
    node, begin, total = start, start, 0.0
    while node != top:
        total += nodes.paid[node]
        node = nodes.parents[node]
        if node == top or nodes.is_end[node] or nodes.degrees[node] > 2:
            if total > dearest:
                dearest, low, high = total, begin, node
            begin, total = node, 0.0
    return dearest, low, high


@inlined
def _swap(nodes: Nodes, past: Past, changes: int, new: int, there: int, price: float, low: int, high: int) -> int:
    """Takes away the segment between two nodes above ``there``, which now hangs from the new node."""
    for end in (low, high):
        changes = _note(nodes, past, changes, end)
        nodes.degrees[end] -= 1
    inner = nodes.parents[low]
    while inner != high:
        nodes.inside[inner] = False
        changes = _note(nodes, past, changes, inner)
        inner = nodes.parents[inner]
    node, above, paid = there, new, price
    while True:  # what led up from there now leads down
        changes = _note(nodes, past, changes, node)
        following, next_paid = nodes.parents[node], nodes.paid[node]
        nodes.parents[node], nodes.paid[node] = above, paid
        if node == low:
            break
        node, above, paid = following, node, next_paid
    nodes.degrees[there] += 1
    nodes.degrees[new] += 1
    return changes


@inlined
def put_back(nodes: Nodes, past: Past, new: int, changes: int) -> None:
    """Makes the tree what it was before the trial."""
    for at in range(changes - 1, -1, -1):
        node = past.nodes[at]
        nodes.inside[node] = True
        nodes.parents[node], nodes.paid[node] = past.parents[at], past.paid[at]
        nodes.degrees[node] = past.degrees[at]
    nodes.inside[new] = False


@kernel
def settle(nodes: Nodes, new: int) -> None:
    """Lists the new node among the members, and those that were taken away no more."""
    nodes.members[nodes.count[0]] = new
    nodes.count[0] += 1
    list_anew(nodes)
