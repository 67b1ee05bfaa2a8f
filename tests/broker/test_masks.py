"""The flows of copies as bits: what each event's matching entries say, whether one flow has all of them or several."""

from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from overstory.broker.fast import Fast

SLOTS, FLOWS = 5, [-1, 3, 7]
entries = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, len(FLOWS) - 1)), min_size=1, max_size=6)


@given(st.lists(entries, min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=8), st.booleans())
def test_masks_have_the_flows_of_all_entries_that_match(
    by_kind: list[list[tuple[int, int]]], events: list[int], is_one: bool
) -> None:
    """``by_kind`` has the slots and flows of the entries that match events of a kind."""
    by_kind = [[(slot, 1 if is_one else flow) for slot, flow in found] for found in by_kind]
    kinds = np.array([event % len(by_kind) for event in events])
    rows = np.array([entry for found in by_kind for entry in found])
    offsets = np.cumsum([0, *map(len, by_kind)])
    matching = kinds, offsets, np.arange(len(rows))
    decision = SimpleNamespace(flows=FLOWS, matching=matching, ways_of=lambda numbers: tuple(rows[numbers].T))
    fast = Fast.__new__(Fast)
    fast.state = cast(Any, SimpleNamespace(slots=SimpleNamespace(rows=range(SLOTS))))
    pairs = [(event, slot) for event, kind in enumerate(kinds.tolist()) for slot in sorted(dict(by_kind[kind]))]
    found = fast._masks(cast(Any, decision), *np.array(pairs).T)
    assert found.tolist() == [
        sum(1 << flow for flow in {flow for other, flow in by_kind[kinds[event]] if other == slot})
        for event, slot in pairs
    ]
