"""A session is at the new broker before its client is asked to go there: nothing is lost, and nothing comes twice."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.broker.facts import AT
from overstory.broker.moving import PATIENCE, WAIT
from overstory.broker.pressure import MoveLimits
from overstory.broker.replicas import KEPT
from overstory.broker.standing import Address
from overstory.routing.share import tree_shares
from overstory.wire.packets import MQTT_3_1_1, Code, Connect, Disconnect, Publish

from ..routing.network import random_tree
from .house import Client
from .nets import Net, places_in
from .test_roaming import KEPT as LASTING
from .test_roaming import came, sessions
from .test_spreading import settle

LINE = [(0, 1), (1, 2)]


def net_of(links: list[tuple[int, int]] = LINE, **settings: Any) -> Net:
    """Brokers that know each other's addresses."""
    net = Net(places_in(tree_shares(links, epoch=1)), **settings)
    for number, broker in net.brokers.items():
        broker.fabric.facts.say(AT, "", msgspec.json.encode(Address("", f"host{number}:1883")))
    settle(net)
    return net


def redirected(client: Client) -> tuple[int, str]:
    """The reason and the address with which a client was sent elsewhere."""
    *_, last = client.received()
    assert isinstance(last, Disconnect)
    return last.code, last.properties["server_reference"]


def copies(net: Net) -> list[int]:
    return [broker.fabric.roaming.replicas.copies for broker in net.brokers.values()]


def subscriptions(net: Net) -> list[int]:
    return [len(broker.state.subscriptions) for broker in net.brokers.values()]


@pytest.mark.parametrize("kernels", [True, False])
def test_what_is_in_flight_what_waits_and_packet_ids_are_there_before_the_client(kernels: bool) -> None:
    net = net_of(kernels=kernels)
    client = net.brokers[0].connect("c", **LASTING)
    client.subscribe("a/#", qos=1)
    settle(net)
    publisher = net.brokers[1].connect("p")
    publisher.send(Publish("a/1", b"in flight", 1, packet_id=1))
    settle(net)
    (sent,) = client.messages()
    net.brokers[0].fabric.moving.ask({"c": 2})
    assert not client.link.closed  # it is served here until the copy is ready
    assert subscriptions(net) == [1, 0, 0]
    settle(net)
    assert redirected(client) == (Code.USE_ANOTHER_SERVER, "host2:1883")
    assert (copies(net), subscriptions(net), sessions(net)) == ([0, 0, 1], [1, 0, 1], [0])
    publisher.send(Publish("a/2", b"meanwhile", 1, packet_id=2))
    settle(net)
    net.cut(0, 1)  # the old broker is not needed any more, but for the directory
    if net.brokers[0].fabric.roaming.directory_of("c") == 0:
        net.mend(0, 1)
    again = net.brokers[2].connect("c", **LASTING)
    assert again.connack.session_present
    resent, new = again.messages()
    assert (resent.payload, resent.packet_id, resent.duplicate) == (b"in flight", sent.packet_id, True)
    assert (new.payload, new.duplicate) == (b"meanwhile", False)
    if not net.brokers[0].fabric.neighbours[1].connected:
        net.mend(0, 1)
    settle(net)
    publisher.send(Publish("a/3", b"after", 1, packet_id=3))
    settle(net)
    assert [message.payload for message in again.messages()] == [b"after"]
    assert (copies(net), subscriptions(net), sessions(net)) == ([0, 0, 0], [0, 0, 1], [2])
    assert net.brokers[0].fabric.moving.went == 1


def test_a_client_that_comes_back_is_served_where_it_was_and_can_be_moved_under_the_next_plan() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    client.subscribe("a", qos=1)
    settle(net)
    publisher = net.brokers[1].connect("p")
    moving = net.brokers[0].fabric.moving
    for number in range(1, 4):
        moving.ask({"c": 2})
        settle(net)
        assert client.link.closed
        publisher.send(Publish("a", b"%d" % number, 1, packet_id=number))
        settle(net)
        client = net.brokers[0].connect("c", **LASTING)
        settle(net)
        assert came(client) == [b"%d" % number]
        assert (copies(net), subscriptions(net), moving.stayed, moving.asked) == ([0, 0, 0], [1, 0, 0], 1, 0)
        moving.ask({"c": 2})  # once for each plan
        settle(net)
        assert not client.link.closed
        moving._begin()
    moving.ask({"c": 1})
    settle(net)
    client = net.brokers[1].connect("c", **LASTING)
    settle(net)
    publisher.send(Publish("a", b"last", 1, packet_id=9))
    settle(net)
    assert came(client) == [b"last"]
    assert subscriptions(net) == [0, 1, 0]


