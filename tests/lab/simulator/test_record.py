"""The record's numbers: against what was seen on the links, counted anew, and against small cases counted by hand."""

from collections import Counter
from collections.abc import Iterable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.lab.simulator.engine import Engine, Input, Operation, Publication, Service, Tick
from overstory.lab.simulator.record import PUBLICATIONS, SUBSCRIPTIONS, UNSUBSCRIPTIONS
from overstory.lab.simulator.topology import Topology
from overstory.model.values import Attributes
from overstory.routing.frames import NOWHERE, Flows
from overstory.routing.messages import Message, Output, Send, Subscribe, Unsubscribe
from overstory.routing.policies import make_policy
from overstory.routing.router import Router

from ...routing.network import FEWER, Link, entries_of, interval
from .test_engine import POLICIES, Script

BROAD = 1  # a subscription that covers all others


class Seen:
    """All that was handed over the links of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.publications: list[tuple[int, Link]] = []
        self.control: list[tuple[Link, Message]] = []
        push = engine._push

        def noted(time: float, target: int, source: int, message: Input) -> None:
            if isinstance(message, Publication):
                if source != NOWHERE:
                    self.publications.append((message.number, (source, target)))
            elif not isinstance(message, (Operation, Tick)):
                self.control.append(((source, target), message))
            push(time, target, source, message)

        engine._push = noted  # type: ignore[method-assign]

    def entries(self) -> list[tuple[Link, Subscribe | Unsubscribe]]:
        return [(link, each) for link, message in self.control for each in entries_of(message)]


def behind(topology: Topology, link: Link) -> set[int]:
    """The brokers on the far side of a link."""
    tree = nx.Graph(topology.links)
    tree.remove_edge(*link)
    found: set[int] = nx.node_connected_component(tree, link[1])
    return found


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES), since=st.sampled_from([0.0, 50.0, 150.0, 400.0]))
def test_a_copy_is_in_vain_if_nobody_behind_the_link_got_the_publication(seed: int, policy: str, since: float) -> None:
    script = Script(seed, policy)
    seen = Seen(script.engine)
    script.engine.run()
    got = script.engine.record.deliveries()
    every, vain = Counter[Link](), Counter[Link]()
    for number, link in seen.publications:
        if script.times[number] >= since:
            every[link] += 1
            vain[link] += not any((number, broker) in got for broker in behind(script.topology, link))
    assert script.engine.record.false_positives(since) == (vain, every)


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_messages_are_counted_by_kind_and_link_and_packets_by_link(seed: int, policy: str) -> None:
    script = Script(seed, policy)
    seen = Seen(script.engine)
    script.engine.run()
    record = script.engine.record
    assert record.messages == {
        SUBSCRIPTIONS: Counter(link for link, each in seen.entries() if isinstance(each, Subscribe)),
        UNSUBSCRIPTIONS: Counter(link for link, each in seen.entries() if isinstance(each, Unsubscribe)),
        PUBLICATIONS: Counter(link for _, link in seen.publications),
    }
    assert record.total(SUBSCRIPTIONS) + record.total(UNSUBSCRIPTIONS) == len(seen.entries())
    assert record.total(PUBLICATIONS) == len(seen.publications)
    assert record.packets == Counter(link for link, _ in seen.control)


class Causes:
    """Says of every subscription that a router sends whether it should be called triggered, by what led to it."""

    def __init__(self, router: Router) -> None:
        self.right = self.wrong = 0
        subscribe, unsubscribe, tick = router.subscribe, router.unsubscribe, router.tick
        receive, came_in_vain = router.receive, router.came_in_vain

        def received(peer: int, message: Message) -> list[Output]:
            """What is packed comes here again, one by one."""
            outputs = receive(peer, message)
            if isinstance(message, (Subscribe, Unsubscribe)):
                self.compare(outputs, isinstance(message, Unsubscribe) or message.triggered)
            return outputs

        def wasted(number: int, flows: Flows, peer: int, event: Attributes) -> list[Output]:
            return self.compare(came_in_vain(number, flows, peer, event), True)

        router.subscribe = lambda *given: self.compare(subscribe(*given), False)  # type: ignore[method-assign]
        router.unsubscribe = lambda *given: self.compare(unsubscribe(*given), True)  # type: ignore[method-assign]
        router.tick = lambda now: self.compare(tick(now), True)  # type: ignore[method-assign]
        router.receive, router.came_in_vain = received, wasted  # type: ignore[method-assign]

    def compare(self, outputs: list[Output], triggered: bool) -> list[Output]:
        for said in (each for output in outputs if isinstance(output, Send) for each in entries_of(output.message)):
            if isinstance(said, Subscribe):
                self.right += said.triggered == triggered
                self.wrong += said.triggered != triggered
        return outputs


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_triggered_is_what_an_unsubscription_led_to_and_messages_with_it_are_counted(seed: int, policy: str) -> None:
    """In the end everything is led to by what a client does, by time, or by a publication that came in vain."""
    script = Script(seed, policy)
    causes = [Causes(router) for router in script.engine.routers.values()]
    seen = Seen(script.engine)
    script.engine.run()
    record = script.engine.record
    assert sum(each.wrong for each in causes) == 0
    assert sum(each.right for each in causes) == record.total(SUBSCRIPTIONS)
    assert record.triggered == Counter(target for (_, target), message in seen.control if is_triggered(message))


def is_triggered(message: Message) -> bool:
    return any(isinstance(each, Subscribe) and each.triggered for each in entries_of(message))


def fork(policy: str) -> Engine:
    """Broker 0 has the publisher, and brokers 2 and 3 have the subscribers; 1 is between them."""
    topology = Topology(((0, 1), (1, 2), (1, 3)), (1,), (), (0,), (2, 3), ((2, 3),))
    return Engine(topology, make_policy(policy, 0.7), Service())


def subscribed(engine: Engine, subscriptions: Iterable[tuple[int, int, float, float]]) -> None:
    """One after another: the broker, the subscription, and the interval that it wants."""
    for time, (broker, id_, low, high) in enumerate(subscriptions):
        engine.subscribe(float(time), broker, id_, 1, interval(low, high))


def test_in_vain_by_hand() -> None:
    """Of what the broad subscription gets, 80 % is wanted at its host anyway: so it stays on both links."""
    engine = fork("selective")
    subscribed(engine, [(2, BROAD, 0, 100), (2, 2, 0, 50), (3, 3, 60, 70)])
    engine.unsubscribe(100.0, 2, BROAD, 1)
    before = [10.0] * 8 + [80.0] * 2
    after = [20.0] * 3 + [90.0] * 4 + [65.0] * 5 + [200.0] * 6
    times = [10.0 + each for each in range(len(before))] + [200.0 + each for each in range(len(after))]
    engine.publish(np.array(times), np.array(before + after), np.zeros(len(times), np.int64))
    engine.run()
    vain = Counter({(0, 1): 4, (1, 2): 4 + 5})  # what is 65 is wanted at broker 3
    every = Counter({(0, 1): 10 + 3 + 4 + 5, (1, 2): 10 + 3 + 4 + 5, (1, 3): 5})
    assert engine.record.false_positives() == (vain, every)
    later = Counter({(0, 1): 4 + 5, (1, 2): 4 + 5, (1, 3): 5})
    assert engine.record.false_positives(since=203.0) == (vain, later)
    assert engine.record.false_positives(since=205.0)[0] == Counter({(0, 1): 2, (1, 2): 2 + 5})
    assert engine.record.triggered.total() == 0


def test_nothing_comes_in_vain_once_the_broad_one_has_gone_from_all_links() -> None:
    engine = fork("active")
    subscribed(engine, [(2, BROAD, 0, 100), (2, 2, 0, 50), (3, 3, 60, 70)])
    engine.unsubscribe(100.0, 2, BROAD, 1)
    values = np.array([20.0, 90.0, 65.0])
    engine.publish(np.array([200.0, 201.0, 202.0]), values, np.zeros(3, np.int64))
    engine.run()
    assert engine.record.false_positives() == (Counter(), Counter({(0, 1): 2, (1, 2): 1, (1, 3): 1}))


@pytest.mark.parametrize(
    ("policy", "triggered", "packets"),
    [
        ("active", {1: 3, 0: 4}, {(2, 1): 1 + 3 + 1, (3, 1): 1, (1, 0): 1 + 4 + 1}),
        ("lazy", {1: 3, 0: 4}, {(2, 1): 1 + 3 + 1, (3, 1): 1, (1, 0): 1 + 4 + 1}),
        ("packing", {1: 1, 0: 1}, {(2, 1): 1 + 1, (3, 1): 1, (1, 0): 1 + 1}),
        ("none", {}, {(2, 1): 5 + 1, (3, 1): 2, (1, 0): 7 + 1}),
    ],
)
def test_triggered_by_hand(policy: str, triggered: dict[int, int], packets: dict[Link, int]) -> None:
    """When the broad one leaves, its broker sends three that it covered; the next one has a fourth, from elsewhere.

    A fifth is covered by one of the three, and a sixth by the fourth: they stay where they are.
    """
    engine = fork(policy)
    at_two = [(2, 2, 1, 9), (2, 3, 11, 19), (2, 4, 21, 29), (2, 5, 12, 13)]
    subscribed(engine, [(2, BROAD, 0, 100), *at_two, (3, 6, 31, 39), (3, 7, 32, 33)])
    engine.unsubscribe(100.0, 2, BROAD, 1)
    engine.run()
    assert engine.record.triggered == triggered
    assert engine.record.packets == packets
    assert engine.record.messages[UNSUBSCRIPTIONS] == {(2, 1): 1, (1, 0): 1}
