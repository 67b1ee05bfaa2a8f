"""The part of an index that changes: records of boxes go in under the number of their filter, and out again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.boxes import add_filters, remove_filter, split_leaves
from overstory.kernels.store import ATTRIBUTES, FILTERS, FREE, NONE, PLACES, SEED
from overstory.kernels.texts import intern
from overstory.kernels.tree import MOST_REBUILT, new_leaf
from overstory.matching.matcher import rows_used
from overstory.matching.memory import Memory

HEADROOM = 8 * MOST_REBUILT  # nodes and places that a single change may take beyond what it adds

Records = list[list[int]]  # of the boxes of one filter


class Filing:
    """Filters are numbered from 0; the number of one that was removed is given out again."""

    def __init__(self, seed: int = 0) -> None:
        self._memory = Memory()
        self.store = self._memory.store
        self.store.counts[SEED] = seed
        self._free: list[int] = []
        self._spare = 0
        self.make_room(1)
        new_leaf(self.store, NONE, NONE)  # the root

    def __len__(self) -> int:
        return int(self.store.counts[FILTERS]) - len(self._free)

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self) + len(self._free) and bool(self.store.filters["link"][number] != FREE)

    def add(self, filters: Sequence[Records], splitting: bool) -> tuple[list[int], NDArray[np.int64]]:
        """Returns the numbers of the filters, and the opaque tests of those of their boxes that are new.

        Without ``splitting``, which is faster for many, ``finish`` is to be called in the end.
        """
        words = [word for records in filters for record in records for word in record]
        ends = np.cumsum([len(record) for records in filters for record in records], dtype=np.int64)
        last = np.cumsum([len(records) for records in filters], dtype=np.int64)
        self.make_room(len(filters) + len(words))
        numbers = [self._next_number() for _ in filters]
        opaque = add_filters(self.store, np.array(numbers, np.int64), last, np.array(words, np.int64), ends, splitting)
        return numbers, opaque

    def finish(self) -> None:
        self.make_room(int(self.store.counts[PLACES]))
        split_leaves(self.store)

    def remove(self, number: int) -> NDArray[np.int64]:
        """Returns the opaque tests of boxes that are no more."""
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        self._free.append(number)
        return remove_filter(self.store, number)

    def attribute(self, number: int) -> None:
        """Makes a new attribute ready."""
        self.make_room(1)
        self.store.attributes["facts"][number] = NONE
        self.store.counts[ATTRIBUTES] = number + 1

    def token(self, attribute: int, kind: int, text: str) -> int:
        data = bytearray(text, "utf-8")
        self.make_room(8 + len(data))
        return intern(self.store, attribute, kind, np.frombuffer(data, np.uint8))

    def _next_number(self) -> int:
        if self._free:
            return self._free.pop()
        number = int(self.store.counts[FILTERS])
        self.store.counts[FILTERS] = number + 1
        return number

    def make_room(self, size: int) -> None:
        """Room for ``size`` more: texts, attributes, filters, or words of their records.

        Asked for in large pieces, since it is only addresses that a table takes up before it is written to.
        """
        self._spare -= size
        if self._spare >= 0:
            return
        rows = rows_used(self.store)
        more = max(1024, 2 * size, rows["boxes"] // 4)
        self._spare = more - size
        del self.store
        for name in ("boxes", "links", "tokens", "attributes", "filters"):
            rows[name] += more
        rows["places"] += more + HEADROOM
        rows["nodes"] += 4 * more + HEADROOM
        rows["words"] += 64 * more + 64 * HEADROOM
        self._memory.reserve(rows)
        self.store = self._memory.store
