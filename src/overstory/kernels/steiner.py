"""Steiner trees: cheap sets of links that lead from a root to all its terminals, for many instances on one graph.

1. What is found is a tree from the root whose leaves are terminals, and it costs what its links cost, each in the
   direction away from the root. So no bound of ``kernels.ascent`` is above it.
2. Takahashi and Matsuyama: a tree grows from a start, and takes in the nearest end (terminal or root) that it lacks, by
   a cheapest way, until it has all. Of equally near ones it takes the first. Another start often gives another tree;
   the cheapest is kept.
3. Where every link costs what the one back costs (prices are *mutual*), a tree may grow from any end, and then becomes
   a minimum spanning tree of its nodes. Elsewhere it grows from the root, but takes in another end first.
4. Three ends under mutual prices have a best node to meet at: a tree grown from there is optimal. So is a way between
   two ends.

All distances come from tables (``kernels.distances``) that have the rows of all terminals and roots.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.nothing import NONE
from overstory.kernels.sets import hash_sets
from overstory.kernels.store import with_room

STARTS = 4  # four times as many save one per cent more on wide sets, in three times the time


class Graph(NamedTuple):
    """The links that leave node v stand between offsets v and v + 1."""

    offsets: Array
    targets: Array
    prices: Array  # floats, at least 0
    mutual: bool


class Instances(NamedTuple):
    """From the root of each to its terminals: those between offsets i and i + 1."""

    roots: Array
    offsets: Array
    terminals: Array


class Trees(NamedTuple):
    """Of instance i: what its tree costs, infinite if a terminal cannot be reached, and between offsets i and i + 1 its
    links, each behind those that lead to it."""

    costs: Array
    offsets: Array
    links: Array


class Work(NamedTuple):
    """What all trees are made on. Stamps say which entries are of the tree at hand, or of the instance."""

    wanted: Array  # by node: the last instance that it is an end of
    stamps: Array  # by node: the last tree that it is in
    links: Array  # by node of the tree: the link that leads to it, NONE at the start
    origins: Array  # by node of the tree: where that link comes from
    paid: Array  # by node of the tree: the least price of a link to it, from nodes that are spanned
    needed: Array  # by node: the last tree in which it leads to an end
    members: Array  # the tree's nodes, each behind its origin
    ends: Array  # the root and the terminals, each once
    missing: Array  # the ends that the tree lacks
    near: Array  # how far each of these is from the tree
    nearest: Array  # and from which node
    best: Array  # the links of the cheapest tree so far


def graph_of(offsets: Array, targets: Array, prices: Array) -> Graph:
    sources = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    there, back = np.lexsort((prices, targets, sources)), np.lexsort((prices, sources, targets))
    mutual = all(
        np.array_equal(one[there], other[back])
        for one, other in ((sources, targets), (targets, sources), (prices, prices))
    )
    return Graph(offsets, targets, np.asarray(prices, np.float64), mutual)


def steiner_trees(
    graph: Graph, distances: Distances, roots: Array, terminal_offsets: Array, terminals: Array, starts: int = STARTS
) -> Trees:
    """For each root and the terminals between its two offsets. Terminals may come twice, and be the root; their order
    decides which of equally near ones comes first. Makes as many trees for each instance as ``starts`` says, at most
    one for each end."""
    kind = distances.far.dtype
    no_way = np.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    costs, offsets = np.empty(len(roots)), np.zeros(len(roots) + 1, np.int64)
    instances = Instances(roots, terminal_offsets, terminals)
    links = _all_trees(graph, distances, no_way, instances, starts, costs, offsets)
    return Trees(costs, offsets, links)


class Distinct(NamedTuple):
    """Instances of which no two are equal; and for each that was given the number of its equal here."""

    roots: Array
    terminal_offsets: Array
    terminals: Array
    which: Array


def distinct_instances(roots: Array, terminal_offsets: Array, terminals: Array) -> Distinct:
    """Those with the same root and the same terminals, in any order, are equal and need to be solved once. No terminal
    may come twice in an instance; they become ascending. Sets are known by 128 bits of hash."""
    sizes = np.diff(terminal_offsets)
    ordered = terminals[np.lexsort((terminals, np.repeat(np.arange(len(roots)), sizes)))]
    keys = np.stack([roots, *hash_sets(terminal_offsets, ordered)])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(sizes[first])])
    chosen = np.repeat(terminal_offsets[first] - offsets[:-1], sizes[first]) + np.arange(offsets[-1])
    return Distinct(roots[first], offsets, ordered[chosen], which.reshape(-1))


@kernel
def _all_trees(
    graph: Graph,
    distances: Distances,
    no_way: float,
    instances: Instances,
    starts: int,
    costs: Array,
    offsets: Array,
) -> Array:
    roots, terminal_offsets, terminals = instances
    work = _new_work(len(graph.offsets) - 1)
    links = np.empty(1024, np.int64)
    total, stamp = 0, 0
    for i in range(len(roots)):
        count = _note_ends(work, i, roots[i], terminals[terminal_offsets[i] : terminal_offsets[i + 1]])
        costs[i], size, stamp = _cheapest(graph, distances, no_way, work, i, count, starts, stamp)
        links = with_room(links, total + size)
        links[total : total + size] = work.best[:size]
        total += size
        offsets[i + 1] = total
    return links[:total]


@kernel
def _new_work(nodes: int) -> Work:
    return Work(
        np.full(nodes, NONE, np.int64),
        np.full(nodes, NONE, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.float64),
        np.full(nodes, NONE, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.float64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
    )


@kernel
def _note_ends(work: Work, i: int, root: int, terminals: Array) -> int:
    """Returns how many there are."""
    work.ends[0], work.wanted[root] = root, i
    count = 1
    for terminal in terminals:
        if work.wanted[terminal] != i:
            work.ends[count], work.wanted[terminal] = terminal, i
            count += 1
    return count


@kernel
def _cheapest(
    graph: Graph, distances: Distances, no_way: float, work: Work, i: int, count: int, starts: int, stamp: int
) -> tuple[float, int, int]:
    """The cost of the cheapest tree, how many links it has, and the last stamp."""
    root = work.ends[0]
    for at in range(1, count):
        if distances.far[distances.row_of[work.ends[at]], root] == no_way:
            return np.inf, 0, stamp
    meets = graph.mutual and count == 3
    tries = 1 if count < 3 or meets else min(starts, count)
    cost, links = np.inf, 0
    for number in range(tries):
        stamp += 2
        which = number * count // tries
        if graph.mutual:
            start = _meeting_point(distances, work.ends) if meets else work.ends[which]
            size = _grow(graph, distances, work, stamp, start, count, 0)
        else:
            size = _grow(graph, distances, work, stamp, root, count, which)
            cost, links = _prune(graph, work, i, stamp + 1, size, cost, links)
        _span(graph, work, stamp, root, size)
        cost, links = _prune(graph, work, i, stamp, size, cost, links)
    return cost, links, stamp + 1


@kernel
def _meeting_point(distances: Distances, ends: Array) -> int:
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
def _grow(graph: Graph, distances: Distances, work: Work, stamp: int, start: int, count: int, first: int) -> int:
    """A tree from the start to all ends, the one numbered ``first`` before the others unless it is 0. Returns how many
    nodes it has."""
    work.members[0], work.stamps[start], work.links[start] = start, stamp, NONE
    size, seen = 1, 0
    for at in range(count):
        work.missing[at], work.near[at] = work.ends[at], np.inf
    for missing in range(count, 0, -1):
        near = _look_around(distances, work, missing, seen, size)
        seen = size
        taken = first if missing == count and first else near
        size = _walk(graph, distances, work, stamp, work.nearest[taken], work.missing[taken], size)
        for at in range(taken, missing - 1):
            work.missing[at] = work.missing[at + 1]
            work.near[at], work.nearest[at] = work.near[at + 1], work.nearest[at + 1]
    return size


@kernel
def _look_around(distances: Distances, work: Work, missing: int, seen: int, size: int) -> int:
    """Brings distances up to date with the members that were not seen before. Returns which missing end is nearest."""
    best = 0
    for at in range(missing):
        row = distances.row_of[work.missing[at]]
        near, nearest = work.near[at], work.nearest[at]
        for i in range(seen, size):
            distance = distances.far[row, work.members[i]]
            if distance < near:
                near, nearest = distance, work.members[i]
        work.near[at], work.nearest[at] = near, nearest
        if near < work.near[best]:
            best = at
    return best


@kernel
def _walk(graph: Graph, distances: Distances, work: Work, stamp: int, node: int, goal: int, size: int) -> int:
    """Adds the way from a node of the tree to a goal. Returns how many nodes there are now."""
    row = distances.row_of[goal]
    while node != goal:
        link = graph.offsets[node] + distances.first[row, node]
        there = graph.targets[link]
        if work.stamps[there] != stamp:
            work.stamps[there], work.links[there], work.origins[there] = stamp, link, node
            work.members[size] = there
            size += 1
        node = there
    return size


@kernel
def _span(graph: Graph, work: Work, stamp: int, root: int, size: int) -> None:
    """Prim's tree of the members, from the root: the next is that with the cheapest link, then with the lowest number.
    Under mutual prices no tree of these nodes is cheaper."""
    members = work.members
    for at in range(size):
        work.paid[members[at]] = np.inf
    work.paid[root], work.links[root] = 0.0, NONE
    for done in range(size):
        best = done
        for at in range(done + 1, size):
            one, other = work.paid[members[at]], work.paid[members[best]]
            if one < other or (one == other and members[at] < members[best]):
                best = at
        here = members[best]
        members[best], members[done] = members[done], here
        work.paid[here] = NONE
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there = graph.targets[link]
            if work.stamps[there] == stamp and graph.prices[link] < work.paid[there]:
                work.paid[there], work.links[there], work.origins[there] = graph.prices[link], link, here


@kernel
def _prune(graph: Graph, work: Work, i: int, stamp: int, size: int, cost: float, links: int) -> tuple[float, int]:
    """What the tree from the root costs without nodes that lead to no end; if that is less than ``cost``, its links are
    kept. Returns the least cost, and how many links are kept."""
    total = 0.0
    for at in range(size - 1, 0, -1):
        node = work.members[at]
        if work.wanted[node] == i or work.needed[node] == stamp:
            work.needed[work.origins[node]] = stamp
            total += graph.prices[work.links[node]]
    if total >= cost:
        return cost, links
    links = 0
    for at in range(1, size):
        node = work.members[at]
        if work.wanted[node] == i or work.needed[node] == stamp:
            work.best[links] = work.links[node]
            links += 1
    return total, links
