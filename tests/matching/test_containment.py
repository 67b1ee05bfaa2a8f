"""The containment graph is the transitive reduction of covering."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from overstory import Filter, parse_filter
from overstory.errors import UsageError
from overstory.matching.containment import ContainmentGraph

from ..filters.test_laws import box_filters, filters
from .draws import Draws

Pair = tuple[int, int]

CONSTANTS = [parse_filter(text) for text in ("TRUE", "FALSE", "n > 1", "n >= 1", "t LIKE 'a%'", "n IS NOT NULL")]


class Pairs:
    """Which filter covers which, by asking all pairs; and all that follows from it."""

    def __init__(self) -> None:
        self.live: dict[int, Filter] = {}
        self.covers: set[Pair] = set()

    def add(self, number: int, wanted: Filter) -> None:
        self.live[number] = wanted
        for other, theirs in self.live.items():
            if wanted.covers(theirs):
                self.covers.add((number, other))
            if theirs.covers(wanted):
                self.covers.add((other, number))

    def remove(self, number: int) -> None:
        del self.live[number]
        self.covers = {pair for pair in self.covers if number not in pair}

    def strictly(self, a: int, b: int) -> bool:
        return (a, b) in self.covers and (b, a) not in self.covers

    def equals(self, a: int) -> list[int]:
        return [b for b in sorted(self.live) if (a, b) in self.covers and (b, a) in self.covers]

    def named(self) -> list[int]:
        """One of each class of equals."""
        return [a for a in sorted(self.live) if self.equals(a)[0] == a]

    def edges(self) -> set[Pair]:
        nodes = self.named()
        pairs = {(a, b) for a in nodes for b in nodes if self.strictly(a, b)}
        return {(a, b) for a, b in pairs if not any((a, c) in pairs and (c, b) in pairs for c in nodes)}

    def roots(self) -> list[int]:
        return [a for a in self.named() if not any(self.strictly(b, a) for b in self.live)]


def edges_of(graph: ContainmentGraph, nodes: list[int]) -> set[Pair]:
    down = {(a, b) for a in nodes for b in graph.children(a)}
    assert down == {(a, b) for b in nodes for a in graph.parents(b)}, "an edge is known at both of its ends"
    return down


def assert_is_reduction(graph: ContainmentGraph, pairs: Pairs) -> None:
    assert len(graph) == len(pairs.live)
    for number in pairs.live:
        assert graph.equals(number) == pairs.equals(number)
    assert edges_of(graph, pairs.named()) == pairs.edges()
    assert graph.roots() == pairs.roots()


def below(graph: ContainmentGraph, number: int) -> set[int]:
    """All that a path leads to."""
    found: set[int] = set()
    waiting = [number]
    while waiting:
        for child in graph.children(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def assert_laws_hold(graph: ContainmentGraph, pairs: Pairs) -> None:
    """What holds even where covering is not transitive."""
    node = {number: graph.equals(number)[0] for number in pairs.live}
    nodes = sorted(set(node.values()))
    reached = {each: below(graph, each) for each in nodes}
    for a, b in pairs.covers:
        assert node[a] == node[b] or node[b] in reached[node[a]], f"no path: {pairs.live[a]} to {pairs.live[b]}"
    for a, b in edges_of(graph, nodes):
        assert a not in reached[b], "a cycle"
        assert not any(b in reached[c] for c in graph.children(a) if c != b), "a superfluous edge"
    assert graph.roots() == [each for each in nodes if not graph.parents(each)]


def assert_is_empty(graph: ContainmentGraph) -> None:
    assert len(graph) == 0
    assert graph.roots() == graph.covering(parse_filter("FALSE")) == []
    known = graph.statistics()
    assert (known.filters, known.hulls, known.unfiled, known.labels) == (0, 0, 0, 0)


class GraphMachine(RuleBasedStateMachine):
    kinds: st.SearchStrategy[Filter]

    def __init__(self) -> None:
        super().__init__()
        self.graph, self.pairs, self.next = ContainmentGraph(), Pairs(), 0

    @precondition(lambda self: len(self.pairs.live) < 12)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        self.add_one(data.draw(self.kinds))

    @precondition(lambda self: bool(self.pairs.live))
    @rule(at=st.integers(0, 2**16))
    def add_one_again(self, at: int) -> None:
        self.add_one(self.pairs.live[self.number_at(at)])

    @precondition(lambda self: bool(self.pairs.live))
    @rule(at=st.integers(0, 2**16))
    def remove(self, at: int) -> None:
        self.remove_one(self.number_at(at))

    def add_one(self, wanted: Filter) -> None:
        assert self.graph.add(wanted) == self.next
        self.pairs.add(self.next, wanted)
        self.next += 1

    def remove_one(self, number: int) -> list[int]:
        self.pairs.remove(number)
        orphans = self.graph.remove(number)
        assert number not in self.graph
        return orphans

    def number_at(self, at: int) -> int:
        return sorted(self.pairs.live)[at % len(self.pairs.live)]

    def teardown(self) -> None:
        for number in sorted(self.pairs.live, key=lambda number: (number % 3, number)):
            self.remove_one(number)
        assert_is_empty(self.graph)


class ExactGraph(GraphMachine):
    kinds = st.sampled_from(CONSTANTS) | box_filters

    def remove_one(self, number: int) -> list[int]:
        before = {each for root in self.pairs.roots() for each in self.pairs.equals(root)}
        orphans = super().remove_one(number)
        assert orphans == [root for root in self.pairs.roots() if root not in before]
        return orphans

    @rule(asked=box_filters)
    def ask(self, asked: Filter) -> None:
        assert self.graph.covering(asked) == [a for a in self.pairs.named() if self.pairs.live[a].covers(asked)]

    @invariant()
    def is_the_reduction(self) -> None:
        assert_is_reduction(self.graph, self.pairs)


class SafeGraph(GraphMachine):
    kinds = st.sampled_from(CONSTANTS) | filters

    @invariant()
    def laws_hold(self) -> None:
        assert_laws_hold(self.graph, self.pairs)


# One example is up to fifty steps
ExactGraph.TestCase.settings = settings(max_examples=settings().max_examples // 6)
SafeGraph.TestCase.settings = settings(max_examples=settings().max_examples // 8)
test_graph_of_exact_filters_is_the_transitive_reduction = ExactGraph.TestCase
test_graph_of_any_filters_keeps_its_laws = SafeGraph.TestCase


def test_graph_keeps_its_laws_with_many_filters() -> None:
    draws = Draws(3)
    dice = draws.dice
    pool = draws.filters(60) + draws.boxes(40) + CONSTANTS
    graph, pairs = ContainmentGraph(), Pairs()
    for step in range(150):
        if pairs.live and dice.random() < 0.35:
            number = dice.choice(list(pairs.live))
            pairs.remove(number)
            graph.remove(number)
        else:
            wanted = dice.choice(pool)
            pairs.add(graph.add(wanted), wanted)
        if step % 30 == 29:
            assert_laws_hold(graph, pairs)
    for number in list(pairs.live):
        graph.remove(number)
    assert_is_empty(graph)


def test_a_filter_between_two_others_takes_the_place_of_their_edge() -> None:
    graph = ContainmentGraph(map(parse_filter, ["x > 1", "x > 3"]))
    assert graph.children(0) == [1]
    between = graph.add(parse_filter("x > 2"))
    assert (graph.children(0), graph.parents(1)) == ([between], [between])
    assert graph.remove(between) == []
    assert (graph.children(0), graph.parents(1)) == ([1], [0])


def test_removing_a_root_returns_those_that_are_roots_now() -> None:
    graph = ContainmentGraph(map(parse_filter, ["x > 1", "x > 3", "x BETWEEN 1.5 AND 2", "y = 1 AND x > 2", "y = 1"]))
    assert graph.roots() == [0, 4]
    assert graph.remove(0) == [1, 2]
    assert graph.roots() == [1, 2, 4]


def test_an_equal_filter_takes_over_without_any_new_root() -> None:
    graph = ContainmentGraph(map(parse_filter, ["x > 1", "NOT x <= 1", "x > 3"]))
    assert graph.equals(0) == graph.equals(1) == [0, 1]
    assert graph.remove(0) == []
    assert (graph.roots(), graph.parents(2), graph.children(1)) == ([1], [1], [2])
    assert graph.remove(1) == [2]


def test_numbers_are_not_used_again() -> None:
    graph = ContainmentGraph([parse_filter("x > 1")])
    graph.remove(0)
    assert graph.add(parse_filter("x > 1")) == 1
    assert 0 not in graph


def test_removing_what_is_not_there_is_a_usage_error() -> None:
    graph = ContainmentGraph([parse_filter("x > 1")])
    graph.remove(0)
    for number in (0, 1, -1):
        with pytest.raises(UsageError, match="has no filter"):
            graph.remove(number)


def padres_subscriptions(count: int) -> list[Filter]:
    """Texts, prefixes and ranges on a few attributes, of which many are equal."""
    dice = random.Random(1)
    found = []
    for _ in range(count):
        triples = [f"[symbol,{dice.choice(['eq', 'str-prefix'])},'{dice.choice('AB')}{dice.choice('XYZ')}']"]
        triples += [
            f"[{name},{dice.choice('<>')},{dice.randrange(5)}]" for name in dice.sample("pqr", dice.randint(0, 2))
        ]
        found.append(parse_filter(",".join(triples), "padres"))
    return found


def test_texts_prefixes_and_ranges_are_placed_without_asking_any_filter() -> None:
    filters = padres_subscriptions(400)
    graph, pairs = ContainmentGraph(filters), Pairs()
    known = graph.statistics()
    assert known.candidates_per_query == 0
    assert known.queries == 2 * len(set(filters)) < 2 * len(filters)
    for number, wanted in enumerate(filters[:60]):
        pairs.add(number, wanted)
    assert_is_reduction(ContainmentGraph(filters[:60]), pairs)


def test_an_equal_filter_that_was_removed_comes_again() -> None:
    graph = ContainmentGraph(map(parse_filter, ["x > 1", "x > 1", "x > 0"]))
    assert graph.remove(0) == graph.remove(1) == []
    assert graph.add(parse_filter("x > 1")) == 3
    assert (graph.children(2), graph.equals(3)) == ([3], [3])
