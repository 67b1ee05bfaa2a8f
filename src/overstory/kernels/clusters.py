"""Clusters of items that grow together: their instances united row by row, and what their Steiner trees add up to.

A cluster has an instance for each row of the log that it must carry: the row's *terminals*, ascending, and the links of
a Steiner tree from its root to them. When two clusters become one, only rows with new terminals need a new tree.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.low_stretch import adjacent
from overstory.kernels.nothing import NONE

FIRST, SECOND, NEW = 0, 1, 2  # where the Steiner tree of an instance comes from


@kernel
def unite(
    rows: Array, offsets: Array, terminals: Array, other_rows: Array, other_offsets: Array, other_terminals: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Rows, offsets and terminals of both clusters together; for each instance where its Steiner tree comes from, and
    its place there. A new one's place is its number among the new ones."""
    most = len(rows) + len(other_rows)
    found, ends, total = np.empty(most, np.int64), np.zeros(most + 1, np.int64), 0
    kept = np.empty(len(terminals) + len(other_terminals), np.int64)
    origin, place = np.empty(most, np.int64), np.empty(most, np.int64)
    i, j, count, new = 0, 0, 0, 0
    while i < len(rows) or j < len(other_rows):
        here = i < len(rows) and (j == len(other_rows) or rows[i] <= other_rows[j])
        there = j < len(other_rows) and (i == len(rows) or other_rows[j] <= rows[i])
        found[count] = rows[i] if here else other_rows[j]
        mine = terminals[offsets[i] : offsets[i + 1]] if here else terminals[:0]
        theirs = other_terminals[other_offsets[j] : other_offsets[j + 1]] if there else other_terminals[:0]
        size = _merge(mine, theirs, kept[total:])
        if size == len(mine):
            origin[count], place[count] = FIRST, i
        elif size == len(theirs):
            origin[count], place[count] = SECOND, j
        else:
            origin[count], place[count] = NEW, new
            new += 1
        total += size
        count += 1
        ends[count] = total
        i, j = i + here, j + there
    return found[:count].copy(), ends[: count + 1].copy(), kept[:total].copy(), origin[:count], place[:count]


@kernel
def _merge(one: Array, other: Array, into: Array) -> int:
    """Two ascending lists as one, without what comes twice. Returns its length."""
    i, j, size = 0, 0, 0
    while i < len(one) or j < len(other):
        if j == len(other) or (i < len(one) and one[i] <= other[j]):
            into[size] = one[i]
            j += j < len(other) and one[i] == other[j]
            i += 1
        else:
            into[size] = other[j]
            j += 1
        size += 1
    return size


@kernel
def collect(
    origin: Array,
    place: Array,
    offsets: Array,
    links: Array,
    other_offsets: Array,
    other_links: Array,
    new_offsets: Array,
    new_links: Array,
) -> tuple[Array, Array]:
    """The Steiner trees of a united cluster, from where ``unite`` says: offsets by instance, and links."""
    found = np.zeros(len(origin) + 1, np.int64)
    kept = np.empty(len(links) + len(other_links) + len(new_links), np.int64)
    total = 0
    for i in range(len(origin)):
        at = place[i]
        if origin[i] == FIRST:
            tree = links[offsets[at] : offsets[at + 1]]
        elif origin[i] == SECOND:
            tree = other_links[other_offsets[at] : other_offsets[at + 1]]
        else:
            tree = new_links[new_offsets[at] : new_offsets[at + 1]]
        kept[total : total + len(tree)] = tree
        total += len(tree)
        found[i + 1] = total
    return found, kept[:total].copy()


@kernel
def multiplicities(offsets: Array, links: Array, weights: Array, edge_of: Array, count: int) -> Array:
    """By edge, of which there are ``count``: the weights of all instances whose Steiner trees have it."""
    found = np.zeros(count, np.int64)
    for i in range(len(weights)):
        for at in range(offsets[i], offsets[i + 1]):
            found[edge_of[links[at]]] += weights[i]
    return found


@kernel
def compact(one: Array, other: Array, brokers: int) -> tuple[Array, Array, Array]:
    """A graph with vertices of its own: the brokers that they are, and both ends of each edge."""
    number = np.full(brokers, NONE, np.int64)
    names, count = np.empty(min(brokers, 2 * len(one)), np.int64), 0
    ends = np.empty((2, len(one)), np.int64)
    for i in range(len(one)):
        for side, broker in ((0, one[i]), (1, other[i])):
            if number[broker] == NONE:
                number[broker], names[count] = count, broker
                count += 1
            ends[side, i] = number[broker]
    return names[:count].copy(), ends[0].copy(), ends[1].copy()


@kernel
def hang(names: Array, one: Array, other: Array, edges: Array, parent: Array, by: Array) -> None:
    """Hangs up a forest: sets each broker's ``parent``, and ``by`` to the edge to it, in each tree from the first
    vertex on; -1 there. The ends are vertices, whose brokers are ``names``; ``edges`` are the edges' numbers."""
    offsets, neighbours, numbers = adjacent(len(names), one, other, np.arange(len(one)))
    seen, queue = np.zeros(len(names), np.bool_), np.empty(len(names), np.int64)
    for top in range(len(names)):
        if seen[top]:
            continue
        seen[top], queue[0], first, last = True, top, 0, 1
        while first < last:
            here = queue[first]
            first += 1
            for i in range(offsets[here], offsets[here + 1]):
                there = neighbours[i]
                if not seen[there]:
                    seen[there], queue[last] = True, there
                    parent[names[there]], by[names[there]] = names[here], edges[numbers[i]]
                    last += 1
