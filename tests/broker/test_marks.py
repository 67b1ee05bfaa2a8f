"""Hosts forget what cannot come again: the mark of a publishing broker, what frames make of it, and what hosts do."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker import links
from overstory.broker.journal import Journal
from overstory.broker.marks import Marks, lowered
from overstory.broker.promises import Promise
from overstory.broker.seen import Seen
from overstory.routing.share import tree_shares
from overstory.wire.frames import Acknowledged, joined_events
from overstory.wire.packets import PUBREC, PUBREL, Ack

from .nets import Net, places_in
from .test_durable_promises import KEPT, acks, commit
from .test_neighbours import events
from .test_networks import line
from .test_spreading import settle

ONE, BOTH, OTHER = frozenset({1}), frozenset({1, 2}), frozenset({3})


def waiting(count: int = 1) -> Promise:
    promise = Promise()
    promise.wait(count)
    return promise


@given(st.integers(0, 10**9))
def test_the_mark_is_the_lowest_number_that_is_open(seed: int) -> None:
    dice, following, is_open = random.Random(seed), [100], dict[int, Promise]()
    marks = Marks(7, lambda: following[0])
    for _ in range(60):
        if dice.random() < 0.5:
            number = following[0] if dice.random() < 0.8 or following[0] - 1 in is_open else following[0] - 1
            is_open[number] = waiting()
            marks.enter(number, is_open[number])
            following[0] = max(following[0], number + 1)
        elif is_open:
            is_open.pop(dice.choice(sorted(is_open))).kept()
        assert marks.mark == min(is_open, default=following[0])
    for promise in is_open.values():
        promise.kept()
    assert marks.carried() == ({7: (100, following[0])} if following[0] > 100 else {})
    assert len(marks) == 0


def test_what_frames_carry() -> None:
    following = [10]
    marks = Marks(7, lambda: following[0])
    assert marks.carried() == {}
    following[0] = 20
    assert marks.carried() == {7: (10, 20)}
    marks.begin()  # another epoch
    following[0] = 25
    assert marks.carried() == {7: (20, 25)}
    marks.came = {3: (1, 5)}  # a neighbour's frame goes on with the marks that it has
    assert marks.carried([3, 7]) == {3: (1, 5)}
    marks.came = {}
    assert marks.carried([3, 7]) == {}


def test_a_frame_of_several_carries_what_holds_for_all() -> None:
    def one(acknowledged: Acknowledged) -> Any:
        return events(1, 2).carrying(acknowledged)

    assert joined_events([one({0: (1, 9)}), one({0: (2, 8)})]).acknowledged == {0: (2, 8)}
    assert joined_events([one({0: (1, 9)}), one({})]).acknowledged == {}
    assert lowered({0: (1, 9), 5: (1, 9)}, {0: 4}) == {0: (1, 4), 5: (1, 9)}
    assert lowered({0: (4, 9)}, {0: 4}) == {}


def test_a_host_forgets_what_is_acknowledged_and_nothing_else() -> None:
    seen = Seen(9, Journal(False))
    for number in range(10, 20):
        assert seen.is_new(1, number, ONE, keeps=True)
        assert seen.is_new(1, number, OTHER, keeps=True)
    seen.note(1, np.arange(30, 40), BOTH)
    seen.note(1, np.arange(40, 50), BOTH)
    seen.note(2, np.arange(30, 40), BOTH)
    seen.acknowledged(1, 12, 41, ONE, frozenset())
    assert len(seen) == 2 + 10 + 10 + 10
    known = {flows: [n for n in range(10, 20) if not seen.is_new(1, n, flows, keeps=False)] for flows in (ONE, OTHER)}
    assert known == {ONE: [10, 11], OTHER: list(range(10, 20))}
    assert not seen.is_new(1, 45, BOTH, keeps=False)
    seen.acknowledged(1, 45, 60, BOTH, frozenset())  # of another epoch: they wait until they are too old
    assert not seen.is_new(1, 45, BOTH, keeps=False)
    seen.acknowledged(2, 0, 60, BOTH, frozenset({2}))  # steered
    assert not seen.is_new(2, 35, BOTH, keeps=False)


def test_too_many_are_forgotten_by_age_whatever_marks_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.seen.MOST", 5)
    seen = Seen(9, Journal(False))
    for number in range(10):
        seen.is_new(1, number, ONE, keeps=False)
        if number == 7:
            seen.acknowledged(1, 6, 8, ONE, frozenset())
    for turn in range(4):
        seen.note(1, np.arange(100 + turn * 3, 103 + turn * 3), BOTH)
        if turn == 2:
            seen.acknowledged(1, 105, 109, BOTH, frozenset())
    assert len(seen) == 5 + 3
    assert not seen.is_new(1, 9, ONE, keeps=False)
    assert not seen.is_new(1, 110, BOTH, keeps=False)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_host_remembers_only_what_is_under_way(kernels: bool, qos: int) -> None:
    net = line(kernels=kernels)
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=qos)
    settle(net)
    for number in range(1, 41):
        a.publish("x", b"%d" % number, qos, packet_id=number)
        settle(net)
    assert len(acks(a)) == 40
    assert len(net.brokers[2].fabric.seen) <= 2
    assert len(c.messages()) == 40


def test_what_a_publisher_has_not_released_stays_open() -> None:
    net = line(kernels=False)
    broker, host = net.brokers[0], net.brokers[2].fabric
    broker.state.journal.keeps = True
    a, c = broker.connect("a", **KEPT), net.brokers[2].connect("c")
    c.subscribe("x", qos=2)
    settle(net)
    for number in (1, 2, 3):
        a.publish("x", b"%d" % number, 2, packet_id=number)
        commit(net, 0)
        settle(net)
        commit(net, 0)
    assert acks(a) == [(PUBREC, 1), (PUBREC, 2), (PUBREC, 3)]
    assert len(host.seen) == 3
    for number in (1, 2, 3):
        a.send(Ack(PUBREL, number))
    a.publish("x", b"4", 2, packet_id=4)
    commit(net, 0)
    settle(net)
    assert len(host.seen) == 1
    broker.connect("a")  # and takes over: the session and its events are gone
    assert broker.fabric.marks.mark == broker.state.events


def spooled_twice() -> tuple[Net, list[bytes]]:
    """An event comes to its host, whose neighbour dies before it can say so; twice. In between it waits on disk, and
    counts as acknowledged. Returns what came to the host's client."""
    net = Net(places_in(tree_shares([(0, 1), (1, 2), (2, 3)], epoch=1)), kernels=False)
    net.brokers[1].state.journal.keeps = True
    a, c = net.brokers[0].connect("a"), net.brokers[3].connect("c")
    c.subscribe("x", qos=2)
    settle(net)
    a.publish("x", b"1", 2, packet_id=1)
    for number in range(4):  # nothing comes back
        net.step(number)
        if number < 3:
            net.carry(number, number + 1)
    assert [message.payload for message in c.messages()] == [b"1"]
    net.cut(1, 2)
    net.cut(2, 3)
    net.down(1, 2)
    commit(net, 1)
    settle(net)
    assert acks(a) == [(PUBREC, 1)]
    for incarnation in (1, 2):
        net.restart(2, incarnation)
        while not net.brokers[1].fabric.neighbours[2].takes_events:
            for number in net.brokers:
                net.step(number)
                for peer in net.places[number].neighbours:
                    net.carry(number, peer)
        a.publish("x", b"%d" % (incarnation + 1), 2, packet_id=incarnation + 1)
        for number in range(4):
            net.step(number)
            if number < 3:
                net.carry(number, number + 1)
    net.restart(2, 3)
    settle(net)
    commit(net, 1)
    settle(net)
    return net, [message.payload for message in c.messages()]


def test_what_waits_on_disk_lowers_the_mark() -> None:
    net, came = spooled_twice()
    assert came == [b"2", b"3"]
    assert not net.brokers[1].fabric.neighbours[2]._lowest


def test_without_that_it_would_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "lowered", lambda acknowledged, _: acknowledged)
    assert spooled_twice()[1].count(b"1") > 0
