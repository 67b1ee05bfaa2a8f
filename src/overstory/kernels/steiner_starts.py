"""Trees to begin with, grown along cheapest ways that tables of distances know (Takahashi and Matsuyama 1980).

A tree grows from a start, and takes in the nearest end (terminal or root) that it lacks, by a cheapest way, until it
has all. Of equally near ends it takes the first. Another start often gives another tree. Where prices are mutual, a
tree may grow from any end; elsewhere it grows from the root, but takes in another end first.

Three ends under mutual prices have a best node to meet at: a tree grown from there is optimal. So is a way between two
ends.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes, forget, take_in


class Ends(NamedTuple):
    """Of one instance, and what growing a tree notes about them."""

    ends: Array  # the root and the terminals, each once
    count: Array  # of one entry: how many there are
    missing: Array  # the ends that the tree lacks
    near: Array  # how far each of these is from the tree
    nearest: Array  # and from which node


@kernel
def new_ends(size: int) -> Ends:
    return Ends(
        np.empty(size, np.int64),
        np.zeros(1, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
    )


@kernel
def note_ends(ends: Ends, nodes: Nodes, root: int, terminals: Array) -> int:
    """Returns how many there are. The ends that were noted before are forgotten."""
    for at in range(ends.count[0]):
        nodes.is_end[ends.ends[at]] = False
    ends.ends[0], nodes.is_end[root] = root, True
    count = 1
    for terminal in terminals:
        if not nodes.is_end[terminal]:
            ends.ends[count], nodes.is_end[terminal] = terminal, True
            count += 1
    ends.count[0] = count
    return count


@kernel
def can_reach(distances: Distances, ends: Ends, no_way: float) -> bool:
    """Whether there is a way from the root to each end."""
    root = ends.ends[0]
    for at in range(1, ends.count[0]):
        if distances.far[distances.row_of[ends.ends[at]], root] == no_way:
            return False
    return True


@inlined
def grow_start(graph: Graph, distances: Distances, nodes: Nodes, ends: Ends, number: int, tries: int) -> None:
    """Start number so many, of so many, which are spread over the ends. What a tree of directed prices has grown is in
    its nodes' parents and links; other trees have to be spanned."""
    which = number * ends.count[0] // tries
    if not graph.mutual:
        grow(graph, distances, nodes, ends, ends.ends[0], which)
    elif ends.count[0] == 3:
        grow(graph, distances, nodes, ends, meeting_point(distances, ends.ends), 0)
    else:
        grow(graph, distances, nodes, ends, ends.ends[which], 0)


@inlined
def meeting_point(distances: Distances, ends: Array) -> int:
    """The node with the least distance to three ends in sum."""
    one, two, three = distances.row_of[ends[0]], distances.row_of[ends[1]], distances.row_of[ends[2]]
    found, least = 0, np.inf
    for node in range(distances.far.shape[1]):
        # As floats, since small integers would overflow.
        total = float(distances.far[one, node]) + float(distances.far[two, node]) + float(distances.far[three, node])
        if total < least:
            found, least = node, total
    return found


@kernel
def grow(graph: Graph, distances: Distances, nodes: Nodes, ends: Ends, start: int, first: int) -> None:
    """A tree from the start to all ends, the one numbered ``first`` before the others unless it is 0."""
    forget(nodes)
    take_in(nodes, start)
    nodes.parents[start], nodes.links[start] = NONE, NONE
    count, seen = ends.count[0], 0
    missing, near, nearest = ends.missing, ends.near, ends.nearest
    for at in range(count):
        missing[at], near[at] = ends.ends[at], np.inf
    for left in range(count, 0, -1):
        closest = _look_around(distances, nodes, ends, left, seen)
        seen = nodes.count[0]
        taken = first if left == count and first else closest
        walk(graph, distances, nodes, nearest[taken], missing[taken])
        for at in range(taken, left - 1):
            missing[at], near[at], nearest[at] = missing[at + 1], near[at + 1], nearest[at + 1]


@inlined
def _look_around(distances: Distances, nodes: Nodes, ends: Ends, left: int, seen: int) -> int:
    """Brings distances up to date with the members that were not seen before. Returns which missing end is nearest."""
    best = 0
    for at in range(left):
        row = distances.row_of[ends.missing[at]]
        near, nearest = ends.near[at], ends.nearest[at]
        for i in range(seen, nodes.count[0]):
            distance = distances.far[row, nodes.members[i]]
            if distance < near:
                near, nearest = distance, nodes.members[i]
        ends.near[at], ends.nearest[at] = near, nearest
        if near < ends.near[best]:
            best = at
    return best


@inlined
def walk(graph: Graph, distances: Distances, nodes: Nodes, node: int, goal: int) -> None:
    """Adds the way from a node of the tree to a goal."""
    row = distances.row_of[goal]
    while node != goal:
        link = graph.offsets[node] + distances.first[row, node]
        there = graph.targets[link]
        if not nodes.inside[there]:
            take_in(nodes, there)
            nodes.parents[there], nodes.links[there] = node, link
        node = there
