"""Tables of distances: what scipy finds, and ways that cost as much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from overstory.kernels.distances import Distances, distances_to

from .test_ascent import Graph, as_arrays, distances_in, drawn, graphs

Floats = NDArray[np.float64]


def table(known: Distances) -> Floats:
    """As floats, infinite where there is no way."""
    kind = known.far.dtype
    found = known.far.astype(np.float64)
    if kind.kind != "f":
        found[known.far == np.iinfo(kind).max] = np.inf
    return found


def walked(graph: Graph, known: Distances, prices: Floats, node: int, goal: int) -> float:
    offsets, targets, _ = as_arrays(graph)
    total, steps = 0.0, 0
    while node != goal:
        link = offsets[node] + known.first[known.row_of[goal], node]
        total += prices[link]
        node = int(targets[link])
        steps += 1
        assert steps < graph.size
    return total


@given(graphs(), st.data())
def test_ways_cost_what_the_table_says(graph: Graph, data: st.DataObject) -> None:
    offsets, targets, prices = as_arrays(graph)
    goals = np.array(data.draw(st.lists(st.integers(0, graph.size - 1), unique=True)), np.int64)
    known = distances_to(offsets, targets, prices, goals)
    assert np.array_equal(known.far, distances_in(graph).T[goals])
    for goal in goals.tolist():
        for node in range(graph.size):
            assert walked(graph, known, prices.astype(float), node, goal) == known.far[known.row_of[goal], node]


@pytest.mark.parametrize(
    ("prices", "kind"),
    [([1], np.uint8), ([1, 2], np.uint8), ([100, 70], np.uint16), ([20_000, 1], np.int32), ([0.25, 3.5], np.float32)],
)
def test_tables_are_as_narrow_as_they_can_be(prices: list[float], kind: type) -> None:
    graph, _ = drawn(1, 150, [1])
    offsets, targets, _ = as_arrays(graph)
    paid = np.random.default_rng(1).choice(prices, len(targets)).astype(float)
    known = distances_to(offsets, targets, paid, np.arange(graph.size))
    assert known.far.dtype == kind
    matrix = np.full((graph.size, graph.size), np.inf)
    np.minimum.at(matrix, (np.repeat(np.arange(graph.size), np.diff(offsets)), targets), paid)
    assert np.allclose(table(known), dijkstra(np.where(np.isinf(matrix), 0, matrix)).T)
    assert np.isclose(walked(graph, known, paid, 3, 140), known.far[140, 3])


def test_long_ways_do_not_fit_into_a_byte() -> None:
    size = 400
    line = Graph(size, [(node, node + 1, 1) for node in range(size - 1)])
    known = distances_to(*as_arrays(line), np.array([size - 1, 0]))
    assert known.far.dtype == np.int32
    assert known.far[0].tolist() == list(range(size - 1, -1, -1))
    assert np.isinf(table(known)[1, 1:]).all()


def test_where_there_is_no_way() -> None:
    for price in (1, 5):
        known = distances_to(*as_arrays(Graph(3, [(0, 1, price)])), np.arange(3))
        assert np.array_equal(table(known), [[0, np.inf, np.inf], [price, 0, np.inf], [np.inf, np.inf, 0]])


def test_many_links_of_one_broker() -> None:
    size = 400
    star = Graph(size, [link for node in range(1, size) for link in ((0, node, 1), (node, 0, 1))])
    known = distances_to(*as_arrays(star), np.arange(size))
    offsets, targets, _ = as_arrays(star)
    ones = csr_array((np.ones(len(targets)), targets, offsets), shape=(size, size))
    assert np.array_equal(known.far, dijkstra(ones))
    assert walked(star, known, np.ones(len(targets)), 1, size - 1) == 2
