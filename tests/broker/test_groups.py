"""A shared group with members at many brokers is one group: each event goes to one of them, whoever comes and goes."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.broker.groups import FIRST_NUMBER
from overstory.kernels.hashing import mixed
from overstory.routing.share import tree_shares
from overstory.wire.packets import PUBACK, Ack, Asked, Connect, Disconnect, Publish, Subscribe, Unsubscribe

from ..routing.network import random_tree
from .house import Client
from .nets import Net, places_in
from .test_networks import line
from .test_spreading import settle

SHARED = "$share/g/a/#"
KEPT: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 1000}}


def homes(net: Net) -> list[int]:
    """The brokers that subscribe for a group."""
    return [n for n, broker in net.brokers.items() if any(s >= FIRST_NUMBER for s in broker.state.subscriptions)]


def came(client: Client) -> list[bytes]:
    """The payloads that have come; all are acknowledged."""
    packets = [packet for packet in client.received() if isinstance(packet, Publish)]
    for packet in packets:
        if packet.qos:
            client.send(Ack(PUBACK, packet.packet_id))
    return [packet.payload for packet in packets]


def acknowledged(client: Client) -> list[int]:
    """The packets of a publisher that are safe."""
    return [packet.packet_id for packet in client.received() if isinstance(packet, Ack) and packet.kind == PUBACK]


def member(net: Net, broker: int, name: str, qos: int = 1, **given: Any) -> Client:
    client = net.brokers[broker].connect(name, **(given or KEPT))
    client.subscribe(SHARED, qos=qos)
    settle(net)
    return client


def die(net: Net, number: int) -> None:
    """A broker dies, and its neighbours have waited for it."""
    for peer in net.places[number].neighbours:
        net.cut(number, peer)
        net.brokers[peer].fabric.down(number)
    net.brokers[number].fabric.run = lambda most: False  # type: ignore[method-assign]
    settle(net)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("qos", [0, 1])
def test_each_event_goes_to_the_one_that_its_hash_chooses_wherever_it_is(kernels: bool, qos: int) -> None:
    net = line(kernels=kernels)
    members = [member(net, broker, f"m{broker}") for broker in (2, 1, 0)]
    assert homes(net) == [0]
    sent = 0
    for entry in (0, 1, 2):
        publisher = net.brokers[entry].connect(f"p{entry}")
        for _ in range(10):
            sent += 1
            publisher.publish("a/b", b"%d" % net.brokers[entry].state.events, qos, sent)
        settle(net)
        assert acknowledged(publisher) == (list(range(sent - 9, sent + 1)) if qos else [])
        clients = {each.link.session.number: each for each in members}
        for number, client in clients.items():
            for payload in came(client):
                assert sorted(clients)[(int(mixed(int(payload))) & (2**63 - 1)) % 3] == number
                sent -= 1
        assert sent == 0


def test_the_home_moves_with_the_lowest_member_and_nothing_is_lost_or_doubled() -> None:
    net = line()
    publisher = net.brokers[1].connect("p")
    first = member(net, 2, "first")
    assert homes(net) == [2]
    second = net.brokers[0].connect("second", **KEPT)
    second.subscribe(SHARED, qos=1)
    for number in range(1, 30):  # while the home moves
        publisher.publish("a", b"%d" % number, 1, number)
        net.step(number % 3)
        for wire in sorted(net.wires)[:1]:
            net.carry(*wire)
    settle(net)
    assert homes(net) == [0]
    assert sorted(map(int, came(first) + came(second))) == list(range(1, 30))
    second.unsubscribe(SHARED)
    for number in range(30, 60):
        publisher.publish("a", b"%d" % number, 1, number)
        net.step(number % 3)
        for wire in sorted(net.wires)[:1]:
            net.carry(*wire)
    settle(net)
    assert homes(net) == [2]
    assert sorted(map(int, came(first) + came(second))) == list(range(30, 60))
    first.unsubscribe(SHARED)
    settle(net)
    assert homes(net) == []
    assert not any(broker.state.groups for broker in net.brokers.values())
    member(net, 1, "again")
    assert homes(net) == [1]


def test_with_none_connected_the_hash_chooses_among_sessions() -> None:
    net = line()
    members = [member(net, broker, f"m{broker}") for broker in (0, 2)]
    for client in members:
        client.send(Disconnect())
    settle(net)
    publisher = net.brokers[1].connect("p")
    for number in range(1, 21):
        publisher.publish("a", b"%d" % number, 1, number)
    settle(net)
    again = [net.brokers[broker].connect(f"m{broker}", **KEPT) for broker in (0, 2)]
    got = [came(client) for client in again]
    assert all(got)
    assert sorted(int(payload) for each in got for payload in each) == list(range(1, 21))


def test_what_a_member_elsewhere_did_not_acknowledge_goes_to_another_when_its_session_ends() -> None:
    net = line()
    lazy = member(net, 2, "lazy", clean_start=True)
    publisher = net.brokers[1].connect("p")
    publisher.publish("a", b"x", 1)
    settle(net)
    assert [packet.payload for packet in lazy.received() if isinstance(packet, Publish)] == [b"x"]  # no answer
    other = member(net, 0, "other")
    lazy.leave()
    settle(net)
    assert came(other) == [b"x"]


def test_another_expression_is_another_group() -> None:
    net = line()
    one, other = net.brokers[0].connect("one"), net.brokers[2].connect("other")
    one.subscribe(SHARED, where="price > 1", qos=1)
    other.subscribe(SHARED, where="price > 2", qos=1)
    settle(net)
    net.brokers[1].connect("p").publish("a", b"{}", 1, properties={"user_properties": [("price", "3")]})
    settle(net)
    assert [came(one), came(other)] == [[b"{}"], [b"{}"]]


def test_the_home_dies_and_what_waited_for_it_goes_to_others() -> None:
    net = line()
    dead = member(net, 0, "dead")
    others = [member(net, broker, f"m{broker}") for broker in (1, 2)]
    publisher = net.brokers[2].connect("p")
    for number in range(1, 31):
        publisher.publish("a", b"%d" % number, 1, number)
    settle(net)
    lost = came(dead)
    net.cut(0, 1)  # the kill: nobody knows it yet
    for number in range(31, 61):
        publisher.publish("a", b"%d" % number, 1, number)
    settle(net)
    die(net, 0)
    assert homes(net)[1:] == [1]
    later = net.brokers[2].connect("later")  # who does not wait for the dead broker
    for number in range(61, 91):
        later.publish("a", b"%d" % number, 1, number)
    settle(net)
    assert acknowledged(later) == list(range(61, 91))
    got = [payload for client in others for payload in came(client)]
    assert sorted(map(int, got + lost)) == list(range(1, 91))


def test_a_broker_with_members_dies_and_its_copies_go_to_others() -> None:
    net = line()
    here = member(net, 0, "here")
    member(net, 2, "dead")
    publisher = net.brokers[0].connect("p")
    net.cut(1, 2)  # copies are on their way, and do not come
    for number in range(1, 31):
        publisher.publish("a", b"%d" % number, 1, number)
    settle(net)
    some = came(here)
    assert 0 < len(some) < 30
    assert len(acknowledged(publisher)) < 30
    die(net, 2)
    assert sorted(map(int, some + came(here))) == list(range(1, 31))
    assert len(acknowledged(publisher)) > 0
    publisher.publish("a", b"later", 1, 31)
    settle(net)
    assert came(here) == [b"later"]


def test_copies_survive_a_broker_on_their_way_that_restarts() -> None:
    net = line()
    here, there = member(net, 0, "here"), member(net, 2, "there")
    publisher = net.brokers[0].connect("p")
    for number in range(1, 21):
        publisher.publish("a", b"%d" % number, 1, number)
    net.step(0)
    net.carry(0, 1)
    net.brokers[1].fabric.run(10**9)  # it has handled them, and dies before it passes them on
    net.restart(1, 1)
    settle(net)
    assert sorted(map(int, came(here) + came(there))) == list(range(1, 21))
    assert sorted(acknowledged(publisher)) == list(range(1, 21))


class Crowd:
    """Members that come, go and move, and messages that are under way meanwhile."""

    def __init__(self, seed: int) -> None:
        dice = self.dice = random.Random(seed)
        tree = random_tree(dice, dice.randint(2, 5))
        self.net = Net(places_in(tree_shares(tree, epoch=1)), kernels=dice.random() < 0.3)
        self.numbers = sorted(self.net.brokers)
        self.publishers = {number: self.net.brokers[number].connect(f"p{number}") for number in self.numbers}
        self.members = {"stays": member(self.net, dice.choice(self.numbers), "stays")}
        self.got: list[bytes] = []
        self.sent = 0

    def step(self) -> None:
        self.net.step(self.dice.choice(self.numbers))
        if self.net.wires:
            self.net.carry(*self.dice.choice(sorted(self.net.wires)))

    def publish(self) -> None:
        self.sent += 1
        self.publishers[self.dice.choice(self.numbers)].publish("a", b"%d" % self.sent, 1, self.sent)

    def come(self, name: str) -> None:
        client = Client(self.net.brokers[self.dice.choice(self.numbers)])
        client.send(Connect(name, **KEPT))
        while client.link.waits:
            self.step()
        self.read()
        self.members[name] = client
        client.send(Subscribe(7, (Asked(SHARED, 1),)))

    def go(self, name: str) -> None:
        client = self.members.get(name)
        if client is not None and not client.link.closed:
            client.send(Unsubscribe(8, (SHARED,)) if self.dice.random() < 0.5 else Disconnect())

    def read(self) -> None:
        for client in self.members.values():
            self.got += came(client)

    def act(self) -> None:
        name, kind = f"m{self.dice.randint(0, 3)}", self.dice.random()
        if kind < 0.35:
            self.publish()
        elif kind < 0.8:
            self.step()
        elif kind < 0.9:
            self.come(name)
        else:
            self.go(name)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_whoever_comes_goes_and_moves_each_event_goes_to_one(seed: int) -> None:
    """Members have sessions that are kept; some move, some unsubscribe; one always stays."""
    crowd = Crowd(seed)
    for _ in range(60):
        crowd.act()
    settle(crowd.net)
    for name in sorted(crowd.members):
        crowd.come(name)
    for _ in range(2):
        settle(crowd.net)
        crowd.read()
    assert set(crowd.got) == {b"%d" % number for number in range(1, crowd.sent + 1)}
    assert len(homes(crowd.net)) == 1
    assert not any(len(broker.fabric.parcels) for broker in crowd.net.brokers.values())
