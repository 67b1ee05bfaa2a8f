"""Exchanges gain exactly what they say, and leave a tree that no further one improves; coalesced rows cost their
different ways."""

from itertools import pairwise
from typing import Any

import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import coalesced, exchange, plain_clusters
from overstory.kernels.attach import hang_on_cores
from overstory.kernels.compiling import Array
from overstory.kernels.steiner import graph_of

PRICES = st.sampled_from([0.25, 1.0, 1.0, 1.0, 2.0, 5.0])


def ints(values: Any) -> Array:
    return np.array(list(values), np.int64)


def lists_of(drawn: list[list[int]]) -> tuple[Array, Array]:
    return np.cumsum([0, *map(len, drawn)]), ints(value for each in drawn for value in each)


@st.composite
def networks(draw: st.DrawFn) -> exchange.Links:
    """A line, so that it holds together, and more links; each with a price for either direction."""
    size = draw(st.integers(2, 9))
    pairs = {(at, at + 1) for at in range(size - 1)}
    pairs |= {(a, b) for a, b in draw(st.sets(st.tuples(*[st.integers(0, size - 1)] * 2), max_size=14)) if a < b}
    one, other = ints(a for a, _ in sorted(pairs)), ints(b for _, b in sorted(pairs))
    there, back = (np.array(draw(st.lists(PRICES, min_size=len(one), max_size=len(one)))) for _ in range(2))
    return exchange.Links(one, other, there, back)


