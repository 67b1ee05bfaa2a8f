"""Many subscriptions at once are no long turn: control messages are handled in slices, however large their frame is,
and entries are filed in slices, before an event comes upon all of them."""

import pytest

from overstory.routing.share import tree_shares

from .nets import Net
from .test_networks import line


def test_a_broker_is_idle_once_all_entries_are_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.fabric.FILED", 2)
    net = line()
    client = net.brokers[2].connect("c")
    for number in range(9):
        client.subscribe(f"x/{number}")
    turns = 0
    fabric, table = net.brokers[0].fabric, net.brokers[0].state.router.state.epochs[1].table
    for _ in range(50):
        for one, other in ((2, 1), (1, 0), (0, 1), (1, 2)):
            net.step(one)
            net.carry(one, other)
        waiting = table._filed.waiting
        if waiting:
            assert not fabric.is_idle
            turns += 1
    assert turns > 2
    assert fabric.is_idle
    assert table._filed.waiting == 0
    assert len(table.index) == len(table) == 9


def with_a_large_frame(subscriptions: int) -> Net:
    """A broker has told its neighbour of many subscriptions in one frame, which has come."""
    net = line()
    client = net.brokers[2].connect("c")
    client.subscribe(*(f"x/{number}" for number in range(subscriptions)))
    net.step(2)
    net.carry(2, 1)
    return net


def test_a_large_frame_takes_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.state.MOST_UNFILED", 3)
    net = with_a_large_frame(30)
    fabric, table = net.brokers[1].fabric, net.brokers[1].state.router.state.epochs[1].table
    handled, turns = fabric.neighbours[2].handled, 0
    while len(table) < 30:
        assert fabric.neighbours[2].handled == handled
        fabric.run(20)
        assert len(table) <= 5 * (turns := turns + 1)
        assert table._filed.waiting <= 3
    assert turns >= 6
    net.settle()
    assert fabric.neighbours[2].handled > handled
    assert [len(broker.state.router.state.epochs[1].table) for broker in net.brokers.values()] == [30, 30, 30]


def test_the_rest_of_a_frame_goes_with_the_broker_that_sent_it() -> None:
    net = with_a_large_frame(30)
    net.brokers[1].fabric.run(20)
    assert 0 < len(net.brokers[1].state.router.state.epochs[1].table) < 30
    net.restart(2, 1)
    net.settle()
    assert [len(broker.state.router.state.epochs[1].table) for broker in net.brokers.values()] == [0, 0, 0]


def test_entries_of_a_plan_are_filed_before_it_is_in_use() -> None:
    net = line()
    client = net.brokers[2].connect("c")
    for number in range(9):
        client.subscribe(f"x/{number}")
    net.settle()
    for number, share in tree_shares([(0, 1), (1, 2)], epoch=2).items():
        net.brokers[number].fabric.act(net.brokers[number].state.router.install(share))
    net.settle()
    for broker in net.brokers.values():
        broker.fabric.run(1)
        state = broker.state.router.state
        assert (state.active, len(state.epochs[2].table), state.epochs[2].table._filed.waiting) == (1, 9, 0)
