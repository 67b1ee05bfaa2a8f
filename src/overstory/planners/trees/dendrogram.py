"""Who is like whom: clusters of filters merged by the Jaccard similarity of the events that they match.

The similarity of two clusters is that of Algorithm 3 of Majumder et al., |D_i ∩ D_j| / |D_i ∪ D_j|, in bytes of the fit
rows. Items with equal filters match the same events and would merge first; so the leaves are the filters.

Only clusters that share an event have a similarity above 0, so only these pairs are kept, with the weight of what they
share. A merged cluster is a new one, and pairs do not change while both live: the heap is lazy and only forgets.
"""

import heapq
from collections import Counter, deque
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overstory.model.network import Ints
from overstory.planners.trees.demand import Demand, Rows


class Dendrogram(NamedTuple):
    """Leaves are numbered from 0; the m-th merge makes cluster ``leaves + m`` of ``merges[m]``, two that are no part of
    another yet. The last one holds everything."""

    leaf_of: Ints  # by item
    leaves: int
    merges: Ints  # by two

    def clusters_after(self, merged: int) -> Ints:
        """The cluster of each leaf after so many merges."""
        cluster = np.arange(self.leaves + merged)
        for number in range(merged - 1, -1, -1):
            cluster[self.merges[number]] = cluster[self.leaves + number]
        return cluster[: self.leaves]


def dendrogram(demand: Demand) -> Dendrogram:
    filters, leaf_of = np.unique(demand.item_predicate, return_inverse=True)
    clusters = _Clusters(demand.fit, leaf_of, len(filters))
    while (pair := clusters.most_similar()) is not None:
        clusters.merge(*pair)
    clusters.merge_the_rest()
    return Dendrogram(leaf_of, len(filters), np.array(clusters.merges, np.int64).reshape(-1, 2))


class _Clusters:
    """Each stands in the slot of its largest part, so that a merge touches what the smaller part has; ``slots`` has the
    slots of all clusters that are no part of another."""

    def __init__(self, rows: Rows, leaf_of: Ints, leaves: int) -> None:
        matches = _matches(rows, leaf_of, leaves)
        self.bytes: list[int] = rows.bytes.tolist()
        self.slots_of = [set(slots) for slots in _lists(matches)]  # by row
        self.rows_of = [set(rows) for rows in _lists(matches.T.tocsr())]
        self.sizes = [sum(self.bytes[row] for row in rows) for rows in self.rows_of]
        self.shared: list[Counter[int]] = [Counter() for _ in range(leaves)]
        self.slots = {leaf: leaf for leaf in range(leaves)}  # by number
        self.numbers = list(range(leaves))
        self.heap: list[tuple[float, int, int]] = []
        self.merges: list[tuple[int, int]] = []
        both = (matches.T @ (matches * rows.bytes[:, None])).tocoo()
        for one, other, weight in zip(both.row.tolist(), both.col.tolist(), both.data.tolist(), strict=True):
            if one != other and weight:
                self.shared[one][other] = weight
        for one, others in enumerate(self.shared):
            for other in others:
                if one < other:
                    self._push(one, other)

    def _push(self, slot: int, other: int) -> None:
        both = self.shared[slot][other]
        similarity = both / (self.sizes[slot] + self.sizes[other] - both)
        one, two = sorted((self.numbers[slot], self.numbers[other]))
        heapq.heappush(self.heap, (-similarity, one, two))

    def most_similar(self) -> tuple[int, int] | None:
        """Of equally similar ones the pair with the lowest numbers; None if no two share anything."""
        while self.heap:
            _, one, other = heapq.heappop(self.heap)
            if one in self.slots and other in self.slots:
                return one, other
        return None

    def merge(self, one: int, other: int) -> int:
        """Returns the number of the new cluster."""
        slot, small = self.slots.pop(one), self.slots.pop(other)
        if len(self.rows_of[slot]) < len(self.rows_of[small]):
            slot, small = small, slot
        new = len(self.numbers) + len(self.merges)
        self.merges.append((one, other))
        self.slots[new], self.numbers[slot] = slot, new
        self.sizes[slot] += self.sizes[small] - self.shared[slot][small]
        self._share(slot, small)
        for each in self.shared[slot]:
            self._push(slot, each)
        return new

    def _share(self, slot: int, small: int) -> None:
        """What the new cluster shares with others: what the larger part did, and rows that only the smaller one has."""
        shared = self.shared[slot]
        for row in self.rows_of[small]:
            self.slots_of[row].remove(small)
            if slot not in self.slots_of[row]:
                for each in self.slots_of[row]:
                    shared[each] += self.bytes[row]
                self.slots_of[row].add(slot)
        for each in self.shared[small]:
            del self.shared[each][small]
            if each != slot:
                self.shared[each][slot] = shared[each]
        self.rows_of[slot] |= self.rows_of[small]

    def merge_the_rest(self) -> None:
        """No two are similar: first those that match something, by number, then those that match nothing."""
        for matching in (True, False):
            queue = deque(number for number, slot in self.slots.items() if bool(self.rows_of[slot]) == matching)
            while len(queue) > 1:
                queue.append(self.merge(queue.popleft(), queue.popleft()))
        if len(self.slots) > 1:
            self.merge(*self.slots)


def _matches(rows: Rows, leaf_of: Ints, leaves: int) -> csr_array:
    """By row and leaf: 1 where it matches."""
    row = np.repeat(np.arange(len(rows.roots)), np.diff(rows.offsets))
    row, leaf = np.unique(np.stack([row, leaf_of[rows.items]]), axis=1)
    return csr_array((np.ones(len(row), np.int64), (row, leaf)), shape=(len(rows.roots), leaves))


def _lists(matrix: csr_array) -> list[list[int]]:
    ends = matrix.indptr.tolist()
    columns = matrix.indices.tolist()
    return [columns[first:last] for first, last in pairwise(ends)]
