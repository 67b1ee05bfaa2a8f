"""Trees of ``kernels.steiner_route`` once more in plain Python, to check the compiled ones against; not used elsewhere.

While Steiner vertices are inserted a tree is a dictionary of dictionaries: for each node its neighbours, and what the
link between costs. A trial is made on a copy. Nothing hangs from a root, and nothing is put back.
"""

from copy import deepcopy
from itertools import pairwise

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph
from overstory.kernels.plain_steiner import TOP, Tree, far_between, pruned, spanned, starts_of

STARTS = 4
ENOUGH = 1e-9
Beside = dict[int, dict[int, float]]


def route(graph: Graph, distances: Distances, source: int, terminals: Array) -> tuple[Tree, list[int]]:
    """The tree, its nodes in order, and the terminals that cannot be reached."""
    wanted = sorted(set(terminals.tolist()))
    lost = [end for end in wanted if np.isinf(far_between(distances, source, end))]
    ends = list(dict.fromkeys([source, *(end for end in wanted if end not in lost)]))
    found = starts_of(graph, distances, ends, STARTS)
    costs = [cost_of(graph, tree) for tree in found]
    best = found[costs.index(min(costs))]
    is_close = graph.even and min(costs) == max(costs)
    if graph.mutual and len(ends) > 3 and not is_close:
        best = with_vertices(graph, best, ends)
    return best, lost


def cost_of(graph: Graph, tree: Tree) -> float:
    return sum(float(graph.prices[link]) for link, _ in tree.values() if link != TOP[0])


def with_vertices(graph: Graph, tree: Tree, ends: list[int]) -> Tree:
    """Steiner vertices are inserted until none gains."""
    cost = cost_of(graph, tree)
    while True:
        members, gained = insert_all(graph, tree, set(ends), ENOUGH * cost)
        if gained <= 0:
            return tree
        changed = pruned(spanned(graph, ends[0], members), ends)
        if cost_of(graph, changed) < cost:
            tree, cost = changed, cost_of(graph, changed)


def insert_all(graph: Graph, tree: Tree, ends: set[int], least: float) -> tuple[set[int], float]:
    """The nodes of the tree after all insertions that gain more than ``least``, and what they gain."""
    beside: Beside = {node: {} for node in tree}
    for node, (link, source) in tree.items():
        if link != TOP[0]:
            beside[node][source] = beside[source][node] = float(graph.prices[link])
    gained = 0.0
    for new in candidates(graph, list(tree), beside, ends, least):
        changed = deepcopy(beside)
        gain = insert(graph, changed, ends, new)
        if gain > least:
            beside, gained = changed, gained + gain
    return set(beside), gained


def candidates(graph: Graph, members: list[int], beside: Beside, ends: set[int], least: float) -> list[int]:
    """Nodes outside that would gain if each link of theirs but one took away a key path as dear as the dearest."""
    paths = (segments(beside, ends, walk(beside, one, other)) for one in ends for other in ends)
    dearest = max(price for path in paths for price, _ in path)
    worth: dict[int, float] = {}
    for node in members:
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            there, price = int(graph.targets[link]), float(graph.prices[link])
            if there not in beside and price < dearest:
                worth[there] = worth.get(there, 0.0) + (dearest - price)
    return [node for node, most in worth.items() if most - dearest > least]


def walk(beside: Beside, start: int, goal: int) -> list[int]:
    """The tree's way between two nodes."""
    waiting = [[start]]
    while waiting:
        way = waiting.pop()
        if way[-1] == goal:
            return way
        waiting += [[*way, node] for node in beside[way[-1]] if node not in way[-2:]]
    raise AssertionError("the tree has fallen apart")


def segments(beside: Beside, ends: set[int], way: list[int]) -> list[tuple[float, list[int]]]:
    """The parts of a way between ends and branches: what each costs, and its nodes."""
    found, part, total = [], [way[0]], 0.0
    for one, other in pairwise(way):
        part.append(other)
        total += beside[one][other]
        if other == way[-1] or other in ends or len(beside[other]) > 2:
            found.append((total, part))
            part, total = [other], 0.0
    return found or [(0.0, way)]


def insert(graph: Graph, beside: Beside, ends: set[int], new: int) -> float:
    """Joins a node to the tree, and takes away the segments that cost more than its links. Returns what is gained."""
    links = [(float(graph.prices[link]), link) for link in range(graph.offsets[new], graph.offsets[new + 1])]
    joining = [(price, link) for price, link in links if int(graph.targets[link]) in beside]
    if not joining:
        return -np.inf
    least, first = min(joining)
    beside[new] = {}
    join(beside, new, int(graph.targets[first]), least)
    gain = -least
    for price, link in links:
        there = int(graph.targets[link])
        if link == first or there == new or there not in beside or there in beside[new]:
            continue
        dearest, part = max(segments(beside, ends, walk(beside, there, new)), key=lambda segment: segment[0])
        if dearest > price:
            gain += dearest - price
            take_away(beside, part)
            join(beside, new, there, price)
    return gain


def join(beside: Beside, one: int, other: int, price: float) -> None:
    beside[one][other] = beside[other][one] = price


def take_away(beside: Beside, part: list[int]) -> None:
    """A segment: its links, and the nodes inside."""
    for one, other in pairwise(part):
        del beside[one][other], beside[other][one]
    for node in part[1:-1]:
        del beside[node]
