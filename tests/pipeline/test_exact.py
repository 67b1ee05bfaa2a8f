"""Exact sums: those of Python's integers and fractions, and rounded once, in the direction that was asked for."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import DataError
from overstory.pipeline import exact

COUNT = st.integers(0, 2**63 - 1)
PRICE = st.floats(0, 1e300) | st.sampled_from([0.0, 5e-324, 9e-11, 0.1, 2e6, 1e300])


@given(st.lists(st.tuples(COUNT, COUNT), max_size=6))
def test_products_are_summed_without_wrapping(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, np.int64).reshape(-1, 2).T
    assert exact.dot(one, other) == sum(a * b for a, b in pairs)


def test_sums_of_many_products_do_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    most = np.full(5, 2**63 - 1)
    monkeypatch.setattr(exact, "BLOCK", 2)
    assert exact.dot(most, most) == 5 * (2**63 - 1) ** 2
    assert (1 << 2 * exact.LIMB) * 2**20 < 2**63


@given(st.lists(st.tuples(COUNT, PRICE), max_size=6))
def test_prices_are_taken_for_the_fractions_that_they_are(pairs: list[tuple[int, float]]) -> None:
    counts = np.array([count for count, _ in pairs], np.int64)
    prices = np.array([price for _, price in pairs], np.float64)
    assert exact.priced(counts, prices) == sum((count * Fraction(price) for count, price in pairs), Fraction(0))


@given(st.fractions(0, 10**30) | st.fractions(0, 1) | PRICE.map(Fraction))
def test_costs_are_rounded_to_the_nearest_and_bounds_down(value: Fraction) -> None:
    below = exact.rounded_down(value)
    assert Fraction(below) <= value < Fraction(math.nextafter(below, math.inf))
    assert exact.rounded(value) in (below, math.nextafter(below, math.inf))
    assert abs(Fraction(exact.rounded(value)) - value) <= value - Fraction(below)


def test_what_no_number_can_hold_is_refused() -> None:
    with pytest.raises(DataError, match="state prices in a larger unit"):
        exact.rounded(Fraction(10) ** 400)
    with pytest.raises(DataError, match="state prices in a larger unit"):
        exact.priced(np.array([1]), np.array([math.inf]))
