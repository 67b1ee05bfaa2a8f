"""What the paper says of propagation, similarity and pruning, and what the policies promise of each other."""

import random
from collections import Counter, defaultdict
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overstory.errors import UsageError
from overstory.filters import Filter, parse_filter
from overstory.routing.messages import LATE, Prune, Subscribe, Unsubscribe
from overstory.routing.policies import MODULES, SUMMARIES, make_policy, selective
from overstory.routing.policy import Policy
from overstory.routing.window import NOBODY_ELSE

from .network import FEWER, Link, Network, entries_of, interval, network_on, random_tree
from .test_interleavings import CLIENT, Play, held

EVERY_X = range(31)


class Drawing:
    """A random tree, publishers with what they announce, and subscriptions with their hosts."""

    def __init__(self, dice: random.Random, brokers: int = 10) -> None:
        self.dice = dice
        self.tree = random_tree(dice, dice.randint(2, brokers))
        self.graph = nx.Graph(self.tree)
        self.announced = {
            each: self.interval() for each in dice.sample(sorted(self.graph), dice.randint(1, min(4, len(self.graph))))
        }
        self.hosts: dict[int, tuple[int, tuple[int, int]]] = {}

    def interval(self) -> tuple[int, int]:
        low = self.dice.randint(0, 24)
        return low, low + self.dice.randint(0, 30 - low)

    def host(self) -> int:
        return int(self.dice.choice(sorted(self.graph)))

    def network(self, policy: Policy) -> Network:
        network = network_on(self.tree, policy, everyone_advertises=False)
        for broker, some in self.announced.items():
            network.do(broker, network.routers[broker].advertise(CLIENT + broker, broker, 1, interval(*some)))
        network.settle()
        for id_ in self.hosts:
            self.subscribe(network, id_)
        return network

    def subscribe(self, network: Network, id_: int) -> None:
        broker, some = self.hosts[id_]
        network.do(broker, network.routers[broker].subscribe(CLIENT + broker, id_, 1, interval(*some)))
        network.settle()

    def unsubscribe(self, network: Network, id_: int) -> None:
        broker, _ = self.hosts[id_]
        network.do(broker, network.routers[broker].unsubscribe(CLIENT + broker, id_, 1))
        network.settle()

    def meets(self, id_: int, broker: int) -> bool:
        (_, (low, high)), (first, last) = self.hosts[id_], self.announced[broker]
        return low <= last and first <= high

    def path(self, one: int, other: int) -> list[int]:
        found: list[int] = nx.shortest_path(self.graph, one, other)
        return found

    def publish_all(self, network: Network, first: int = 0) -> None:
        """Everything that may be published, at every publisher."""
        for broker, (low, high) in self.announced.items():
            for x in range(low, high + 1):
                network.publish(broker, CLIENT + broker, first + 100 * broker + x, {"x": x}, advertisement=broker)
        network.settle()


def links_of(network: Network, id_: int) -> set[Link]:
    return {link for link, keys in network.sent().items() if (id_, 1) in keys}


def path_links(path: list[int]) -> set[Link]:
    return set(pairwise(path))


@FEWER
@given(seed=st.integers(0, 10**9))
def test_property_1_without_covering_a_subscription_spreads_as_a_tree(seed: int) -> None:
    drawing = Drawing(random.Random(seed))
    drawing.hosts = {each: (drawing.host(), drawing.interval()) for each in range(3)}
    network = drawing.network(make_policy("none"))
    for id_, (host, _) in drawing.hosts.items():
        reached = [each for each in drawing.announced if drawing.meets(id_, each)]
        expected = set[Link]().union(*[path_links(drawing.path(host, each)) for each in reached])
        assert links_of(network, id_) == expected
        directed = nx.DiGraph(sorted(expected))
        assert not expected or nx.is_arborescence(directed)
        leaves = {each for each in directed if directed.out_degree(each) == 0}
        assert leaves <= set(reached)


