"""Exchanges of key paths, and eliminations of key vertices (Uchoa and Werneck 2012).

*Key nodes* are the ends and the branches of a tree; a *key path* joins two of them, with nothing but links in between.

1. A key path can go, and a cheaper bridge (``steiner_regions``) take its place, if the bridge leads from one side to
   the other.
2. A branch that is no end can go, with all key paths that meet there, if bridges between the parts that are left cost
   less in sum.

Bridges come in the order of their price. The way along the tree between the two ends of a bridge has several key paths;
for each of them the first bridge is the cheapest. For each branch that it passes, a bridge joins two parts, unless they
are joined already: Kruskal's algorithm, for all branches at the same time. A bridge that ends inside a key path is none
for that path, nor for the branches where it ends.

Of the changes that gain, the best is made first, then others that have nothing to do with those before: no two may have
a key node in common on the ways between the ends of their bridges. After that the nodes are spanned anew.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner_nodes import Nodes, take_in
from overstory.kernels.steiner_regions import Bridges, Regions


class Keys(NamedTuple):
    """By node of the tree. A key path goes by the name of its lower end."""

    above: Array  # the key node above it; NONE at the top
    low: Array  # of an inner node of a key path: the path's name
    lengths: Array  # what the way to the key node above costs
    depths: Array  # of key nodes: how many are above
    chosen: Array  # by key path: the cheapest bridge that can take its place, or NONE
    parts: Array  # of 2 x: what is below key path x, seen from above; of 2 x + 1: what is above, seen from below
    missing: Array  # by branch: how many bridges are still wanted for its elimination
    gains: Array  # by branch: the price of its key paths, less that of its bridges so far
    first: Array  # by branch: the last of its bridges, as a place in ``taken``
    taken: Array  # bridges that eliminations use
    following: Array  # the next place of the same branch
    walk: Array  # the key nodes between the ends of a bridge
    used: Array  # by node: whether a change has to do with it


@kernel
def new_keys(size: int) -> Keys:
    return Keys(
        np.full(size, NONE, np.int64),
        np.full(size, NONE, np.int64),
        np.zeros(size),
        np.zeros(size, np.int64),
        np.full(size, NONE, np.int64),
        np.zeros(2 * size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size),
        np.full(size, NONE, np.int64),
        np.empty(2 * size, np.int64),
        np.empty(2 * size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
    )


@inlined
def is_key(nodes: Nodes, node: int) -> bool:
    return bool(nodes.is_end[node] or nodes.degrees[node] > 2)


@kernel
def lay_keys(nodes: Nodes, keys: Keys) -> float:
    """Finds the key paths of a spanned tree. Returns the price of the dearest."""
    dearest = 0.0
    for at in range(nodes.count[0]):
        node, parent = nodes.members[at], nodes.parents[nodes.members[at]]
        keys.above[node], keys.lengths[node], keys.used[node] = NONE, 0.0, False
        keys.low[node], keys.depths[node], keys.chosen[node] = NONE, 0, NONE
        keys.parts[2 * node], keys.parts[2 * node + 1] = 2 * node, 2 * node + 1
        keys.missing[node], keys.gains[node], keys.first[node] = nodes.degrees[node] - 1, 0.0, NONE
        if parent == NONE:
            continue
        keys.lengths[node] = nodes.paid[node]
        keys.above[node] = parent
        if not is_key(nodes, parent):
            keys.lengths[node] += keys.lengths[parent]
            keys.above[node] = keys.above[parent]
        if is_key(nodes, node):
            above = keys.above[node]
            keys.depths[node] = keys.depths[above] + 1
            keys.gains[node] += keys.lengths[node]
            keys.gains[above] += keys.lengths[node]
            dearest = max(dearest, keys.lengths[node])
    for at in range(nodes.count[0] - 1, 0, -1):
        node, parent = nodes.members[at], nodes.parents[nodes.members[at]]
        if not is_key(nodes, parent):
            keys.low[parent] = node if is_key(nodes, node) else keys.low[node]
    return dearest


@kernel
def find_changes(nodes: Nodes, keys: Keys, regions: Regions, bridges: Bridges) -> None:
    """Notes for each key path and each branch what bridges can do."""
    # All arrays by names of their own: a call that took them in a tuple would count the owners of each.
    above, lengths, chosen, walk, parts = keys.above, keys.lengths, keys.chosen, keys.walk, keys.parts
    missing, is_end, bases, used = keys.missing, nodes.is_end, regions.bases, 0
    for bridge in range(len(bridges.prices)):
        price, one, other = bridges.prices[bridge], bases[bridges.ones[bridge]], bases[bridges.others[bridge]]
        length = walk_between(above, keys.low, keys.depths, walk, one, other)
        for at in range(length - 1):
            path = walk[at] if above[walk[at]] == walk[at + 1] else walk[at + 1]
            if chosen[path] == NONE and price < lengths[path]:
                chosen[path] = bridge
        for at in range(1, length - 1):
            branch = walk[at]
            if is_end[branch] or missing[branch] == 0:
                continue
            left, right = _part(above, parts, walk[at - 1], branch), _part(above, parts, walk[at + 1], branch)
            if left != right:
                parts[left] = right
                missing[branch] -= 1
                keys.gains[branch] -= price
                keys.taken[used], keys.following[used] = bridge, keys.first[branch]
                keys.first[branch] = used
                used += 1


@inlined
def _part(above: Array, parts: Array, neighbour: int, branch: int) -> int:
    """The part of the tree without the branch that one of its neighbours is in, joined as it is."""
    part = 2 * neighbour if above[neighbour] == branch else 2 * branch + 1
    while parts[part] != part:
        parts[part] = parts[parts[part]]
        part = parts[part]
    return part


@inlined
def walk_between(above: Array, low: Array, depths: Array, walk: Array, one: int, other: int) -> int:
    """Lists the key nodes on the tree's way between two of its nodes. Returns how many they are.

    Two bases inside the same key path have none between them."""
    if low[one] != NONE and low[one] == low[other]:
        return 0
    left, right = _first_key(above, low, depths, one, other), _first_key(above, low, depths, other, one)
    begin, end = 0, len(walk)
    while left != right:
        if depths[left] >= depths[right]:
            walk[begin] = left
            begin += 1
            left = above[left]
        else:
            end -= 1
            walk[end] = right
            right = above[right]
    walk[begin] = left
    begin += 1
    for at in range(end, len(walk)):
        walk[begin] = walk[at]
        begin += 1
    return begin


@inlined
def _first_key(above: Array, low: Array, depths: Array, node: int, goal: int) -> int:
    """The first key node on the way from a node: itself, or an end of the key path that it is inside of."""
    lower = low[node]
    if lower == NONE:
        return node
    other = goal if low[goal] == NONE else low[goal]
    while depths[other] > depths[lower]:
        other = above[other]
    return lower if other == lower else above[node]


@kernel
def make_changes(nodes: Nodes, keys: Keys, regions: Regions, bridges: Bridges, least: float) -> float:
    """Makes all changes that gain more than ``least`` and do not concern each other, the best first. Returns what they
    gain. The nodes have to be spanned after that."""
    count = nodes.count[0]
    gains, names = np.empty(2 * count), np.empty(2 * count, np.int64)
    found = 0
    for at in range(count):
        node = nodes.members[at]
        if keys.chosen[node] != NONE:
            gains[found], names[found] = bridges.prices[keys.chosen[node]] - keys.lengths[node], 2 * node
            found += 1
        if not nodes.is_end[node] and nodes.degrees[node] > 2 and keys.missing[node] == 0:
            gains[found], names[found] = -keys.gains[node], 2 * node + 1
            found += 1
    gained = 0.0
    for place in np.argsort(gains[:found], kind="mergesort"):
        if -gains[place] <= least:
            break
        if _make(nodes, keys, regions, bridges, names[place], count):
            gained -= gains[place]
    return gained


@kernel
def _make(nodes: Nodes, keys: Keys, regions: Regions, bridges: Bridges, name: int, count: int) -> bool:
    """Makes the exchange of key path x (2 x), or the elimination of branch x (2 x + 1), unless another change has to do
    with the same key nodes. The tree had ``count`` nodes. Returns whether the change was made."""
    node = name // 2
    for marking in (False, True):
        if name % 2 == 0:
            if not _own(keys, regions, bridges, keys.chosen[node], marking):
                return False
        else:
            place = keys.first[node]
            while place != NONE:
                if not _own(keys, regions, bridges, keys.taken[place], marking):
                    return False
                place = keys.following[place]
    if name % 2 == 0:
        take_out_path(nodes, keys, node)
        _take_in_bridge(nodes, regions, bridges, keys.chosen[node])
        return True
    # All key paths of the branch are on the ways of its bridges, so no other change can have touched them.
    for at in range(count):
        path = nodes.members[at]
        if path == node or (keys.above[path] == node and is_key(nodes, path)):
            take_out_path(nodes, keys, path)
    nodes.inside[node] = False
    place = keys.first[node]
    while place != NONE:
        _take_in_bridge(nodes, regions, bridges, keys.taken[place])
        place = keys.following[place]
    return True


@kernel
def _own(keys: Keys, regions: Regions, bridges: Bridges, bridge: int, marking: bool) -> bool:
    """Whether no key node between the ends of a bridge is used; or marks them all as used."""
    one, other = regions.bases[bridges.ones[bridge]], regions.bases[bridges.others[bridge]]
    length = walk_between(keys.above, keys.low, keys.depths, keys.walk, one, other)
    for at in range(length):
        if marking:
            keys.used[keys.walk[at]] = True
        elif keys.used[keys.walk[at]]:
            return False
    return True


@kernel
def take_out_path(nodes: Nodes, keys: Keys, path: int) -> None:
    """Takes the nodes inside a key path out of the tree."""
    node = nodes.parents[path]
    while node != keys.above[path]:
        nodes.inside[node] = False
        node = nodes.parents[node]


@kernel
def _take_in_bridge(nodes: Nodes, regions: Regions, bridges: Bridges, bridge: int) -> None:
    for end in (bridges.ones[bridge], bridges.others[bridge]):
        node = end
        while not nodes.inside[node]:
            take_in(nodes, node)
            node = regions.before[node]
