"""Forests in preorder: what stands below a node is one interval, and where two nodes' ways to the root meet is the
least of the parents between them."""

from itertools import pairwise

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.nothing import NONE


class Forest:
    """Nodes are numbered anew: a node before its children, each subtree without a gap, trees one after the other."""

    def __init__(self, parent: Array, depth: Array) -> None:
        order = np.argsort(depth, kind="stable")
        ends = np.searchsorted(depth[order], np.arange(depth.max(initial=0) + 2))
        levels = [order[start:end] for start, end in pairwise(ends)]
        size = np.ones(len(parent), np.int64)
        for nodes in levels[:0:-1]:
            np.add.at(size, parent[nodes], size[nodes])
        number = _before_in_group(parent, size)
        for nodes in levels[1:]:
            number[nodes] += number[parent[nodes]] + 1
        self.number, self.size = number, size  # by node
        over = np.empty(len(parent), np.int32)
        over[number] = np.where(parent == NONE, number, number[parent])
        self._least = _least_of_spans(over, int(size.max(initial=0)))

    def meeting(self, one: Array, other: Array) -> Array:
        """The lowest nodes that are above, or at, both of two in the same tree; all in preorder numbers."""
        first, last = np.minimum(one, other), np.maximum(one, other)
        span = np.frexp(last - first)[1] - 1  # the greatest power of two within
        span = np.maximum(span, 0)
        least = np.minimum(
            self._least[span, np.minimum(first + 1, last)], self._least[span, np.maximum(last - (1 << span) + 1, first)]
        )
        return np.where(first == last, first, least)

    def sums_below(self, marks: Array) -> Array:
        """By node: the sum of marks, given by preorder number, of all nodes below it and its own."""
        total = np.concatenate([[0], np.cumsum(marks)])
        return total[self.number + self.size] - total[self.number]


def _before_in_group(group: Array, size: Array) -> Array:
    """For each node the size of those of its group that come before it."""
    order = np.argsort(group, kind="stable")
    before = np.cumsum(size[order]) - size[order]
    first = np.searchsorted(group[order], group[order])
    found = np.empty(len(group), np.int64)
    found[order] = before - before[first]
    return found


def _least_of_spans(values: Array, longest: int) -> Array:
    """Row k has at i the least of the 2**k values from i on."""
    rows = [values]
    while 2 << (len(rows) - 1) <= longest:
        half = 1 << (len(rows) - 1)
        row = rows[-1].copy()
        np.minimum(row[:-half], rows[-1][half:], out=row[:-half])
        rows.append(row)
    return np.stack(rows)
