"""The boxes that are worth most beyond their cost, against trying all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.worthiest import worthiest
from tests.kernels.test_assigning import boxes, plain_weight, sums_of


@given(boxes(most=8), st.lists(st.integers(1, 40), min_size=8, max_size=8), st.integers(0, 5), st.integers(0, 3))
def test_for_each_left_end_the_box_that_is_worth_most(
    some: np.ndarray, worths: list[int], seed: int, least: int
) -> None:
    sums, worth = sums_of(seed), np.array(worths[: len(some)], float)
    found, gains = worthiest(sums, 0.5, some, worth, float(least))
    expected = {}
    for low_x in np.unique(some[:, 0]):
        best = max(
            gain_of(sums, some, worth, np.array([low_x, high_x, low_y, high_y]))
            for high_x in range(low_x + 1, 10)
            for low_y in range(9)
            for high_y in range(low_y + 1, 10)
        )
        if best > least:
            expected[int(low_x)] = best
    assert dict(zip(found[:, 0].tolist(), gains.tolist(), strict=True)) == expected
    for box, gain in zip(found, gains, strict=True):
        assert gain_of(sums, some, worth, box) == gain


def gain_of(sums: np.ndarray, some: np.ndarray, worth: np.ndarray, box: np.ndarray) -> float:
    inside = (some[:, 0::2] >= box[0::2]).all(axis=1) & (some[:, 1::2] <= box[1::2]).all(axis=1)
    return float(worth[inside].sum() - 0.5 * plain_weight(sums, box[None]))
