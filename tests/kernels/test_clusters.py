"""Costs on trees, instances, united clusters and low-stretch trees, against plain twins and the paper's inequality."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import clusters, instances, low_stretch, plain_clusters, tree_cost
from overstory.kernels.attach import attach_rest
from overstory.kernels.compiling import Array
from overstory.kernels.distances import distances_to
from overstory.kernels.steiner import graph_of, steiner_trees

PRICES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 3.0, 40.0])
Pairs = list[tuple[int, int]]


def ints(values: Any) -> Array:
    return np.array(list(values), np.int64)


def lists_of(drawn: list[list[int]]) -> tuple[Array, Array]:
    return np.cumsum([0, *map(len, drawn)]), ints(value for each in drawn for value in each)


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> tuple[Array, Array, Array]:
    """Parents under shuffled names, and prices down and up."""
    size = draw(st.integers(1, most))
    names = draw(st.permutations(range(size)))
    parent = np.full(size, -1)
    for node in range(1, size):
        parent[names[node]] = names[draw(st.integers(0, node - 1))]
    down, up = (np.array(draw(st.lists(PRICES, min_size=size, max_size=size))) for _ in range(2))
    return parent, down, up


@given(st.data())
def test_costs_on_a_tree(data: st.DataObject) -> None:
    tree = data.draw(trees())
    broker = st.integers(0, len(tree[0]) - 1)
    drawn = data.draw(st.lists(st.tuples(broker, st.lists(broker, max_size=5)), max_size=5))
    roots = ints(root for root, _ in drawn)
    costs, twins = np.empty(len(drawn)), np.empty(len(drawn))
    for function, out in ((tree_cost.tree_costs, costs), (plain_clusters.tree_costs, twins)):
        function(*tree, roots, *lists_of([each for _, each in drawn]), out)
    assert costs.tolist() == twins.tolist()


@given(st.data())
def test_traffic_on_a_tree(data: st.DataObject) -> None:
    """Traffic times price is cost, if a link has one price for both ways."""
    parent, price, _ = data.draw(trees())
    price[parent < 0] = 0
    broker = st.integers(0, len(parent) - 1)
    drawn = data.draw(st.lists(st.tuples(broker, st.lists(broker, max_size=5)), max_size=5))
    roots, weights = ints(root for root, _ in drawn), np.arange(1.0, len(drawn) + 1)
    ends = lists_of([each for _, each in drawn])
    costs, traffic = np.empty(len(drawn)), np.zeros(len(parent))
    plain_clusters.tree_costs(parent, price, price, roots, *ends, costs)
    tree_cost.tree_traffic(parent, roots, *ends, weights, traffic)
    assert np.isclose((traffic * price).sum(), (costs * weights).sum())


@given(st.data())
def test_instances(data: st.DataObject) -> None:
    size, groups = data.draw(st.integers(0, 8)), data.draw(st.integers(1, 3))
    brokers, group = (
        ints(data.draw(st.lists(st.integers(0, most), min_size=size, max_size=size))) for most in (3, groups - 1)
    )
    items = st.lists(st.integers(0, size - 1), unique=True, max_size=size).map(sorted) if size else st.just([])
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 3), items), max_size=6))
    arguments = ints(root for root, _ in drawn), *lists_of([each for _, each in drawn]), brokers, group, groups
    found, twins = instances.instances_of(*arguments), plain_clusters.instances_of(*arguments)
    assert [each.tolist() for each in found] == [each.tolist() for each in twins]


@st.composite
def some_instances(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    terminals = st.sets(st.integers(0, 6), min_size=1, max_size=4).map(sorted)
    drawn = draw(st.dictionaries(st.integers(0, 6), terminals, max_size=5))
    return ints(sorted(drawn)), *lists_of([drawn[row] for row in sorted(drawn)])


@given(some_instances(), some_instances())
def test_united_clusters(one: tuple[Array, ...], other: tuple[Array, ...]) -> None:
    found, twins = clusters.unite(*one, *other), plain_clusters.unite(*one, *other)
    assert [each.tolist() for each in found] == [each.tolist() for each in twins]
    origin, place = found[3], found[4]
    trees = [[(where, at, turn) for turn in range(at % 3)] for where in range(3) for at in range(12)]
    numbers = {each: number for number, each in enumerate(each for tree in trees for each in tree)}
    sides = [lists_of([[numbers[each] for each in tree] for tree in trees[12 * k : 12 * k + 12]]) for k in range(3)]
    offsets, links = clusters.collect(origin, place, *(column for side in sides for column in side))
    for i, (where, at) in enumerate(zip(origin.tolist(), place.tolist(), strict=True)):
        expected = [numbers[each] for each in trees[12 * where + at]]
        assert links[offsets[i] : offsets[i + 1]].tolist() == expected


# Low-stretch trees


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Pairs, list[int], list[float]]:
    """How many vertices, the edges, their multiplicities and prices."""
    size = draw(st.integers(1, 12))
    pair = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda ends: ends[0] < ends[1])
    edges = sorted(draw(st.sets(pair, max_size=24))) if size > 1 else []
    return size, edges, [draw(st.integers(1, 9)) for _ in edges], [draw(PRICES) for _ in edges]


def forest_by(
    function: Callable[..., Array], size: int, edges: Pairs, m: list[int], prices: list[float], seed: int
) -> list[int]:
    ends = np.array(edges, np.int64).reshape(-1, 2)
    chosen = function(7 + np.arange(size), ends[:, 0].copy(), ends[:, 1].copy(), ints(m), np.array(prices, float), seed)
    found: list[int] = np.flatnonzero(chosen).tolist()
    return found


@given(graphs(), st.integers(0, 9))
def test_low_stretch_trees(graph: tuple[int, Pairs, list[int], list[float]], seed: int) -> None:
    """They span each component, without a cycle, as the twin's do."""
    size, edges = graph[:2]
    found = forest_by(low_stretch.low_stretch_forest, *graph, seed)
    assert found == forest_by(plain_clusters.low_stretch_forest, *graph, seed)
    whole, tree = networkx.Graph(edges), networkx.Graph([edges[each] for each in found])
    whole.add_nodes_from(range(size))
    tree.add_nodes_from(range(size))
    assert networkx.is_forest(tree)
    assert networkx.number_connected_components(tree) == networkx.number_connected_components(whole)


