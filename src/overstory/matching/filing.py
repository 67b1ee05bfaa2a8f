"""The part of an index that changes: records of boxes go in under the number of their filter, and out again."""

from collections.abc import Sequence
from itertools import accumulate
from operator import le

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.boxes import Texts, add_filters, remove_filter, split_leaves
from overstory.kernels.leaves import new_leaf
from overstory.kernels.store import ATTRIBUTES, FILTERS, FREE, NONE, PLACES, SEED
from overstory.kernels.tree import MOST_REBUILT
from overstory.matching.memory import Memory

# Rows that each table may need for each thing that is added, and for one change of the tree.
ROOM = {
    "nodes": (4, 8 * MOST_REBUILT),
    "boxes": (1, 0),
    "links": (1, 0),
    "places": (1, 8 * MOST_REBUILT),
    "tokens": (1, 0),
    "attributes": (1, 0),
    "filters": (1, 0),
    "words": (64, 512 * MOST_REBUILT),
}

Records = list[list[int]]  # of the boxes of one filter


class Filing:
    """Filters are numbered from 0; the number of one that was removed is given out again."""

    def __init__(self, seed: int = 0) -> None:
        self._memory = Memory()
        self.store = self._memory.store
        self.store.counts[SEED] = seed % 2**63
        self._free: list[int] = []
        self._room = [0] * len(ROOM)
        self._tokens: list[tuple[int, int]] = []  # attribute and kind, and the text, of each one to come
        self._texts: list[bytes] = []
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
        words: list[int] = []
        ends: list[int] = []
        last: list[int] = []
        for records in filters:
            for record in records:
                words += record
                ends.append(len(words))
            last.append(len(ends))
        texts = self._texts_so_far()
        self.make_room(len(filters) + len(words) + 8 * len(texts.kinds) + len(texts.data))
        numbers = [self._next_number() for _ in filters]
        opaque = add_filters(self.store, _array(numbers), _array(last), _array(words), _array(ends), texts, splitting)
        return numbers, opaque

    def token(self, attribute: int, kind: int, text: str) -> int:
        """What stands for a token in the records that are added next."""
        self._tokens.append((attribute, kind))
        self._texts.append(text.encode())
        return len(self._texts) - 1

    def _texts_so_far(self) -> Texts:
        attributes = _array([attribute for attribute, _ in self._tokens])
        kinds = _array([kind for _, kind in self._tokens])
        offsets = _array([0, *accumulate(map(len, self._texts))])
        data = np.frombuffer(bytearray(b"".join(self._texts)), np.uint8)
        self._tokens.clear()
        self._texts.clear()
        return Texts(attributes, kinds, offsets, data)

    def finish(self) -> None:
        self.make_room(int(self.store.counts[PLACES]))
        split_leaves(self.store)

    def remove(self, number: int) -> NDArray[np.int64]:
        """Returns the opaque tests of boxes that are no more."""
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        self.make_room(1)
        self._free.append(number)
        return remove_filter(self.store, number)

    def attribute(self, number: int) -> None:
        """Makes a new attribute ready."""
        self.make_room(1)
        self.store.attributes["facts"][number] = NONE
        self.store.counts[ATTRIBUTES] = number + 1

    def _next_number(self) -> int:
        if self._free:
            return self._free.pop()
        number = int(self.store.counts[FILTERS])
        self.store.counts[FILTERS] = number + 1
        return number

    def make_room(self, size: int) -> None:
        """Room for ``size`` more: texts, attributes, filters, or words of their records; and for one change of the
        tree. Asked for in large pieces, since it is only addresses that a table takes up before it is written to.
        """
        used = self.store.counts[: len(self._room)].tolist()
        wanted = [rows + each * size + spare for rows, (each, spare) in zip(used, ROOM.values(), strict=True)]
        if all(map(le, wanted, self._room)):
            return
        self._room = [max(room, rows + max(1024, rows // 4)) for room, rows in zip(self._room, wanted, strict=True)]
        del self.store
        self._memory.reserve(dict(zip(ROOM, self._room, strict=True)))
        self.store = self._memory.store


def _array(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)
