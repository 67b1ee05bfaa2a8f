"""The fast index is held to the plain one."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from overstory import parse_filter
from overstory.kernels.nothing import NONE
from overstory.kernels.store import BOXES, FREE_ROWS, LINKS, NODES, PLACES, ROOT, TOKENS_USED
from overstory.matching.batch import Batch
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex
from overstory.model.values import Attributes


def assert_same_matches(index: FilterIndex, plain: ReferenceIndex, events: Sequence[Attributes]) -> None:
    """Both one event at a time and all together."""
    together = index.match_batch(Batch.of(events))
    for i, event in enumerate(events):
        wanted = plain.match(event)
        assert_same(plain, event, wanted, index.match(event))
        assert_same(plain, event, wanted, together.of(i))


def assert_same(plain: ReferenceIndex, event: Attributes, wanted: NDArray[np.int64], found: NDArray[np.int64]) -> None:
    if not np.array_equal(wanted, found):
        texts = {
            number: str(plain.filters[number])[:200] if number in plain else "?"
            for number in np.setxor1d(wanted, found)
        }
        missing = [texts[number] for number in np.setdiff1d(wanted, found)[:3]]
        wrong = [texts[number] for number in np.setdiff1d(found, wanted)[:3]]
        raise AssertionError(f"{event!r}: missing {missing}, wrong {wrong}, found {found[:9]} of {wanted[:9]}")


def assert_right(texts: Iterable[str], events: Sequence[Attributes]) -> None:
    """An index of these filters, made at once and one by one."""
    filters = [parse_filter(text) for text in texts]
    plain = ReferenceIndex(filters)
    assert_same_matches(FilterIndex(filters), plain, events)
    index = FilterIndex()
    for wanted in filters:
        index.add(wanted)
    assert_same_matches(index, plain, events)


def assert_nothing_left(index: FilterIndex) -> None:
    """An index from which all was removed is as good as new: every row that was ever in use is free again."""
    known = index.statistics()
    assert (known.filters, known.boxes, known.residuals, known.tokens, known.bins) == (0, 0, 0, 0, 1)
    assert not index.tests
    store = index.store
    assert store.nodes["parent"][ROOT] == NONE
    chains = {NODES: "left", BOXES: "link", LINKS: "next", PLACES: "next", TOKENS_USED: "child"}
    for table, chain in chains.items():
        free, row = set(), int(store.counts[FREE_ROWS + table])
        while row:
            assert row not in free, "a row was given back twice"
            free.add(row)
            row = int(store[table][chain][row - 1])
        assert len(free) == store.counts[table] - (table == NODES)
