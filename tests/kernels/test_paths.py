"""Cheapest paths and forests: those of the plain twins, of networkx, and of the law; and hashes of sets."""

import random
from collections import defaultdict

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory.kernels import paths, plain, sets
from overstory.kernels.forest import Forest
from overstory.kernels.nothing import NONE
from overstory.model.network import Network
from overstory.routing.law import steered_tree

Array = NDArray[np.int64]
Floats = NDArray[np.float64]
Links = dict[tuple[int, int], float]


def network_of(size: int, links: Links) -> Network:
    ends = np.array(sorted(links), np.int64).reshape(-1, 2)
    prices = np.array([links[u, v] for u, v in ends.tolist()], np.float64)
    return Network.between(np.arange(size), ends[:, 0], ends[:, 1], prices, prices)


def paths_by(function: object, network: Network, sources: list[int]) -> tuple[Floats, Array]:
    distances = np.empty((len(sources), len(network)))
    before = np.empty((len(sources), len(network)), np.int64)
    assert callable(function)
    function(network.offsets, network.targets, network.prices, np.array(sources, np.int64), distances, before)
    return distances, before


def random_links(dice: random.Random, size: int, prices: list[float], connected: bool) -> Links:
    pairs = [(i, dice.randrange(i)) for i in range(1, size)] if connected else []
    pairs += [(dice.randrange(size), dice.randrange(size)) for _ in range(dice.randint(0, 2 * size))]
    both = [link for u, v in pairs if u != v for link in ((u, v), (v, u))]
    return {link: dice.choice(prices) for link in both if connected or dice.random() < 0.6}


# Prices that often tie, with links for nothing, and prices that never do
TYING, APART = [0.0, 0.25, 0.25, 0.5, 0.5, 1.0], [1 + each / 1024 for each in range(500)]


@pytest.mark.parametrize("seed", range(60))
def test_cheapest_paths(seed: int) -> None:
    """As the twin's, and as cheap as networkx's."""
    dice = random.Random(seed)
    for _ in range(10):
        size = dice.randint(1, 14)
        links = random_links(dice, size, dice.choice([TYING, APART]), connected=dice.random() < 0.5)
        network, sources = network_of(size, links), dice.sample(range(size), dice.randint(0, size))
        distances, before = paths_by(paths.cheapest_paths, network, sources)
        for ours, theirs in zip((distances, before), paths_by(plain.cheapest_paths, network, sources), strict=True):
            assert ours.tolist() == theirs.tolist()
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(size))
        graph.add_weighted_edges_from((u, v, price) for (u, v), price in links.items())
        for row, source in enumerate(sources):
            expected = networkx.single_source_dijkstra_path_length(graph, source)
            assert distances[row].tolist() == [expected.get(each, np.inf) for each in range(size)]
            for broker in range(size):
                previous = int(before[row, broker])
                if previous == NONE:
                    assert broker == source or distances[row, broker] == np.inf
                else:
                    assert distances[row, previous] + links[previous, broker] == distances[row, broker]


@pytest.mark.parametrize("seed", range(60))
def test_of_several_cheapest_paths_the_one_of_the_law(seed: int) -> None:
    """Where positions are in the order of ids, the ways to all terminals are the law's steered tree."""
    dice = random.Random(seed)
    for _ in range(10):
        size = dice.randint(1, 12)
        ids = sorted(dice.sample(range(100), size))
        links = random_links(dice, size, TYING, connected=True)
        prices = {(ids[u], ids[v]): price for (u, v), price in links.items()}
        entry, terminals = dice.randrange(size), set(dice.sample(range(size), dice.randint(0, size)))
        _, before = paths_by(paths.cheapest_paths, network_of(size, links), [entry])
        expected = steered_tree(prices, ids[entry], {ids[each] for each in terminals})
        tree: dict[int, set[int]] = defaultdict(set)
        for broker in terminals:
            while broker != entry:
                previous = int(before[0, broker])
                tree[ids[previous]].add(ids[broker])
                tree[ids[broker]].add(ids[previous])
                broker = previous
        assert tree == expected


def test_links_that_no_money_buys() -> None:
    """Planners give links that they do not want an infinite price."""
    network = network_of(3, {(0, 1): np.inf, (1, 0): 1.0, (0, 2): 2.0, (2, 1): 3.0})
    distances, before = paths_by(paths.cheapest_paths, network, [0])
    assert distances.tolist() == [[0.0, 5.0, 2.0]]
    assert before.tolist() == [[NONE, 2, 0]]
    distances, before = paths_by(plain.cheapest_paths, network, [0])
    assert before.tolist() == [[NONE, 2, 0]]


def test_more_than_the_heap_begins_with() -> None:
    dice = random.Random(1)
    links = {(0, each): float(dice.randint(1, 1000)) for each in range(1, 400)}
    distances, _ = paths_by(paths.cheapest_paths, network_of(400, links), [0])
    assert distances[0, 1:].tolist() == [links[0, each] for each in range(1, 400)]


# Forests