@FEWER
@given(seed=st.integers(0, 10**9))
def test_property_2_with_covering_a_covered_one_goes_no_further_than_a_path_towards_what_covers_it(seed: int) -> None:
    dice = random.Random(seed)
    drawing = Drawing(dice)
    low, high = drawing.interval()
    inside = sorted([dice.randint(low, high), dice.randint(low, high)])
    assume(inside != [low, high])
    drawing.hosts = {0: (drawing.host(), (low, high)), 1: (drawing.host(), (inside[0], inside[1]))}
    alone = drawing.network(make_policy("none"))
    network = drawing.network(make_policy("active"))
    assert links_of(network, 0) == links_of(alone, 0)

    root, covered = drawing.hosts[0][0], drawing.hosts[1][0]
    between = drawing.path(covered, root)
    met = [each for each in drawing.announced if drawing.meets(1, each)]
    meeting = [[b for b in between if b in drawing.path(covered, each)][-1] for each in met]  # the O_i
    furthest = max((between.index(each) for each in meeting), default=0)
    assert links_of(network, 1) == path_links(between[: furthest + 1])


@FEWER
@given(seed=st.integers(0, 10**9))
def test_property_3_similarity_does_not_fall_on_the_way_to_the_publisher(seed: int) -> None:
    dice = random.Random(seed)
    drawing = Drawing(dice)
    drawing.hosts = {each: (drawing.host(), drawing.interval()) for each in range(dice.randint(2, 8))}
    drawing.hosts[0] = (drawing.hosts[0][0], (0, 30))
    network = drawing.network(make_policy("active"))
    drawing.unsubscribe(network, 0)  # so that those that it covered take its place
    for broker, (first, last) in drawing.announced.items():
        shares = []
        path = drawing.path(drawing.hosts[0][0], broker)
        for here, onward in zip(path, [*path[1:], None], strict=True):
            flow = network.routers[here].state.epochs[0].flows[LATE]
            others = [each.filter for (hop, _), each in flow.entries.items() if hop != onward]
            wanted = [any(other.matches({"x": x}) for other in others) for x in range(first, last + 1)]
            shares.append(sum(wanted) / len(wanted))
        assert shares == sorted(shares)


def table_one(policy: Policy, lease: float = 1e9) -> Network:
    """Fig. 4: a path from A to I, and others that want the same at B, C or G."""
    path = list(range(9))  # A to I
    sides = {10: 1, 11: 2, 12: 6}
    network = network_on([*pairwise(path), *[(end, side) for side, end in sides.items()]], policy, False, lease)
    network.do(0, network.routers[0].advertise(CLIENT, 1, 1, parse_filter("x >= 0")))
    network.settle()
    wanted = {10: "x = 5", 11: "x = 1 OR x = 2 OR x = 3 OR x = 4", 12: "x = 2 OR x = 3"}
    for side, text in wanted.items():
        network.do(side, network.routers[side].subscribe(CLIENT + side, 100 + side, 1, parse_filter(text)))
    network.do(8, network.routers[8].subscribe(CLIENT + 8, 1, 1, parse_filter("x >= 0")))
    network.settle()
    for x in range(1, 6):
        network.publish(0, CLIENT, x, {"x": x}, advertisement=1)
        network.settle()
    return network


def test_table_1() -> None:
    network = table_one(make_policy("selective"))
    publications, advertisements, _, distances, counts = network.routers[8].state.epochs[0].window.rows(0.0).tolist()
    assert publications == [1, 2, 3, 4, 5]
    assert advertisements == [1] * 5
    assert distances == [6, 2, 2, 6, 7]
    assert counts == [1, 2, 2, 1, 1]


def test_an_unsubscription_purges_its_rows() -> None:
    network = table_one(make_policy("selective"))
    assert network.routers[8].statistics().window == 5
    network.do(8, network.routers[8].unsubscribe(CLIENT + 8, 1, 1))
    assert network.routers[8].statistics().window == 0


@pytest.mark.parametrize(("threshold", "hops", "by_the_text"), [(0.8, 6, 8), (0.85, 7, 8), (0.9, 7, 8), (0.3, 2, 3)])
def test_the_critical_broker_of_table_1(threshold: float, hops: int, by_the_text: int) -> None:
    distances = np.array([6, 2, 2, 6, 7])
    assert selective.Policy(threshold).critical_distance(distances) == hops
    assert selective.Policy(threshold, paper_strict=True).critical_distance(distances) == by_the_text
    assert selective.Policy(0.9).critical_distance(np.array([1, NOBODY_ELSE])) == NOBODY_ELSE


