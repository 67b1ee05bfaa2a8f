"""Steiner trees: those of the plain twin, trees that reach all, never below the bound, and close to the optimum."""

import csv
import random
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.errors import DataError, UsageError
from overstory.kernels import plain_steiner
from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import graph_of
from overstory.kernels.steiner import (
    BEST,
    EFFORTS,
    PLAN,
    ROUTE,
    Effort,
    Instances,
    Trees,
    distinct_instances,
    steiner_trees,
    trees_with,
)

from .test_ascent import (
    STEINLIB,
    Array,
    Graph,
    Wanted,
    as_arrays,
    bounds,
    drawn,
    graphs,
    optimum,
    read_steinlib,
    wanted,
)


def arrays_of(some: list[Wanted]) -> tuple[Array, Array, Array]:
    offsets = np.cumsum([0] + [len(each.terminals) for each in some])
    terminals = np.array([terminal for each in some for terminal in each.terminals], np.int64)
    return np.array([each.root for each in some], np.int64), offsets, terminals


def trees(graph: Graph, some: list[Wanted], effort: str = PLAN, seed: int = 0) -> Trees:
    known = as_arrays(graph)
    distances = distances_to(*known, np.arange(graph.size))
    return steiner_trees(graph_of(*known), distances, *arrays_of(some), effort, seed)


def started(graph: Graph, some: list[Wanted], starts: int) -> tuple[Trees, Trees]:
    """The best of so many starts, from the kernel and from its twin."""
    known = as_arrays(graph)
    network, distances = graph_of(*known), distances_to(*known, np.arange(graph.size))
    found = trees_with(Effort(starts, False, 0, 0, 0), network, distances, Instances(*arrays_of(some)))
    return found, plain_steiner.steiner_trees(network, distances, *arrays_of(some), starts)


def mutual(graph: Graph) -> Graph:
    return Graph(graph.size, graph.links + [(target, source, price) for source, target, price in graph.links])


any_graphs = graphs() | graphs().map(mutual)


def check_tree(graph: Graph, each: Wanted, links: list[int], cost: float) -> None:
    """It costs what its links cost."""
    check_shape(graph, each, links)
    assert cost == as_arrays(graph)[2][links].sum()


def optimum_of(graph: Graph, each: Wanted) -> float:
    """With prices that are no integers: in units so small that all are."""
    unit = 10.0**6
    exact = Graph(graph.size, [(source, target, round(price * unit)) for source, target, price in graph.links])
    return optimum(exact, *each) / unit


def check_shape(graph: Graph, each: Wanted, links: list[int]) -> None:
    """It grows from the root link by link, and every leaf is a terminal."""
    targets = as_arrays(graph)[1]
    sources = sorted(source for source, _, _ in graph.links)
    reached, inner = {each.root}, set()
    for link in links:
        assert sources[link] in reached
        assert targets[link] not in reached
        reached.add(int(targets[link]))
        inner.add(sources[link])
    assert reached >= set(each.terminals)
    assert reached - inner <= {each.root, *each.terminals}


def check_trees(graph: Graph, some: list[Wanted], found: Trees) -> None:
    for i, each in enumerate(some):
        check_tree(graph, each, found.links[found.offsets[i] : found.offsets[i + 1]].tolist(), found.costs[i])


@given(any_graphs, st.data(), st.integers(1, 6))
def test_starts_are_those_of_the_twin(graph: Graph, data: st.DataObject, starts: int) -> None:
    some = data.draw(st.lists(wanted(graph), max_size=4))
    found, plain = started(graph, some, starts)
    assert np.array_equal(found.costs, plain.costs)
    assert np.array_equal(found.offsets, plain.offsets)
    assert np.array_equal(found.links, plain.links)


@pytest.mark.parametrize("prices", [[1], [0, 1], [1, 2, 3], list(range(10**6, 2 * 10**6, 7))])
def test_larger_starts_are_those_of_the_twin(prices: list[int]) -> None:
    graph, some = drawn(7, 80, prices)
    found, plain = started(graph, some, 4)
    assert np.array_equal(found.costs, plain.costs)
    check_trees(graph, some, found)


@pytest.mark.parametrize("effort", EFFORTS)
@given(graph=any_graphs, data=st.data())
def test_trees_reach_all_and_cost_at_least_the_optimum(graph: Graph, data: st.DataObject, effort: str) -> None:
    some = data.draw(st.lists(wanted(graph), max_size=3))
    found = trees(graph, some, effort)
    check_trees(graph, some, found)
    for each, cost, bound in zip(some, found.costs.tolist(), bounds(graph, some), strict=True):
        assert bound <= optimum(graph, *each) <= cost


