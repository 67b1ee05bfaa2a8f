"""Searches, pools and directed changes of Steiner trees are those of their plain twins."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import plain_steiner_search as plain
from overstory.kernels.graphs import graph_of
from overstory.kernels.steiner_directed import arrange, find_entries, insert_directed, new_entries, reattach
from overstory.kernels.steiner_nodes import Nodes, forget, new_nodes, take_in
from overstory.kernels.steiner_pool import ROOM, add, disturb, draw, new_pool
from overstory.kernels.steiner_search import grow_by_search, new_search

from .test_ascent import Graph as Drawn
from .test_ascent import as_arrays
from .test_steiner_moves import Begun, networks


def ends_in(data: st.DataObject, drawn: Drawn) -> list[int]:
    return data.draw(st.lists(st.integers(0, drawn.size - 1), min_size=2, max_size=8, unique=True))


@given(st.data(), st.booleans())
def test_a_search_grows_the_tree_of_the_twin(data: st.DataObject, is_mutual: bool) -> None:
    """At prices of which no two ways have the same; over some of the links."""
    drawn = data.draw(networks(is_mutual))
    offsets, targets, _ = as_arrays(drawn)
    dice = random.Random(data.draw(st.integers(0, 1000)))
    graph = graph_of(offsets, targets, np.array([dice.uniform(1, 10) for _ in targets]))
    ends = ends_in(data, drawn)
    is_open = np.array([dice.random() < 0.8 for _ in targets], np.bool_)
    nodes, search = new_nodes(drawn.size), new_search(drawn.size, len(targets))
    nodes.is_end[ends] = True
    search.is_open[:] = is_open
    expected = plain.grown(graph, ends[0], set(ends), is_open.tolist())
    assert grow_by_search(graph, nodes, search, ends[0], len(ends)) == (expected is not None)
    assert np.all(np.isinf(search.far))
    if expected is not None:
        members = nodes.members[: nodes.count[0]].tolist()
        assert {node: int(nodes.parents[node]) for node in members} == expected


def tree_of(nodes: Nodes, members: frozenset[int]) -> None:
    forget(nodes)
    for node in members:
        take_in(nodes, node)


@given(st.data())
def test_a_pool_is_that_of_the_twin(data: st.DataObject) -> None:
    """Trees are added, of which some are known; then prices are disturbed."""
    drawn = data.draw(networks())
    graph = graph_of(*as_arrays(drawn))
    pool, nodes, seed = (
        new_pool(drawn.size, len(graph.targets)),
        new_nodes(drawn.size),
        data.draw(st.integers(0, 2**63)),
    )
    known: list[tuple[float, frozenset[int]]] = []
    node = st.integers(0, drawn.size - 1)
    for members in data.draw(st.lists(st.frozensets(node, min_size=1), max_size=2 * ROOM)):
        cost = data.draw(st.integers(1, 9)) + 0.5
        tree_of(nodes, members)
        add(pool, nodes, cost)
        plain.added(known, members, cost, ROOM)
    count = pool.count[0]
    assert pool.costs[:count].tolist() == [cost for cost, _ in known]
    assert [frozenset(np.flatnonzero(row).tolist()) for row in pool.is_member[:count]] == [tree for _, tree in known]
    pool.chance[0], dice = np.uint64(seed), plain.Dice(seed)
    for sides in (1, 2, 7, 1 << 40):
        assert draw(pool, sides) == dice.draw(sides)
    for _ in range(3):
        disturb(graph, pool)
        assert pool.prices.tolist() == plain.disturbed(graph, [tree for _, tree in known], dice)


@given(st.data())
def test_directed_changes_gain_what_the_twin_says(data: st.DataObject) -> None:
    drawn = data.draw(networks(is_mutual=False))
    tree = Begun(drawn, ends_in(data, drawn))
    graph, nodes, root, ends = tree.graph, tree.nodes, tree.ends[0], set(tree.ends)
    arrange(graph, nodes, root)
    parents = {node: int(nodes.parents[node]) for node in tree.members}
    paid = {node: float(nodes.paid[node]) for node in tree.members}
    entries = new_entries(drawn.size, len(graph.targets))
    find_entries(graph, nodes, entries)
    node = data.draw(st.sampled_from(range(drawn.size)))
    if nodes.inside[node]:
        gain = reattach(graph, tree.distances, nodes, root, node, 1e-9) if node != root else 0.0
        assert gain == plain.reattachment_gain(graph, parents, ends, node, paid)
    elif entries.links[node] >= 0:
        entry = int(entries.links[node])
        into = [price for source, target, price in plain.links_of(graph) if target == node and source in parents]
        assert graph.prices[entry] == min(into)
        expected = plain.insertion_gain(graph, parents, ends, entry, paid)
        assert insert_directed(graph, nodes, entries, root, node, 1e-9) == expected
    else:
        assert all(target != node for source, target, _ in plain.links_of(graph) if source in parents)