def test_a_client_that_goes_elsewhere_takes_its_session_there() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    client.subscribe("a", qos=1)
    settle(net)
    net.brokers[0].fabric.moving.ask({"c": 2})
    settle(net)
    net.brokers[2].connect("p").send(Publish("a", b"x", 1, packet_id=1))
    settle(net)
    client = net.brokers[1].connect("c", **LASTING)
    settle(net)
    assert came(client) == [b"x"]
    assert (copies(net), subscriptions(net)) == ([0, 0, 0], [0, 1, 0])


def test_time_runs_out_for_a_client_that_never_comes() -> None:
    net = net_of()
    client = net.brokers[0].connect("c")  # whose session would end with its connection
    client.subscribe("a", qos=1)
    settle(net)
    net.brokers[0].fabric.moving.ask({"c": 2})
    settle(net)
    net.brokers[0].pass_time(WAIT - 1)
    settle(net)
    assert (copies(net), sessions(net)) == ([0, 0, 1], [0])
    assert net.brokers[0].fabric.moving.asked == 0  # nobody waits for it any more
    net.brokers[0].pass_time(2)
    settle(net)
    assert (copies(net), sessions(net), subscriptions(net)) == ([0, 0, 0], [], [0, 0, 0])


def test_a_copy_is_dropped_though_its_home_says_nothing() -> None:
    net = net_of()
    net.brokers[0].connect("c", **LASTING).subscribe("a")
    settle(net)
    net.brokers[0].fabric.moving.ask({"c": 2})
    settle(net)
    net.cut(0, 1)
    net.brokers[2].pass_time(KEPT + 1)
    assert copies(net) == [0, 0, 0]


def test_a_broker_that_is_left_for_good_says_0x9d_also_at_connect() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    net.brokers[0].fabric.moving.ask({"c": 1}, leaves=True)
    settle(net)
    assert redirected(client) == (Code.SERVER_MOVED, "host1:1883")


def test_only_some_are_on_their_way_at_once_and_at_a_rate() -> None:
    net = net_of(moves=MoveLimits(rate=10.0, leaving=3, arriving=2))
    clients = {f"c{n}": net.brokers[0].connect(f"c{n}", **LASTING) for n in range(8)}
    moving = net.brokers[0].fabric.moving
    moving.ask(dict.fromkeys(clients, 2))
    assert moving.under_way == 3
    settle(net)  # two are accepted; others are tried again, some not even once
    gone = [name for name, client in clients.items() if client.link.closed]
    assert len(gone) == 2
    arrived: set[str] = set()
    for _ in range(10):
        for name in gone:
            net.brokers[2].connect(name, **LASTING)
            arrived.add(name)
        settle(net)
        net.brokers[0].pass_time(0.2)
        settle(net)
        now = [name for name, client in clients.items() if client.link.closed and name not in arrived]
        assert len(now) <= 2
        gone = now
    assert (len(arrived), moving.stayed, moving.asked) == (len(clients), 0, 0)


def test_no_faster_than_the_rate() -> None:
    net = net_of(moves=MoveLimits(rate=2.0, leaving=100))
    clients = {f"c{n}": net.brokers[0].connect(f"c{n}", **LASTING) for n in range(8)}
    net.brokers[0].fabric.moving.ask(dict.fromkeys(clients, 2))
    counts = []
    for _ in range(3):
        settle(net)
        counts.append(sum(client.link.closed for client in clients.values()))
        net.brokers[0].pass_time(1.0)
    assert counts == [2, 4, 6]