@pytest.mark.parametrize(("threshold", "kept"), [(0.3, 6), (0.8, 2), (0.9, 1), (1.1, 0)])
def test_an_unsubscription_stops_at_the_critical_broker(threshold: float, kept: int) -> None:
    network = table_one(make_policy("selective", threshold))
    network.do(8, network.routers[8].unsubscribe(CLIENT + 8, 1, 1))
    network.settle()
    assert links_of(network, 1) == path_links(list(range(kept, -1, -1)))


def test_a_left_over_that_covers_nobody_any_more_runs_out() -> None:
    network = table_one(make_policy("selective", 0.3), lease=10)
    network.do(8, network.routers[8].unsubscribe(CLIENT + 8, 1, 1))
    network.settle()
    assert (6, 5) in links_of(network, 1)
    network.do(12, network.routers[12].unsubscribe(CLIENT + 12, 112, 1))
    for now in (10, 20):
        for broker, router in network.routers.items():
            network.do(broker, router.tick(now))
        network.settle()
    assert not links_of(network, 1)
    assert {id_ for keys in network.sent().values() for id_, _ in keys} == {110, 111}


def test_algorithm_1_by_hand() -> None:
    """At broker 1 advertisements 5 and 6 came from 0, and 7 from 2; 8 is unknown."""
    network = network_on([(0, 1), (1, 2), (1, 3)], make_policy("selective"), everyone_advertises=False)
    for broker, id_ in ((0, 5), (0, 6), (2, 7)):
        network.do(broker, network.routers[broker].advertise(CLIENT + broker, id_, 1, parse_filter("x > 0")))
    network.settle()
    router, key = network.routers[1], (1, 1)
    router.receive(3, Subscribe(0, LATE, key, parse_filter("x > 0")))
    tuples = (Prune(5, 0), Prune(6, 3), Prune(7, 0), Prune(8, 9))
    (told,) = router.receive(3, Unsubscribe(0, LATE, key, tuples))
    assert told.peer == 0  # type: ignore[union-attr]
    assert told.message == Unsubscribe(0, LATE, key, (Prune(6, 2),))  # type: ignore[union-attr]
    assert network.sent()[1, 2] == {key}


@FEWER
@given(seed=st.integers(0, 10**9))
def test_with_a_threshold_of_1_no_publication_of_the_window_comes_in_vain(seed: int) -> None:
    drawing = Drawing(random.Random(seed))
    drawing.hosts = {each: (drawing.host(), drawing.interval()) for each in range(6)}
    network = drawing.network(make_policy("selective", 1.0))
    drawing.publish_all(network)
    drawing.unsubscribe(network, 0)
    network.crossings.clear()
    network.copies.clear()
    drawing.publish_all(network, first=10_000)
    assert not vain(network)


def vain(network: Network) -> set[tuple[int, Link]]:
    """Copies on links behind which nobody gets the event."""
    children = defaultdict(list)
    for each in network.crossings:
        children[each.event, each.source].append(each.target)
    wanted = {(each.event, broker) for broker, each in network.copies if each.subscriptions}

    def useful(event: int, broker: int) -> bool:
        return (event, broker) in wanted or any(useful(event, child) for child in children[event, broker])

    return {
        (each.event, (each.source, each.target)) for each in network.crossings if not useful(each.event, each.target)
    }


