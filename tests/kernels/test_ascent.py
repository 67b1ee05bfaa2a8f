"""Bounds: those of the plain twins, never above the cheapest tree, and close to it."""

import csv
import random
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory.kernels import ascent, plain

Array = NDArray[np.int64]
Links = list[tuple[int, int, int]]  # source, target, price
STEINLIB = Path(__file__).parents[2].parent / "shared" / "data" / "steinlib"


class Graph(NamedTuple):
    size: int
    links: Links


class Wanted(NamedTuple):
    root: int
    terminals: list[int]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Circles, so that every node is reached, with links across; also from a node to itself, and the same twice."""
    size = draw(st.integers(1, 9))
    node, price = st.integers(0, size - 1), st.sampled_from([0, 0, 1, 1, 2, 3, 7, 50])
    around = draw(st.permutations(range(size)))
    links = [(source, target, draw(price)) for source, target in zip(around, around[1:] + around[:1], strict=True)]
    return Graph(size, links + draw(st.lists(st.tuples(node, node, price), max_size=24)))


def wanted(graph: Graph, most: int = 5) -> st.SearchStrategy[Wanted]:
    node = st.integers(0, graph.size - 1)
    return st.builds(Wanted, node, st.lists(node, max_size=most))


def drawn(seed: int, size: int, prices: list[int]) -> tuple[Graph, list[Wanted]]:
    """A larger graph, with links in either direction at prices of their own."""
    dice = random.Random(seed)
    pairs = [(node, dice.randrange(node)) for node in range(1, size)]
    pairs += [(dice.randrange(size), dice.randrange(size)) for _ in range(size // 2)]
    links = [(a, b, dice.choice(prices)) for pair in pairs for a, b in (pair, pair[::-1])]
    some = [Wanted(dice.randrange(size), dice.choices(range(size), k=dice.randint(0, 12))) for _ in range(25)]
    return Graph(size, links), some


def as_arrays(graph: Graph) -> tuple[Array, Array, Array]:
    """Offsets by node, targets and prices."""
    links = np.array(sorted(graph.links), np.int64).reshape(-1, 3)
    offsets = np.searchsorted(links[:, 0], np.arange(graph.size + 1))
    return offsets, links[:, 1].copy(), links[:, 2].copy()


def bounds_by(function: object, *known: Array, some: list[Wanted]) -> list[int]:
    """Those that stand beside each other and have the same terminals, in the same order, share a set."""
    sets = [(list(terminals), list(group)) for terminals, group in groupby(some, lambda each: each.terminals)]
    offsets = np.cumsum([0] + [len(terminals) for terminals, _ in sets])
    terminals = np.array([terminal for terminals, _ in sets for terminal in terminals], np.int64)
    root_offsets = np.cumsum([0] + [len(group) for _, group in sets])
    out = np.full(len(some), -1, np.int64)
    assert callable(function)
    function(*known, offsets, terminals, root_offsets, np.array([each.root for each in some], np.int64), out)
    return out.tolist()


def bounds(graph: Graph, some: list[Wanted]) -> list[int]:
    return bounds_by(ascent.ascent_bounds, *as_arrays(graph), some=some)


def distances_in(graph: Graph) -> Array:
    """Floyd and Warshall."""
    far = np.full((graph.size, graph.size), 10**17)
    np.fill_diagonal(far, 0)
    for source, target, price in graph.links:
        far[source, target] = min(far[source, target], price)
    for node in range(graph.size):
        far = np.minimum(far, far[:, node, None] + far[None, node, :])
    return far


def optimum(graph: Graph, root: int, terminals: list[int]) -> int:
    """Dreyfus and Wagner: the cheapest tree from each node to each set of terminals, from smaller sets to larger."""
    far = distances_in(graph)
    ends = sorted(set(terminals))
    cheapest = np.zeros((1 << len(ends), graph.size), np.int64)
    for group in range(1, 1 << len(ends)):
        if group.bit_count() == 1:
            cheapest[group] = far[:, ends[group.bit_length() - 1]]
            continue
        parts = [part for part in range(1, group) if part & group == part]
        parted = np.min([cheapest[part] + cheapest[group ^ part] for part in parts], axis=0)
        cheapest[group] = np.min(far + parted, axis=1)
    return int(cheapest[-1, root])


# Twins


@given(st.data())
def test_bounds_are_those_of_the_twin(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    some = data.draw(st.lists(wanted(graph), max_size=4))
    assert bounds(graph, some) == bounds_by(plain.ascent_bounds, *as_arrays(graph), some=some)


@pytest.mark.parametrize("prices", [[1], [0, 1], [1, 2, 3], list(range(10**6, 2 * 10**6, 7))])
@pytest.mark.parametrize("size", [30, 120])
def test_bounds_in_larger_graphs_are_those_of_the_twin(size: int, prices: list[int]) -> None:
    graph, some = drawn(size, size, prices)
    assert bounds(graph, some) == bounds_by(plain.ascent_bounds, *as_arrays(graph), some=some)


@given(st.data())
def test_roots_that_share_terminals_get_the_bounds_that_each_would_get_alone(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    node = st.integers(0, graph.size - 1)
    some = []
    for _ in range(data.draw(st.integers(1, 3))):
        terminals = data.draw(st.lists(node, max_size=5))
        some += [Wanted(root, terminals) for root in data.draw(st.lists(node, max_size=6))]
    found = bounds(graph, some)
    assert found == [bounds(graph, [each])[0] for each in some]
    assert found == bounds_by(plain.ascent_bounds, *as_arrays(graph), some=some)


@pytest.mark.parametrize("prices", [[1], [0, 1], [1, 2, 3], list(range(10**6, 2 * 10**6, 7))])
def test_roots_share_terminals_in_larger_graphs(prices: list[int]) -> None:
    graph, some = drawn(7, 120, prices)
    shared = [Wanted(root, each.terminals) for each in some[:5] for root in range(graph.size)]
    assert bounds(graph, shared) == [bounds(graph, [each])[0] for each in shared]
    assert bounds(graph, shared)[::17] == bounds_by(plain.ascent_bounds, *as_arrays(graph), some=shared[::17])


@given(st.data())
def test_farthest_bounds_are_those_of_the_twin(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    root = data.draw(st.integers(0, graph.size - 1))
    sets = data.draw(st.lists(st.lists(st.integers(0, graph.size - 1), max_size=5), max_size=4))
    offsets = np.cumsum([0] + [len(each) for each in sets])
    terminals = np.array([node for each in sets for node in each], np.int64)
    known = distances_in(graph)[root], offsets, terminals, np.arange(len(sets)), np.arange(len(sets))[::-1].copy()
    out, twins = np.full((2, len(sets)), -1, np.int64)
    ascent.farthest_bounds(*known, out)
    plain.farthest_bounds(*known, twins)
    assert out.tolist() == twins.tolist()
    assert all(bound <= optimum(graph, root, each) for bound, each in zip(out[::-1].tolist(), sets, strict=True))


# Laws


@given(st.data())
def test_no_tree_is_cheaper(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    each = data.draw(wanted(graph))
    assert 0 <= bounds(graph, [each])[0] <= optimum(graph, *each)


def test_most_bounds_are_the_optimum() -> None:
    graph, some = drawn(1, 60, [1, 2, 3, 5])
    some = [Wanted(root, terminals[:6]) for root, terminals in some]
    found, best = bounds(graph, some), [optimum(graph, *each) for each in some]
    assert all(bound <= cost for bound, cost in zip(found, best, strict=True))
    assert np.mean(np.equal(found, best)) > 0.8


@given(st.data())
def test_the_bound_of_one_terminal_is_its_distance(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    root, terminal = data.draw(st.tuples(*[st.integers(0, graph.size - 1)] * 2))
    assert bounds(graph, [Wanted(root, [terminal])]) == [distances_in(graph)[root, terminal]]


@given(st.data())
def test_order_and_repetition_are_of_no_account(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    root, terminals = data.draw(wanted(graph))
    again = data.draw(st.permutations([*terminals, *terminals, root]))
    first, second = bounds(graph, [Wanted(root, terminals), Wanted(root, again)])
    assert first == second


@given(st.data())
def test_bounds_in_a_tree_are_exact(data: st.DataObject) -> None:
    """There each cut has one link of the only solution."""
    size = data.draw(st.integers(2, 40))
    parents = [data.draw(st.integers(0, node - 1)) for node in range(1, size)]
    links: Links = []
    for node, parent in enumerate(parents, 1):
        up, down = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
        links += [(node, parent, up), (parent, node, down)]
    price = {(source, target): cost for source, target, cost in links}
    terminals = data.draw(st.lists(st.integers(0, size - 1), max_size=8))
    used = set()
    for terminal in terminals:
        way = [terminal]
        while way[-1]:
            way.append(parents[way[-1] - 1])
        used |= {(above, below) for below, above in pairwise(way)}
    assert bounds(Graph(size, links), [Wanted(0, terminals)]) == [sum(price[link] for link in used)]


def test_nothing_to_reach_costs_nothing() -> None:
    graph = Graph(3, [(0, 1, 4), (1, 2, 4), (2, 0, 4)])
    assert bounds(graph, [Wanted(1, []), Wanted(2, [2]), Wanted(0, [0, 0])]) == [0, 0, 0]
    assert bounds(graph, []) == []
    assert bounds(Graph(1, []), [Wanted(0, [0])]) == [0]


def test_links_without_a_price() -> None:
    graph, some = drawn(3, 40, [0])
    assert bounds(graph, some) == [0] * len(some)
    free_way = Graph(4, [(0, 1, 0), (1, 2, 6), (0, 3, 1), (3, 2, 4), (2, 3, 0)])
    assert bounds(free_way, [Wanted(0, [1]), Wanted(0, [2]), Wanted(0, [1, 2, 3]), Wanted(1, [3])]) == [0, 5, 5, 6]


def test_large_prices_are_added_exactly() -> None:
    price = 2**59 + 1
    graph = Graph(4, [(0, 1, price), (1, 2, price), (1, 3, price)])
    assert bounds(graph, [Wanted(0, [2, 3])]) == [3 * price]


def test_a_terminal_in_the_way_is_paid_once() -> None:
    graph = Graph(4, [(0, 1, 5), (1, 2, 5), (2, 3, 5)])
    assert bounds(graph, [Wanted(0, [1, 2, 3]), Wanted(0, [3]), Wanted(1, [3, 2])]) == [15, 15, 10]


# Instances with known optima


def read_steinlib(path: Path) -> tuple[Graph, list[int]]:
    size, links, terminals = 0, [], []
    for line in path.read_text().splitlines():
        match line.split():
            case ["Nodes", count]:
                size = int(count)
            case ["E", one, other, price]:
                a, b = int(one) - 1, int(other) - 1
                links += [(a, b, int(price)), (b, a, int(price))]
            case ["T", node]:
                terminals.append(int(node) - 1)
    return Graph(size, links), terminals


@pytest.mark.skipif(not STEINLIB.exists(), reason="SteinLib is not beside the project")
@pytest.mark.parametrize(("series", "close"), [("B", 0.995), ("C", 0.985)])
def test_steinlib(series: str, close: float) -> None:
    with (STEINLIB / "optima.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == series]
    assert len(rows) >= 18
    shares = []
    for row in rows:
        graph, terminals = read_steinlib(STEINLIB / series / row["filename"])
        found = bounds(graph, [Wanted(root, terminals) for root in terminals[:5]])
        assert max(found) <= int(row["opt"])
        shares.append(np.mean(found) / int(row["opt"]))
    assert np.mean(shares) > close
