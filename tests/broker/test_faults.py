"""Errors of our own end the connection that they came up with, and nobody else notices."""

from collections.abc import Callable
from typing import Any

import pytest

from overstory.broker import publishing, subscribing
from overstory.broker.message import Message, message_of_will
from overstory.broker.session import Session
from overstory.wire.attributes import attributes_of
from overstory.wire.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Asked,
    ConnAck,
    Connect,
    PingReq,
    PingResp,
    Publish,
    Subscribe,
    Will,
)
from overstory.wire.topics import read_filter

from .house import Client, House, write
from .running import broker
from .wires import Wire

IMPLEMENTATION = 0x83


class UnforeseenError(Exception):
    """Stands for what nobody has foreseen."""


def broken(function: Callable[..., Any], is_bad: Callable[..., bool]) -> Callable[..., Any]:
    """The function, with an error for some arguments."""

    def called(*given: Any) -> Any:
        if is_bad(*given):
            raise UnforeseenError("on purpose")
        return function(*given)

    return called


@pytest.fixture(params=[True, False], ids=["kernels", "plain"])
def house(request: pytest.FixtureRequest) -> House:
    return House(request.param)


def test_a_message_that_cannot_be_handled_ends_its_publisher_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, reader = house.connect("good"), house.connect("bad"), house.connect("reader")
    reader.subscribe("#", qos=2)  # so that messages of QoS 2 go the plain way
    monkeypatch.setattr(Session, "deliver", broken(Session.deliver, lambda _, d, now: d.message.payload == b"poison"))
    messages = [write(Publish("x", payload, 2, packet_id=1), MQTT_5) for payload in (b"a", b"poison", b"b")]
    later = house.connect("later")
    house.together([(good, messages[0]), (bad, messages[1]), (later, messages[2])])
    assert sorted(message.payload for message in reader.messages()) == [b"a", b"b"]
    assert bad.told_why() == IMPLEMENTATION
    assert house.state.counts.faults == 1
    for client in (good, later, reader):
        client.send(PingReq())
        assert any(isinstance(packet, PingResp) for packet in client.received())


def test_a_poisoned_batch_for_the_plain_way_is_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    good, bad, reader = house.connect("good"), house.connect("bad"), house.connect("reader")
    reader.subscribe("#", where="a > 1 OR b LIKE '%c_'")
    reading = broken(attributes_of, lambda message, types: message.payload == b"poison")
    monkeypatch.setattr(publishing, "attributes_of", reading)
    json = {"content_type": "application/json", "user_properties": [("a", "2")]}
    sent = [Publish("x", payload, 0, properties=json) for payload in (b"1", b"poison", b"2")]
    house.together([(good, write(sent[0], MQTT_5)), (bad, write(sent[1], MQTT_5)), (good, write(sent[2], MQTT_5))])
    assert [message.payload for message in reader.messages()] == [b"1", b"2"]
    assert bad.told_why() == IMPLEMENTATION
    assert not good.link.closed
    assert house.state.counts.faults == 1


