"""The will of a client whose broker dies is published by another; a directory that restarts learns who owns what."""

from typing import Any

import pytest

from overstory.broker.testaments import PATIENCE
from overstory.wire.packets import Connect, Publish, Will

from .house import Client
from .nets import Net
from .test_groups import die
from .test_networks import line
from .test_spreading import settle

KEPT: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 1000}}


def wills(client: Client) -> list[bytes]:
    return [packet.payload for packet in client.received() if isinstance(packet, Publish)]


def pass_time(net: Net, seconds: float, *but: int) -> None:
    for number, broker in net.brokers.items():
        if number not in but:
            broker.pass_time(seconds)
    settle(net)


def watched(delay: int = 0, clients: int = 8) -> tuple[Net, Client, list[Client]]:
    """Clients with wills at broker 0, among whose directory brokers are all three; and one who reads wills at 2."""
    net = line()
    reader = net.brokers[2].connect("reader")
    reader.subscribe("will/#", qos=0)
    properties = {"will_delay_interval": delay} if delay else {}
    made = [
        net.brokers[0].connect(f"k{n}", will=Will(f"will/{n}", b"%d" % n, 0, False, properties), **KEPT)
        for n in range(clients)
    ]
    settle(net)
    assert {net.brokers[0].fabric.roaming.directory_of(f"k{n}") for n in range(clients)} == {0, 1, 2}
    return net, reader, made


@pytest.mark.parametrize("delay", [0, 30])
def test_when_a_broker_dies_the_wills_of_its_clients_are_published_after_their_delay(delay: int) -> None:
    net, reader, made = watched(delay)
    made[0].leave()  # says goodbye: no will
    settle(net)
    die(net, 0)
    pass_time(net, 0, 0)
    if delay:
        assert wills(reader) == []
        pass_time(net, delay, 0)
    assert sorted(wills(reader)) == [b"%d" % n for n in range(1, 8)]
    pass_time(net, 100, 0)
    assert wills(reader) == []


def test_the_will_of_a_client_that_is_back_is_not_published() -> None:
    net, reader, _ = watched(30)
    die(net, 0)
    for number in (1, 2):
        for n in range(4 * number - 4, 4 * number):
            client = Client(net.brokers[number])
            client.send(Connect(f"k{n}", **KEPT))
        settle(net)
    pass_time(net, 5, 0)  # those whose directory broker is dead have waited for it
    settle(net)
    pass_time(net, 100, 0)
    assert wills(reader) == []


def test_a_broker_that_cannot_be_reached_for_a_while_has_not_died_for_good() -> None:
    net, reader, _ = watched(30)
    net.cut(0, 1)
    net.down(0, 1)
    settle(net)
    net.mend(0, 1)
    settle(net)
    pass_time(net, 100)
    assert wills(reader) == []


def test_a_broker_that_restarts_at_once_has_lost_its_clients_too() -> None:
    net, reader, _ = watched()
    net.restart(0, 1)
    settle(net)
    back = net.brokers[0].connect("k3", **KEPT)
    settle(net)
    pass_time(net, PATIENCE)
    assert sorted(wills(reader)) == [b"%d" % n for n in range(8) if n != 3]
    assert back.link.session is not None


def test_a_directory_that_restarts_asks_who_owns_what() -> None:
    net = line()
    for n in range(8):
        net.brokers[0].connect(f"k{n}", **KEPT).subscribe("a")
    settle(net)
    net.restart(1, 1)
    settle(net)
    moved = [net.brokers[2].connect(f"k{n}", **KEPT) for n in range(8)]
    settle(net)
    assert all(client.connack.session_present for client in moved)
    assert not net.brokers[0].state.sessions
