"""Steiner trees of the effort *route*: for one event at a time, in microseconds.

1. A tree is a function of the network, the source and the *set* of terminals. Neither their order nor what was routed
   before has an influence: terminals are taken in ascending order, and ties go to the lowest number.
2. The tree leads from the source to every terminal that can be reached, each link in the direction away from the
   source, and every leaf is a terminal. Terminals out of reach are left out of the tree, and are listed.
3. Nothing is allocated for a tree: all room is on a *desk*, which is made once and serves one thread at a time.

The best of a few trees grown along cheapest ways is taken (``steiner_starts``), and Steiner vertices are inserted into
it where prices are mutual (``steiner_insertion``).
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_directed import arrange
from overstory.kernels.steiner_insertion import Past
from overstory.kernels.steiner_local import insert_and_span
from overstory.kernels.steiner_nodes import Kept, Nodes, keep, restore, span
from overstory.kernels.steiner_starts import Ends, grow_start, note_ends
from overstory.kernels.store import with_room

STARTS = 4


class Ways(NamedTuple):
    """A network that is prepared for routing: links, and cheapest ways to all nodes."""

    graph: Graph
    distances: Distances
    no_way: float  # stands in the table of distances where there is none
    names: Array  # by link of the graph: the number by which its owner knows it


class Desk(NamedTuple):
    """The room that trees are made in, one after the other. When one is made it stands in ``kept``."""

    nodes: Nodes
    past: Past
    ends: Ends
    kept: Kept
    lost: Array  # the terminals that cannot be reached, ascending
    sorted: Array  # the other terminals, ascending


@kernel
def desk_of(ints: Array, floats: Array, flags: Array) -> Desk:
    """A desk over the arrays of ``room_for_desk``, which keep everything between two trees. (Python hands over three
    arrays faster than a desk of many.)"""
    return Desk(
        Nodes(flags[0], flags[1], ints[0], ints[1], floats[0], ints[2], ints[3], ints[4]),
        Past(ints[5], ints[6], floats[1], ints[7], floats[2], floats[3], ints[8]),
        Ends(ints[9], ints[10], ints[11], floats[4], ints[12]),
        Kept(ints[13], ints[14], ints[15], ints[16], floats[5]),
        ints[17],
        ints[18],
    )


@kernel
def room_for_desk(size: int) -> tuple[Array, Array, Array]:
    """Integers, floats and flags for trees of a network of so many nodes. Only what a new desk must hold is written."""
    room = 8 * size + 64  # an insertion may change a node several times
    ints, floats, flags = np.empty((19, room), np.int64), np.empty((6, room)), np.empty((2, room), np.bool_)
    desk = desk_of(ints, floats, flags)
    desk.nodes.inside[:size], desk.nodes.is_end[:size], desk.past.cheapest[:size] = False, False, np.inf
    desk.nodes.count[0], desk.ends.count[0], desk.kept.count[0], desk.kept.cost[0] = 0, 0, 0, np.inf
    return ints, floats, flags


@kernel
def new_desk(size: int) -> Desk:
    ints, floats, flags = room_for_desk(size)
    return desk_of(ints, floats, flags)


@kernel
def route(ways: Ways, desk: Desk, source: int, terminals: Array) -> tuple[int, int]:
    """Makes the tree from a source to its terminals, which may come twice and in any order.

    Returns how many nodes the tree has, the source included, and how many terminals cannot be reached; or NONE twice
    if the source or a terminal is no node. The nodes are ``desk.kept.members``, each behind its parent and the source
    first; beside them are their ``parents`` and the ``links`` from these, both NONE for the source. (Links are those of
    the graph: ``ways.names`` has the numbers that their owner gave them.) The price is ``desk.kept.cost[0]``, and the
    terminals that cannot be reached are in ``desk.lost``."""
    if not _is_known(ways, source) or not _are_known(ways, terminals):
        return NONE, NONE
    reached, lost = _in_reach(ways, desk, source, terminals)
    note_ends(desk.ends, desk.nodes, source, desk.sorted[:reached])
    desk.kept.cost[0] = np.inf
    make_tree(ways.graph, ways.distances, desk, STARTS, True)
    return desk.kept.count[0], lost


@inlined
def _is_known(ways: Ways, node: int) -> bool:
    row_of = ways.distances.row_of
    return bool(0 <= node < len(row_of) and row_of[node] != NONE)


@inlined
def _are_known(ways: Ways, terminals: Array) -> bool:
    for terminal in terminals:
        if not _is_known(ways, terminal):
            return False
    return True


@inlined
def _in_reach(ways: Ways, desk: Desk, source: int, terminals: Array) -> tuple[int, int]:
    """Sorts terminals by whether they can be reached, and by number. Returns how many can be, and how many cannot."""
    distances = ways.distances
    reached, lost = 0, 0
    for terminal in terminals:
        if distances.far[distances.row_of[terminal], source] == ways.no_way:
            lost = _sort_in(desk.lost, lost, terminal)
        else:
            reached = _sort_in(desk.sorted, reached, terminal)
    return reached, lost


@inlined
def _sort_in(ascending: Array, count: int, new: int) -> int:
    """Puts a number into a list without repetitions. Returns how many the list then has."""
    at = count
    while at and ascending[at - 1] > new:
        at -= 1
    if at and ascending[at - 1] == new:
        return count
    for place in range(count, at, -1):
        ascending[place] = ascending[place - 1]
    ascending[at] = new
    return count + 1


@kernel
def make_tree(graph: Graph, distances: Distances, desk: Desk, starts: int, inserts: bool) -> None:
    """Keeps the best of so many trees to the ends that are noted, which can be reached; then inserts Steiner vertices
    into it."""
    dearest = keep_best_start(graph, distances, desk, starts, False)
    count, cost = desk.ends.count[0], desk.kept.cost[0]
    if not inserts or not graph.mutual or count <= 3 or (graph.even and dearest == cost):
        return  # the tree is optimal, or all starts came to the same: then an insertion gains next to nothing
    restore(graph, desk.nodes, desk.kept)
    keep_if_cheaper(desk, insert_and_span(graph, desk.nodes, desk.past, desk.ends.ends[0], cost))


@kernel
def keep_best_start(graph: Graph, distances: Distances, desk: Desk, starts: int, inserts: bool) -> float:
    """Keeps the cheapest of so many starts, into each of which Steiner vertices are inserted if that is asked for.
    Returns what the dearest costs. Where the first is optimal there is only one."""
    count, root = desk.ends.count[0], desk.ends.ends[0]
    solved = count < 3 or (graph.mutual and count == 3)
    tries = 1 if solved else min(starts, count)
    dearest = 0.0
    for number in range(tries):
        grow_start(graph, distances, desk.nodes, desk.ends, number, tries)
        if not graph.mutual:
            keep_if_cheaper(desk, arrange(graph, desk.nodes, root))
        cost = span(graph, desk.nodes, root)
        if graph.mutual and inserts and not solved:
            cost = insert_and_span(graph, desk.nodes, desk.past, root, cost)
        keep_if_cheaper(desk, cost)
        dearest = max(dearest, cost)
    return dearest


@inlined
def keep_if_cheaper(desk: Desk, cost: float) -> None:
    if cost < desk.kept.cost[0]:
        keep(desk.nodes, desk.kept, cost)


class Routed(NamedTuple):
    """Trees of many sets. That of set i has its nodes between offsets i and i + 1, as ``route`` gives them."""

    offsets: Array
    nodes: Array
    parents: Array
    links: Array  # as their owner numbers them; NONE above a source
    costs: Array
    lost_offsets: Array
    lost: Array  # of set i, between its two offsets: the terminals that cannot be reached


@kernel
def route_all(ways: Ways, desk: Desk, sources: Array, terminal_offsets: Array, terminals: Array) -> tuple[int, Routed]:
    """The trees of many sets of terminals: those of source i are between offsets i and i + 1. Also returns the first
    set with a source or a terminal that is no node, after which nothing is done; NONE if there is none."""
    count, total, missed, wrong = len(sources), 0, 0, NONE
    offsets, lost_offsets, costs = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(count)
    nodes, parents, links = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    lost = np.empty(64, np.int64)
    for i in range(count):
        size, less = route(ways, desk, sources[i], terminals[terminal_offsets[i] : terminal_offsets[i + 1]])
        if size == NONE:
            wrong = i
            break
        nodes, parents = with_room(nodes, total + size), with_room(parents, total + size)
        links, lost = with_room(links, total + size), with_room(lost, missed + less)
        for at in range(size):
            nodes[total + at], parents[total + at] = desk.kept.members[at], desk.kept.parents[at]
            link = desk.kept.links[at]
            links[total + at] = ways.names[link] if link != NONE else NONE
        lost[missed : missed + less] = desk.lost[:less]
        total, missed, costs[i] = total + size, missed + less, desk.kept.cost[0]
        offsets[i + 1], lost_offsets[i + 1] = total, missed
    routed = Routed(offsets, nodes[:total], parents[:total], links[:total], costs, lost_offsets, lost[:missed])
    return wrong, routed
