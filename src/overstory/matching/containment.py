"""The containment graph of a set of filters: an edge from each filter to the largest ones that it covers.

1. Filters that cover each other are one node.
2. There is a path from one node to another iff the first is known to cover the second.
3. No edge is there that a longer path makes superfluous.

``covers`` is safe, not exact, on residuals and patterns, and what it knows need not be transitive there: of A over B
and B over C it may fail to see A over C. A path may then say more than ``covers`` does, never anything wrong, and an
edge may stay that a longer path makes superfluous.
"""

from collections.abc import Iterable

from overstory.errors import UsageError
from overstory.filters.filter import Filter, checked_filter
from overstory.matching.covering import CoveringIndex, CoveringStatistics


class ContainmentGraph:
    """Filters by what covers what. They are numbered as they are added, from 0; a number is not used again."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._index = CoveringIndex()  # of one filter for each node; its numbers are those of the nodes
        self._node_of: dict[int, int] = {}
        self._same: dict[Filter, int] = {}  # the node of a filter that is spelled like the one in the index
        self._members: dict[int, list[int]] = {}
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}
        self._next = 0
        for wanted in filters:
            self.add(wanted)

    def __len__(self) -> int:
        return len(self._node_of)

    def __contains__(self, number: int) -> bool:
        return number in self._node_of

    def add(self, wanted: Filter) -> int:
        node = self._same.get(checked_filter(wanted))
        if node is None:
            node = self._node_for(wanted)
        number = self._next
        self._next += 1
        self._members[node].append(number)
        self._node_of[number] = node
        return number

    def remove(self, number: int) -> list[int]:
        """Removes a filter from the graph. Returns those that no other covers any more, one of each node."""
        if number not in self:
            raise UsageError(f"the graph has no filter {number}")
        node = self._node_of.pop(number)
        self._members[node].remove(number)
        if self._members[node]:
            return []
        del self._members[node]
        children = self._below[node]
        self._take_out(node)
        del self._same[self._index.remove(node)]
        return sorted(self._members[child][0] for child in children if not self._above[child])

    @property
    def next_number(self) -> int:
        """The number that the next filter will have."""
        return self._next

    def node_of(self, number: int) -> int | None:
        """The node that a filter shares with those that equal it; None if it has no place in the graph."""
        return self._node_of.get(number)

    def roots(self) -> list[int]:
        """The filters that no other covers, one of each node."""
        return sorted(self._members[node][0] for node, above in self._above.items() if not above)

    def is_root(self, number: int) -> bool:
        return not self._above[self._node_of[number]]

    def is_lone_root(self, number: int) -> bool:
        """Whether no other filter covers or equals this one."""
        node = self._node_of[number]
        return not self._above[node] and len(self._members[node]) == 1

    def has_equals(self, number: int) -> bool:
        """Whether another filter equals this one."""
        return len(self._members[self._node_of[number]]) > 1

    def resting_on(self, number: int) -> list[int]:
        """The filters that this one alone covers directly, one of each node: its children without other parents."""
        children = self._below[self._node_of[number]]
        if not children:
            return []
        return sorted(self._members[child][0] for child in children if len(self._above[child]) == 1)

    def parents(self, number: int) -> list[int]:
        """The smallest filters that cover this one and do not equal it, one of each node."""
        return self._named(self._above[self._node_of[number]])

    def children(self, number: int) -> list[int]:
        """The largest filters that this one covers and does not equal, one of each node."""
        return self._named(self._below[self._node_of[number]])

    def equals(self, number: int) -> list[int]:
        """The filters that equal this one, itself among them."""
        return list(self._members[self._node_of[number]])

    def covering(self, wanted: Filter) -> list[int]:
        """The filters that cover this one, one of each node."""
        return self._named(set(self._index.covering(wanted)))

    def statistics(self) -> CoveringStatistics:
        return self._index.statistics()

    def _node_for(self, wanted: Filter) -> int:
        """The node of filters that equal this one. It is made if there is none."""
        return self._node_among(wanted, self._index.all_covering(wanted), self._index.all_covered(wanted))

    def _node_among(self, wanted: Filter, above: set[int], below: set[int]) -> int:
        """The same, where it is known which nodes cover the filter and which it covers."""
        # Between filters that are just their hulls ``covers`` knows all, so paths lead no further.
        known = self._index.is_hull(wanted) and below.isdisjoint(self._index.vague)
        equal = (above if known else self._with_all_above(above)) & below
        if equal:
            return min(equal)
        node = self._same[wanted] = self._index.add(wanted)
        self._members[node] = []
        self._insert(node, above, below)
        return node

    def _with_all_above(self, nodes: set[int]) -> set[int]:
        found, waiting = set(nodes), list(nodes)
        while waiting:
            further = self._above[waiting.pop()] - found
            found |= further
            waiting += further
        return found

    def _named(self, nodes: set[int]) -> list[int]:
        return sorted(self._members[node][0] for node in nodes)

    def _insert(self, node: int, above: set[int], below: set[int]) -> None:
        parents = {other for other in above if self._below[other].isdisjoint(above)}
        children = {other for other in below if self._above[other].isdisjoint(below)}
        for parent in above:
            if not self._below[parent].isdisjoint(below):
                for child in self._below[parent] & below:
                    self._below[parent].discard(child)
                    self._above[child].discard(parent)
        self._above[node], self._below[node] = parents, children
        for parent in parents:
            self._below[parent].add(node)
        for child in children:
            self._above[child].add(node)

    def _take_out(self, node: int) -> None:
        parents, children = self._above.pop(node), self._below.pop(node)
        for parent in parents:
            self._below[parent].discard(node)
        for child in children:
            self._above[child].discard(node)
        for child in children:
            for parent in parents:
                if not self._is_between(parent, child):
                    self._below[parent].add(child)
                    self._above[child].add(parent)

    def _is_between(self, parent: int, child: int) -> bool:
        """Whether a path from the parent to the child is left."""
        filters = self._index.filters
        return any(other == parent or filters[parent].covers(filters[other]) for other in self._above[child])
