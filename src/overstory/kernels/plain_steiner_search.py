"""Searches, pools and directed changes of Steiner trees once more in plain Python, to check the kernels
``steiner_search``, ``steiner_pool`` and ``steiner_directed`` against; not used elsewhere.

A tree is a dictionary: the parent of each node, NONE for the root.
"""

import numpy as np

from overstory.kernels.graphs import Graph
from overstory.kernels.nothing import NONE

Parents = dict[int, int]
WORD = 2**64 - 1
SPREAD, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def links_of(graph: Graph) -> list[tuple[int, int, float]]:
    """Source, target and price of each."""
    sources = np.repeat(np.arange(len(graph.offsets) - 1), np.diff(graph.offsets))
    return list(zip(sources.tolist(), graph.targets.tolist(), graph.prices.tolist(), strict=True))


def ways_from(graph: Graph, start: set[int], is_open: list[bool]) -> dict[int, tuple[float, int]]:
    """By node that can be reached over open links: how far it is from the nearest of some, and what comes before it
    (Bellman and Ford)."""
    found = dict.fromkeys(start, (0.0, NONE))
    for _ in range(len(graph.offsets)):
        for (source, target, price), may in zip(links_of(graph), is_open, strict=True):
            if may and source in found and found[source][0] + price < found.get(target, (np.inf, NONE))[0]:
                found[target] = found[source][0] + price, source
    return found


def grown(graph: Graph, start: int, ends: set[int], is_open: list[bool]) -> Parents | None:
    """A tree that takes in the nearest end that it lacks, until it has all; None if one cannot be reached. What it is
    where two are equally near is not said."""
    tree = {start: NONE}
    while missing := ends - set(tree):
        ways = ways_from(graph, set(tree), is_open)
        if not missing <= set(ways):
            return None
        node = min(missing, key=lambda end: ways[end][0])
        while node not in tree:
            tree[node] = ways[node][1]
            node = ways[node][1]
    return tree


def mixed(value: int) -> int:
    value = (value ^ (value >> 30)) * FIRST & WORD
    value = (value ^ (value >> 27)) * SECOND & WORD
    return value ^ (value >> 31)


class Dice:
    """A state of 64 bits."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def draw(self, sides: int) -> int:
        self.state = (self.state + SPREAD) & WORD
        return (mixed(self.state) >> 11) % sides


def added(pool: list[tuple[float, frozenset[int]]], tree: frozenset[int], cost: float, room: int) -> None:
    """Takes a tree into a list of trees, at the place of the first among the dearest if there is no room."""
    if any(tree == known for _, known in pool):
        return
    if len(pool) < room:
        pool.append((cost, tree))
        return
    place = max(range(room), key=lambda at: pool[at][0])
    if cost < pool[place][0]:
        pool[place] = cost, tree


def disturbed(graph: Graph, pool: list[frozenset[int]], dice: Dice) -> list[float]:
    """Prices that lead a search to another tree."""
    crosses = len(pool) > 1 and dice.draw(3) > 0
    one, other = dice.draw(max(len(pool), 1)), dice.draw(max(len(pool), 1))
    most = 0.1 if crosses else 0.6 * (1 + dice.draw(4)) / 4
    salt, prices = dice.draw(1 << 40), []
    for source, target, price in links_of(graph):
        low, high = min(source, target), max(source, target)
        value = mixed((mixed((low * SPREAD + salt) & WORD) + high) & WORD)
        factor = 1 + most * float(value >> 11) / 2.0**53
        if crosses:
            shared = sum({source, target} <= tree for tree in (pool[one], pool[other]))
            factor *= (3.0, 1.0, 0.3)[shared]
        prices.append(price * factor)
    return prices


def subtree(tree: Parents, node: int) -> set[int]:
    """A node and all that hang below."""
    below = {node}
    while more := {child for child, parent in tree.items() if parent in below} - below:
        below |= more
    return below


def key_path(tree: Parents, ends: set[int], node: int) -> list[int]:
    """From a node up to the next that is an end, a branch or the root."""
    path = [node]
    while True:
        path.append(tree[path[-1]])
        children = sum(parent == path[-1] for parent in tree.values())
        if path[-1] in ends or tree[path[-1]] == NONE or children > 1:
            return path


def reattachment_gain(graph: Graph, tree: Parents, ends: set[int], node: int, paid: dict[int, float]) -> float:
    """What it gains to hang a key node and all below it elsewhere, by a cheapest way; ``paid`` is the price of the link
    to each node."""
    children = sum(parent == node for parent in tree.values())
    if tree[node] == NONE or (node not in ends and children < 2):
        return 0.0
    path = key_path(tree, ends, node)
    rest = set(tree) - subtree(tree, node) - set(path[:-1])
    near = min(ways_from(graph, {other}, [True] * len(graph.targets)).get(node, (np.inf, 0))[0] for other in rest)
    return max(0.0, sum(paid[each] for each in path[:-1]) - near)


def insertion_gain(graph: Graph, tree: Parents, ends: set[int], entry: int, paid: dict[int, float]) -> float:
    """What it gains to hang the target of a link from its source, and others from that which key paths led to."""
    links = links_of(graph)
    above, new, price = links[entry]
    gain, claimed, upward = -price, set[int](), [above]
    while tree[upward[-1]] != NONE:
        upward.append(tree[upward[-1]])
    for source, target, cost in links:
        if source != new or target not in tree or target in upward:
            continue
        path = key_path(tree, ends | {above}, target)[:-1]
        length = sum(paid[node] for node in path)
        if length > cost and not claimed & set(path):
            gain += length - cost
            claimed |= set(path)
    return max(0.0, gain)
