"""Messages that are like some before go to the same clients, unless something has changed since."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker import kinds
from overstory.broker.kinds import kind_at
from overstory.broker.straight import FEW
from overstory.broker.tick import AT_ONCE
from overstory.wire.decode import decode
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_3_1_1, MQTT_5, Ack, Publish

from .house import Client, House, write

TOPICS = ("a/b", "a/c", "$x", "b")
FILTERS = ("a/+", "a/b", "#", "$share/g/a/b")
NAMES = ("one", "two", "three")

message = st.tuples(
    st.sampled_from(TOPICS),
    st.sampled_from([b"", b"x" * 30, b"\0" * 30, b"y" * 300]),  # zeros look like properties that are none
    st.sampled_from([{}, {"user_properties": [("p", "1")]}, {"user_properties": [("p", "2")]}]),
)
at_once = st.one_of(st.lists(message, min_size=1, max_size=1), st.lists(message, min_size=1, max_size=FEW + 2))
cut = st.one_of(st.just(0), st.integers(0, 2000))  # where the bytes are in two, and come in two turns
publishing = st.tuples(st.just("publish"), st.sampled_from(NAMES), at_once, cut)
subscribing = st.tuples(
    st.just("subscribe"),
    st.sampled_from(NAMES),
    st.sampled_from(FILTERS),
    st.sampled_from([None, "p > 1"]),
    st.sampled_from([{}, {"no_local": True}, {"identifier": 3}, {"qos": 0}]),
)
others = st.tuples(st.sampled_from(["unsubscribe", "deaf", "hears", "back"]), st.sampled_from(NAMES))
steps = st.lists(st.one_of(publishing, publishing, publishing, subscribing, others), max_size=30)


def outcome(kernels: bool, script: list[tuple[Any, ...]]) -> list[list[str]]:
    """What each client gets, in the order of each topic. Each step is a turn of its own."""
    house = House(kernels)
    clients = {name: _connected(house, name) for name in NAMES}
    heard: dict[str, list[str]] = {name: [] for name in NAMES}
    members: set[str] = set()  # of a group, whose copies are in no order with those of a member's own subscriptions
    for kind, name, *given_ in script:
        client = clients[name]
        if kind == "publish":
            with_properties = client.version == MQTT_5
            data = b"".join(
                write(Publish(topic, payload, properties=more if with_properties else {}), client.version)
                for topic, payload, more in given_[0]
            )
            for piece in (data[: given_[1]], data[given_[1] :]):
                house.deliver(client.link, piece)
        elif kind == "subscribe":
            topics, where, options = given_
            members |= {name} if topics.startswith("$share") else set()
            if not (topics.startswith("$share") and "no_local" in options) and client.version == MQTT_5:
                client.subscribe(topics, where=where, **options)
        elif kind == "unsubscribe":
            client.unsubscribe(*FILTERS)
        elif kind == "back":
            client.leave()
            clients[name] = _connected(house, name)
        else:
            house.core.congested(client.link, kind == "deaf")
        for listener in NAMES:
            packets = clients[listener].received()  # those of one topic are in order, says MQTT
            told = [repr(packet) for packet in sorted(packets, key=lambda one: getattr(one, "topic", ""))]
            heard[listener] += sorted(told) if listener in members else told
    return list(heard.values())


def _connected(house: House, name: str) -> Client:
    """The second client takes small packets alone, the third one speaks MQTT 3.1.1 and wants everything."""
    if name == "three":
        made = house.connect(name, MQTT_3_1_1)
        made.subscribe("a/#", qos=0)
        return made
    return house.connect(name, properties={"max_packet_size": 200} if name == "two" else {})


@given(steps)
def test_what_is_remembered_says_what_the_router_says(script: list[tuple[Any, ...]]) -> None:
    assert outcome(True, script) == outcome(False, script)


def test_a_third_message_goes_straight_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "WORTH", 1)  # else so few messages between changes are learned in vain
    house = House()
    a, b, c = (house.connect(name) for name in "abc")
    b.subscribe("x", qos=0)
    counts = house.state.counts

    def straight(client: Client = a, payload: bytes = b"1", **more: Any) -> int:
        before = counts.straight
        client.publish("x", payload, **more)
        assert [message.payload for message in b.messages()] == [payload]
        c.received()
        return counts.straight - before

    assert [straight(), straight(), straight(payload=b"other"), straight(c)] == [0, 0, 1, 1]
    assert counts.messages_in == counts.messages_out == 4
    c.subscribe("x", qos=0)
    assert [straight(), straight()] == [0, 1]
    c.subscribe("x", qos=1)
    assert [straight(), straight()] == [0, 1]
    house.core.congested(c.link, True)
    assert [straight(), straight()] == [0, 0]  # c loses them, which kernels do not count
    house.core.congested(c.link, False)
    assert [straight(), straight()] == [0, 1]
    c.leave()
    assert [straight(), straight()] == [0, 1]
    b.subscribe("x", qos=0, identifier=4)
    assert [straight(), straight()] == [0, 0]
    house.state.dirty[b.link] = None  # something else is to be sent before
    assert house.tick is not None
    assert not house.tick.passed_on(a.link, write(Publish("x", b"1"), MQTT_5))


def test_one_message_of_a_known_kind_needs_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("x", qos=0)
    for _ in range(2):  # it is noted, and then learned
        a.publish("x", b"1")
    b.received()
    assert house.tick is not None
    monkeypatch.setattr(house.tick.straight.kinds, "look_up", None)  # whoever calls it fails
    a.publish("x", b"2" * 300)
    assert [message.payload for message in b.messages()] == [b"2" * 300]
    overlong = write(Publish("x", b"3"), MQTT_5)
    assert house.tick.straight.kinds.look_up_one(overlong, MQTT_5) is not None
    overlong = overlong[:1] + bytes((overlong[1] | 128, 0)) + overlong[2:]  # its length takes a byte more than it may
    assert house.tick.straight.kinds.look_up_one(overlong, MQTT_5) is None


def test_a_few_messages_at_once_go_straight_in_one_piece_to_each_client() -> None:
    house = House()
    a, b, c = (house.connect(name) for name in "abc")
    b.subscribe("x", "y", qos=0)
    c.subscribe("y", qos=0)
    for _ in range(2):  # they are noted, and then learned
        house.deliver(a.link, b"".join(write(Publish(topic, b"old"), MQTT_5) for topic in "xyz"))
    pieces: dict[Client, list[bytes | memoryview]] = {b: [], c: []}
    for client, written in pieces.items():
        client.received()
        client.link.write = written.append
    x, y, z = (write(Publish(topic, b"1"), MQTT_5) for topic in "xyz")
    house.deliver(a.link, x + y + z + x)
    assert pieces == {b: [x + y + x], c: [y]}
    house.deliver(a.link, x * FEW)
    assert pieces[b][1:] == [x * FEW]
    counts = house.state.counts
    assert (counts.straight, counts.messages_in, counts.messages_out) == (4 + FEW, 10 + FEW, 6 + 4 + FEW)
    house.deliver(a.link, (x + y) * FEW)  # too many, for clients that do not all get the same
    assert counts.straight == 4 + FEW
    assert [b"".join(client.link.outgoing) for client in (b, c)] == [(x + y) * FEW, y * FEW]
    house.deliver(a.link, (z + y) * FEW + y[:5])
    house.deliver(a.link, y[5:])
    assert pieces[b][2:] == [y * FEW, y]
    assert counts.straight == 4 + FEW + 2 * FEW + 1


def test_many_messages_go_straight_in_one_turn() -> None:
    house = House()
    a, b = (house.connect(name) for name in "ab")
    b.subscribe("x", qos=0)
    x, z = (write(Publish(topic, b"1" * 500), MQTT_5) for topic in "xz")
    many = (x + z) * 100
    assert len(many) > AT_ONCE
    written: list[bytes | memoryview] = []
    b.link.write = written.append
    for _ in range(3):
        house.deliver(a.link, many)
    assert house.state.counts.straight == 400  # the first turn learns what it has twice
    assert written == [x * 100, x * 100]


def test_kinds_that_cannot_be_looked_up_are_decided_each_time() -> None:
    """A subscription with an identifier: what its client gets is not what came."""
    house = House()
    a, b = (house.connect(name) for name in "ab")
    b.subscribe("x", qos=0, identifier=4)
    for _ in range(4):
        a.send(Publish("x", b"1"), Publish("z", b"2"))
        assert [message.properties["subscription_ids"] for message in b.messages()] == [[4]]
    assert house.state.counts.straight == 0
    for _ in range(3):
        a.publish("z", b"2")
    assert house.state.counts.straight == 3


def kind_of(data: bytes, version: int) -> bytes | None:
    """The kind of a message, if these bytes are one whole packet that has one."""
    kind, payload, end = kind_at(data, 0, version)
    assert kind is None or data[:payload].endswith(kind)
    return kind if end == len(data) else None


@given(
    st.sampled_from([MQTT_5, MQTT_3_1_1]),
    st.text("abc/é", min_size=1, max_size=150),
    st.binary(max_size=300),
    st.lists(st.tuples(st.text("ab", max_size=70), st.text("ab", max_size=70)), max_size=2),
)
def test_kinds_are_all_but_the_payload(version: int, topic: str, payload: bytes, pairs: list[tuple[str, str]]) -> None:
    properties = {"user_properties": pairs} if pairs and version == MQTT_5 else {}
    data = encode(Publish(topic, payload, properties=properties), version)
    kind = kind_of(data, version)
    head = encode(Publish(topic, b"", properties=properties), version)
    if len(data) < 7 or len(head) - len(topic.encode()) > 100:
        return
    assert kind is not None
    assert data.endswith(kind + payload)
    assert kind_of(data + b"\0", version) is None
    assert kind_of(data[:-1], version) is None


@given(st.binary(max_size=12), st.sampled_from([MQTT_5, MQTT_3_1_1]))
def test_no_bytes_are_a_kind_that_they_are_not(data: bytes, version: int) -> None:
    data = b"\x30" + data
    kind = kind_of(data, version)
    if kind is None:
        return
    try:
        packet = decode(data, version)
    except Exception:
        return  # no kernel will ever have found such a kind well-formed
    assert isinstance(packet, Publish)
    assert data.endswith(kind + packet.payload)


@pytest.mark.parametrize("packet", [Publish("x", b"", 1, packet_id=1), Publish("x", b"", 0, True), Ack(4, 1)])
def test_other_packets_are_of_no_kind(packet: Publish | Ack) -> None:
    assert kind_of(encode(packet), MQTT_5) is None
