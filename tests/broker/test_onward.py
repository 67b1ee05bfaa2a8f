"""Events that are like some before go on to the same neighbours and clients, unless something has changed since."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.kinds import CALM, MOST_SOURCES, MOST_VAIN, WORTH
from overstory.broker.links import Sent
from overstory.routing.share import tree_shares
from overstory.wire.frames import decode_events
from overstory.wire.packets import MQTT_3_1_1, MQTT_5, Publish

from ..routing.network import FEWER
from .house import Client, write
from .nets import Net, places_in

TREE = [(0, 1), (1, 2), (1, 3)]
TOPICS = ("a/b", "a/c", "b")
FILTERS = ("a/+", "a/b", "#", "#?p > 1", "#?$broker = 0", "a/b?$broker = 2")

message = st.tuples(
    st.sampled_from(TOPICS),
    st.sampled_from([b"", b"x" * 30, b"y" * 300]),
    st.sampled_from([{}, {"user_properties": [("p", "1")]}, {"user_properties": [("p", "2")]}]),
    st.sampled_from([0, 0, 0, 0, 0, 1]),
)
broker = st.integers(0, 3)
publishing = st.tuples(
    st.just("publish"), st.lists(st.tuples(broker, st.lists(message, max_size=8)), min_size=1, max_size=3)
)
subscribing = st.tuples(
    st.just("subscribe"),
    st.tuples(broker, st.sampled_from(FILTERS), st.sampled_from([{}, {"no_local": True}, {"identifier": 3}])),
)
others = st.tuples(st.sampled_from(["unsubscribe", "deaf", "hears", "restart"]), broker)
steps = st.lists(st.one_of(publishing, publishing, publishing, subscribing, others), max_size=20)


def connected(net: Net, number: int) -> Client:
    """A client of a broker. That of the last one speaks MQTT 3.1.1, and wants everything below ``a``."""
    client = net.brokers[number].connect(f"c{number}", MQTT_3_1_1 if number == 3 else MQTT_5)
    if number == 3:
        client.subscribe("a/#", qos=0)
    net.settle()
    return client


def outcome(kernels: bool, script: list[tuple[str, Any]]) -> tuple[list[Counter[str]], dict[tuple[int, int], Any]]:
    """What each client gets, and the traffic on each link."""
    net = Net(places_in(tree_shares(TREE, epoch=1)), kernels=kernels, types={"p": "number"})
    clients = {number: connected(net, number) for number in range(4)}
    heard = [Counter[str]() for _ in range(4)]
    for kind, given_ in script:
        if kind == "publish":
            for number, messages in given_:
                client = clients[number]
                client.house.deliver(client.link, packets(client, messages))
        elif kind == "subscribe":
            number, text, options = given_
            if clients[number].version == MQTT_5:
                clients[number].subscribe(text, qos=0, **options)
        elif kind == "unsubscribe":
            clients[given_].unsubscribe(*FILTERS)
        elif kind == "restart":
            net.restart(given_, net.places[given_].incarnation + 1)
            net.settle()
            clients[given_] = connected(net, given_)
        else:
            net.brokers[given_].core.congested(clients[given_].link, kind == "deaf")
        net.settle()
        for number, client in clients.items():
            heard[number] += Counter(map(repr, client.messages()))
    sent = {
        (number, peer): (link.traffic.events, link.traffic.event_bytes)
        for number, broker in net.brokers.items()
        for peer, link in broker.fabric.neighbours.items()
    }
    return heard, sent


def packets(client: Client, messages: list[tuple[str, bytes, dict[str, Any], int]]) -> bytes:
    """The bytes of messages, as a client sends them."""
    made = []
    for place, (topic, payload, more, qos) in enumerate(messages, 1):
        properties = more if client.version == MQTT_5 else {}
        made.append(
            write(Publish(topic, payload, qos, packet_id=place if qos else 0, properties=properties), client.version)
        )
    return b"".join(made)


@FEWER
@given(steps)
def test_what_is_looked_up_says_what_the_router_says(script: list[tuple[str, Any]]) -> None:
    assert outcome(True, script) == outcome(False, script)


def looked_up(net: Net) -> list[int]:
    """How many events each broker could look up: of its clients, or else of its neighbours."""
    brokers = net.brokers.values()
    return [one.state.counts.straight + one.fabric.fast.onward.events for one in brokers]


def test_a_third_event_is_looked_up_all_along_its_way_until_something_changes() -> None:
    net = Net(places_in(tree_shares(TREE, epoch=1)))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=0)
    net.settle()

    def straight(count: int = 1) -> list[int]:
        before = looked_up(net)
        data = b"".join(write(Publish(topic, b"1"), MQTT_5) for topic in "xy") * count
        net.brokers[0].deliver(a.link, data)
        net.settle()
        assert [message.topic for message in c.messages()] == ["x"] * count
        return [now - then for now, then in zip(looked_up(net), before, strict=True)]

    assert [straight(), straight(), straight(), straight(5)] == [[0] * 4, [0] * 4, [2, 1, 1, 0], [10, 5, 5, 0]]
    b = net.brokers[1].connect("b")
    b.subscribe("x", qos=0, identifier=4)
    net.settle()
    # The first broker is not told of b's subscription, which c's covers. And b's copies are not what came.
    assert [straight(), straight()] == [[2, 0, 0, 0], [2, 0, 1, 0]]
    assert [message.properties["subscription_ids"] for message in b.messages()] == [[4], [4]]
    b.subscribe("x", qos=0)
    net.settle()
    assert [straight(3), straight(3)] == [[6, 0, 3, 0], [6, 3, 3, 0]]
    assert [message.topic for message in b.messages()] == ["x"] * 6
    traffic = net.brokers[0].fabric.neighbours[1].traffic
    assert traffic.events == traffic.event_bytes // len(write(Publish("x", b"1"), MQTT_5)) == 16


def test_events_carry_their_numbers_and_who_published_them() -> None:
    net = Net(places_in(tree_shares(TREE, epoch=1)))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=0)
    net.settle()
    frames: list[Sent] = []
    neighbour = net.brokers[1].fabric.neighbours[2]
    send = neighbour._send

    def noted(sent: Sent) -> None:
        frames.append(sent)
        send(sent)

    neighbour._send = noted  # type: ignore[method-assign]
    first = net.brokers[0].state.events
    for _ in range(4):
        a.send(*(Publish(topic, b"1") for topic in "yxyyx"))
        net.settle()
    found = [decode_events(b"".join(one.body)) for one in frames if one.events is not None]
    assert looked_up(net) == [15, 6, 6, 0]  # the first turn learns what it has twice
    assert [number for events in found for number in events.ids.tolist()] == [
        first + 5 * turn + place for turn in range(4) for place in (1, 4)
    ]
    for events in found:
        assert set(events.publishers.tolist()) == {a.link.session.number}
        assert set(events.entries.tolist()) == {0}
        assert not events.marks.any()


def test_sources_are_forgotten_when_they_are_too_many() -> None:
    net = Net(places_in(tree_shares(TREE, epoch=1)))
    assert net.brokers[0].tick is not None
    kinds = net.brokers[0].tick.straight.kinds
    numbers = [kinds.source(("neighbour", place)) for place in range(MOST_SOURCES + 1)]
    assert len(set(numbers)) == len(numbers)
    assert kinds.source(("neighbour", 5)) == numbers[5]
    kinds.refresh()
    assert kinds.source(("neighbour", 5)) == numbers[0]


def test_nothing_is_learned_in_vain_again_and_again() -> None:
    net = Net(places_in(tree_shares(TREE, epoch=1)))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=0)
    net.settle()

    def publish(count: int) -> list[int]:
        before = looked_up(net)
        for _ in range(count):
            net.brokers[0].deliver(a.link, write(Publish("x", b"1"), MQTT_5))
            net.settle()
        assert len(c.messages()) == count
        return [now - then for now, then in zip(looked_up(net), before, strict=True)]

    publish(3)
    for number in range(MOST_VAIN):  # each learns once, and knows nothing any more when the next event comes
        c.subscribe(f"y/{number}", qos=0)
        net.settle()
        publish(1)
    c.subscribe("z", qos=0)
    net.settle()
    assert publish(CALM) == [0, 0, 0, 0]
    assert publish(1 + WORTH) == [WORTH, WORTH, WORTH, 0]
    c.subscribe("w", qos=0)  # now that it was of use, the next change is like the first
    net.settle()
    assert publish(3) == [2, 2, 2, 0]


def test_where_nothing_is_known_nor_would_be_learned_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(places_in(tree_shares(TREE, epoch=1)))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=0)
    net.settle()
    monkeypatch.setattr("overstory.broker.kinds.MOST_VAIN", 0)
    assert net.brokers[1].tick is not None
    monkeypatch.setattr(net.brokers[1].tick.straight.kinds, "look_up", lambda *_: pytest.fail("it was looked up"))
    for _ in range(CALM):
        net.brokers[0].deliver(a.link, write(Publish("x", b"1"), MQTT_5))
        net.settle()
    assert len(c.messages()) == CALM
