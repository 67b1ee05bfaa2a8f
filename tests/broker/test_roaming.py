"""A client that connects elsewhere finds its session there; nothing is lost on the way, and nothing comes twice."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.broker.roaming import PATIENCE
from overstory.routing.share import tree_shares
from overstory.wire.packets import PUBACK, Ack, Code, ConnAck, Connect, Disconnect, Publish

from ..routing.network import random_tree
from .house import Client
from .nets import Net, places_in
from .test_networks import line
from .test_spreading import settle

KEPT: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 1000}}


def came(client: Client, before: Sequence[bytes] = ()) -> list[bytes]:
    """The payloads of messages that have come; those of QoS 1 are acknowledged. One that was in flight when the client
    went may come again, and says so."""
    packets = [packet for packet in client.received() if isinstance(packet, Publish)]
    for packet in packets:
        if packet.qos:
            client.send(Ack(PUBACK, packet.packet_id))
    return [packet.payload for packet in packets if not (packet.duplicate and packet.payload in before)]


def sessions(net: Net) -> list[int]:
    """The brokers that have a session of the client ``c``."""
    return [number for number, broker in net.brokers.items() if "c" in broker.state.sessions]


@pytest.mark.parametrize("kernels", [True, False])
def test_a_client_finds_its_session_what_waits_and_what_is_in_flight_at_another_broker(kernels: bool) -> None:
    net = line(kernels=kernels)
    client = net.brokers[0].connect("c", **KEPT)
    client.subscribe("a/#", qos=1)
    settle(net)
    publisher = net.brokers[1].connect("p")
    publisher.send(Publish("a/1", b"in flight", 1, packet_id=1))
    settle(net)
    assert [p.payload for p in client.received() if isinstance(p, Publish)] == [b"in flight"]  # and no answer to it
    client.send(Disconnect())
    publisher.send(Publish("a/2", b"waits", 1, packet_id=2))
    settle(net)
    again = net.brokers[2].connect("c", **KEPT)
    assert again.connack.session_present
    settle(net)
    assert came(again) == [b"in flight", b"waits"]
    assert sessions(net) == [2]
    for number, entry in enumerate((0, 1, 2)):
        net.brokers[entry].connect(f"p{entry}").send(Publish("a/3", b"%d" % number, 1, packet_id=3))
        settle(net)
    assert came(again) == [b"0", b"1", b"2"]
    assert not net.brokers[0].state.subscriptions
    assert again.subscribe("b").codes == (2,)


def test_two_clients_with_one_id_and_the_older_gets_0x8e() -> None:
    net = line()
    first = net.brokers[0].connect("c", **KEPT)
    second = net.brokers[2].connect("c", **KEPT)
    assert [packet.code for packet in first.received() if isinstance(packet, Disconnect)] == [Code.TAKEN_OVER]
    assert first.link.closed
    assert second.connack.session_present
    assert sessions(net) == [2]
    third = net.brokers[0].connect("c", clean_start=True)
    assert not third.connack.session_present
    assert second.link.closed
    settle(net)
    assert sessions(net) == [0]


@pytest.mark.parametrize("cut", [(0, 1), (1, 2)])
def test_nobody_is_refused_though_the_session_cannot_be_reached(cut: tuple[int, int]) -> None:
    """And when it can be, its old owner lets go of it."""
    net = line()
    net.brokers[0].connect("c", **KEPT).subscribe("a")
    settle(net)
    net.cut(*cut)
    client = Client(net.brokers[2])
    client.send(Connect("c", **KEPT))
    settle(net)
    assert client.received() == []
    for broker in net.brokers.values():
        broker.pass_time(PATIENCE)
    (answer,) = client.received()
    assert isinstance(answer, ConnAck)
    assert (answer.code, answer.session_present) == (Code.SUCCESS, False)
    net.mend(*cut)
    settle(net)
    assert sessions(net) == [2]
    assert not net.brokers[0].state.subscriptions


@settings(max_examples=30)
@given(seed=st.integers(0, 10**9))
def test_wherever_it_goes_and_whatever_is_under_way_each_message_comes_once(seed: int) -> None:
    """Messages of QoS 1, published anywhere at any time. Its connections end in good order, or are taken over."""
    dice = random.Random(seed)
    net = Net(places_in(tree_shares(random_tree(dice, dice.randint(2, 5)), epoch=1)), kernels=dice.random() < 0.5)
    publishers = {number: broker.connect(f"p{number}") for number, broker in net.brokers.items()}
    client = net.brokers[0].connect("c", **KEPT)
    client.subscribe("a", qos=1)
    settle(net)
    got: list[bytes] = []
    sent = 0

    def publish() -> None:
        nonlocal sent
        sent += 1
        entry = dice.choice(sorted(net.brokers))
        publishers[entry].send(Publish("a", b"%d" % sent, 1, packet_id=sent))

    def step() -> None:
        net.step(dice.choice(sorted(net.brokers)))
        if net.wires:
            net.carry(*dice.choice(sorted(net.wires)))

    for _ in range(40):
        kind = dice.random()
        if kind < 0.35:
            publish()
        elif kind < 0.85:
            step()
        else:
            got += came(client, got)  # what is acknowledged is not sent again
            if dice.random() < 0.5:
                client.send(Disconnect())
            then = Client(net.brokers[dice.choice(sorted(net.brokers))])
            then.send(Connect("c", **KEPT))
            while then.link.waits:
                dice.choice([publish, step, step, step, step])()
            got += came(client, got)
            client = then
            for broker in net.brokers.values():
                while broker.tick is not None and broker.tick.pending:
                    broker.tick.run()
        got += came(client, got)
    settle(net)
    got += came(client, got)
    assert Counter(got) == Counter(b"%d" % number for number in range(1, sent + 1))
    assert len(sessions(net)) == 1
    assert sum(len(broker.state.subscriptions) for broker in net.brokers.values()) == 1
