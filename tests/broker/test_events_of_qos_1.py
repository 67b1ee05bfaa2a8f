"""Events of QoS 1 go from broker to broker by kernels: many with one promise, and none twice."""

import numpy as np
import pytest

from overstory.broker.carrying import Carrying
from overstory.broker.journal import Journal
from overstory.broker.promises import Promise, Runs, joined, runs_of
from overstory.broker.seen import MOST, Seen
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, Ack, Publish

from .nets import Net
from .test_networks import line

FLOWS, OTHERS = frozenset({1}), frozenset({2})


def published(net: Net, numbers: range) -> tuple[list[int], list[tuple[int, bytes]]]:
    """Publishes at the first broker, QoS 0 and 1 in turns. What is acknowledged, and what a client at the last gets."""
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    packets = [Publish("x", b"%d" % n, n % 2, packet_id=n * (n % 2)) for n in numbers]
    net.brokers[0].deliver(a.link, b"".join(map(encode, packets)))
    assert a.received() == []
    net.settle()
    answers = [packet.packet_id for packet in a.received() if isinstance(packet, Ack) and packet.kind == PUBACK]
    return answers, [(one.qos, one.payload) for one in c.received() if isinstance(one, Publish)]


def test_no_event_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = published(line(kernels=False), range(1, 20))
    monkeypatch.setattr(Carrying, "read", None)
    assert published(line(), range(1, 20)) == plain
    assert plain[0] == list(range(1, 20, 2))


def test_a_frame_that_comes_again_is_handed_out_once() -> None:
    """The last broker's links begin anew: it has everything, and the one before it does not know that."""
    net = line()
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    for n in (1, 2, 3):
        a.publish("x", b"%d" % n, 1, packet_id=n)
    for number in (0, 1):
        net.step(number)
        net.carry(number, number + 1)
    net.brokers[2].fabric.run(1000)
    sent = net.brokers[1].fabric.neighbours[2]
    (again,) = sent.unsafe_events()
    assert a.received() == []
    net.brokers[1].fabric.send(2, again, [])  # as a broker before this one would after a restart
    net.settle()
    assert [one.payload for one in c.received() if isinstance(one, Publish)] == [b"1", b"2", b"3"]
    assert len([one for one in a.received() if isinstance(one, Ack)]) == 3


def test_arrays_and_single_events_are_remembered_alike() -> None:
    seen = Seen(9, Journal(False))
    assert seen.are_new(1, np.array([5, 6, 8]), FLOWS)
    seen.note(1, np.array([5, 6, 8]), FLOWS)
    assert not seen.are_new(1, np.array([8, 9]), FLOWS)
    assert not seen.are_new(1, np.array([7]), FLOWS)  # which is not known, but has to be asked about alone
    assert seen.are_new(1, np.array([5]), OTHERS)
    assert seen.are_new(2, np.array([5]), FLOWS)
    assert [seen.is_new(1, event, FLOWS, False) for event in (5, 7, 8, 7, 10)] == [False, True, False, False, True]
    assert not seen.are_new(1, np.array([10]), FLOWS)
    assert seen.are_new(1, np.array([11]), FLOWS)
    assert not seen.are_new(9, np.array([11]), FLOWS)  # published here: asked about one by one


def test_a_host_remembers_no_more_than_so_many() -> None:
    seen = Seen(9, Journal(False))
    for first in range(0, 3 * MOST, 1000):
        seen.note(1, np.arange(first, first + 1000), FLOWS)
        assert len(seen) <= MOST
    assert not seen.is_new(1, 3 * MOST - 1, FLOWS, False)
    assert seen.is_new(1, 0, FLOWS, False)


def test_a_promise_for_many_is_kept_as_often_as_it_was_given() -> None:
    one, other = Promise(), Promise()
    together = joined([(Runs([(one, 3), (None, 2)]), 5), ([], 4), ([other, None], 2)])
    assert isinstance(together, Runs)
    assert together.one_by_one() == [one] * 3 + [None] * 6 + [other, None]
    for promise, count in runs_of(together):
        promise.wait(count)
    assert (one.waits, other.waits) == (3, 1)
    assert joined([([], 2), ([], 3)]) == []
