"""A network that is prepared for routing, and the calls from Python: see ``steiner_route`` for what a tree is.

A ``Router`` may be used by several threads at once: each has a desk of its own, and trees are made without the
interpreter's lock. It can be pickled. Kernels call ``steiner_route.route`` themselves, with ``router.ways`` and a desk.
"""

import threading
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from overstory.errors import DataError
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances, distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_route import Routed, Ways, desk_of, room_for_desk, route, route_all

Flat: TypeAlias = tuple[Any, ...]  # what Ways hold, in plain tuples: Python hands these over to kernels fastest
Room: TypeAlias = tuple[Array, Array, Array]


class Tree(NamedTuple):
    """From a source, which is the first node; each other node stands behind its parent."""

    nodes: Array
    parents: Array  # NONE above the source, as is its link
    links: Array  # from the parents
    cost: float
    lost: Array  # terminals that cannot be reached, ascending


def prepare(offsets: Array, targets: Array, prices: Array, down: Array | None = None) -> Ways:
    """The links that leave node v stand between ``offsets`` v and v + 1. Links that are ``down`` (by a flag for each)
    do not count, and the others keep their numbers. Most of the time and room is taken by the table of distances."""
    if down is not None and (len(down) != len(targets) or np.asarray(down).dtype != np.bool_):
        raise DataError(f"down has {len(down)} entries: it is a flag for each of the {len(targets)} links")
    names = np.arange(len(targets)) if down is None else np.flatnonzero(~np.asarray(down))
    sources = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[names]
    kept = np.searchsorted(sources, np.arange(len(offsets)))
    known = kept, np.asarray(targets, np.int64)[names], np.asarray(prices, np.float64)[names]
    return ways_of(graph_of(*known), distances_to(*known, np.arange(len(offsets) - 1)), names)


def ways_of(graph: Graph, distances: Distances, names: Array | None = None) -> Ways:
    """With tables that are there already; they must have a row for each node that is a source or a terminal."""
    kind = distances.far.dtype
    no_way = np.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    return Ways(graph, distances, no_way, np.arange(len(graph.targets)) if names is None else names)


def links_of(trees: Routed) -> tuple[Array, Array]:
    """The links of each tree, those between two offsets, each behind those that lead to it."""
    return trees.offsets - np.arange(len(trees.offsets)), trees.links[trees.links != NONE]


class Router:
    """Makes a tree for each source and set of terminals of one network."""

    def __init__(self, ways: Ways) -> None:
        graph, distances = ways.graph, ways.distances
        self.ways = ways
        self._flat = tuple(graph[:3]), tuple(distances), ways.names, (graph.mutual, graph.even, ways.no_way)
        self._rooms = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return Router, (self.ways,)

    def _room(self) -> Room:
        """For a desk of this thread alone."""
        found: Room | None = getattr(self._rooms, "room", None)
        if found is None:
            found = self._rooms.room = room_for_desk(len(self.ways.graph.offsets) - 1)
        return found

    def tree(self, source: int, terminals: Array) -> Tree:
        """The tree from a source to its terminals, which are integers in any order."""
        found, cost, lost = _route_one(self._flat, self._room(), int(source), _plain(terminals))
        if not found.shape[1]:
            raise DataError(self._wrong(source, terminals))
        return Tree(found[0], found[1], found[2], cost, lost)

    def trees(self, sources: Array, terminal_offsets: Array, terminals: Array) -> Routed:
        """For source i and the terminals between offsets i and i + 1."""
        known = [_plain(numbers) for numbers in (sources, terminal_offsets, terminals)]
        wrong, found = _route_many(self._flat, self._room(), *known)
        if wrong != NONE:
            start, stop = terminal_offsets[wrong : wrong + 2]
            raise DataError(self._wrong(sources[wrong], terminals[start:stop]))
        return found

    def _wrong(self, source: int, terminals: Array) -> str:
        size = len(self.ways.graph.offsets) - 1
        row_of = self.ways.distances.row_of
        wrong = next(node for node in (source, *terminals) if not 0 <= node < size or row_of[node] == NONE)
        return f"{wrong} is no node that can be routed to or from: these are numbers from 0 to {size - 1}"


def _plain(numbers: Array) -> Array:
    """As an array that kernels are compiled for: of other kinds, such as what Arrow lends, a copy is made."""
    given = np.asarray(numbers)
    if given.dtype == np.int64 and given.flags.carray:
        return given
    if given.size and given.dtype.kind not in "iu":
        raise DataError(f"{given.flat[0]} is no number of a node: these are whole")
    return np.array(given, np.int64)


@kernel
def _ways(flat: Flat) -> Ways:
    (offsets, targets, prices), (row_of, far, first), names, (mutual, even, no_way) = flat
    return Ways(Graph(offsets, targets, prices, mutual, even), Distances(row_of, far, first), no_way, names)


@kernel
def _route_one(flat: Flat, room: Room, source: int, terminals: Array) -> tuple[Array, float, Array]:
    """A row each of nodes, parents and links, what they cost, and what is lost; no nodes if something is none."""
    ways, desk = _ways(flat), desk_of(room[0], room[1], room[2])
    count, lost = route(ways, desk, source, terminals)
    if count == NONE:
        return np.empty((3, 0), np.int64), 0.0, desk.lost[:0].copy()
    kept, found = desk.kept, np.empty((3, count), np.int64)
    for at in range(count):
        link = kept.links[at]
        found[0, at], found[1, at] = kept.members[at], kept.parents[at]
        found[2, at] = ways.names[link] if link != NONE else NONE
    return found, kept.cost[0], desk.lost[:lost].copy()


@kernel
def _route_many(
    flat: Flat, room: Room, sources: Array, terminal_offsets: Array, terminals: Array
) -> tuple[int, Routed]:
    return route_all(_ways(flat), desk_of(room[0], room[1], room[2]), sources, terminal_offsets, terminals)