def test_a_client_stays_if_nobody_answers_to_its_copy() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    net.cut(0, 1)
    moving = net.brokers[0].fabric.moving
    moving.ask({"c": 2})
    assert moving.asked == 1
    net.brokers[0].pass_time(PATIENCE + 1)
    assert (moving.asked, moving.stayed, client.link.closed) == (0, 1, False)


def test_clients_of_older_mqtt_are_not_asked() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", version=MQTT_3_1_1)
    net.brokers[0].fabric.moving.ask({"c": 2})
    settle(net)
    assert (net.brokers[0].fabric.moving.stayed, client.link.closed) == (1, False)


def test_a_shared_subscription_has_one_member_while_its_client_moves() -> None:
    net = net_of()
    client = net.brokers[0].connect("c", **LASTING)
    client.subscribe("$share/g/a", qos=1)
    other = net.brokers[1].connect("d", **LASTING)
    other.subscribe("$share/g/a", qos=1)
    settle(net)
    net.brokers[0].fabric.moving.ask({"c": 2})
    settle(net)
    publisher = net.brokers[1].connect("p")
    for number in range(1, 11):
        publisher.send(Publish("a", b"%d" % number, 1, packet_id=number))
    settle(net)
    got = came(other)
    client = net.brokers[2].connect("c", **LASTING)
    settle(net)
    for number in range(11, 31):
        publisher.send(Publish("a", b"%d" % number, 1, packet_id=number))
    settle(net)
    mine = came(client)
    assert mine
    assert Counter(got + mine + came(other)) == Counter(b"%d" % number for number in range(1, 31))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_whatever_the_client_does_and_whatever_is_under_way_each_message_comes_once(seed: int) -> None:  # noqa: C901
    """Messages of QoS 1, published anywhere at any time. The client is asked to go here and there; it follows, comes
    back, goes to a third broker, or changes its subscriptions in between."""
    dice = random.Random(seed)
    net = net_of(random_tree(dice, dice.randint(2, 5)), kernels=dice.random() < 0.5)
    publishers = {number: broker.connect(f"p{number}") for number, broker in net.brokers.items()}
    at = 0
    client = net.brokers[at].connect("c", **LASTING)
    client.subscribe("a", qos=1)
    settle(net)
    got: list[bytes] = []
    sent = 0
    brokers = sorted(net.brokers)

    def publish() -> None:
        nonlocal sent
        sent += 1
        publishers[dice.choice(brokers)].send(Publish("a", b"%d" % sent, 1, packet_id=sent))

    def step() -> None:
        net.step(dice.choice(brokers))
        if net.wires:
            net.carry(*dice.choice(sorted(net.wires)))

    for number in range(60):
        kind = dice.random()
        if kind < 0.3:
            publish()
        elif kind < 0.85:
            step()
        elif kind < 0.9:
            client.subscribe(f"other/{number}", qos=1)
        elif not client.link.closed:
            net.brokers[at].fabric.moving._begin()
            net.brokers[at].fabric.moving.ask({"c": dice.choice(brokers)})
        got += came(client, got) if not client.link.closed else []
        if client.link.closed or dice.random() < 0.02:
            packets = client.received()
            got += [one.payload for one in packets if isinstance(one, Publish) and one.payload not in got]
            told = [one for one in packets if isinstance(one, Disconnect) and one.properties]
            follows = told and dice.random() < 0.7
            at = int(told[0].properties["server_reference"][4]) if follows else dice.choice(brokers)
            client = Client(net.brokers[at])
            client.send(Connect("c", **LASTING))
            while client.link.waits:
                dice.choice([publish, step, step, step, step])()
            for broker in net.brokers.values():
                while broker.tick is not None and broker.tick.pending:
                    broker.tick.run()
            got += came(client, got)
    settle(net)
    if client.link.closed:
        client = net.brokers[at].connect("c", **LASTING)
        settle(net)
    got += came(client, got)
    settle(net)
    assert Counter(got) == Counter(b"%d" % number for number in range(1, sent + 1))
    assert (len(sessions(net)), sum(copies(net))) == (1, 0)
    assert not any(broker.state.counts.faults for broker in net.brokers.values())
