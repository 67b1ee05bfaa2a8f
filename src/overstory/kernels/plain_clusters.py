"""The kernels of trees and clusters once more in plain Python, to check the compiled ones against: see ``plain``.

``tree_costs`` prunes leaves that nobody wants, ``low_stretch_forest`` has dictionaries for graphs, ``unite`` sets.
"""

import math
from itertools import pairwise

import numpy as np

from overstory.kernels.clusters import FIRST, NEW, SECOND
from overstory.kernels.compiling import Array
from overstory.kernels.low_stretch import CLASS
from overstory.kernels.nothing import NONE


def tree_costs(
    parent: Array, down: Array, up: Array, roots: Array, terminal_offsets: Array, terminals: Array, out: Array
) -> None:
    """Whatever is no root, no terminal and a leaf goes, until nothing does; the root's way to the top is upwards."""
    for i, root in enumerate(roots.tolist()):
        wanted = {root, *terminals[terminal_offsets[i] : terminal_offsets[i + 1]].tolist()}
        links = {(node, int(above)) for node, above in enumerate(parent.tolist()) if above != NONE}
        while True:
            ends = [end for link in links for end in link]
            kept = {link for link in links if all(end in wanted or ends.count(end) > 1 for end in link)}
            if kept == links:
                break
            links = kept
        above_root = set(_way_up(parent, root))
        out[i] = sum(up[node] if node in above_root else down[node] for node, _ in sorted(links))


def _way_up(parent: Array, node: int) -> list[int]:
    return [node] if parent[node] == NONE else [node, *_way_up(parent, int(parent[node]))]


def instances_of(
    roots: Array, offsets: Array, items: Array, item_broker: Array, item_group: Array, groups: int
) -> tuple[Array, Array, Array, Array]:
    rows: list[int] = []
    terminals: list[int] = []
    ends, group_ends = [0], [0]
    for group in range(groups):
        for row, (first, last) in enumerate(pairwise(offsets.tolist())):
            mine = [item for item in items[first:last].tolist() if item_group[item] == group]
            brokers = dict.fromkeys(int(item_broker[item]) for item in mine)
            brokers.pop(int(roots[row]), None)
            if brokers:
                rows.append(row)
                terminals += brokers
                ends.append(len(terminals))
        group_ends.append(len(rows))
    return tuple(np.array(each, np.int64) for each in (group_ends, rows, ends, terminals))


def unite(
    rows: Array, offsets: Array, terminals: Array, other_rows: Array, other_offsets: Array, other_terminals: Array
) -> tuple[Array, Array, Array, Array, Array]:
    first = {row: set(terminals[offsets[i] : offsets[i + 1]].tolist()) for i, row in enumerate(rows.tolist())}
    second = {
        row: set(other_terminals[other_offsets[i] : other_offsets[i + 1]].tolist())
        for i, row in enumerate(other_rows.tolist())
    }
    found = sorted(first.keys() | second.keys())
    both = [first.get(row, set()) | second.get(row, set()) for row in found]
    origin, place, new = [], [], 0
    for row, united in zip(found, both, strict=True):
        if united == first.get(row):
            where = FIRST, list(first).index(row)
        elif united == second.get(row):
            where = SECOND, list(second).index(row)
        else:
            where, new = (NEW, new), new + 1
        origin.append(where[0])
        place.append(where[1])
    ends = np.cumsum([0, *map(len, both)])
    kept = [terminal for united in both for terminal in sorted(united)]
    return (
        np.array(found, np.int64),
        ends,
        np.array(kept, np.int64),
        np.array(origin, np.int64),
        np.array(place, np.int64),
    )


def low_stretch_forest(
    names: Array, sources: Array, targets: Array, multiplicity: Array, prices: Array, seed: int
) -> Array:
    chosen = np.zeros(len(sources), np.bool_)
    least = min((price for price in prices.tolist() if price > 0), default=1.0)
    rank = [int(math.log(price / least) / math.log(CLASS)) if price > 0 else 0 for price in prices.tolist()]
    graph = {frozenset(ends): (m, edge) for edge, (*ends, m) in enumerate(_listed(sources, targets, multiplicity))}
    names_of, level = dict(enumerate(names.tolist())), 0
    while graph:
        level = max(level, min(rank[edge] for _, edge in graph.values()))
        inner = {ends: found for ends, found in graph.items() if rank[found[1]] <= level}
        order = sorted(names_of, key=lambda vertex: _hash(names_of[vertex], seed, level))
        ball: dict[int, int] = {}
        centres: list[int] = []
        for centre in order:
            if centre not in ball:
                chosen[_grow_ball(centre, len(centres), len(order), inner, ball)] = True
                centres.append(centre)
        graph = _contract(graph, ball, rank, multiplicity)
        names_of, level = {number: names_of[centre] for number, centre in enumerate(centres)}, level + 1
    return chosen


def _listed(*columns: Array) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _hash(name: int, seed: int, level: int) -> int:
    bits = (name + 0x9E3779B97F4A7C15 * (seed * 1000 + level + 1)) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


Graph = dict[frozenset[int], tuple[int, int]]  # by both ends: the multiplicity, and the edge that stands for it


def _grow_ball(centre: int, number: int, count: int, graph: Graph, ball: dict[int, int]) -> list[int]:
    """Returns the edges of its tree."""
    tree: list[int] = []
    layer = {centre}
    ball[centre] = number
    mine = {centre}
    while layer:
        volume, inward = 0, dict[int, tuple[int, int]]()
        for ends, (m, edge) in graph.items():
            free = all(ball.get(end, number) == number for end in ends)  # not in another ball
            volume += m * len(ends & mine) * free
            for end in ends:
                if end not in ball and ends - {end} <= mine:
                    inward[end] = max(inward.get(end, (0, 0)), (m, -edge))
        boundary = sum(m for ends, (m, _) in graph.items() if len(ends & mine) == 1 and ends - mine - ball.keys())
        if not boundary > volume / (2 * math.log(max(count, 3))):
            break
        layer = set(inward)
        mine |= layer
        ball.update(dict.fromkeys(layer, number))
        tree += [-edge for _, edge in inward.values()]
    return tree


def _contract(graph: Graph, ball: dict[int, int], rank: list[int], multiplicity: Array) -> Graph:
    found: Graph = {}
    for ends, (m, edge) in graph.items():
        key = frozenset(ball[end] for end in ends)
        if len(key) == 2:
            total, other = found.get(key, (0, edge))
            best = min(edge, other, key=lambda each: (rank[each], -multiplicity[each], each))
            found[key] = total + m, best
    return found
