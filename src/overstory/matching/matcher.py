"""What a live index and a frozen one have in common: everything but change."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.kernels.cells import CELL, FACELESS, KEY, TEXT, UNTYPED, WORDS, Cells, match_cells
from overstory.kernels.keys import FALSE, LEAST, TRUE, key_of_number
from overstory.kernels.match import (
    TALLIES,
    TALLY_CANDIDATES,
    TALLY_EVENTS,
    TALLY_ROWS,
    Scratch,
    filters_of,
)
from overstory.kernels.store import (
    LIVE_BOXES,
    LIVE_FILTERS,
    LIVE_LEAVES,
    OPAQUE_BOXES,
    TYPES,
    Store,
)
from overstory.matching.arithmetic import Comparison, answers
from overstory.matching.batch import Batch, read_untyped
from overstory.model.values import PLAIN, Attributes, Untyped, list_face, plain


class Matches(NamedTuple):
    """The matches of a batch. The filters of event i stand between offsets i and i + 1, ascending."""

    offsets: NDArray[np.int64]
    filters: NDArray[np.int64]

    def of(self, event: int) -> NDArray[np.int64]:
        return self.filters[self.offsets[event] : self.offsets[event + 1]]


class Statistics(msgspec.Struct, frozen=True):
    """What an index holds, and how hard it had to look since it was made or opened."""

    filters: int
    boxes: int  # distinct ones; a filter with numbers to choose from may be cut into several
    residuals: int  # boxes with a part that kernels cannot test
    attributes: int
    tokens: int  # distinct texts, prefixes, words and facts that filters ask for
    bins: int  # leaves of the tree
    bytes: int
    events: int  # matched so far
    rows_per_match: float  # boxes of which one range was looked at
    candidates_per_match: float  # boxes that were then looked at as a whole


class OpaqueTest(Protocol):
    @property
    def comparison(self) -> Comparison | None: ...

    def holds(self, attributes: Attributes) -> bool: ...


class Matcher(ABC):
    """An index that can be asked. It is not for several threads at once: a match writes on memory of its own."""

    tests: Mapping[int, OpaqueTest]

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of attributes
        self.tally = np.zeros(TALLIES, np.int64)

    @property
    @abstractmethod
    def store(self) -> Store: ...

    @property
    @abstractmethod
    def scratch(self) -> Scratch: ...

    def match(self, attributes: Attributes) -> NDArray[np.int64]:
        """The numbers of the filters that match, ascending."""
        return self._match(self._cells_of(attributes), attributes)[1]

    def match_batch(self, batch: Batch) -> Matches:
        return Matches(*self._match(batch.cells(self.numbers), batch))

    def _match(self, cells: Cells, source: Batch | Attributes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        store, scratch = self.store, self.scratch
        opaque, offsets, found = match_cells(*store, *cells, *scratch)
        if len(opaque):
            refused = self._refused(opaque, offsets, found, source)
            return filters_of(store.boxes, store.links, scratch.stamps, scratch.tally, offsets, found, refused)
        return offsets, found

    def _refused(
        self,
        where: NDArray[np.int64],
        offsets: NDArray[np.int64],
        found: NDArray[np.int64],
        source: Batch | Attributes,
    ) -> NDArray[np.int64]:
        """The places of boxes whose opaque test the event fails."""
        numbers = self.store.boxes[found[where]]["opaque"]
        if not isinstance(source, Batch):
            fails = [not self.tests[number].holds(source) for number in numbers.tolist()]
            return where[np.array(fails, np.bool_)]
        events = np.searchsorted(offsets, where, "right") - 1
        distinct, which = np.unique(numbers, return_inverse=True)
        comparisons = [self.tests[number].comparison for number in distinct.tolist()]
        answered, held = answers(comparisons, which, events, source)
        left = np.flatnonzero(~answered)
        for i, event, number in zip(left.tolist(), events[left].tolist(), numbers[left].tolist(), strict=True):
            held[i] = self.tests[number].holds(source.event(event))
        return where[~held]

    def _cells_of(self, attributes: Attributes) -> Cells:
        """The cells of one event, made without columns."""
        rows: list[int] = []
        words: list[int] = []
        texts: list[bytes] = []
        size = 0
        untyped = False
        numbers = self.numbers
        for name, value in attributes.items():
            number = numbers.get(name)
            if number is None:
                continue
            if type(value) not in PLAIN:
                value = plain(value)
            if value is None:
                continue
            if isinstance(value, bool):
                rows += (number, KEY, TRUE if value else FALSE, 0, 0)
            elif isinstance(value, (int, float, Fraction)):
                rows += (number, KEY, key_of_number(value), 0, 0)
            elif isinstance(value, (str, Untyped)):
                kind = TEXT
                if isinstance(value, Untyped):
                    value, kind, untyped = value.text, UNTYPED, True
                data = value.encode("utf-8", "surrogatepass")
                texts.append(data)
                rows += (number, kind, LEAST, size, size + len(data))
                size += len(data)
            elif (face := list_face(value)) is not None:
                rows += (number, WORDS, LEAST, len(words), len(words) + len(face))
                for word in face:
                    words.append(size)
                    data = word.encode("utf-8", "surrogatepass")
                    texts.append(data)
                    size += len(data)
                words.append(size)  # where the last one ends
            else:
                rows += (number, FACELESS, LEAST, 0, 0)
        table = np.frombuffer(array("q", rows), CELL)
        cells = Cells(
            np.frombuffer(array("q", (0, len(table))), np.int64),
            table,
            np.frombuffer(array("q", words), np.int64),
            np.frombuffer(bytearray().join(texts), np.uint8),
        )
        if untyped:
            read_untyped(cells)
        return cells

    def statistics(self) -> Statistics:
        counts, tally = self.store.counts, self.tally
        events = int(tally[TALLY_EVENTS])
        return Statistics(
            filters=int(counts[LIVE_FILTERS]),
            boxes=int(counts[LIVE_BOXES]),
            residuals=int(counts[OPAQUE_BOXES]),
            attributes=len(self.numbers),
            tokens=int(np.count_nonzero(self.store.tokens["uses"])),
            bins=int(counts[LIVE_LEAVES]),
            bytes=bytes_of(self.store),
            events=events,
            rows_per_match=float(tally[TALLY_ROWS] / events) if events else 0.0,
            candidates_per_match=float(tally[TALLY_CANDIDATES] / events) if events else 0.0,
        )


def rows_used(store: Store) -> dict[str, int]:
    """How many rows of each table have ever been in use."""
    used = [*store.counts[:8].tolist(), len(store.shards), len(store.counts)]
    return dict(zip(store._fields, used, strict=True))


def bytes_of(store: Store) -> int:
    return sum(used * TYPES[name].itemsize for name, used in rows_used(store).items())