@given(graphs().map(mutual), st.data())
def test_mutual_prices(graph: Graph, data: st.DataObject) -> None:
    """No tree costs twice the optimum, and with up to three ends it is the optimum."""
    each = data.draw(wanted(graph))
    assert graph_of(*as_arrays(graph)).mutual
    best, (cost,) = optimum(graph, *each), trees(graph, [each]).costs
    assert cost <= 2 * best
    if len({each.root, *each.terminals}) <= 3:
        assert cost == best


@given(any_graphs, st.data())
def test_more_starts_never_cost_more(graph: Graph, data: st.DataObject) -> None:
    """One start is among as many as there are ends."""
    each = data.draw(wanted(graph))
    every = len({each.root, *each.terminals})
    assert started(graph, [each], every)[0].costs[0] <= started(graph, [each], 1)[0].costs[0]


@given(graphs(), st.data())
def test_the_tree_of_one_terminal_is_a_cheapest_way(graph: Graph, data: st.DataObject) -> None:
    each = data.draw(wanted(graph, most=1))
    assert trees(graph, [each]).costs[0] == optimum(graph, *each)


def test_prices_per_direction() -> None:
    around = Graph(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1), (1, 0, 9), (2, 1, 9), (3, 2, 9), (0, 3, 9)])
    found = trees(around, [Wanted(0, [3]), Wanted(3, [0]), Wanted(2, [1, 3])])
    assert found.costs.tolist() == [3, 1, 3]
    check_trees(around, [Wanted(0, [3]), Wanted(3, [0]), Wanted(2, [1, 3])], found)


def test_fractions_of_prices() -> None:
    graph, some = drawn(5, 60, [1, 3])
    offsets, targets, prices = as_arrays(graph)
    known = offsets, targets, prices / 3 + 0.1
    found = steiner_trees(graph_of(*known), distances_to(*known, np.arange(graph.size)), *arrays_of(some))
    for i in range(len(some)):
        assert np.isclose(found.costs[i], known[2][found.links[found.offsets[i] : found.offsets[i + 1]]].sum())


@pytest.mark.parametrize("effort", EFFORTS)
def test_nothing_to_reach_and_nowhere_to_go(effort: str) -> None:
    graph = Graph(3, [(0, 1, 4), (1, 0, 4)])
    found = trees(graph, [Wanted(1, []), Wanted(2, [2]), Wanted(0, [2]), Wanted(0, [1, 1, 0])], effort)
    assert found.costs.tolist() == [0, 0, np.inf, 4]
    assert found.offsets.tolist() == [0, 0, 0, 0, 1]
    assert trees(Graph(1, []), [], effort).links.tolist() == []


