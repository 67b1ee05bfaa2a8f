"""Many subscriptions at once are no long turn: control messages are handled in slices, however large their frame is,
and entries are filed in slices, before an event comes upon all of them."""

import pytest

from overstory.broker.pacing import BURST, Pace
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


def test_a_broker_holds_a_plan_once_its_entries_are_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.preparing.ITEMS", 2)
    net = line()
    client = net.brokers[2].connect("c")
    for number in range(9):
        client.subscribe(f"x/{number}")
    net.settle()
    fabric, state = net.brokers[0].fabric, net.brokers[0].state.router.state
    for number, share in tree_shares([(0, 1), (1, 2)], epoch=2).items():
        net.brokers[number].fabric.act(net.brokers[number].state.router.install(share))
    waited = 0
    for _ in range(50):
        for one, other in ((2, 1), (1, 0), (0, 1), (1, 2)):
            net.step(one)
            net.carry(one, other)
        is_filed = state.epochs[2].table.unfiled == 0
        assert is_filed or 2 not in fabric.epochs.held
        waited += state.epochs[2].is_held and not is_filed
    assert waited > 1
    assert 2 in fabric.epochs.held


def test_a_pace_allows_a_share_of_the_time_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 100.0, "spent": 0.0, "waited": 5.0}
    monkeypatch.setattr("overstory.broker.pacing.waited", lambda: clock["waited"])
    monkeypatch.setattr("overstory.broker.pacing.perf_counter", lambda: clock["wall"])
    monkeypatch.setattr("overstory.broker.pacing.thread_time", lambda: clock["spent"])
    pace = Pace(0.1)
    pace.look(True)

    def spent_in_ten_seconds(waits: float) -> float:
        before = clock["spent"]
        for _ in range(10_000):  # a millisecond each
            clock["wall"] += 0.001
            clock["waited"] += 0.001 * waits
            while pace.may_work:
                pace.begin()
                clock["spent"] += 0.0005
                pace.end()
        return clock["spent"] - before

    assert spent_in_ten_seconds(waits=0.05) == pytest.approx(0.1 * 10, rel=0.02)
    assert spent_in_ten_seconds(waits=0.3) == pytest.approx(0.1 * 10 / 6, rel=0.1)
    assert spent_in_ten_seconds(waits=0.0) == pytest.approx(0.1 * 10, rel=0.02)
    clock["wall"] += 60  # what was not spent is not saved up
    assert pace.may_work
    pace.begin()
    clock["spent"] += BURST + 0.001
    pace.end()
    assert not pace.may_work
    assert pace.pause == pytest.approx(0.001 / 0.1)
    pace.look(False)
    assert pace.may_work
    assert pace.pause == 0
