"""The part of an index that changes: records of boxes go in under the number of their filter, and out again."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.boxes import add_filters, add_plain, remove_filter, remove_plain, split_leaves
from overstory.kernels.leaves import new_leaf
from overstory.kernels.nothing import NONE
from overstory.kernels.room import GROWING, rows_needed
from overstory.kernels.store import ATTRIBUTES, FILTERS, FREE, PLACES, SEED
from overstory.matching.memory import Memory

NO_TEXT = np.frombuffer(bytearray(), np.uint8)


class Filing:
    """The records of filters in memory. Filters are numbered from 0; the number of a removed one is used again."""

    def __init__(self, seed: int = 0) -> None:
        self._memory = Memory()
        self.store = self._memory.store
        self.store.counts[SEED] = seed % 2**63
        self.growth = 0  # how often the tables were made longer
        self._free: list[int] = []
        self._tags: list[int] = []  # of each token to come, attribute and kind, and the length of its text
        self._texts: list[bytes] = []
        self.make_room(1)
        new_leaf(self.store, NONE, NONE)  # the root

    def __len__(self) -> int:
        return int(self.store.counts[FILTERS]) - len(self._free)

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self) + len(self._free) and bool(self.store.filters["link"][number] != FREE)

    def add(self, counts: list[int], records: list[int], splitting: bool) -> tuple[list[int], NDArray[np.int64]]:
        """Makes filters, each of as many boxes as its count says. The records follow, each after its size.

        Returns the numbers of the filters, and the opaque tests of those of their boxes that are new. Without
        ``splitting``, which is faster for many, ``finish`` is to be called in the end.
        """
        numbers = self.next_numbers(len(counts))
        return numbers, self.add_as(numbers, counts, records, splitting)

    def add_as(
        self, numbers: Sequence[int], counts: list[int], records: list[int], splitting: bool
    ) -> NDArray[np.int64]:
        """Does the same for filters that have their numbers. Returns the opaque tests."""
        message = array("q", [len(counts), len(self._texts), *numbers, *counts, *self._tags, *records])
        words, data = np.frombuffer(message, np.int64), NO_TEXT
        if self._texts:
            data = np.frombuffer(bytearray().join(self._texts), np.uint8)
            self._tags.clear()
            self._texts.clear()
        return self.add_message(words, data, splitting)

    def add_message(self, words: NDArray[np.int64], data: NDArray[np.uint8], splitting: bool) -> NDArray[np.int64]:
        """Adds what ``kernels.boxes.add_filters`` is told. Returns the opaque tests."""
        needed, opaque = add_filters(self.store, words, data, splitting)
        if needed:
            self.make_room(needed)
            _, opaque = add_filters(self.store, words, data, splitting)
        return opaque

    def add_plain(self, record: list[int]) -> int:
        """Makes one filter of one box that asks for no texts, given by its record. Returns its number."""
        number = self._free.pop() if self._free else self.next_numbers(1)[0]
        words = np.array([1, 0, number, 1, len(record), *record], np.int64)
        needed = add_plain(*self.store, words, NO_TEXT)
        if needed:
            self.make_room(needed)
            add_plain(*self.store, words, NO_TEXT)
        return number

    def remove_plain(self, number: int) -> None:
        """Removes a filter that is here, and whose boxes have no opaque tests."""
        words = np.array([number], np.int64)
        needed = remove_plain(*self.store, words)
        if needed:
            self.make_room(needed)
            remove_plain(*self.store, words)
        self._free.append(number)

    def token(self, attribute: int, kind: int, text: str) -> int:
        """What stands for a token in the records that are added next."""
        data = text.encode()
        self._tags += (attribute << 3 | kind, len(data))
        self._texts.append(data)
        return len(self._texts) - 1

    def finish(self) -> None:
        self.make_room(int(self.store.counts[PLACES]))
        split_leaves(self.store)

    def remove(self, number: int) -> NDArray[np.int64]:
        """Removes a filter and its boxes. Returns the opaque tests of boxes that are no more."""
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        needed, opaque = remove_filter(self.store, number)
        if needed:
            self.make_room(needed)
            _, opaque = remove_filter(self.store, number)
        self._free.append(number)
        return opaque

    def attribute(self, number: int) -> None:
        """Makes a new attribute ready."""
        self.make_room(1)
        self.store.attributes["facts"][number] = NONE
        self.store.counts[ATTRIBUTES] = number + 1

    def next_numbers(self, count: int) -> list[int]:
        """Numbers for new filters. Those that were given back last come first."""
        numbers = [self._free.pop() for _ in range(min(count, len(self._free)))]
        if len(numbers) == count:
            return numbers
        first = int(self.store.counts[FILTERS])
        following = range(first, first + count - len(numbers))
        self.store.counts[FILTERS] = following.stop
        return [*numbers, *following]

    def make_room(self, size: int) -> None:
        """Makes room for ``size`` more: see ``kernels.room``.

        It asks for large pieces, since a table takes up only addresses before it is written to.
        """
        wanted = rows_needed(self.store.counts, size).tolist()
        rows = {name: wanted[at] + max(1024, wanted[at] // 4) for at, name in enumerate(GROWING)}
        del self.store
        self._memory.reserve(rows)
        self.store = self._memory.store
        self.growth += 1
