"""Tables that are repaired after links went down are those that are made anew without these links."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.distances import distances_to
from overstory.kernels.steiner_router import Router, prepare, without


def network(dice: random.Random, size: int, prices: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random network, priced per direction, as links by source and target."""
    pairs = {(dice.randrange(broker), broker) for broker in range(1, size)}
    pairs |= {tuple(sorted(dice.sample(range(size), 2))) for _ in range(size)}  # type: ignore[misc]
    links = sorted(link for u, v in pairs for link in ((u, v), (v, u)))
    offsets = np.searchsorted([u for u, _ in links], np.arange(size + 1))
    return offsets, np.array([v for _, v in links]), np.array([dice.choice(prices) for _ in links], float)


@pytest.mark.parametrize("prices", [[1.0], [1.0, 2.0, 5.0], [0.0, 1.0, 3.0], [0.5, 1.25, 7.125], [1.0, 400.0]])
@given(seed=st.integers(0, 10**9), size=st.integers(2, 30), cut=st.integers(1, 6))
def test_a_repaired_table_is_that_of_the_network_that_is_left(
    prices: list[float], seed: int, size: int, cut: int
) -> None:
    dice = random.Random(seed)
    known = network(dice, size, prices)
    down = np.zeros(len(known[1]), bool)
    down[dice.sample(range(len(down)), min(cut, len(down)))] = True
    table = distances_to(*known, np.arange(size))
    before = table.far.copy(), table.first.copy()
    repaired, anew = without(*known, table, down), prepare(*known, down)
    for ways in (repaired, anew):
        assert ways.names.tolist() == np.flatnonzero(~down).tolist()
    far = [np.where(w.distances.far == w.no_way, np.inf, w.distances.far.astype(float)) for w in (repaired, anew)]
    assert np.array_equal(far[0], far[1])
    reached = np.isfinite(far[0]) & ~np.eye(size, dtype=bool)
    if 0.0 not in prices:  # where links are free, equal ways may be told apart by the order in which they were found
        assert np.array_equal(repaired.distances.first[reached], anew.distances.first[reached])
    check_ways(repaired, far[0], reached)
    assert np.array_equal(table.far, before[0])
    assert np.array_equal(table.first, before[1])
    ends = np.array(sorted(dice.sample(range(size), min(size, 4))))
    one, other = (Router(ways).tree(int(ends[0]), ends[1:]) for ways in (repaired, anew))
    assert one.lost.tolist() == other.lost.tolist()


def check_ways(ways, far, reached) -> None:  # type: ignore[no-untyped-def]
    """Each first link leads nearer to its goal by its price, and no way goes in a circle."""
    graph, first = ways.graph, ways.distances.first
    for goal, broker in np.argwhere(reached):
        here, steps, paid = broker, 0, 0.0
        while here != goal:
            link = graph.offsets[here] + first[goal, here]
            paid, here, steps = paid + graph.prices[link], graph.targets[link], steps + 1
            assert steps <= len(far)
        assert paid == far[goal, broker]
