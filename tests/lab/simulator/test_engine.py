"""Virtual time: the same seed gives the same run, queues are what they should be, and nothing is lost on the way."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.engine import CLIENTS, EPOCH, Engine, Service
from overstory.lab.simulator.record import PUBLICATIONS
from overstory.lab.simulator.topology import Topology
from overstory.routing.messages import LATE
from overstory.routing.policies import SUMMARIES, make_policy

from ...routing.network import FEWER, random_tree

POLICIES = sorted(SUMMARIES)


def small(dice: random.Random) -> Topology:
    links = tuple(random_tree(dice, dice.randint(2, 7)))
    brokers = tuple(sorted({end for link in links for end in link}))
    publishers = tuple(dice.sample(brokers, dice.randint(1, 2)))
    return Topology(links, brokers[:1], brokers[1:2], publishers, brokers, (brokers,))


def interval(dice: random.Random) -> Filter:
    low = dice.randint(0, 20)
    return parse_filter(f"x BETWEEN {low} AND {low + dice.choice([1, 4, 8, 30])}")


class Script:
    """Random subscriptions, unsubscriptions and publications, at random times."""

    def __init__(self, seed: int, policy: str) -> None:
        dice = random.Random(seed)
        self.topology = small(dice)
        self.engine = Engine(self.topology, make_policy(policy, 0.7), Service())
        self.alive: dict[int, tuple[float, float, int, Filter]] = {}
        for id_ in range(dice.randint(1, 15)):
            begin, broker, wanted = dice.uniform(0, 100), dice.choice(self.topology.subscribers), interval(dice)
            end = begin + dice.uniform(10, 150) if dice.random() < 0.5 else float("inf")
            self.alive[id_] = (begin, end, broker, wanted)
            self.engine.subscribe(begin, broker, id_, 1, wanted)
            if end < float("inf"):
                self.engine.unsubscribe(end, broker, id_, 1)
        self.times = np.sort(np.array([dice.uniform(0, 300) for _ in range(40)]))
        self.values = np.array([float(dice.randint(0, 30)) for _ in range(40)])
        self.entries = np.array([dice.choice(self.topology.publishers) for _ in range(40)])
        self.engine.publish(self.times, self.values, self.entries)

    def wanted(self, number: int, margin: float) -> set[int]:
        """Brokers with a subscription that has been there for a while, and stays for a while."""
        time, event = float(self.times[number]), {"x": float(self.values[number])}
        return {
            broker
            for begin, end, broker, wanted in self.alive.values()
            if begin + margin < time < end - margin and wanted.matches(event)
        }


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_nothing_is_lost_on_the_way(seed: int, policy: str) -> None:
    script = Script(seed, policy)
    script.engine.run()
    got = script.engine.record.deliveries()
    for number in range(len(script.times)):
        required, possible = script.wanted(number, 5.0), script.wanted(number, -5.0)
        received = {broker for event, broker in got if event == number}
        assert required <= received <= possible


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_the_same_seed_gives_the_same_run(seed: int, policy: str) -> None:
    logs = []
    for _ in range(2):
        script, log = Script(seed, policy), list[str]()
        handle = script.engine._handle

        def noted(time: float, broker: int, source: int, message: object, log: list[str] = log, handle=handle) -> None:  # type: ignore[no-untyped-def]
            log.append(f"{time!r} {broker} {source} {message!r}")
            handle(time, broker, source, message)

        script.engine._handle = noted  # type: ignore[method-assign]
        script.engine.run()
        logs.append(log)
    assert logs[0] == logs[1]
    assert len(logs[0]) >= 40


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(["selective", "cost"]))
def test_matching_ahead_and_headers_are_the_routers(seed: int, policy: str) -> None:
    """Each host's window is what it gets if the router itself routes the same publications one by one."""
    script = Script(seed, policy)
    engine = script.engine
    expected: Counter[tuple[int, ...]] = Counter()
    route = engine._route

    def checked(time: float, broker: int, source: int, message):  # type: ignore[no-untyped-def]
        router = engine.routers[broker]
        number = message.number
        ahead = engine._looked_ahead(broker, router, number)
        wanting = router.state.epochs[EPOCH].table.index.match({"x": float(script.values[number])})
        first, stop = ahead.starts[number - ahead.first], ahead.starts[number - ahead.first + 1]
        flow = router.state.epochs[EPOCH].flows[LATE]
        here = {each.number for (hop, _), each in flow.entries.items() if hop >= CLIENTS}
        serials = [router.state.epochs[EPOCH].table.serial(each) for each in wanting.tolist() if each in here]
        assert ahead.delivered[first:stop].tolist() == serials
        expected[number, broker] += 1
        return route(time, broker, source, message)

    engine._route = checked  # type: ignore[method-assign]
    engine.run()
    assert set(expected.values()) <= {1}  # no publication comes to a broker twice
    assert expected.total() == engine.record.total(PUBLICATIONS) + len(script.times)


def test_a_queue_is_served_in_order_and_its_length_is_counted() -> None:
    topology = Topology(((0, 1),), (0,), (), (0,), (1,), ((1,),))
    service = Service(publication=1.0, publication_per_entry=0.0, link=0.5)
    engine = Engine(topology, make_policy("active"), service)
    engine.subscribe(0.0, 1, 7, 1, parse_filter("x >= 0"))
    engine.publish(np.array([10.0, 10.0, 10.0]), np.array([1.0, 2.0, 3.0]), np.array([0, 0, 0]))
    engine.run()
    assert engine.record.delays(np.arange(3)) == pytest.approx([2.5, 3.5, 4.5])
    assert engine.record.queue(0, np.array([9.0, 10.0, 11.0, 12.5, 13.5])).tolist() == [0, 3, 2, 1, 0]
    assert engine.record.table_sizes(0, np.array([0.0, 9.0])).tolist() == [0, 1]
    vain, every = engine.record.false_positives()
    assert (vain.total(), every) == (0, {(0, 1): 3})