def test_an_error_before_anything_is_handed_out_is_tried_client_by_client(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    assert house.tick is not None
    clients = [house.connect(f"c{number}") for number in range(4)]
    reader = house.connect("reader")
    reader.subscribe("#", qos=1)
    compiled = house.tick.compiled
    deciding = broken(compiled.decide, lambda data, *_: b"poison" in data.tobytes())
    monkeypatch.setattr(compiled, "decide", deciding)
    sent = [
        (client, write(Publish("x", b"poison" if number == 2 else b"%d" % number, 1, packet_id=1), MQTT_5))
        for number, client in enumerate(clients)
    ]
    house.together(sent)
    assert sorted(message.payload for message in reader.messages()) == [b"0", b"1", b"3"]
    assert clients[2].told_why() == IMPLEMENTATION
    assert [client.link.closed for client in clients] == [False, False, True, False]
    house.together(sent[:2])  # and nothing is left behind
    assert len(reader.messages()) == 2


def test_an_error_after_messages_were_handed_out_doubles_none_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    assert house.tick is not None
    fast, safe, reader = house.connect("fast"), house.connect("safe"), house.connect("reader")
    reader.subscribe("#", qos=1)
    hand_out = house.tick._hand_out

    def fails(*given: Any) -> None:
        hand_out(*given)
        raise UnforeseenError

    monkeypatch.setattr(house.tick, "_hand_out", fails)
    messages = [Publish("x", b"0"), Publish("x", b"1", 1, packet_id=1)]
    house.together([(fast, write(messages[0], MQTT_5)), (safe, write(messages[1], MQTT_5))])
    assert [message.payload for message in reader.messages()] == [b"0", b"1"]
    assert safe.told_why() == IMPLEMENTATION  # it has no acknowledgement, and will send its message again
    assert not fast.link.closed
    monkeypatch.setattr(house.tick, "_hand_out", hand_out)
    house.together([(fast, write(Publish("x", b"2"), MQTT_5)), (reader, write(PingReq(), MQTT_5))])
    assert [packet.payload for packet in reader.received() if isinstance(packet, Publish)] == [b"2"]


def test_a_subscriber_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    a, b, c = (house.connect(name) for name in "abc")
    for client in (b, c):
        client.subscribe("x", qos=0)
    house.state.dirty.clear()

    def fails(data: bytes | memoryview) -> None:
        raise UnforeseenError

    b.link.write = fails
    b.link.session.open()
    a.publish("x", b"1")
    assert b.told_why() == IMPLEMENTATION
    assert [message.payload for message in c.messages()] == [b"1"]
    assert not a.link.closed


def test_long_answers_connections_and_chores(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    other = house.connect("other")
    monkeypatch.setattr(subscribing, "read_filter", broken(read_filter, lambda text, _: text == "poison"))
    bad = house.connect("bad")
    bad.send(Subscribe(1, (Asked("fine"), Asked("poison"))), PingReq())
    assert bad.told_why() == IMPLEMENTATION
    monkeypatch.setattr(Session, "attach", broken(Session.attach, lambda session, *_: session.client_id == "worse"))
    for version in (MQTT_5, MQTT_3_1_1):
        worse = Client(house, version)
        worse.send(Connect("worse", version))
        assert worse.link.closed
        worse.lose()
    assert house.state.counts.faults == 3
    monkeypatch.setattr(subscribing, "remove", broken(subscribing.remove, lambda *given: given[2] == "one"))
    two = house.connect("two")
    two.subscribe("one", "two")
    two.lose()
    assert not house.core.chores
    assert house.state.counts.faults == 4
    other.send(PingReq())
    other.take(PingResp)


def test_time_goes_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = house.connect("reader")
    reader.subscribe("will/#", qos=1)

    def will(left: Will, *given: Any) -> Message:
        if left.payload == b"poison":
            raise UnforeseenError
        return message_of_will(left, *given)

    monkeypatch.setattr(publishing, "message_of_will", will)
    for name, payload in (("a", b"poison"), ("b", b"fine")):
        left = Will(f"will/{name}", payload, 1, False, {"will_delay_interval": 5})
        client = house.connect(name, will=left, properties={"session_expiry_interval": 7})
        client.lose()
    house.pass_time(6)
    assert [message.payload for message in reader.messages()] == [b"fine"]
    house.pass_time(6)
    assert list(house.state.sessions) == ["reader"]
    assert house.state.counts.faults == 1


def test_a_client_before_its_connack_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.core, "_connect", broken(house.core._connect, lambda *_: True))
    client = Client(house)
    client.send(Connect("a"))
    assert client.take(ConnAck).code == IMPLEMENTATION
    assert client.link.closed


def test_a_broker_with_sockets_counts_faults_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    delivering = broken(Session.deliver, lambda _, d, now: d.message.payload == b"poison")
    monkeypatch.setattr(Session, "deliver", delivering)
    with broker() as running:
        good, bad = Wire(running.port, "good"), Wire(running.port, "bad")
        good.send(Subscribe(1, (Asked("x", 2),)))
        good.take()
        bad.publish("x", b"poison", 2, 1)
        told = bad.take()
        assert getattr(told, "code", None) == IMPLEMENTATION
        good.publish("x", b"fine", 0, 0)
        assert good.message().payload == b"fine"
        assert running.server.state.counts.faults == 1
        assert b"overstory_faults_total 1.0" in running.monitor._metrics.text()