def forest_arrays(size: int, links: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Offsets and neighbours, in any order."""
    both = sorted([*links, *((v, u) for u, v in links)], key=lambda link: link[0])
    ends = np.array(both, np.int64).reshape(-1, 2)
    return np.searchsorted(ends[:, 0], np.arange(size + 1)), ends[:, 1].copy()


def rooted(function: object, size: int, links: list[tuple[int, int]]) -> tuple[int, Array, Array]:
    parent, depth = np.full(size, 77), np.full(size, 77)
    assert callable(function)
    return function(*forest_arrays(size, links), parent, depth), parent, depth


@given(st.data())
def test_root_forest(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 10))
    pair = st.tuples(st.integers(0, max(size - 1, 0)), st.integers(0, max(size - 1, 0)))
    links = data.draw(st.lists(pair.filter(lambda link: link[0] != link[1]), max_size=12)) if size else []
    beyond, parent, depth = rooted(paths.root_forest, size, links)
    twin_beyond, twin_parent, twin_depth = rooted(plain.root_forest, size, links)
    assert (beyond, parent.tolist(), depth.tolist()) == (twin_beyond, twin_parent.tolist(), twin_depth.tolist())
    graph = networkx.MultiGraph(links)
    graph.add_nodes_from(range(size))
    pieces = list(networkx.connected_components(graph))
    assert beyond == len(links) - size + len(pieces)
    assert set(np.flatnonzero(parent == NONE).tolist()) == {min(piece) for piece in pieces}
    for piece in pieces:
        lengths = networkx.single_source_shortest_path_length(graph, min(piece))
        assert {node: int(depth[node]) for node in piece} == lengths


@given(st.lists(st.integers(-1, 10**6), max_size=30), st.randoms(use_true_random=False))
def test_forests_in_preorder(drawn: list[int], dice: random.Random) -> None:
    """Against sets of the nodes above and below each."""
    above = {node: each % node if node and each >= 0 else NONE for node, each in enumerate(drawn)}
    names = dice.sample(range(len(above)), len(above))  # so that parents do not always come first
    parent = np.full(len(above), NONE)
    for node, each in above.items():
        parent[names[node]] = names[each] if each != NONE else NONE
    ways = {node: way_up(parent, node) for node in range(len(parent))}
    forest = Forest(parent, np.array([len(ways[node]) - 1 for node in range(len(parent))], np.int64))
    assert sorted(forest.number.tolist()) == list(range(len(parent)))
    at = {int(number): node for node, number in enumerate(forest.number.tolist())}
    marks = np.array([dice.randint(-3, 3) for _ in range(len(parent))], np.int64)
    sums = forest.sums_below(marks)
    for node in range(len(parent)):
        below = {other for other, way in ways.items() if node in way}
        start = int(forest.number[node])
        assert {at[number] for number in range(start, start + int(forest.size[node]))} == below
        assert sums[node] == sum(marks[forest.number[other]] for other in below)
        same = np.array([other for other, way in ways.items() if way[-1] == ways[node][-1]], np.int64)
        found = forest.meeting(np.full(len(same), start), forest.number[same])
        for other, number in zip(same.tolist(), found.tolist(), strict=True):
            assert at[number] == next(each for each in ways[node] if each in ways[other])


def way_up(parent: Array, node: int) -> list[int]:
    way = [node]
    while parent[way[-1]] != NONE:
        way.append(int(parent[way[-1]]))
    return way


# Sets


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=6), max_size=12))
def test_hashes_of_sets(lists: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, lists)])
    values = np.array([value for each in lists for value in each], np.int64)
    found, twins = sets.hash_sets(offsets, values), plain.hash_sets(offsets, values)
    for ours, theirs in zip(found, twins, strict=True):
        assert (ours.dtype, ours.tolist()) == (theirs.dtype, theirs.tolist())
    by_hash = defaultdict(set)
    for pair, each in zip(zip(*(column.tolist() for column in found), strict=True), lists, strict=True):
        by_hash[pair].add(tuple(each))
    assert all(len(each) == 1 for each in by_hash.values())


@given(st.lists(st.lists(st.integers(-9, 9), max_size=6), max_size=6))
def test_lists_are_sorted_in_place(lists: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, lists)])
    ours = np.array([value for each in lists for value in each], np.int64)
    theirs = ours.copy()
    sets.sort_lists(offsets, ours)
    plain.sort_lists(offsets, theirs)
    assert ours.tolist() == theirs.tolist() == [value for each in lists for value in sorted(each)]


def test_many_sets_have_different_hashes() -> None:
    """Small ones of small numbers, as the reduced log has them."""
    dice = random.Random(4)
    lists = list({tuple(sorted(dice.sample(range(60), dice.randint(0, 5)))) for _ in range(20_000)})
    offsets = np.cumsum([0, *map(len, lists)])
    high, low = sets.hash_sets(offsets, np.array([value for each in lists for value in each], np.int64))
    assert len(set(high.tolist())) == len(set(low.tolist())) == len(lists)
    bits = (high[:, None].view(np.uint64) >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert all(0.45 < share < 0.55 for share in bits.mean(axis=0))
