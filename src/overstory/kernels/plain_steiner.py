"""The trees of ``kernels.steiner_starts`` once more in plain Python, to check the compiled ones against. Nothing else
uses it.

A tree is a dictionary: for each of its nodes the link that leads to it, and where that comes from. All distances are
looked at again for every end that is taken in, and nothing is kept from one tree to the next.
"""

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.steiner import Trees

Tree = dict[int, tuple[int, int]]  # by node: a link, and its source
TOP = (-1, -1)


def steiner_trees(
    graph: Graph, distances: Distances, roots: Array, terminal_offsets: Array, terminals: Array, starts: int
) -> Trees:
    found = [
        _cheapest(graph, distances, [root, *terminals[terminal_offsets[i] : terminal_offsets[i + 1]].tolist()], starts)
        for i, root in enumerate(roots.tolist())
    ]
    costs = [sum(graph.prices[links]) if links is not None else np.inf for links in found]
    lists = [links or [] for links in found]
    offsets = np.cumsum([0] + [len(links) for links in lists])
    return Trees(np.array(costs), offsets, np.array([link for links in lists for link in links], np.int64))


def _cheapest(graph: Graph, distances: Distances, given: list[int], starts: int) -> list[int] | None:
    """Links, None if an end cannot be reached."""
    root, ends = given[0], list(dict.fromkeys(given))
    if np.isinf([far_between(distances, root, end) for end in ends]).any():
        return None
    found = [
        [link for link, _ in tree.values() if link != TOP[0]] for tree in starts_of(graph, distances, ends, starts)
    ]
    return min(found, key=lambda links: float(sum(graph.prices[links])))


def starts_of(graph: Graph, distances: Distances, ends: list[int], starts: int) -> list[Tree]:
    """Trees from the first of the ends to all others, which differ and can be reached."""
    root, found = ends[0], []
    tries = 1 if len(ends) < 3 or (graph.mutual and len(ends) == 3) else min(starts, len(ends))
    for number in range(tries):
        which = number * len(ends) // tries
        if not graph.mutual:
            tree = _grown(graph, distances, root, ends, ends[which])
            found.append(pruned(tree, ends))
        elif len(ends) == 3:
            nodes = range(len(graph.offsets) - 1)
            meeting = min(nodes, key=lambda node: sum(far_between(distances, node, end) for end in ends))
            tree = _grown(graph, distances, meeting, ends, root)
        else:
            tree = _grown(graph, distances, ends[which], ends, root)
        found.append(pruned(spanned(graph, root, set(tree)), ends))
    return found


def far_between(distances: Distances, node: int, goal: int) -> float:
    kind = distances.far.dtype
    found = distances.far[distances.row_of[goal], node]
    return np.inf if kind.kind != "f" and found == np.iinfo(kind).max else float(found)


def _grown(graph: Graph, distances: Distances, start: int, ends: list[int], first: int) -> Tree:
    """Takes in the end ``first`` before the others, unless it is the root."""
    tree: Tree = {start: TOP}
    missing = list(ends)
    while missing:
        nearest = {end: min(tree, key=lambda node: far_between(distances, node, end)) for end in missing}
        end = min(missing, key=lambda end: far_between(distances, nearest[end], end))
        if len(missing) == len(ends) and first != ends[0]:
            end = first
        missing.remove(end)
        node = nearest[end]
        while node != end:
            link = int(graph.offsets[node] + distances.first[distances.row_of[end], node])
            there = int(graph.targets[link])
            tree.setdefault(there, (link, node))
            node = there
    return tree


def spanned(graph: Graph, root: int, nodes: set[int]) -> Tree:
    """Prim's tree, from the root."""
    tree: Tree = {}
    known: dict[int, tuple[float, tuple[int, int]]] = {root: (0.0, TOP)}
    while known:
        here = min(known, key=lambda node: (known[node][0], node))
        tree[here] = known.pop(here)[1]
        for link in range(graph.offsets[here], graph.offsets[here + 1]):
            there, price = int(graph.targets[link]), float(graph.prices[link])
            if there in nodes and there not in tree and (there not in known or price < known[there][0]):
                known[there] = price, (link, here)
    return tree


def pruned(tree: Tree, ends: list[int]) -> Tree:
    """The ways to all ends."""
    needed = set()
    for node in ends:
        while node not in needed:
            needed.add(node)
            node = tree[node][1] if tree[node] != TOP else node
    return {node: entry for node, entry in tree.items() if node in needed}
