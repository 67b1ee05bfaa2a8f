"""A containment graph that files a covered filter only when its place in the graph is asked for.

A broker has to know of a covered filter no more than that something covers it, until that goes. So a filter that is
covered when it comes is *parked* at one that covers it: no edges are made for it, and it is in no index. When the
filter that it is parked at goes, or is asked for what rests on it, the parked one is looked at again: it is parked
elsewhere, or takes its place in the graph.
"""

from bisect import insort
from collections.abc import Iterable, Sequence

from overstory.filters.filter import Filter, checked_filter
from overstory.matching.containment import ContainmentGraph


class ParkingGraph(ContainmentGraph):
    """Filters by what covers what, as far as it has been asked for. What it says, a ``ContainmentGraph`` says too."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._parked: dict[int, dict[int, Filter]] = {}  # by node: the filters that are parked there, by number
        self._place: dict[int, int] = {}  # the node where each parked filter is
        super().__init__(filters)

    def __len__(self) -> int:
        return super().__len__() + len(self._place)

    def __contains__(self, number: int) -> bool:
        return number in self._node_of or number in self._place

    def add(self, wanted: Filter) -> int:
        number = self._next
        self._next += 1
        node = self._same.get(checked_filter(wanted))
        if node is None:
            self._file(number, wanted, None)
        else:
            self._enter(number, node)
        return number

    def add_unrelated(self, filters: Sequence[Filter]) -> list[int]:
        """Adds filters of which it is known that none of them covers another one, or one of those here, and that none
        of those here covers one of them. Some may equal others all the same. Returns their numbers."""
        numbers = list(range(self._next, self._next + len(filters)))
        self._next += len(filters)
        fresh: dict[Filter, int] = {}
        equals: list[tuple[int, Filter]] = []
        for number, wanted in zip(numbers, filters, strict=True):
            node = self._same.get(checked_filter(wanted))
            if node is not None:
                self._enter(number, node)
            elif wanted in fresh:
                equals.append((number, wanted))
            else:
                fresh[wanted] = number
        for node, (wanted, number) in zip(self._index.add_all(fresh), fresh.items(), strict=True):
            self._same[wanted] = self._node_of[number] = node
            self._members[node], self._above[node], self._below[node] = [number], set(), set()
        for number, wanted in equals:
            self._enter(number, self._same[wanted])
        return numbers

    def remove(self, number: int) -> list[int]:
        """Removes a filter by its number. Returns those that no other covers any more, one of each node."""
        node = self._place.pop(number, None)
        if node is not None:
            del self._parked[node][number]
            return []
        if number in self._node_of and not super().has_equals(number):  # else the node stays
            self._look_again(number)
        return super().remove(number)

    def is_root(self, number: int) -> bool:
        return number not in self._place and super().is_root(number)

    def is_lone_root(self, number: int) -> bool:
        """Whether no other filter covers or equals this one, when it has just been added."""
        return number not in self._place and super().is_lone_root(number)

    def has_equals(self, number: int) -> bool:
        """Whether another filter equals this root."""
        if not super().has_equals(number):
            self._look_again(number)
        return super().has_equals(number)

    def resting_on(self, number: int) -> list[int]:
        """The filters that this root alone covers directly, one of each node."""
        self._look_again(number)
        return super().resting_on(number)

    def _look_again(self, number: int) -> None:
        """Files anew all that is parked where this filter is."""
        node = self._node_of[number]
        for parked, wanted in sorted(self._parked.pop(node, {}).items()):
            del self._place[parked]
            equal = self._same.get(wanted)
            if equal is None:
                self._file(parked, wanted, node)
            else:  # so that whoever asks for equals of that node hears of this one
                self._enter(parked, equal)

    def _file(self, number: int, wanted: Filter, left: int | None) -> None:
        """Parks a filter at one that covers it, other than the one that it has left; else it enters the graph."""
        above = self._index.all_covering(wanted)
        covering = above if left is None else above - {left}
        if not covering:
            self._enter(number, self._node_among(wanted, above, self._index.all_covered(wanted)))
            return
        node = next((root for root in covering if not self._above[root]), None)  # a root, as these are asked for least
        node = min(covering) if node is None else node
        self._parked.setdefault(node, {})[number] = wanted
        self._place[number] = node

    def _enter(self, number: int, node: int) -> None:
        insort(self._members[node], number)
        self._node_of[number] = node
