"""Reductions: those of the plain twin. The cheapest tree costs the same; expanded, it is a tree of the original."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import plain_steiner_reduce as plain
from overstory.kernels.distances import distances_to
from overstory.kernels.graphs import Graph, graph_of, whole_prices
from overstory.kernels.steiner_directed import arrange
from overstory.kernels.steiner_reduce import Thin, expand, new_thin, reduce
from overstory.kernels.steiner_route import Desk, new_desk
from overstory.kernels.steiner_search import grow_by_search, new_search
from overstory.kernels.steiner_starts import note_ends

from .test_ascent import Graph as Drawn
from .test_ascent import Wanted, as_arrays, graphs, optimum
from .test_steiner import check_shape, mutual
from .test_steiner_moves import networks

mutual_networks = networks() | graphs().map(mutual)


class Reduced:
    """A network, reduced for some ends."""

    def __init__(self, drawn: Drawn, ends: list[int]) -> None:
        known = as_arrays(drawn)
        self.ends = ends
        self.graph: Graph = graph_of(*known)
        self.distances = distances_to(*known, np.arange(drawn.size))
        self.desk: Desk = new_desk(drawn.size)
        note_ends(self.desk.ends, self.desk.nodes, ends[0], np.array(ends))
        self.thin: Thin = new_thin(drawn.size, len(drawn.links))
        whole, bits = whole_prices(self.graph.prices)
        noted = self.desk.ends.ends[: len(ends)]
        self.left: Graph = reduce(self.graph, self.distances, whole, self.desk.nodes.is_end, noted, self.thin)
        expected = self.left.prices * 2.0**bits
        assert self.thin.whole[: len(expected)].tolist() == expected.astype(np.int64).tolist()

    def links(self) -> list[tuple[int, int, int]]:
        sources = np.repeat(np.arange(len(self.left.offsets) - 1), np.diff(self.left.offsets))
        return list(
            zip(sources.tolist(), self.left.targets.tolist(), self.left.prices.astype(int).tolist(), strict=True)
        )


def reduced(data: st.DataObject) -> tuple[Drawn, Reduced]:
    drawn = data.draw(mutual_networks)
    ends = data.draw(st.lists(st.integers(0, drawn.size - 1), min_size=1, max_size=6, unique=True))
    return drawn, Reduced(drawn, ends)


def once(links: list[tuple[int, int, int]]) -> list[tuple[int, int, float]]:
    """Of each link and the one back only one, without those from a node to itself."""
    return sorted((one, other, float(price)) for one, other, price in links if one < other)


@given(st.data())
def test_what_is_left_is_what_the_twin_leaves(data: st.DataObject) -> None:
    drawn, found = reduced(data)
    far = found.distances.far
    theirs = plain.reduced(once(drawn.links), lambda node, end: float(far[end, node]), found.ends)
    assert once(found.links()) == sorted((min(one, other), max(one, other), price) for one, other, price in theirs)


@given(st.data())
def test_the_cheapest_tree_costs_the_same(data: st.DataObject) -> None:
    drawn, found = reduced(data)
    thinner = Drawn(drawn.size, found.links())
    assert optimum(thinner, found.ends[0], found.ends) == optimum(drawn, found.ends[0], found.ends)


@given(st.data())
def test_an_expanded_tree_is_one_of_the_original(data: st.DataObject) -> None:
    drawn, found = reduced(data)
    nodes, kept = found.desk.nodes, found.desk.kept
    search = new_search(drawn.size, len(found.left.targets))
    assert grow_by_search(found.left, nodes, search, found.ends[0], len(found.ends))
    arrange(found.left, nodes, found.ends[0])
    members = nodes.members[1 : nodes.count[0]]
    cost = expand(found.graph, found.thin, nodes, kept)
    links = kept.links[1 : kept.count[0]]
    assert cost == kept.cost[0] == found.graph.prices[links].sum() == found.left.prices[nodes.links[members]].sum()
    check_shape(drawn, Wanted(found.ends[0], found.ends), links.tolist())


def test_a_chain_becomes_one_link_and_dead_ends_go() -> None:
    """Ends 0 and 4; a way of four links, one of two that is dearer, and a dead end of two nodes."""
    pairs = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (0, 5, 2), (5, 4, 2), (2, 6, 1), (6, 7, 1), (0, 4, 9)]
    drawn = mutual(Drawn(8, pairs))
    found = Reduced(drawn, [0, 4])
    assert once(found.links()) == [(0, 4, 4.0), (0, 4, 4.0)]