@given(graphs(), st.data())
def test_equal_instances_are_found(graph: Graph, data: st.DataObject) -> None:
    some = [Wanted(each.root, sorted(set(each.terminals))) for each in data.draw(st.lists(wanted(graph, most=2)))]
    some += [Wanted(each.root, each.terminals[::-1]) for each in some]
    found = distinct_instances(*arrays_of(some))
    keys = [(each.root, each.terminals if i < len(some) // 2 else each.terminals[::-1]) for i, each in enumerate(some)]
    ends = zip(found.roots.tolist(), pairwise(found.terminal_offsets.tolist()), strict=True)
    theirs = [(root, found.terminals[start:stop].tolist()) for root, (start, stop) in ends]
    assert [theirs[number] for number in found.which] == keys
    assert all(key not in theirs[:i] for i, key in enumerate(theirs))


def test_no_worse_than_networkx() -> None:
    graph, some = drawn(11, 120, [1])
    known = nx.Graph([(source, target, {"weight": price}) for source, target, price in graph.links])
    theirs = [
        nx.algorithms.approximation.steiner_tree(known, {root, *terminals}, method="mehlhorn").size("weight")
        for root, terminals in some
    ]
    assert trees(graph, some).costs.sum() <= sum(theirs)


@given(any_graphs, st.data())
def test_more_effort_never_costs_more_than_the_starts(graph: Graph, data: st.DataObject) -> None:
    some = data.draw(st.lists(wanted(graph, most=8), max_size=3))
    begun, routed = started(graph, some, 4)[0].costs, trees(graph, some, ROUTE).costs
    assert np.all(routed <= begun)
    assert np.all(trees(graph, some, PLAN).costs <= begun)
    assert np.all(trees(graph, some, BEST).costs <= begun)


@settings(max_examples=200)
@given(any_graphs, st.data())
def test_the_best_of_few_terminals_is_the_optimum(graph: Graph, data: st.DataObject) -> None:
    each = data.draw(wanted(graph, most=8))
    assert trees(graph, [each], BEST).costs[0] == optimum(graph, *each)


def many_ends(seed: int, prices: list[int]) -> tuple[Graph, list[Wanted]]:
    """More ends than the subset dynamic programme is given; prices are mutual."""
    dice = random.Random(seed)
    pairs = [(node, dice.randrange(node)) for node in range(1, 60)]
    pairs += [(dice.randrange(60), dice.randrange(60)) for _ in range(60)]
    links = []
    for one, other in pairs:
        price = dice.choice(prices)
        links += [(one, other, price), (other, one, price)]
    return Graph(60, links), [Wanted(dice.randrange(60), dice.sample(range(60), 20)) for _ in range(4)]


@pytest.mark.parametrize("prices", [[1], [1, 2, 3, 5, 8]])
@pytest.mark.parametrize("is_mutual", [True, False])
def test_the_pool(prices: list[int], is_mutual: bool) -> None:
    """The same seed gives the same trees, also for one instance alone; they are trees, and not below the bound."""
    graph, some = many_ends(3, prices) if is_mutual else drawn(7, 60, prices)
    if not is_mutual:
        some = [Wanted(some[0].root, list(range(0, 60, 3))), Wanted(1, list(range(1, 60, 3)))]
    found, again = trees(graph, some, BEST, seed=5), trees(graph, some, BEST, seed=5)
    for one, other in zip(found, again, strict=True):
        assert np.array_equal(one, other)
    alone = trees(graph, some[1:2], BEST, seed=5)
    assert alone.links.tolist() == found.links[found.offsets[1] : found.offsets[2]].tolist()
    check_trees(graph, some, found)
    assert np.all(found.costs >= bounds(graph, some))
    assert np.all(found.costs <= trees(graph, some, ROUTE).costs)
    assert found.costs.sum() <= trees(graph, some, PLAN).costs.sum()


@pytest.mark.parametrize("effort", EFFORTS)
@given(graph=any_graphs, data=st.data())
def test_prices_of_all_sizes(graph: Graph, data: st.DataObject, effort: str) -> None:
    """Twelve orders of magnitude between the dearest link and the cheapest."""
    offsets, targets, _ = as_arrays(graph)
    power = st.integers(-6, 6)
    mutually: dict[frozenset[int], float] = {}
    sources = np.repeat(np.arange(graph.size), np.diff(offsets))
    for pair in zip(sources.tolist(), targets.tolist(), strict=True):
        mutually.setdefault(frozenset(pair), 10.0 ** data.draw(power))
    prices = np.array([mutually[frozenset(pair)] for pair in zip(sources.tolist(), targets.tolist(), strict=True)])
    some = data.draw(st.lists(wanted(graph), min_size=1, max_size=2))
    known = offsets, targets, prices
    given_links = Graph(graph.size, list(zip(sources.tolist(), targets.tolist(), prices.tolist(), strict=True)))
    distances = distances_to(*known, np.arange(graph.size))
    found = steiner_trees(graph_of(*known), distances, *arrays_of(some), effort)
    for i, each in enumerate(some):
        links = found.links[found.offsets[i] : found.offsets[i + 1]].tolist()
        check_shape(given_links, each, links)
        least = optimum_of(given_links, each)
        assert np.isclose(found.costs[i], prices[links].sum(), rtol=1e-12)
        assert found.costs[i] >= least * (1 - 1e-12)
        if effort == BEST:
            assert np.isclose(found.costs[i], least, rtol=1e-6)  # tables of distances have short floats


def test_what_is_wrong_has_a_name() -> None:
    graph = Graph(3, [(0, 1, 4), (1, 0, 4)])
    known = as_arrays(graph)
    distances, ends = distances_to(*known, np.array([0, 1])), (np.array([0]), np.array([0, 1]))
    with pytest.raises(UsageError, match="effort=luck: it is one of route, plan, best"):
        steiner_trees(graph_of(*known), distances, *ends, np.array([1]), "luck")
    for stranger in (2, 3, -1):
        with pytest.raises(DataError, match="no goal of the table"):
            steiner_trees(graph_of(*known), distances, *ends, np.array([stranger]))
    for price in (-1.0, np.nan, np.inf):
        with pytest.raises(DataError, match="link 1 costs"):
            graph_of(*known[:2], np.array([1.0, price]))


@pytest.mark.skipif(not STEINLIB.exists(), reason="SteinLib is not beside the project")
@pytest.mark.parametrize(
    ("series", "effort", "close", "worst"),
    [("B", ROUTE, 1.007, 1.06), ("C", ROUTE, 1.015, 1.065), ("B", PLAN, 1.0005, 1.02), ("C", PLAN, 1.002, 1.02)],
)
def test_steinlib(series: str, effort: str, close: float, worst: float) -> None:
    with (STEINLIB / "optima.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == series]
    ratios = []
    for row in rows:
        graph, terminals = read_steinlib(STEINLIB / series / row["filename"])
        each = Wanted(terminals[0], terminals)
        found = trees(graph, [each], effort)
        check_trees(graph, [each], found)
        assert found.costs[0] >= int(row["opt"])
        ratios.append(found.costs[0] / int(row["opt"]))
    assert np.mean(ratios) < close
    assert max(ratios) < worst
