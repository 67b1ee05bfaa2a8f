"""The plain index: every filter is asked. Slow, and right by inspection; the fast one is held to it."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.filters.filter import Filter, checked_filter
from overstory.matching.batch import Batch
from overstory.matching.matcher import Matches
from overstory.model.values import Attributes


class ReferenceIndex:
    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.filters: dict[int, Filter] = {}
        self._free: list[int] = []
        self.add_all(filters)

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, number: int) -> bool:
        return number in self.filters

    def add(self, wanted: Filter) -> int:
        checked_filter(wanted)
        number = self._free.pop() if self._free else len(self.filters)
        self.filters[number] = wanted
        return number

    def add_all(self, filters: Iterable[Filter]) -> NDArray[np.int64]:
        checked = list(map(checked_filter, filters))  # all of them before any is added
        return np.array([self.add(wanted) for wanted in checked], np.int64)

    def remove(self, number: int) -> None:
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        del self.filters[number]
        self._free.append(number)

    def match(self, attributes: Attributes) -> NDArray[np.int64]:
        return np.array(
            sorted(number for number, wanted in self.filters.items() if wanted.matches(attributes)), np.int64
        )

    def match_batch(self, batch: Batch) -> Matches:
        found = [self.match(event) for event in batch.events()]
        offsets = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(numbers) for numbers in found], out=offsets[1:])
        return Matches(offsets, np.concatenate(found) if found else np.zeros(0, np.int64))
