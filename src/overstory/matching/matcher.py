"""What a live index and a frozen one have in common: everything but change."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.kernels.cells import FACELESS, KEY, TEXT, UNTYPED, WORDS, Cells, match_cells
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
from overstory.matching.batch import Batch, read_untyped
from overstory.model.values import Attributes, Untyped, list_face


class Matches(NamedTuple):
    """The filters of event i, in ascending order, stand between offsets i and i + 1."""

    offsets: NDArray[np.int64]
    filters: NDArray[np.int64]

    def of(self, event: int) -> NDArray[np.int64]:
        return self.filters[self.offsets[event] : self.offsets[event + 1]]


class Statistics(msgspec.Struct, frozen=True):
    """What an index holds, and how hard it had to look since it was made or opened."""

    filters: int
    boxes: int  # distinct ones; a filter with numbers to choose from may be cut into several
    residuals: int  # boxes with a part that is evaluated in Python
    attributes: int
    tokens: int  # distinct texts, prefixes, words and facts that filters ask for
    bins: int  # leaves of the tree
    bytes: int
    events: int  # matched so far
    rows_per_match: float  # boxes of which one range was looked at
    candidates_per_match: float  # boxes that were then looked at as a whole


class OpaqueTest(Protocol):
    def holds(self, attributes: Attributes) -> bool: ...


class Matcher(ABC):
    """Not for several threads at once: a match writes on memory of its own."""

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
        return self._match(self._cells_of(attributes), lambda _: attributes).filters

    def match_batch(self, batch: Batch) -> Matches:
        return self._match(batch.cells(self.numbers), batch.event)

    def _match(self, cells: Cells, event_of: Callable[[int], Attributes]) -> Matches:
        store, scratch = self.store, self.scratch
        offsets, found, opaque, ends, filters = match_cells(store, cells, scratch)
        if len(opaque):
            refused = self._refused(opaque, offsets, found, event_of)
            ends, filters = filters_of(store, offsets, found, refused, scratch)
        return Matches(ends, filters)

    def _refused(
        self,
        where: NDArray[np.int64],
        offsets: NDArray[np.int64],
        found: NDArray[np.int32],
        event_of: Callable[[int], Attributes],
    ) -> NDArray[np.int64]:
        """Places of boxes whose opaque test the event fails."""
        events = np.searchsorted(offsets, where, "right") - 1
        numbers = self.store.boxes["opaque"][found[where]]
        refused = []
        last = -1
        attributes: Attributes = {}
        for place, event, number in zip(where.tolist(), events.tolist(), numbers.tolist(), strict=True):
            if event != last:
                last, attributes = event, event_of(event)
            if not self.tests[number].holds(attributes):
                refused.append(place)
        return np.array(refused, np.int64)

    def _cells_of(self, attributes: Attributes) -> Cells:
        """One event, without the ceremony of columns."""
        attribute, kind, key, starts, stops = array("q"), array("q"), array("q"), array("q"), array("q")
        texts: list[bytes] = []
        words = array("q")
        size = 0
        untyped = False
        for name, value in attributes.items():
            number = self.numbers.get(name)
            if number is None or value is None:
                continue
            attribute.append(number)
            start = stop = 0
            this, this_key = KEY, LEAST
            if isinstance(value, bool):
                this_key = TRUE if value else FALSE
            elif isinstance(value, (int, float)):
                this_key = key_of_number(value)
            elif isinstance(value, (str, Untyped)):
                if isinstance(value, Untyped):
                    value, this, untyped = value.text, UNTYPED, True
                else:
                    this = TEXT
                texts.append(value.encode("utf-8", "surrogatepass"))
                start, stop = size, size + len(texts[-1])
                size = stop
            elif (face := list_face(value)) is not None:
                this, start = WORDS, len(words)
                for word in face:
                    words.append(size)
                    texts.append(word.encode("utf-8", "surrogatepass"))
                    size += len(texts[-1])
                stop = len(words)
                words.append(size)  # where the last one ends
            else:
                this = FACELESS
            kind.append(this)
            key.append(this_key)
            starts.append(start)
            stops.append(stop)
        data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        columns = (array("q", (0, len(kind))), attribute, kind, key, starts, stops, words)
        cells = Cells._make((*map(_as_numbers, columns), data))
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
    """Of each table, as many rows as have ever been in use."""
    used = [*store.counts[:8].tolist(), len(store.shards), len(store.counts)]
    return dict(zip(store._fields, used, strict=True))


def bytes_of(store: Store) -> int:
    return sum(used * TYPES[name].itemsize for name, used in rows_used(store).items())


def _as_numbers(values: "array[int]") -> NDArray[np.int64]:
    return np.frombuffer(values, np.int64)
