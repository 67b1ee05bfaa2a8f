"""The fast index of many filters. How it finds them is told in ``kernels.tree``."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.filters.boxes import Box
from overstory.filters.evaluate import compile_condition
from overstory.filters.filter import Filter
from overstory.kernels.boxes import add_filters, remove_filter, split_leaves
from overstory.kernels.match import Scratch
from overstory.kernels.store import ATTRIBUTES, FILTERS, FREE, NONE, PLACES, SEED
from overstory.kernels.texts import intern
from overstory.kernels.tree import MOST_REBUILT, new_leaf
from overstory.matching.encoding import Numbering, records_of
from overstory.matching.matcher import Matcher, rows_used
from overstory.matching.memory import Grown, Memory
from overstory.model.values import Attributes

CHUNK = 4096  # filters that are turned into records before a kernel takes them
HEADROOM = 8 * MOST_REBUILT  # nodes and places that a single change may take beyond what it adds


class Opaque:
    """A part of a box that only Python can test, shared by the boxes that have it."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.uses = 0
        self._sets = list(box.sets.items())
        self._conditions = [compile_condition(residual) for residual in box.residuals]

    def holds(self, attributes: Attributes) -> bool:
        return all(condition(attributes) is True for condition in self._conditions) and all(
            allowed.contains(attributes.get(name)) for name, allowed in self._sets
        )


class FilterIndex(Matcher):
    """Filters are numbered as they are added, from 0; the number of one that was removed is given out again.

    ``seed`` goes into the hash of texts. Give a secret one where strangers choose the texts.
    """

    def __init__(self, filters: Iterable[Filter] = (), seed: int = 0) -> None:
        super().__init__()
        self._memory = Memory()
        self.store = self._memory.store
        self.store.counts[SEED] = seed
        self._groups, self._stamps = Grown(np.dtype(np.int64), 0), Grown(np.dtype(np.int64), 0)
        self.scratch = Scratch(self._groups.array, self._stamps.array, self.tally)
        self._free: list[int] = []
        self.tests: dict[int, Opaque] = {}
        self._opaque_numbers: dict[object, int] = {}
        self._opaque_total = 0
        self._spare = 0
        self._numbering = Numbering(self._attribute, self._token, self._opaque)
        self._make_room(1)
        new_leaf(self.store, NONE, NONE)  # the root
        self.add_all(filters)

    def __len__(self) -> int:
        return int(self.store.counts[FILTERS]) - len(self._free)

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self) + len(self._free) and bool(self.store.filters["link"][number] != FREE)

    def add(self, wanted: Filter) -> int:
        return self._add((wanted,), splitting=True)[0]

    def add_all(self, filters: Iterable[Filter]) -> NDArray[np.int64]:
        """Adds many, faster than one by one; returns their numbers."""
        numbers: list[int] = []
        waiting: list[Filter] = []
        for wanted in filters:
            waiting.append(wanted)
            if len(waiting) == CHUNK:
                numbers += self._add(waiting, splitting=False)
                waiting.clear()
        numbers += self._add(waiting, splitting=False)
        if numbers:
            self._make_room(int(self.store.counts[PLACES]))
            split_leaves(self.store)
        return _array(numbers)

    def remove(self, number: int) -> None:
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        for opaque in remove_filter(self.store, number):
            test = self.tests[opaque]
            test.uses -= 1
            if test.uses == 0:
                del self.tests[opaque], self._opaque_numbers[test.box.key()]
        self._free.append(number)

    def _add(self, filters: Sequence[Filter], splitting: bool) -> list[int]:
        """First all boxes become records, one behind the other; then a kernel takes them."""
        records: list[int] = []
        ends: list[int] = []  # of records
        last: list[int] = []  # how many records there are up to each filter
        for wanted in filters:
            for box in wanted.boxes:
                for record in records_of(box, self._numbering):
                    records += record
                    ends.append(len(records))
            last.append(len(ends))
        self._make_room(len(filters) + len(records))
        numbers = [self._next_number() for _ in filters]
        opaques = add_filters(self.store, _array(numbers), _array(last), _array(records), _array(ends), splitting)
        for opaque in opaques:
            self.tests[opaque].uses += 1
        return numbers

    def _next_number(self) -> int:
        if self._free:
            return self._free.pop()
        number = int(self.store.counts[FILTERS])
        self.store.counts[FILTERS] = number + 1
        return number

    # What boxes speak of

    def _attribute(self, name: str) -> int:
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.numbers)
            self._make_room(1)
            self.store.attributes["facts"][number] = NONE
            self.store.counts[ATTRIBUTES] = number + 1
        return number

    def _token(self, attribute: int, kind: int, text: str) -> int:
        data = bytearray(text, "utf-8")
        self._make_room(8 + len(data))
        token: int = intern(self.store, attribute, kind, np.frombuffer(data, np.uint8))
        return token

    def _opaque(self, box: Box) -> int:
        key = box.key()
        number = self._opaque_numbers.get(key)
        if number is None:
            self._opaque_total += 1
            number = self._opaque_numbers[key] = self._opaque_total
            self.tests[number] = Opaque(box)
        return number

    def _make_room(self, size: int) -> None:
        """Room for ``size`` more: texts, attributes, filters, or words of their records.

        Asked for in large pieces, since it is only addresses that a table takes up before it is written to.
        """
        self._spare -= size
        if self._spare >= 0:
            return
        rows = rows_used(self.store)
        more = self._spare = max(1024, 2 * size, rows["boxes"] // 4)
        del self.store
        for name in ("boxes", "links", "tokens", "attributes", "filters"):
            rows[name] += more
        rows["places"] += more + HEADROOM
        rows["nodes"] += 4 * more + HEADROOM
        rows["words"] += 64 * more + 64 * HEADROOM
        self._memory.reserve(rows)
        self.store = self._memory.store
        self._spare -= size
        self._resize_scratch()

    def _resize_scratch(self) -> None:
        """As long as the tables that it goes with."""
        del self.scratch
        for grown, table in ((self._groups, self.store.tokens), (self._stamps, self.store.filters)):
            if len(grown.array) < len(table):
                grown.grow(len(table))
        self.scratch = Scratch(self._groups.array, self._stamps.array, self.tally)


def _array(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)