def stretch(edges: Pairs, tree: networkx.Graph) -> float:
    lengths = dict(networkx.all_pairs_shortest_path_length(tree))
    return float(np.mean([lengths[u][v] for u, v in edges]))


@pytest.mark.parametrize(("side", "share"), [(8, 1.3), (24, 1.0)])
def test_the_average_stretch_on_a_grid(side: int, share: float) -> None:
    """Compared with that of a tree of cheapest paths from the middle, which is hard to beat on a small grid."""
    grid = networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(side, side))
    edges = sorted(tuple(sorted(edge)) for edge in grid.edges)
    from_the_middle = stretch(edges, networkx.bfs_tree(grid, side * side // 2 + side // 2).to_undirected())
    found = []
    for seed in range(8):
        chosen = forest_by(
            low_stretch.low_stretch_forest, side * side, edges, [1] * len(edges), [1.0] * len(edges), seed
        )
        found.append(stretch(edges, networkx.Graph([edges[each] for each in chosen])))
    assert np.mean(found) < share * from_the_middle
    assert len(set(found)) > 1


def test_what_is_heavy_stays_near() -> None:
    """A cycle loses an edge that little crosses, whatever the seed."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    lost = [
        set(range(5)) - set(forest_by(low_stretch.low_stretch_forest, 5, edges, [90, 90, 1, 90, 90], [1.0] * 5, seed))
        for seed in range(20)
    ]
    assert sum(each == {2} for each in lost) > 10


def test_the_dear_waits() -> None:
    """Of a cycle's edges the one that costs far more than the rest is left out, even if much crosses it."""
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    for seed in range(10):
        assert forest_by(low_stretch.low_stretch_forest, 4, edges, [1, 1, 1, 9], [1.0, 1.0, 1.0, 64.0], seed) == [
            0,
            1,
            2,
        ]


# Trees in networks


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], float]]:
    """Connected, with prices per direction."""
    size = draw(st.integers(2, 9))
    pairs = {(draw(st.integers(0, node - 1)), node) for node in range(1, size)}
    pairs |= draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=8))
    return size, {link: draw(PRICES) for u, v in sorted(pairs) if u != v for link in ((u, v), (v, u))}


