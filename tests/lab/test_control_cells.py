"""The experiments with the coordinator."""

from itertools import product

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from overstory.control.deciding import Rules
from overstory.lab.control_cells import Candidate, cheapest_way, drive, first_plan, hour_of, reference, sizes
from overstory.lab.drifting_hours import DRIFT, SHAPES, STATIONARY, Hour, moved

amounts = st.integers(1, 50).map(float)


@st.composite
def candidates(draw: st.DrawFn) -> tuple[list[Candidate], int]:
    windows, count = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    found = []
    for at in range(count):
        first = 0 if at == 0 else draw(st.integers(0, windows - 1))
        costs, prices = (np.array(draw(st.lists(amounts, min_size=windows, max_size=windows))) for _ in range(2))
        costs[:first] = prices[:first] = np.inf
        found.append(Candidate(first, costs, prices))
    return found, windows


@given(candidates())
def test_the_reference_is_the_cheapest_of_all_ways(given_: tuple[list[Candidate], int]) -> None:
    every, windows = given_
    best = np.inf
    for way in product(range(len(every)), repeat=windows):
        total, at = 0.0, 0
        for window, now in enumerate(way):
            total += every[now].costs[window] + (every[now].prices[window] if now != at else 0.0)
            at = now
        best = min(best, total)
    found = cheapest_way(every, windows)
    assert found.total == best
    assert (found.changes > 0) == bool(found.applied)


def test_hours_have_the_shapes_that_they_are_named_by() -> None:
    for shape in SHAPES:
        shares = [moved(shape, window, 21) for window in range(21)]
        assert all(0 <= share <= 1 for share in shares)
        assert (max(shares) == 0) == (shape == STATIONARY)
    assert [moved("swing", window, 5) for window in range(5)] == [0, 0.25, 0.5, 0.25, 0]


def test_the_autopilot_lies_between_the_reference_and_what_it_is_allowed() -> None:
    with hour_of(sizes(True) | {"shape": DRIFT, "seed": 2, "events": 120, "windows": 2}) as hour:
        _between(hour)


def _between(hour: Hour) -> None:
    first, rules = first_plan(hour), Rules(price_of_message=hour.price_of_message)
    best, found = reference(hour, rules, first), drive(hour, rules, 1.0, first)
    assert best.total <= found.total * (1 + 1e-9)
    never = drive(hour, Rules(threshold=1.0), 1.0, first)
    assert never.total == drive(hour, rules, 1.0, first, replans=False).total
    assert not never.applied
    assert all(decision.reason for decision in found.decisions)
