"""Routing by Steiner trees: the trees of the plain twin, whatever the order of terminals and whatever came before."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import DataError
from overstory.kernels import plain_steiner_route as plain
from overstory.kernels.nothing import NONE
from overstory.kernels.steiner import ROUTE, Effort, Instances, steiner_trees, trees_with
from overstory.kernels.steiner_route import Ways
from overstory.kernels.steiner_router import Router, Tree, prepare

from .test_ascent import Graph, Wanted, as_arrays, graphs, optimum, wanted
from .test_steiner import arrays_of, check_shape, many_ends, mutual
from .test_steiner_moves import networks

any_networks = graphs() | graphs().map(mutual) | networks() | networks(is_mutual=False)


def router_of(graph: Graph) -> Router:
    return Router(prepare(*as_arrays(graph)))


def check(ways: Ways, tree: Tree, source: int, terminals: list[int]) -> None:
    """It hangs from the source by links that are there; no terminal is left over, and no leaf is none."""
    graph = ways.graph
    link_of = dict(zip(ways.names.tolist(), range(len(ways.names)), strict=True))
    nodes, parents = tree.nodes.tolist(), tree.parents.tolist()
    assert (nodes[0], parents[0], tree.links[0]) == (source, NONE, NONE)
    assert len(set(nodes)) == len(nodes)
    cost = 0.0
    for at in range(1, len(nodes)):
        assert parents[at] in nodes[:at]
        link = link_of[int(tree.links[at])]
        assert graph.offsets[parents[at]] <= link < graph.offsets[parents[at] + 1]
        assert graph.targets[link] == nodes[at]
        cost += float(graph.prices[link])
    assert np.isclose(cost, tree.cost)
    assert set(nodes) - set(parents) <= {source, *terminals}
    assert set(nodes) & set(tree.lost.tolist()) == set()
    assert set(terminals) <= set(nodes) | set(tree.lost.tolist())
    assert set(tree.lost.tolist()) <= set(terminals)
    assert np.all(np.diff(tree.lost) > 0)


@given(any_networks, st.data())
def test_trees_are_those_of_the_twin(graph: Graph, data: st.DataObject) -> None:
    each = data.draw(wanted(graph, most=8))
    router = router_of(graph)
    found = router.tree(each.root, np.array(each.terminals, np.int64))
    check(router.ways, found, *each)
    theirs, lost = plain.route(*router.ways[:2], each.root, np.array(each.terminals, np.int64))
    assert found.lost.tolist() == lost
    assert (
        dict(zip(found.nodes.tolist(), zip(found.links.tolist(), found.parents.tolist(), strict=True), strict=True))
        == theirs
    )
    assert found.cost >= optimum(graph, each.root, [end for end in each.terminals if end not in lost])


@pytest.mark.parametrize("prices", [[1], [0, 1], [1, 2, 3], list(range(10**6, 2 * 10**6, 7))])
def test_larger_trees_are_those_of_the_twin(prices: list[int]) -> None:
    """Of twenty terminals, so that Steiner vertices are inserted into some."""
    inserted = 0
    for seed in range(5):
        graph, some = many_ends(seed, prices)
        router = router_of(graph)
        starts = trees_with(Effort(4, False, 0, 0, 0), *router.ways[:2], Instances(*arrays_of(some)))
        for each, cost in zip(some, starts.costs.tolist(), strict=True):
            found = router.tree(each.root, np.array(each.terminals))
            check(router.ways, found, *each)
            theirs, _ = plain.route(*router.ways[:2], each.root, np.array(each.terminals))
            assert found.nodes.tolist() == list(theirs)
            assert found.links.tolist() == [link for link, _ in theirs.values()]
            inserted += found.cost < cost
    assert inserted > 0 or 0 in prices


@given(any_networks, st.data())
def test_a_batch_is_as_its_calls_in_any_order(graph: Graph, data: st.DataObject) -> None:
    """Terminals are a set, and nothing is left on the desk from the trees before."""
    some = data.draw(st.lists(wanted(graph, most=8), max_size=5))
    router, other = router_of(graph), router_of(graph)
    found = router.trees(*arrays_of(some))
    for i, each in reversed(list(enumerate(some))):
        again = data.draw(st.permutations(each.terminals * 2))
        one = other.tree(each.root, np.array(again, np.int64))
        mine, lost = slice(*found.offsets[i : i + 2]), slice(*found.lost_offsets[i : i + 2])
        assert one.nodes.tolist() == found.nodes[mine].tolist()
        assert one.parents.tolist() == found.parents[mine].tolist()
        assert one.links.tolist() == found.links[mine].tolist()
        assert one.cost == found.costs[i]
        assert one.lost.tolist() == found.lost[lost].tolist()


@given(any_networks, st.data())
def test_it_is_the_effort_route(graph: Graph, data: st.DataObject) -> None:
    some = data.draw(st.lists(wanted(graph, most=8), max_size=3))
    some = [Wanted(each.root, sorted(each.terminals)) for each in some]
    router = router_of(graph)
    theirs = steiner_trees(*router.ways[:2], *arrays_of(some), ROUTE)
    for i, each in enumerate(some):
        found = router.tree(each.root, np.array(each.terminals, np.int64))
        if not len(found.lost):
            check_shape(graph, each, found.links[1:].tolist())
            assert found.cost == theirs.costs[i]
            assert found.links[1:].tolist() == theirs.links[theirs.offsets[i] : theirs.offsets[i + 1]].tolist()


@given(any_networks, st.data())
def test_links_that_are_down_are_not_there(graph: Graph, data: st.DataObject) -> None:
    """Trees are those of a network without these links, under the numbers that all links had."""
    offsets, targets, prices = as_arrays(graph)
    down = np.array(data.draw(st.lists(st.booleans(), min_size=len(targets), max_size=len(targets))), np.bool_)
    each = data.draw(wanted(graph, most=8))
    router = Router(prepare(offsets, targets, prices, down))
    found = router.tree(each.root, np.array(each.terminals, np.int64))
    check(router.ways, found, *each)
    assert not down[found.links[1:]].any()
    sources = np.repeat(np.arange(graph.size), np.diff(offsets))
    left = [
        link
        for link, is_down in zip(
            zip(sources.tolist(), targets.tolist(), prices.tolist(), strict=True), down, strict=True
        )
        if not is_down
    ]
    fresh = router_of(Graph(graph.size, left)).tree(each.root, np.array(each.terminals, np.int64))
    assert fresh.nodes.tolist() == found.nodes.tolist()
    assert fresh.lost.tolist() == found.lost.tolist()


def test_threads_do_not_meet() -> None:
    """Each has a desk of its own; a router that was pickled makes the same trees."""
    graph, some = many_ends(1, [1, 2, 3])
    router = router_of(graph)
    sets = arrays_of(some * 50)
    expected = router.trees(*sets)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: router.trees(*sets), range(8)))
    found.append(pickle.loads(pickle.dumps(router)).trees(*sets))
    for each in found:
        for mine, theirs in zip(each, expected, strict=True):
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize(("source", "terminals", "named"), [(3, [1], 3), (-1, [1], -1), (0, [1, 7], 7), (0, [-2], -2)])
def test_strangers_are_named(source: int, terminals: list[int], named: int) -> None:
    router = router_of(Graph(3, [(0, 1, 4), (1, 0, 4)]))
    with pytest.raises(DataError, match=f"^{named} is no node"):
        router.tree(source, np.array(terminals))
    with pytest.raises(DataError, match=f"^{named} is no node"):
        router.trees(np.array([0, source]), np.array([0, 1, 1 + len(terminals)]), np.array([1, *terminals]))
    assert router.tree(0, np.array([1, 2])).lost.tolist() == [2]
    assert router.tree(2, np.array([], np.int64)).nodes.tolist() == [2]


def test_a_tree_does_not_change_when_the_next_is_made() -> None:
    graph, some = many_ends(1, [1])
    router = router_of(graph)
    first = router.tree(some[0].root, np.array(some[0].terminals))
    before = [part.tolist() for part in (first.nodes, first.parents, first.links)]
    router.tree(some[1].root, np.array(some[1].terminals))
    assert [part.tolist() for part in (first.nodes, first.parents, first.links)] == before


def test_numbers_of_any_kind() -> None:
    """Lists, short integers, what cannot be written to, and every second of an array; but nothing that is not whole."""
    graph, some = many_ends(1, [1])
    router, each = router_of(graph), some[0]
    expected = router.tree(each.root, np.array(each.terminals)).nodes.tolist()
    locked = np.array(each.terminals)
    locked.flags.writeable = False
    kinds = [each.terminals, np.array(each.terminals, np.int32), locked, np.repeat(each.terminals, 2)[::2]]
    for terminals in kinds:
        assert router.tree(np.int32(each.root), terminals).nodes.tolist() == expected  # type: ignore[arg-type]
    assert len(router.tree(0, []).nodes) == 1  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^1\.5 is no number of a node"):
        router.tree(0, np.array([1.5]))


def test_flags_must_fit_the_links() -> None:
    for down in ([True], [0, 1]):
        with pytest.raises(DataError, match=r"a flag for each of the 2 links$"):
            prepare(*as_arrays(Graph(2, [(0, 1, 1), (1, 0, 1)])), np.array(down))
