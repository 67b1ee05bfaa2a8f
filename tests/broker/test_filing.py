"""Entries that neighbours told a broker of are filed in slices, before an event comes upon all of them."""

import pytest

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
