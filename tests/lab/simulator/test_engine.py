"""Virtual time: the same seed gives the same run, queues are what they should be, and nothing is lost on the way."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.ahead import CLIENTS, EPOCH, Decision
from overstory.lab.simulator.engine import Engine, Input, Node, Publication, Service
from overstory.lab.simulator.record import PUBLICATIONS
from overstory.lab.simulator.topology import Topology
from overstory.matching import Batch
from overstory.routing.frames import Frames, Header, Steered
from overstory.routing.messages import LATE, Output
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
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_what_was_decided_ahead_is_what_the_router_decides_then(seed: int, policy: str) -> None:
    """Whatever has come into the table since or gone from it."""
    script = Script(seed, policy)
    expected: Counter[tuple[int, ...]] = Counter()
    for broker, node in script.engine._nodes.items():
        decide = node.ahead.decision

        def checked(number: int, broker: int = broker, node=node, decide=decide) -> Decision:  # type: ignore[no-untyped-def]
            decision: Decision = decide(number)
            assert repr(decision) == repr(node.ahead._decide(np.array([number]))[0])
            flow = node.router.state.epochs[EPOCH].flows[LATE]
            matching = node.table.index.match({"x": float(script.values[number])})
            wanting = set(node.table.entries(matching).tolist())
            here = [each.number for (hop, _), each in flow.entries.items() if hop >= CLIENTS and each.number in wanting]
            assert sorted(decision.delivered.tolist()) == sorted(map(node.table.serial, here))
            expected[number, broker] += 1
            return decision

        node.ahead.decision = checked  # type: ignore[method-assign]
    script.engine.run()
    assert set(expected.values()) <= {1}  # no publication comes to a broker twice
    assert expected.total() == script.engine.record.total(PUBLICATIONS) + len(script.times)


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_headers_are_those_that_routers_write(seed: int, policy: str) -> None:
    """A publication leaves a broker with the distance and the count that its router says, which is given the frame."""
    script = Script(seed, policy)
    engine, compared = script.engine, 0
    route, push = engine._route, engine._push
    sent: list[tuple[int, int]] = []

    def pushed(time: float, target: int, source: int, message: Input) -> None:
        if isinstance(message, Publication):
            sent.append((message.distance, message.shared))
        push(time, target, source, message)

    def routed(node: Node, time: float, source: int, message: Publication) -> Sequence[Output]:
        nonlocal compared
        number, entry = message.number, int(script.entries[message.number])
        header = Header(np.array([entry]), np.array([message.distance]), np.array([message.shared]))
        frames = Frames(
            EPOCH,
            Batch({"x": script.values[number : number + 1]}),
            np.array([number]),
            np.array([CLIENTS + entry]),
            np.array([entry]),
            np.array([source]),
            [frozenset({LATE})],
            Steered.none(1),
            header,
        )
        left = node.router.decide(frames).header
        sent.clear()
        outputs = route(node, time, source, message)
        assert set(sent) <= {(int(left.distances[0]), int(left.counts[0]))}
        compared += len(sent)
        return outputs

    engine._route, engine._push = routed, pushed  # type: ignore[method-assign]
    engine.run()
    assert compared == engine.record.total(PUBLICATIONS)


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