def spanning_tree(data: st.DataObject, links: exchange.Links) -> Array:
    """Any one: links in a random order, each that closes no cycle."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(int(links.targets.max()) + 1))
    for link in data.draw(st.permutations(range(len(links.sources)))):
        one, other = int(links.sources[link]), int(links.targets[link])
        if not networkx.has_path(graph, one, other):
            graph.add_edge(one, other)
    parent = np.full(len(graph), -1)
    for over, below in networkx.bfs_edges(graph, data.draw(st.sampled_from(sorted(graph)))):
        parent[below] = over
    return parent


def some_instances(data: st.DataObject, size: int) -> exchange.Instances:
    broker = st.integers(0, size - 1)
    drawn = data.draw(st.lists(st.tuples(broker, st.sets(broker, min_size=1, max_size=5)), min_size=1, max_size=8))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(drawn), max_size=len(drawn)))
    wanted = [sorted(terminals - {root}) for root, terminals in drawn]
    return exchange.Instances(ints(root for root, _ in drawn), *lists_of(wanted), np.array(weights, np.float64))


def priced(parent: Array, links: exchange.Links) -> tuple[Array, Array]:
    down, up = np.zeros(len(parent)), np.zeros(len(parent))
    exchange.set_prices(parent, links, down, up)
    return down, up


def cost(parent: Array, links: exchange.Links, instances: exchange.Instances) -> float:
    out = np.empty(len(instances.roots))
    plain_clusters.tree_costs(parent, *priced(parent, links), *instances[:3], out)
    return float((out * instances.weights).sum())


def is_spanning(parent: Array, links: exchange.Links) -> bool:
    pairs = {frozenset(pair) for pair in zip(links.sources.tolist(), links.targets.tolist(), strict=True)}
    edges = [(node, over) for node, over in enumerate(parent.tolist()) if over >= 0]
    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(len(parent)))
    return networkx.is_tree(graph) and all(frozenset(edge) in pairs for edge in edges)


@given(st.data())
def test_the_gain_is_what_all_costs_say(data: st.DataObject) -> None:
    links = data.draw(networks())
    parent = spanning_tree(data, links)
    instances = some_instances(data, len(parent))
    before = cost(parent, links, instances)
    for passes in (1, 50):
        fallen = exchange.improve_tree(parent, links, instances, passes)
        after = cost(parent, links, instances)
        assert abs(before - after - fallen) < 1e-6 * (1 + before)
        assert is_spanning(parent, links)
        before = after


@given(st.data())
def test_no_exchange_is_left_that_gains(data: st.DataObject) -> None:
    links = data.draw(networks())
    parent = spanning_tree(data, links)
    instances = some_instances(data, len(parent))
    exchange.improve_tree(parent, links, instances, 100)
    least = cost(parent, links, instances)
    tree = networkx.Graph([(node, over) for node, over in enumerate(parent.tolist()) if over >= 0])
    for one, other in zip(links.sources.tolist(), links.targets.tolist(), strict=True):
        if tree.has_edge(one, other):
            continue
        for edge in pairwise(networkx.shortest_path(tree, one, other)):
            changed = tree.copy()
            changed.remove_edge(*edge)
            changed.add_edge(one, other)
            other_parent = np.full(len(parent), -1)
            for over, below in networkx.bfs_edges(changed, 0):
                other_parent[below] = over
            assert cost(other_parent, links, instances) > least - 1e-6 * (1 + least)


def ways_of(parent: Array, root: int, brokers: list[int]) -> set[tuple[int, ...]]:
    """All ways from the root to a broker that is passed or reached."""
    tree = networkx.Graph([(node, over) for node, over in enumerate(parent.tolist()) if over >= 0])
    tree.add_nodes_from(range(len(parent)))
    found = set()
    for broker in brokers:
        path = networkx.shortest_path(tree, root, broker)
        found |= {tuple(path[:end]) for end in range(2, len(path) + 1)}
    return found


@given(st.data())
def test_coalesced_rows_cost_their_different_ways(data: st.DataObject) -> None:
    links = data.draw(networks())
    size = int(links.targets.max()) + 1
    parents = np.stack([spanning_tree(data, links) for _ in range(data.draw(st.integers(1, 3)))])
    broker = st.integers(0, size - 1)
    units = data.draw(st.lists(st.sets(broker, min_size=1, max_size=3).map(sorted), min_size=1, max_size=4))
    groups = [data.draw(st.integers(0, len(parents) - 1)) for _ in units]
    rows = data.draw(st.lists(st.tuples(broker, st.sets(st.integers(0, len(units) - 1)).map(sorted)), max_size=5))
    together = data.draw(st.booleans())
    prices = {
        pair: price
        for one, other, there, back in zip(*(each.tolist() for each in links), strict=True)
        for pair, price in (((one, other), there), ((other, one), back))
    }
    expected = []
    for root, wanted in rows:
        ways = {
            (0 if together else groups[unit], way)
            for unit in wanted
            for way in ways_of(parents[groups[unit]], root, units[unit])
        }
        expected.append(sum(prices[way[-2], way[-1]] for _, way in ways))
    down, up = (np.stack(each) for each in zip(*(priced(parent, links) for parent in parents), strict=True))
    begin = np.ones(len(parents), np.uint64) if together else np.arange(1, len(parents) + 1, dtype=np.uint64)
    out = np.empty(len(rows))
    coalesced.coalesced_costs(
        coalesced.Trees(parents, down, up, begin),
        coalesced.Rows(ints(root for root, _ in rows), *lists_of([each for _, each in rows]), np.ones(len(rows))),
        coalesced.Units(*lists_of(units)),
        ints(groups),
        out,
    )
    assert np.allclose(out, expected)


@given(st.data())
def test_whatever_is_outside_takes_its_cheapest_way_to_the_core(data: st.DataObject) -> None:
    links = data.draw(networks())
    size = int(links.targets.max()) + 1
    graph = networkx.DiGraph()
    for one, other, there, back in zip(*(each.tolist() for each in links), strict=True):
        graph.add_edge(one, other, price=there)
        graph.add_edge(other, one, price=back)
    top = data.draw(st.integers(0, size - 1))
    beside = data.draw(st.sampled_from(sorted(graph[top])))
    pairs = sorted(graph.edges)
    offsets = np.searchsorted(ints(one for one, _ in pairs), np.arange(size + 1))
    inward = np.array([graph[other][one]["price"] for one, other in pairs])
    parents = np.empty((1, size), np.int64)
    core = ints([0, 1]), ints([pairs.index((top, beside))])
    hang_on_cores(graph_of(offsets, ints(other for _, other in pairs), inward), ints([top]), *core, parents)
    far = networkx.multi_source_dijkstra_path_length(graph.reverse(), {top, beside}, weight="price")
    assert parents[0, top] == -1
    assert parents[0, beside] == top
    for node in set(range(size)) - {top, beside}:
        over = int(parents[0, node])
        assert np.isclose(far[node], far[over] + graph[node][over]["price"])
