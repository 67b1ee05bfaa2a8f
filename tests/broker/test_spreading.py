"""Retained messages are on every broker, whatever is cut, mended and restarted: the newest counts."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.broker.message import Message
from overstory.broker.spreading import MOST_REMOVED, Retain, RetainedSums, Spreading
from overstory.errors import LinkError
from overstory.routing.share import tree_shares
from overstory.wire.packets import Publish

from ..routing.network import random_tree
from .house import Client
from .nets import Net, places_in
from .test_networks import line

TOPICS = ["a", "a/b", "a/c", "d"]


def kept(net: Net) -> list[dict[str, bytes]]:
    """What each broker retains."""
    return [{m.topic: m.payload for m in broker.state.retained.all()} for broker in net.brokers.values()]


def payloads(client: Client) -> list[tuple[bytes, bool]]:
    """The messages that have come, and whether they were retained."""
    return [(packet.payload, packet.retain) for packet in client.received() if isinstance(packet, Publish)]


def settle(net: Net) -> None:
    """Until nothing is left to do, chores included."""
    net.settle()
    while any(broker.core.chores for broker in net.brokers.values()):
        for broker in net.brokers.values():
            broker.settle()
        net.settle()


@settings(max_examples=25)
@given(seed=st.integers(0, 10**9))
def test_in_the_end_all_brokers_retain_the_newest(seed: int) -> None:
    """Clocks differ by an hour. A broker that restarts has forgotten everything, and learns it from the others."""
    dice = random.Random(seed)
    net = Net(places_in(tree_shares(random_tree(dice, dice.randint(2, 5)), epoch=1)), kernels=False)
    for broker in net.brokers.values():
        broker.state.now += dice.choice([-3600, 0, 3600])
    changes: dict[str, list[tuple[Any, bytes]]] = {}
    cut: set[tuple[int, int]] = set()
    for turn in range(40):
        number = dice.choice(sorted(net.brokers))
        broker, kind = net.brokers[number], dice.random()
        if kind < 0.55:
            topic, payload = dice.choice(TOPICS), b"" if dice.random() < 0.3 else b"%d" % turn
            broker.connect().send(Publish(topic, payload, retain=True))
            changes.setdefault(topic, []).append((broker.fabric.spreading.stamp_of(topic), payload))
        elif kind < 0.7:
            link = dice.choice(net.links)
            net.cut(*link)
            if dice.random() < 0.5:
                net.down(*link)
            cut.add(link)
        elif kind < 0.85 and cut:
            net.mend(*(link := dice.choice(sorted(cut))))
            cut.discard(link)
        elif wires := sorted(net.wires):
            net.step(number)
            net.carry(*dice.choice(wires))
    for link in sorted(cut):
        net.mend(*link)
    settle(net)
    newest = {topic: max(stamped)[1] for topic, stamped in changes.items()}
    expected = {topic: payload for topic, payload in newest.items() if payload}
    assert kept(net) == [expected] * len(net.brokers)
    net.restart(dice.choice(sorted(net.brokers)), 1)
    settle(net)
    assert kept(net) == [expected] * len(net.brokers)


def test_a_change_made_in_knowledge_of_another_counts_though_its_clock_is_behind() -> None:
    net = line(kernels=False)
    net.brokers[2].state.now -= 3600
    net.brokers[0].connect().send(Publish("a", b"first", retain=True))
    settle(net)
    net.brokers[2].connect().send(Publish("a", b"second", retain=True))
    settle(net)
    assert kept(net) == [{"a": b"second"}] * 3


def test_a_subscriber_anywhere_gets_what_is_retained_and_if_it_is_not_served_yet_what_changes() -> None:
    net = line(kernels=False)
    net.brokers[0].connect().send(Publish("a", b"old", retain=True))
    settle(net)
    client = net.brokers[2].connect("reader")
    client.subscribe("a", qos=0)
    assert payloads(client) == [(b"old", True)]
    net.brokers[0].connect().send(Publish("a", b"new", retain=True))  # before broker 0 knows that anybody wants it
    net.step(0)
    net.carry(0, 1)
    settle(net)
    assert payloads(client) == [(b"new", False)]
    assert not net.brokers[2].state.unserved
    net.brokers[0].connect().send(Publish("a", b"newer", retain=True))
    settle(net)
    assert payloads(client) == [(b"newer", False)]  # once, as an event


def test_neighbours_that_agree_send_each_other_only_sums() -> None:
    net = line(kernels=False)
    for number in range(50):
        net.brokers[0].connect().send(Publish(f"t/{number}", b"x", retain=True))
    settle(net)
    before = net.brokers[0].fabric.neighbours[1].traffic.messages
    net.cut(0, 1)
    net.mend(0, 1)
    settle(net)
    assert net.brokers[0].fabric.neighbours[1].traffic.messages - before <= 6


def alone(said: list[Any]) -> Spreading:
    return Spreading(0, lambda: [1], lambda _, message: said.append(message), lambda *_: None, lambda _: None)


def test_removals_are_remembered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.spreading.MOST_REMOVED", 10)
    spreading = alone([])
    for number in range(30):
        spreading.changed(f"t/{number}", None, 0.0)
    assert [spreading.stamp_of(f"t/{number}") is not None for number in range(30)] == [False] * 20 + [True] * 10
    assert MOST_REMOVED > 10


def test_what_cannot_be_a_retained_message_is_refused() -> None:
    spreading, other = alone([]), Message("b", b"x", 0, True, {})
    for news in (
        Retain("a", -1, 0, b""),
        Retain("a", 1 << 62, 0, b""),
        Retain("a", 1, 1 << 22, b""),
        Retain("a", 1, 1, b"\xc1"),
        Retain("a", 1, 1, msgspec.msgpack.encode(other)),
    ):
        with pytest.raises(LinkError):
            spreading.hear(1, news, 0.0)
    assert spreading.stamp_of("a") is None
    assert list(spreading.compared(1, RetainedSums(((3, 7),)), lambda: 0.0)) == []
