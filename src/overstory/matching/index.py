"""The fast index of many filters. How it finds them is told in ``kernels.tree``."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from overstory.filters.boxes import Box
from overstory.filters.evaluate import compile_condition
from overstory.filters.filter import Filter, checked_filter
from overstory.filters.parse import parse_filter
from overstory.kernels.match import Scratch
from overstory.kernels.reading import write_message
from overstory.kernels.store import Store
from overstory.matching.arithmetic import Comparison, comparison_of
from overstory.matching.encoding import Numbering, write_records
from overstory.matching.filing import Filing
from overstory.matching.matcher import Matcher
from overstory.matching.memory import Grown
from overstory.matching.reading import Reading
from overstory.model.values import Attributes

CHUNK = 4096  # filters that are turned into records before a kernel takes them


class Opaque:
    """A part of a box that only Python can test, shared by the boxes that have it."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.uses = 0
        self._sets = list(box.sets.items())
        self._conditions = [compile_condition(residual) for residual in box.residuals]

    @cached_property
    def comparison(self) -> Comparison | None:
        return comparison_of(self.box)

    def holds(self, attributes: Attributes) -> bool:
        for condition in self._conditions:
            if condition(attributes) is not True:
                return False
        for name, allowed in self._sets:  # noqa: SIM110
            if not allowed.contains(attributes.get(name)):
                return False
        return True


class AttributeNumbers(dict[str, int]):
    """The numbers of attributes. A new attribute gets the next number and is filed."""

    def __init__(self, filing: Filing) -> None:
        super().__init__()
        self._filing = filing

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        self._filing.attribute(number)
        return number


class FilterIndex(Matcher):
    """Many filters, found by events. They are numbered from 0; the number of a removed one is used again.

    ``seed`` goes into the hash of texts. Give a secret one where strangers choose the texts.
    """

    def __init__(self, filters: Iterable[Filter] = (), seed: int = 0) -> None:
        super().__init__()
        self._filing = Filing(seed)
        self.tests: dict[int, Opaque] = {}
        self._opaque_numbers: dict[object, int] = {}
        self._opaque_total = 0
        self.numbers = AttributeNumbers(self._filing)
        self._numbering = Numbering(self.numbers, self._filing.token, self._opaque)
        self._scratch: Scratch | None = None
        self._scratch_growth = -1
        self._groups, self._stamps = Grown(np.dtype(np.int64), 0), Grown(np.dtype(np.int64), 0)
        self.add_all(filters)

    @property
    def store(self) -> Store:
        return self._filing.store

    @property
    def growth(self) -> int:
        """How often the arrays were replaced by longer ones."""
        return self._filing.growth

    @property
    def scratch(self) -> Scratch:
        """Memory for a match. It grows with the tables that it goes with."""
        if self._scratch_growth != self._filing.growth:
            store = self._filing.store
            self._scratch = None  # lets go of the arrays, so that they can grow
            for grown, table in ((self._groups, store.tokens), (self._stamps, store.filters)):
                if len(grown.array) < len(table):
                    grown.grow(len(table))
            self._scratch_growth = self._filing.growth
        if self._scratch is None:
            self._scratch = Scratch(self._groups.array, self._stamps.array, self.tally)
        return self._scratch

    def __len__(self) -> int:
        return len(self._filing)

    def __contains__(self, number: int) -> bool:
        return number in self._filing

    def add(self, wanted: Filter) -> int:
        return self._add((checked_filter(wanted),), splitting=True)[0]

    def add_all(self, filters: Iterable[Filter]) -> NDArray[np.int64]:
        """Adds many, faster than one by one; returns their numbers."""
        numbers: list[int] = []
        checked = list(map(checked_filter, filters))  # all of them before any is added
        for start in range(0, len(checked), CHUNK):
            numbers += self._add(checked[start : start + CHUNK], splitting=False)
        if numbers:
            self._filing.finish()
        return np.array(numbers, np.int64)

    def add_texts(self, reading: Reading) -> NDArray[np.int64]:
        """Adds the filters of texts, all of which have to parse; those that a kernel has read without parsing them.
        Returns their numbers."""
        numbers = np.array(self._filing.next_numbers(len(reading.texts)), np.int64)
        attributes = np.array([self.numbers[name] for name in reading.names], np.int64)
        for start in range(0, len(numbers), CHUNK):
            chosen = np.arange(start, min(start + CHUNK, len(numbers)))
            read = chosen[reading.read[chosen]]
            if len(read):
                given = reading.tests, reading.starts, read, numbers[read], attributes, reading.texts.data
                self._filing.add_message(*write_message(*given), splitting=False)
            others = chosen[~reading.read[chosen]]
            if len(others):
                parsed = [parse_filter(reading.text(i)) for i in others.tolist()]
                self._file(numbers[others].tolist(), parsed, splitting=False)
        if len(numbers):
            self._filing.finish()
        return numbers

    def remove(self, number: int) -> None:
        for opaque in self._filing.remove(number):
            test = self.tests[opaque]
            test.uses -= 1
            if test.uses == 0:
                del self.tests[opaque], self._opaque_numbers[test.box.key()]

    def _add(self, filters: Sequence[Filter], splitting: bool) -> list[int]:
        numbers = self._filing.next_numbers(len(filters))
        self._file(numbers, filters, splitting)
        return numbers

    def _file(self, numbers: Sequence[int], filters: Sequence[Filter], splitting: bool) -> None:
        counts: list[int] = []
        records: list[int] = []
        for wanted in filters:
            count = 0
            for box in wanted.boxes:
                count += write_records(box, self._numbering, records)
            counts.append(count)
        for opaque in self._filing.add_as(numbers, counts, records, splitting):
            self.tests[opaque].uses += 1

    def _opaque(self, box: Box) -> int:
        key = box.key()
        number = self._opaque_numbers.get(key)
        if number is None:
            self._opaque_total += 1
            number = self._opaque_numbers[key] = self._opaque_total
            self.tests[number] = Opaque(box)
        return number
