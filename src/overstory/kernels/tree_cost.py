"""What it costs to carry instances along a tree, from the root of each to its terminals.

A tree is a ``parent`` for each broker, -1 at one of them. ``down`` and ``up`` are the prices from and to the parent.
An instance crosses the links of the least subtree that holds its root and its terminals, each away from the root: up
along the root's way to where the last terminal leaves it, and down everywhere else.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Tree(NamedTuple):
    parent: Array
    down: Array
    up: Array


class Instances(NamedTuple):
    """From the root of each to its terminals: those between offsets i and i + 1."""

    roots: Array
    offsets: Array
    terminals: Array


@kernel
def tree_costs(
    parent: Array, down: Array, up: Array, roots: Array, terminal_offsets: Array, terminals: Array, out: Array
) -> None:
    """Sets ``out[i]`` to the price of all links that instance i crosses."""
    instances = Instances(roots, terminal_offsets, terminals)
    _carry(Tree(parent, down, up), instances, out, np.zeros(len(roots)), np.zeros(len(parent)))


@kernel
def tree_traffic(
    parent: Array, roots: Array, terminal_offsets: Array, terminals: Array, weights: Array, out: Array
) -> None:
    """Adds to ``out[v]`` the weights of the instances that cross the link between v and its parent, either way."""
    free = np.zeros(len(parent))
    instances = Instances(roots, terminal_offsets, terminals)
    _carry(Tree(parent, free, free), instances, np.empty(len(roots)), weights, out)


@kernel
def _carry(tree: Tree, instances: Instances, costs: Array, weights: Array, traffic: Array) -> None:
    parent, down, up = tree
    roots, terminal_offsets, terminals = instances
    reached = np.full(len(parent), NONE, np.int64)  # by broker: the last instance whose subtree it is in
    above = np.full(len(parent), NONE, np.int64)  # by broker: the last instance on whose root's way to the top it is
    for i in range(len(roots)):
        node = roots[i]
        while node != NONE:
            above[node] = i
            node = parent[node]
        top = roots[i]  # how far the root's way is in use
        reached[top] = i
        cost = 0.0
        for at in range(terminal_offsets[i], terminal_offsets[i + 1]):
            node = terminals[at]
            while reached[node] != i and above[node] != i:
                reached[node] = i
                cost += down[node]
                traffic[node] += weights[i]
                node = parent[node]
            while reached[node] != i:  # it left the root's way above the highest place so far
                reached[top] = i
                cost += up[top]
                traffic[top] += weights[i]
                top = parent[top]
                reached[top] = i
        costs[i] = cost
