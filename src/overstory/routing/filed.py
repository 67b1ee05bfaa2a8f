"""Filters that wait to be filed in an index until an event is asked about.

Many subscriptions end before the next event comes, above all in a storm of them: those are never filed. What waits is
filed together, which is faster than one by one if it is much.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.matching import FilterIndex

Ints = NDArray[np.int64]
MUCH = 8  # what waits is filed together if it is at least the index divided by this,
MANY, LARGE = 16, 100_000  # or if it is so many filters, and the index has fewer than those


class Filed:
    """Filters under numbers, which are indexed when an event asks for them. The number of a removed one is used again.
    Their numbers in the index are others."""

    def __init__(self) -> None:
        self._index = FilterIndex()
        self._waiting: dict[int, Filter] = {}
        self._places: list[int] = []  # in the index, by number
        self._free: list[int] = []
        self._numbers = np.zeros(64, np.int64)  # by place in the index

    def add(self, wanted: Filter) -> int:
        """Adds a filter, and returns its number."""
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._places)
            self._places.append(number)
        self._waiting[number] = wanted
        return number

    def add_all(self, filters: Sequence[Filter]) -> list[int]:
        """Adds many filters, and returns their numbers."""
        numbers = [self._free.pop() for _ in range(min(len(filters), len(self._free)))]
        following = range(len(self._places), len(self._places) + len(filters) - len(numbers))
        self._places += following
        numbers += following
        self._waiting.update(zip(numbers, filters, strict=True))
        return numbers

    def remove(self, number: int) -> None:
        """Removes the filter of this number."""
        if self._waiting.pop(number, None) is None:
            self._index.remove(self._places[number])
        self._free.append(number)

    @property
    def index(self) -> FilterIndex:
        """The index, with all filters in it."""
        if self._waiting:
            self._file(list(self._waiting), list(self._waiting.values()))
            self._waiting.clear()
        return self._index

    def file(self, most: int) -> None:
        """Files so many of the filters that wait, the oldest first."""
        if not self._waiting or most <= 0:  # most often
            return
        numbers = list(islice(self._waiting, most))
        self._file(numbers, [self._waiting.pop(number) for number in numbers])

    @property
    def waiting(self) -> int:
        """How many filters wait to be filed."""
        return len(self._waiting)

    @property
    def by_place(self) -> Ints:
        """The number of each filter, by its number in the index."""
        return self._numbers

    def numbers(self, places: Ints) -> Ints:
        """The numbers of filters, by their numbers in the index."""
        found: Ints = self._numbers[places]
        return found

    def _file(self, numbers: list[int], filters: list[Filter]) -> None:
        size = len(self._index)
        if len(filters) * MUCH > size or (len(filters) >= MANY and size < LARGE):
            places = self._index.add_all(filters).tolist()
        else:
            places = [self._index.add(wanted) for wanted in filters]
        highest = max(places)
        while highest >= len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)])
        self._numbers[places] = numbers
        for number, place in zip(numbers, places, strict=True):
            self._places[number] = place
