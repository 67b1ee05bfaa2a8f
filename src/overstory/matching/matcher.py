"""What a live index and a frozen one have in common: everything but change."""

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


class Matcher:
    """Not for several threads at once: a match writes on memory of its own."""

    tests: Mapping[int, OpaqueTest]

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of attributes
        self.tally = np.zeros(TALLIES, np.int64)

    @property
    def store(self) -> Store:
        raise NotImplementedError

    @property
    def scratch(self) -> Scratch:
        raise NotImplementedError

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
        rows: list[tuple[int, int, int, int, int]] = []  # attribute, kind, key, start, stop
        texts: list[bytes] = []
        words = [0]
        size = 0
        untyped = False
        for name, value in attributes.items():
            number = self.numbers.get(name)
            if number is None or value is None:
                continue
            if isinstance(value, bool):
                rows.append((number, KEY, TRUE if value else FALSE, 0, 0))
            elif isinstance(value, (int, float)):
                rows.append((number, KEY, key_of_number(value), 0, 0))
            elif isinstance(value, (str, Untyped)):
                is_untyped = isinstance(value, Untyped)
                text = (value.text if isinstance(value, Untyped) else value).encode("utf-8", "surrogatepass")
                untyped |= is_untyped
                rows.append((number, UNTYPED if is_untyped else TEXT, LEAST, size, size + len(text)))
                texts.append(text)
                size += len(text)
            else:
                face = list_face(value)
                if face is None:
                    rows.append((number, FACELESS, LEAST, 0, 0))
                    continue
                start = len(words) - 1 if words[-1] == size else len(words)
                words[start:] = [size]
                for word in face:
                    text = word.encode("utf-8", "surrogatepass")
                    texts.append(text)
                    size += len(text)
                    words.append(size)
                rows.append((number, WORDS, LEAST, start, len(words) - 1))
        attribute, kind, key, start_of, stop_of = np.array(rows, np.int64).reshape(-1, 5).T.copy()
        cells = Cells(
            np.array([0, len(rows)], np.int64),
            attribute,
            kind,
            key,
            start_of,
            stop_of,
            np.array(words, np.int64),
            np.frombuffer(bytearray(b"".join(texts)), np.uint8),
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
    """Of each table, as many rows as have ever been in use."""
    used = [*store.counts[:8].tolist(), len(store.shards), len(store.counts)]
    return dict(zip(store._fields, used, strict=True))


def bytes_of(store: Store) -> int:
    return sum(used * TYPES[name].itemsize for name, used in rows_used(store).items())