def csr(size: int, links: dict[tuple[int, int], float]) -> tuple[Array, Array, Array]:
    ends = np.array(sorted(links), np.int64).reshape(-1, 2)
    return np.searchsorted(ends[:, 0], np.arange(size + 1)), ends[:, 1].copy(), np.array([links[u, v] for u, v in ends])


@given(networks(), st.data())
def test_no_tree_costs_more_than_multiplicities_times_distances(
    network: tuple[int, dict[tuple[int, int], float]], data: st.DataObject
) -> None:
    """The inequality in the proof of Theorem IV.1, for any spanning tree; multiplicities and prices per direction."""
    size, links = network
    broker = st.integers(0, size - 1)
    drawn = data.draw(st.lists(st.tuples(broker, st.lists(broker, max_size=5)), min_size=1, max_size=5))
    graph = graph_of(*csr(size, links))
    roots, (offsets, terminals) = ints(root for root, _ in drawn), lists_of([each for _, each in drawn])
    found = steiner_trees(graph, distances_to(*csr(size, links), np.arange(size)), roots, offsets, terminals)
    weights = data.draw(st.permutations(list(links)))
    order = {frozenset(link): place for place, link in enumerate(weights)}
    whole = networkx.Graph()
    whole.add_weighted_edges_from((*edge, place) for edge, place in order.items())
    tree = networkx.minimum_spanning_tree(whole)
    parent, down, up = np.full(size, -1), np.zeros(size), np.zeros(size)
    for above, node in networkx.bfs_edges(tree, 0):
        parent[node], down[node], up[node] = above, links[above, node], links[node, above]
    costs = np.empty(len(drawn))
    tree_cost.tree_costs(parent, down, up, roots, offsets, terminals, costs)
    ways = dict(networkx.all_pairs_shortest_path(tree))
    listed = sorted(links)
    for i in range(len(drawn)):
        apart = [ways[u][v] for u, v in (listed[link] for link in found.links[found.offsets[i] : found.offsets[i + 1]])]
        bound = sum(links[hop] for way in apart for hop in pairwise(way))
        assert costs[i] <= bound + 1e-9


@given(networks(), st.data())
def test_the_rest_attached(network: tuple[int, dict[tuple[int, int], float]], data: st.DataObject) -> None:
    """The forest stays, the tree spans, and where there is no forest all paths from the start are cheapest."""
    size, links = network
    links = {(u, v): max(price, links[v, u]) for (u, v), price in links.items()}
    offsets, targets, prices = csr(size, links)
    listed = sorted(links)
    whole = networkx.Graph()
    whole.add_weighted_edges_from((u, v, price) for (u, v), price in links.items())
    some = networkx.Graph(data.draw(st.lists(st.sampled_from(listed), max_size=4, unique=True)))
    forest = {frozenset(edge) for edge in networkx.minimum_spanning_edges(some, data=False)}
    kept = np.array([frozenset(link) in forest for link in listed])
    start, by = data.draw(st.integers(0, size - 1)), np.empty(size, np.int64)
    attach_rest(graph_of(offsets, targets, prices), kept, start, by)
    assert np.flatnonzero(by == -1).tolist() == [start]
    used = [listed[link] for link in by.tolist() if link >= 0]
    assert [v for _, v in used] == [node for node in range(size) if node != start]
    tree = networkx.Graph(used)
    assert networkx.is_tree(tree)
    assert forest <= {frozenset(link) for link in used}
    if not forest:
        for node, way in networkx.single_source_shortest_path(tree, start).items():
            assert networkx.path_weight(whole, way, "weight") == networkx.dijkstra_path_length(whole, start, node)
