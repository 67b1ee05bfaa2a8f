"""Laws of all efforts on networks with long ways, with terminals out of reach, and where all links cost the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.steiner import BEST, EFFORTS, PLAN

from .test_ascent import Graph, Wanted, optimum
from .test_steiner import check_tree, many_ends, trees
from .test_steiner_moves import networks

OUT_OF_REACH = 10**16  # what ``optimum`` says costs more


@st.composite
def instances(draw: st.DrawFn) -> tuple[Graph, Wanted]:
    """Up to eight terminals, some of them twice; sometimes there are nodes that nothing leads to."""
    graph = draw(networks(draw(st.booleans())))
    size = graph.size + draw(st.sampled_from([0, 0, 0, 2]))
    node = st.integers(0, size - 1)
    terminals = draw(st.lists(node, max_size=8))
    return Graph(size, graph.links), Wanted(draw(node), terminals + terminals[:2])


@pytest.mark.parametrize("effort", EFFORTS)
@settings(max_examples=60)
@given(drawn=instances())
def test_no_tree_is_below_the_subset_dynamic_programme(drawn: tuple[Graph, Wanted], effort: str) -> None:
    """Trees that cannot be cost infinitely much, and the best is the optimum."""
    graph, each = drawn
    found = trees(graph, [each], effort)
    least = optimum(graph, *each)
    if least > OUT_OF_REACH:
        assert (found.costs[0], len(found.links)) == (np.inf, 0)
        return
    check_tree(graph, each, found.links.tolist(), found.costs[0])
    assert found.costs[0] >= least
    if effort == BEST:
        assert found.costs[0] == least


@pytest.mark.parametrize("prices", [[1], [1, 2, 3, 5, 8], [0, 1, 10**6]])
def test_the_best_of_larger_networks_is_the_optimum(prices: list[int]) -> None:
    """In 99 of 100 at least; here in all."""
    for seed in range(8):
        graph, some = many_ends(seed, prices)
        few = [Wanted(each.root, each.terminals[:6]) for each in some]
        planned, best = trees(graph, few, PLAN).costs, trees(graph, few, BEST).costs
        optima = [optimum(graph, *each) for each in few]
        assert best.tolist() == optima
        assert np.all(planned >= optima)


def hypercube(dimension: int) -> tuple[Graph, Wanted]:
    """Every second corner is a terminal, so that each is two links from the next (SteinLib's hc)."""
    size = 1 << dimension
    links = [(node, node ^ 1 << bit, 1) for node in range(size) for bit in range(dimension)]
    return Graph(size, links), Wanted(0, [node for node in range(size) if node.bit_count() % 2 == 0])


@pytest.mark.parametrize(("dimension", "known", "most"), [(6, 39, 1.03), (7, 77, 1.06), (8, 148, 1.07), (9, 292, 1.08)])
def test_hypercubes(dimension: int, known: int, most: float) -> None:
    """Close to the best trees that are known, where no single vertex gains."""
    graph, each = hypercube(dimension)
    found = trees(graph, [each], PLAN)
    check_tree(graph, each, found.links.tolist(), found.costs[0])
    assert known <= found.costs[0] <= most * known
