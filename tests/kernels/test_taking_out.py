"""Which ways of taking subscribers out are drawn: those that save most for their work, and every other one at times."""

import numpy as np
import pytest

from overstory.kernels.compiling import kernel
from overstory.kernels.taking_out import WAYS, Ways, drawn_way, learn, ways_for

WORK = 150.0


@kernel
def _drawn(ways: Ways, times: int, best: int, seed: int) -> np.ndarray:
    """How often each way is drawn. Only the best one saves anything, and only if there is one."""
    np.random.seed(seed)
    found = np.zeros(WAYS, np.int64)
    for _ in range(times):
        way = drawn_way(ways)
        found[way] += 1
        learn(ways, way, 1.0 if way == best else 0.0, WORK)
    return found


def test_the_way_that_saves_is_drawn_most_and_none_is_forgotten() -> None:
    found = _drawn(ways_for(1e6), 10_000, 2, 1)
    assert found.argmax() == 2
    assert found[2] > 5_000
    assert found.min() > 0


@pytest.mark.parametrize("cost", [0.0, 1.0, 1e12])
def test_all_ways_are_drawn_alike_where_nothing_is_saved_however_long(cost: float) -> None:
    ways = ways_for(cost)
    _drawn(ways, 1_000_000, -1, 1)
    found = _drawn(ways, 7_000, -1, 2)
    assert found.min() > 500
    assert found.max() < 1_500