@FEWER
@given(seed=st.integers(0, 10**9), threshold=st.sampled_from([0.3, 0.5, 0.9]))
def test_in_vain_comes_at_most_what_the_threshold_allows(seed: int, threshold: float) -> None:
    """Of the window's publications that the subscription got, on each link."""
    drawing = Drawing(random.Random(seed))
    drawing.hosts = {each: (drawing.host(), drawing.interval()) for each in range(6)}
    network = drawing.network(make_policy("selective", threshold))
    drawing.publish_all(network)
    got = Counter(number // 100 for number, id_ in network.deliveries() if id_ == 0)
    drawing.unsubscribe(network, 0)
    network.crossings.clear()
    network.copies.clear()
    drawing.publish_all(network)
    wasted = Counter((event // 100, link) for event, link in vain(network))
    assert all(times <= (1 - threshold) * got[publisher] + 1e-9 for (publisher, _), times in wasted.items())


@FEWER
@given(seed=st.integers(0, 10**9), other=st.sampled_from(["packing", "never pruned"]))
def test_packing_and_a_threshold_above_1_say_what_active_covering_says(seed: int, other: str) -> None:
    plays = []
    for policy in ("active", other):
        dice = random.Random(seed)
        play = Play(dice, "active", everyone_advertises=False)
        play.hasty = False
        made = make_policy("packing") if policy == "packing" else make_policy("selective", 1.1)
        if policy != "active":
            for router in play.network.routers.values():
                router.state.policy = made
                for _, flow in router.state.flows():
                    flow.policy = made
        for _ in range(30):
            dice.choice([play.subscribe, play.subscribe, play.unsubscribe, play.publish, play.move])()
            play.network.settle()
        plays.append(play.network)
    active, theirs = plays
    assert held(active) == held(theirs)
    assert said(active) == said(theirs)


def said(network: Network) -> Counter[tuple[Link, tuple[int, int], Filter | None]]:
    """All subscriptions and unsubscriptions on all links; how they are packed, and their tuples, left aside."""
    return Counter(
        (link, each.key, each.filter if isinstance(each, Subscribe) else None)
        for link, message in network.control
        for each in entries_of(message)
    )


@FEWER
@given(seed=st.integers(0, 10**9))
def test_lazy_covering_sends_no_more_and_holds_no_less_than_active(seed: int) -> None:
    """This holds as long as there are only subscriptions, and no unsubscriptions."""
    dice = random.Random(seed)
    drawing = Drawing(dice)
    drawing.hosts = {each: (drawing.host(), drawing.interval()) for each in range(10)}
    lazy, active = drawing.network(make_policy("lazy")), drawing.network(make_policy("active"))
    assert said(lazy).total() <= said(active).total()
    assert all(keys <= lazy.sent()[link] for link, keys in active.sent().items())
    assert not [message for _, message in lazy.control if isinstance(message, Unsubscribe)]


def test_paced_forwarding_sends_what_is_uncovered_at_its_rate_and_then_unsubscribes() -> None:
    network = network_on([(0, 1)], make_policy("paced"))
    router = network.routers[0]
    router.subscribe(CLIENT, 0, 1, interval(0, 100))
    for each in range(1, 31):
        router.subscribe(CLIENT, each, 1, interval(each, each + 50))
    assert router.unsubscribe(CLIENT, 0, 1) == []
    assert router.is_waiting
    sent, now = [], 0.0
    while router.is_waiting:
        now += 1
        sent.append(len(router.tick(now)))
    assert sum(sent) == 30 + 1
    assert sum(sent[:21]) <= 20  # what the bucket holds, and what it was filled with since
    assert max(sent[1:]) <= 5 + 1
    assert len(sent) > 30
    assert len(router.state.epochs[0].flows[LATE].outlets[1].sent) == 30


def test_cost_based_pruning_stops_where_it_no_longer_pays_and_lets_go_when_it_was_wrong() -> None:
    network = network_on([(0, 1), (1, 2)], make_policy("cost"), everyone_advertises=False)
    network.do(0, network.routers[0].advertise(CLIENT, 5, 1, parse_filter("x >= 0")))
    network.settle()
    subscribe = network.routers[2].subscribe
    network.do(2, subscribe(CLIENT + 2, 1, 1, interval(0, 100)))
    for each in range(2, 6):
        network.do(2, subscribe(CLIENT + 2, each, 1, interval(each, 50 + each)))
    network.settle()
    network.publish(0, CLIENT, 1, {"x": 20}, advertisement=5)  # wanted by all of them
    network.settle()
    network.do(2, network.routers[2].unsubscribe(CLIENT + 2, 1, 1))
    network.settle()
    assert network.sent()[2, 1] == {(1, 1)}  # nothing would have come in vain
    for event in range(2, 20):
        network.publish(0, CLIENT, event, {"x": 99}, advertisement=5)
        network.settle()
    assert network.sent()[2, 1] == {(each, 1) for each in range(2, 6)}
    assert network.sent()[1, 0] == {(each, 1) for each in range(2, 6)}
    assert sum(each.event > 1 for each in network.crossings) < 2 * 14


def test_policies_are_siblings() -> None:
    assert list(SUMMARIES) == ["none", "active", "lazy", "packing", "selective", "paced", "cost"]
    assert all(issubclass(module.Policy, Policy) for module in MODULES)
    with pytest.raises(UsageError, match="there is no routing policy 'eager'"):
        make_policy("eager")
