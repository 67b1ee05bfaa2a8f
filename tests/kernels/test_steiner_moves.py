"""Changes of Steiner trees: each gains what it says, as the tree that it leaves tells, and as its plain twin does."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels import plain_steiner_moves as plain
from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.steiner_directed import arrange, find_entries, insert_directed, new_entries, reattach
from overstory.kernels.steiner_exact import open_cheapest
from overstory.kernels.steiner_insertion import insert_all, new_past
from overstory.kernels.steiner_keys import find_changes, is_key, lay_keys, make_changes, new_keys
from overstory.kernels.steiner_nodes import Nodes, new_nodes, span, take_in
from overstory.kernels.steiner_regions import bridges_of, forget_regions, new_regions
from overstory.kernels.steiner_search import grow_by_search, new_search
from overstory.kernels.steiner_starts import grow, new_ends, note_ends

from .test_ascent import Graph as Drawn
from .test_ascent import as_arrays, optimum

PRICES = st.sampled_from([0, 1, 1, 1, 2, 3, 7])


@st.composite
def networks(draw: st.DrawFn, is_mutual: bool = True) -> Drawn:
    """Connected, with a few more links than a tree: there are long ways, and other ways beside them."""
    size = draw(st.integers(4, 24))
    price = st.just(1) if draw(st.booleans()) else PRICES
    pairs = [(node, draw(st.integers(max(0, node - 4), node - 1))) for node in range(1, size)]
    node = st.integers(0, size - 1)
    pairs += draw(st.lists(st.tuples(node, node), max_size=size))
    links = []
    for one, other in pairs:
        there = draw(price)
        links += [(one, other, there), (other, one, there if is_mutual else draw(price))]
    return Drawn(size, links)


class Begun:
    """A tree grown from the first of the ends, on a network of its own."""

    def __init__(self, drawn: Drawn, ends: list[int]) -> None:
        self.drawn, self.ends = drawn, ends
        known = as_arrays(drawn)
        self.graph: Graph = graph_of(*known)
        self.distances = distances_to(*known, np.arange(drawn.size))
        self.nodes: Nodes = new_nodes(drawn.size)
        noted = new_ends(drawn.size)
        self.count = note_ends(noted, self.nodes, ends[0], np.array(ends))
        grow(self.graph, self.distances, self.nodes, noted, ends[0], 0)

    @property
    def members(self) -> list[int]:
        listed = self.nodes.members[: self.nodes.count[0]].tolist()
        return [node for node in listed if self.nodes.inside[node]]

    def links(self) -> plain.Tree:
        """By parents; there must be one less than nodes, and they must join all of them."""
        pairs = {node: int(self.nodes.parents[node]) for node in self.members if self.nodes.parents[node] >= 0}
        tree = frozenset((min(pair), max(pair)) for pair in pairs.items())
        assert len(tree) == len(self.members) - 1
        assert len(plain.parts_of(tree, set(self.members))) == 1
        assert set(self.members) >= set(self.ends)
        return tree

    def paid(self) -> float:
        """What the links cost that parents name."""
        prices = plain.prices_of(self.graph)
        return sum(prices[link] for link in self.links())


def begun(data: st.DataObject, is_mutual: bool = True) -> Begun:
    drawn = data.draw(networks(is_mutual))
    ends = data.draw(st.lists(st.integers(0, drawn.size - 1), min_size=2, max_size=8, unique=True))
    return Begun(drawn, ends)


@given(st.data())
def test_spanning_is_that_of_the_twin(data: st.DataObject) -> None:
    tree = begun(data)
    for node in data.draw(st.lists(st.sampled_from(range(tree.drawn.size)))):
        if any(node in link and set(link) & set(tree.members) for link in plain.prices_of(tree.graph)):
            take_in(tree.nodes, node)
    expected = plain.spanning_cost(tree.graph, set(tree.members), set(tree.ends))
    assert span(tree.graph, tree.nodes, tree.ends[0]) == expected == tree.paid()
    leaves = [node for node in tree.members if tree.nodes.degrees[node] == 1]
    assert set(leaves) <= set(tree.ends)


@given(st.data())
def test_insertions_gain_what_they_say(data: st.DataObject) -> None:
    tree = begun(data)
    before = span(tree.graph, tree.nodes, tree.ends[0])
    gained = insert_all(tree.graph, tree.nodes, new_past(tree.drawn.size), 1e-9)
    assert tree.paid() == before - gained
    assert span(tree.graph, tree.nodes, tree.ends[0]) <= before - gained


def test_a_vertex_takes_the_place_of_a_long_way() -> None:
    """All links cost the same. Three ends are joined by ways of three links; a node beside them joins all by one."""
    ways = [(0, 3), (3, 4), (4, 1), (1, 5), (5, 6), (6, 2)]
    pairs = [*ways, (7, 0), (7, 1), (7, 2)]
    drawn = Drawn(8, [(a, b, 1) for one, other in pairs for a, b in ((one, other), (other, one))])
    tree = Begun(drawn, [0, 1, 2])
    for node in range(8):
        tree.nodes.inside[node] = node < 7
    tree.nodes.members[:7], tree.nodes.count[0] = np.arange(7), 7
    assert span(tree.graph, tree.nodes, 0) == 6
    assert insert_all(tree.graph, tree.nodes, new_past(8), 1e-9) == 3
    assert span(tree.graph, tree.nodes, 0) == 3
    assert sorted(tree.members) == [0, 1, 2, 7]


@given(st.data())
def test_regions_are_as_far_as_the_nearest_node_of_the_tree(data: st.DataObject) -> None:
    tree = begun(data)
    span(tree.graph, tree.nodes, tree.ends[0])
    regions, limit = new_regions(tree.drawn.size), data.draw(st.sampled_from([0.0, 1.0, 3.0, 8.0, 100.0]))
    bridges, reached = bridges_of(tree.graph, tree.nodes, regions, limit)
    far = plain.distances_from(tree.graph, set(tree.members))
    settled = set(regions.reached[:reached].tolist())
    assert settled == {node for node in far if far[node] < limit / 2} | set(tree.members)
    for node in settled:
        assert regions.far[node] == far[node]
        assert plain.distances_from(tree.graph, {int(regions.bases[node])})[node] == far[node]
    assert np.all(np.diff(bridges.prices) >= 0)
    assert np.all(bridges.prices < limit)
    forget_regions(regions, reached)
    assert np.all(np.isinf(regions.far))
    assert not regions.settled.any()


@given(st.data())
def test_changes_of_keys_gain_what_the_twin_says(data: st.DataObject) -> None:
    tree = begun(data)
    nodes, ends = tree.nodes, set(tree.ends)
    before = span(tree.graph, nodes, tree.ends[0])
    links = tree.links()
    keys, regions = new_keys(tree.drawn.size), new_regions(tree.drawn.size)
    dearest = lay_keys(nodes, keys)
    bridges, _ = bridges_of(tree.graph, nodes, regions, dearest)
    find_changes(nodes, keys, regions, bridges)
    bases = [regions.bases[part].tolist() for part in (bridges.ones, bridges.others)]
    known = list(zip(bridges.prices.tolist(), *bases, strict=True))
    paths = plain.key_paths(links, ends)
    gains = [0.0]
    for path in paths:
        lower = path[0] if keys.above[path[0]] == path[-1] else path[-1]
        chosen = keys.chosen[lower]
        gain = float(keys.lengths[lower] - bridges.prices[chosen]) if chosen >= 0 else 0.0
        assert gain == plain.exchange_gain(tree.graph, links, path, known)
        gains.append(gain)
    for node in set(tree.members) - ends:
        if is_key(nodes, node):
            gain = float(keys.gains[node]) if keys.missing[node] == 0 else -np.inf
            assert gain == plain.elimination_gain(tree.graph, links, node, paths, known)
            gains.append(gain)
    made = make_changes(nodes, keys, regions, bridges, 1e-9)
    assert made >= max(gains)
    assert span(tree.graph, nodes, tree.ends[0]) <= before - made
    tree.links()


@given(st.data())
def test_directed_changes_gain_what_they_say(data: st.DataObject) -> None:
    tree = begun(data, is_mutual=False)
    graph, nodes, root = tree.graph, tree.nodes, tree.ends[0]
    before = arrange(graph, nodes, root)
    node = data.draw(st.sampled_from(range(tree.drawn.size)))
    entries = new_entries(tree.drawn.size, len(graph.targets))
    find_entries(graph, nodes, entries)
    if nodes.inside[node]:
        gain = reattach(graph, tree.distances, nodes, root, node, 1e-9) if node != root else 0.0
    else:
        gain = insert_directed(graph, nodes, entries, root, node, 1e-9) if entries.links[node] >= 0 else 0.0
    after = arrange(graph, nodes, root)
    tree.links()
    assert after <= before - gain
    assert gain >= 0
    assert sum(graph.prices[nodes.links[member]] for member in tree.members if member != root) == after


@settings(max_examples=50)
@given(st.data(), st.booleans())
def test_the_exact_tree_is_the_cheapest(data: st.DataObject, is_mutual: bool) -> None:
    tree = begun(data, is_mutual)
    search = new_search(tree.drawn.size, len(tree.graph.targets))
    best = optimum(tree.drawn, tree.ends[0], tree.ends[1:])
    assert open_cheapest(tree.graph, search, tree.ends[0], np.array(tree.ends[1:])) == best
    assert grow_by_search(tree.graph, tree.nodes, search, tree.ends[0], tree.count)
    assert arrange(tree.graph, tree.nodes, tree.ends[0]) == best
