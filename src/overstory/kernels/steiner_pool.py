"""A pool of good trees, and how new ones are bred from it (after Pajor, Uchoa and Werneck 2018).

A new tree is grown by a search at other prices, which lead it elsewhere; local search at the true prices then makes it
good. Either prices are disturbed at random; or two trees of the pool are crossed: links that both have become cheap,
links that neither has become dear, and all are disturbed a little. A new tree takes the place of the worst if it is
cheaper, and is like no other.

Chance comes from a seed alone. A link and the link back are disturbed alike.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.graphs import Graph
from overstory.kernels.steiner_nodes import Nodes

ROOM = 12  # trees in the pool
SHARED, FOREIGN = 0.3, 3.0  # times the price: links of both parents, and of neither
LITTLE, MUCH = 0.1, 0.6  # by how much at most prices are disturbed
LEANING = 0.05  # by how much at most prices differ that are the same
ONE = np.uint64(1)
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Pool(NamedTuple):
    is_member: Array  # by tree and node
    costs: Array
    marks: Array  # a hash of each tree's nodes
    count: Array  # of one entry
    chance: Array  # of one entry: the state of the dice
    prices: Array  # by link, as they are disturbed


@kernel
def new_pool(size: int, links: int) -> Pool:
    return Pool(
        np.zeros((ROOM, size), np.bool_),
        np.full(ROOM, np.inf),
        np.zeros(ROOM, np.uint64),
        np.zeros(1, np.int64),
        np.zeros(1, np.uint64),
        np.empty(links),
    )


@kernel
def mixed(value: int) -> int:
    """A hash of 64 bits: the last steps of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def draw(pool: Pool, sides: int) -> int:
    """A number from 0 to below ``sides``."""
    pool.chance[0] += STEP
    return np.int64((mixed(pool.chance[0]) >> np.uint64(11)) % np.uint64(sides))


@kernel
def add(pool: Pool, nodes: Nodes, cost: float) -> None:
    """Takes a tree into the pool, if it is new there and cheaper than the worst."""
    mark = np.uint64(0)
    for at in range(nodes.count[0]):
        mark ^= mixed(np.uint64(nodes.members[at]) + STEP)
    place = 0
    for at in range(pool.count[0]):
        if pool.marks[at] == mark:
            return
        if pool.costs[at] > pool.costs[place]:
            place = at
    if pool.count[0] < ROOM:
        place = pool.count[0]
        pool.count[0] += 1
    elif cost >= pool.costs[place]:
        return
    pool.costs[place], pool.marks[place] = cost, mark
    pool.is_member[place] = nodes.inside[: pool.is_member.shape[1]]


@inlined
def dice_of(node: int, there: int, salt: int) -> float:
    """A number from 0 to below 1, for a link and the link back."""
    low, high = np.uint64(min(node, there)), np.uint64(max(node, there))
    return float(mixed(mixed(low * STEP + salt) + high) >> np.uint64(11)) / 2.0**53


@kernel
def lean(graph: Graph, salt: int) -> Graph:
    """A graph whose links differ in price by up to ``LEANING``. Where all cost the same, most changes of a tree gain
    nothing, and local search soon ends; here it goes on among trees that cost about the same."""
    prices = np.empty(len(graph.targets))
    for node in range(len(graph.offsets) - 1):
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            prices[link] = graph.prices[link] * (1.0 + LEANING * dice_of(node, graph.targets[link], np.uint64(salt)))
    return Graph(graph.offsets, graph.targets, prices, graph.mutual, False)


@kernel
def disturb(graph: Graph, pool: Pool) -> None:
    """Sets prices that lead a search to another tree."""
    crosses = pool.count[0] > 1 and draw(pool, 3) > 0
    one = draw(pool, max(pool.count[0], 1))
    other = draw(pool, max(pool.count[0], 1))
    most = LITTLE if crosses else MUCH * (1 + draw(pool, 4)) / 4
    salt = np.uint64(draw(pool, 1 << 40))
    for node in range(len(graph.offsets) - 1):
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            there = graph.targets[link]
            factor = 1.0 + most * dice_of(node, there, salt)
            if crosses:
                in_one = pool.is_member[one, node] and pool.is_member[one, there]
                in_other = pool.is_member[other, node] and pool.is_member[other, there]
                factor *= SHARED if in_one and in_other else 1.0 if in_one or in_other else FOREIGN
            pool.prices[link] = graph.prices[link] * factor
