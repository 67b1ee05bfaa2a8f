"""What changes of a Steiner tree gain, once more in plain Python and by their definitions: to check the kernels
``steiner_nodes``, ``steiner_regions`` and ``steiner_keys`` against. Nothing else uses it.

A tree is a set of links, each a pair of nodes, the lower first. Nothing is hung from a root here: parts are found by
walking over links, and a change is judged by the tree that it leaves.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from overstory.kernels.graphs import Graph

Link = tuple[int, int]
Tree = frozenset[Link]
Bridge = tuple[float, int, int]  # its price, and the two bases


def prices_of(graph: Graph) -> dict[Link, float]:
    """Of each pair of neighbours, by the cheapest link."""
    found: dict[Link, float] = {}
    for node in range(len(graph.offsets) - 1):
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            there = int(graph.targets[link])
            pair = (min(node, there), max(node, there))
            if node != there:
                found[pair] = min(found.get(pair, np.inf), float(graph.prices[link]))
    return found


def spanning_cost(graph: Graph, nodes: set[int], ends: set[int]) -> float:
    """Kruskal's tree of the nodes, without leaves that are no ends."""
    prices, group = prices_of(graph), {node: node for node in nodes}
    tree = set()
    for link in sorted((link for link in prices if set(link) <= nodes), key=lambda link: prices[link]):
        one, other = group[link[0]], group[link[1]]
        if one != other:
            tree.add(link)
            group = {node: one if its == other else its for node, its in group.items()}
    while True:
        leaves = {node for node in nodes - ends if sum(node in link for link in tree) == 1}
        if not leaves:
            return sum(prices[link] for link in tree)
        tree = {link for link in tree if not set(link) & leaves}


def parts_of(links: Iterable[Link], nodes: set[int]) -> list[set[int]]:
    """The nodes, by what the links join."""
    parts = [{node} for node in nodes]
    for link in links:
        joined = [part for part in parts if part & set(link)]
        parts = [part for part in parts if not part & set(link)] + [set().union(*joined)]
    return parts


def distances_from(graph: Graph, nodes: set[int]) -> dict[int, float]:
    """Of all nodes, from the nearest of some (Bellman and Ford)."""
    far = {node: 0.0 if node in nodes else np.inf for node in range(len(graph.offsets) - 1)}
    for _ in far:
        for (one, other), price in prices_of(graph).items():
            far[one], far[other] = min(far[one], far[other] + price), min(far[other], far[one] + price)
    return far


def key_paths(tree: Tree, ends: set[int]) -> list[list[int]]:
    """The nodes of each, from one key node to the next."""
    beside: dict[int, list[int]] = {}
    for one, other in tree:
        beside.setdefault(one, []).append(other)
        beside.setdefault(other, []).append(one)
    keys = {node for node, others in beside.items() if node in ends or len(others) > 2}
    found = []
    for start in keys:
        for following in beside[start]:
            path = [start, following]
            while path[-1] not in keys:
                (step,) = (node for node in beside[path[-1]] if node != path[-2])
                path.append(step)
            if path[0] < path[-1]:
                found.append(path)
    return found


def links_on(path: list[int]) -> set[Link]:
    return {(min(pair), max(pair)) for pair in pairwise(path)}


def exchange_gain(graph: Graph, tree: Tree, path: list[int], bridges: list[Bridge]) -> float:
    """The most that one bridge gains instead of a key path; 0 if none does."""
    prices = prices_of(graph)
    rest = {node for link in tree for node in link} - set(path[1:-1])
    sides = parts_of(tree - links_on(path), rest)
    length = sum(prices[link] for link in links_on(path))
    fits = [price for price, one, other in bridges if sum(bool({one, other} & side) for side in sides) == 2]
    return max([0.0, *(length - price for price in fits)])


def elimination_gain(graph: Graph, tree: Tree, branch: int, paths: list[list[int]], bridges: list[Bridge]) -> float:
    """What it gains to take a branch away with its key paths, and join the parts by bridges; minus infinity if there
    are not enough of them."""
    prices = prices_of(graph)
    mine = [path for path in paths if branch in (path[0], path[-1])]
    gone = {branch}.union(*(path[1:-1] for path in mine))
    links = set().union(*(links_on(path) for path in mine))
    parts = parts_of(tree - links, {node for link in tree for node in link} - gone)
    gain = sum(prices[link] for link in links)
    for price, one, other in sorted(bridges):
        touched = [part for part in parts if part & {one, other}]
        if len(touched) == 2 and {one, other} & gone == set():
            parts = [part for part in parts if part not in touched] + [touched[0] | touched[1]]
            gain -= price
    return gain if len(parts) == 1 else -np.inf
