"""What packets do, one by one: through kernels and by the plain way alike."""

import gc

import pytest

from overstory.broker.shared import Group
from overstory.wire.packets import (
    MQTT_5,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Asked,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    Will,
)

from .house import Client, House, write


@pytest.fixture(params=[True, False], ids=["kernels", "plain"])
def house(request: pytest.FixtureRequest) -> House:
    return House(request.param)


def payloads(client: Client) -> list[bytes]:
    return [message.payload for message in client.messages()]


def test_a_message_reaches_who_wants_it_and_nobody_else(house: House) -> None:
    a, b, c = house.connect("a"), house.connect("b"), house.connect("c", 4)
    b.subscribe("x/+")
    c.subscribe("x/#")
    a.publish("x/y", b"1")
    a.publish("z", b"2")
    assert b.messages() == c.messages() == [Publish("x/y", b"1")]
    assert a.messages() == []


def test_content_filters(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("x?price > 3 AND symbol = 'A'")
    b.subscribe("y", where="price > 3")
    pairs = [("price", "4"), ("symbol", "A")]
    a.publish("x", b"1", properties={"user_properties": pairs})
    a.publish("x", b"2", properties={"user_properties": pairs[:1]})
    a.publish("y", b"3", properties={"user_properties": pairs})
    a.publish("y", b"4", properties={"user_properties": [("price", "2")]})
    assert payloads(b) == [b"1", b"3"]


def test_json_payloads_are_attributes_where_the_content_type_says_so(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("#?price > 3")
    json = {"content_type": "application/json"}
    for payload in (
        b'{"price": 4}',
        b'{"price": 2}',
        b"{",
        b"[4]",
        b'{"price": {"a": 4}}',
        b'{"price": "4"}',
        b'{"price": "\xf3"}',
        b"[" * 5000,
    ):
        a.publish("x", payload, properties=json)
    a.publish("x", b'{"price": 4}')
    assert payloads(b) == [b'{"price": 4}']


def test_a_repeated_user_property_is_a_list(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("#?tag HAS ANY ('u', 'v')")
    a.publish("x", b"1", properties={"user_properties": [("tag", "t"), ("tag", "u")]})
    a.publish("x", b"2", properties={"user_properties": [("tag", "t"), ("tag", "w")]})
    assert payloads(b) == [b"1"]


def test_declared_types() -> None:
    for kernels in (True, False):
        house = House(kernels, types={"code": "string", "size": "number"})
        a, b = house.connect("a"), house.connect("b")
        b.subscribe("#?code > 1", "#?size > 1", "#?code = '7' AND size IS NULL")
        a.publish("x", b"1", properties={"user_properties": [("code", "7")]})
        a.publish("x", b"2", properties={"user_properties": [("size", "7")]})
        a.publish("x", b"3", properties={"user_properties": [("size", "x")]})
        assert payloads(b) == [b"1", b"2"]


def test_a_filter_that_does_not_parse_is_answered_with_a_caret(house: House) -> None:
    a = house.connect("a")
    answer = a.subscribe("x?price >", "y", "z/#/z")
    assert answer.codes == (0x8F, 2, 0x8F)
    assert "^" in answer.properties["reason_str"]
    quiet = house.connect("q", properties={"request_problem_info": False})
    assert quiet.subscribe("x?price >").properties == {}


def test_qos_1_and_2(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("one", qos=1)
    b.subscribe("two", qos=2)
    a.publish("one", b"1", 1, 5)
    a.publish("one", b"2", 2, 6)
    a.publish("two", b"3", 2, 7)
    a.publish("two", b"3", 2, 7)  # again: it comes once
    assert a.received() == [Ack(PUBACK, 5), Ack(PUBREC, 6), Ack(PUBREC, 7), Ack(PUBREC, 7)]
    assert [(m.payload, m.qos, m.packet_id) for m in b.messages()] == [(b"1", 1, 1), (b"2", 1, 2), (b"3", 2, 3)]
    b.answer(Ack(PUBACK, 1), Ack(PUBACK, 2), Ack(PUBREC, 3))
    assert b.received() == [Ack(PUBREL, 3)]
    b.answer(Ack(PUBCOMP, 3))
    a.answer(Ack(PUBREL, 7), Ack(PUBREL, 99))
    assert a.received() == [Ack(PUBCOMP, 7), Ack(PUBCOMP, 99, 0x92)]
    session = house.state.sessions["b"]
    assert not session.inflight
    assert not session.queue


def test_a_window_of_messages_in_flight(house: House) -> None:
    a, b = house.connect("a"), house.connect("b", properties={"receive_max": 2})
    b.subscribe("#", qos=1)
    for number in range(5):
        a.publish("x", b"%d" % number, 1, number + 1)
    assert [m.packet_id for m in b.messages()] == [1, 2]
    b.answer(Ack(PUBACK, 2))
    assert [(m.payload, m.packet_id) for m in b.messages()] == [(b"2", 3)]
    b.answer(Ack(PUBACK, 1), Ack(PUBACK, 3))
    assert payloads(b) == [b"3", b"4"]
    b.answer(Ack(PUBACK, 4), Ack(PUBACK, 5))
    a.publish("x", b"5", 1, 9)
    assert payloads(b) == [b"5"]


def test_a_session_goes_on_and_messages_are_sent_again(house: House) -> None:
    a = house.connect("a")
    b = house.connect("b", clean_start=False, properties={"session_expiry_interval": 100})
    assert b.connack.session_present is False
    b.subscribe("#", qos=2)
    a.publish("x", b"1", 1, 1)
    a.publish("x", b"2", 2, 2)
    assert len(b.messages()) == 2
    b.answer(Ack(PUBREC, 2))
    b.lose()
    a.publish("x", b"3", 1, 3)
    a.publish("x", b"4", 0)
    again = Client(house)
    again.send(Connect("b", clean_start=False, properties={"session_expiry_interval": 100}))
    connack, *rest = again.received()
    assert isinstance(connack, ConnAck)
    assert connack.session_present
    assert rest == [Publish("x", b"1", 1, False, 1, True), Ack(PUBREL, 2), Publish("x", b"3", 1, False, 3)]
    again.lose()
    house.pass_time(101)
    assert house.connect("b", clean_start=False).connack.session_present is False
    assert not house.state.subscriptions


def test_a_clean_start_ends_the_session(house: House) -> None:
    b = house.connect("b", properties={"session_expiry_interval": 100})
    b.subscribe("#", "a")
    b.lose()
    assert house.connect("b").connack.session_present is False
    assert not house.state.subscriptions


def test_the_expiry_may_change_when_a_client_leaves(house: House) -> None:
    b = house.connect("b", properties={"session_expiry_interval": 100})
    b.leave(session_expiry_interval=0)
    assert not house.state.sessions
    c = house.connect("c")
    c.send(Disconnect(0, {"session_expiry_interval": 5}))
    assert c.told_why() == 0x82


def test_a_session_is_taken_over(house: House) -> None:
    first = house.connect("a", properties={"session_expiry_interval": 100})
    second = house.connect("a", clean_start=False)
    assert second.connack.session_present
    assert first.told_why() == 0x8E


def test_retained_messages(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    a.publish("r/1", b"1", 1, 1, retain=True)
    a.publish("r/2", b"2", retain=True, properties={"user_properties": [("x", "5")]})
    a.publish("$r", b"3", retain=True)
    b.subscribe("r/+", qos=0)
    assert {(m.payload, m.retain, m.qos) for m in b.messages()} == {(b"1", True, 0), (b"2", True, 0)}
    b.subscribe("r/+?x > 1")
    assert payloads(b) == [b"2"]
    b.subscribe("r/+", retain_handling=1)
    b.subscribe("#", retain_handling=2)
    assert payloads(b) == []
    b.subscribe("#")
    assert len(payloads(b)) == 2
    a.publish("r/1", b"", retain=True)
    b.messages()
    b.subscribe("r/#")
    assert payloads(b) == [b"2"]
    house.pass_time(1)


def test_retain_as_published(house: House) -> None:
    a, b, c = house.connect("a"), house.connect("b"), house.connect("c")
    b.subscribe("#", retain_as_published=True)
    c.subscribe("#")
    a.publish("x", b"1", retain=True)
    a.publish("x", b"2")
    assert [m.retain for m in b.messages()] == [True, False]
    assert [m.retain for m in c.messages()] == [False, False]


def test_no_local_and_identifiers(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    a.subscribe("#", no_local=True)
    b.subscribe("#", no_local=True, identifier=3)
    b.subscribe("x", identifier=4)
    a.publish("x")
    assert a.messages() == []
    (message,) = b.messages()
    assert sorted(message.properties["subscription_ids"]) == [3, 4]
    b.publish("x")
    (message,) = b.messages()
    assert message.properties["subscription_ids"] == [4]
    assert len(a.messages()) == 1


def test_options_may_change(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("x", qos=0)
    a.publish("x", qos=1)
    b.subscribe("x", qos=1, identifier=9)
    a.publish("x", qos=1)
    b.subscribe("x", qos=0, where="p > 1")
    a.publish("x", qos=1)
    first, second = b.messages()
    assert (first.qos, first.properties) == (0, {})
    assert (second.qos, second.properties) == (1, {"subscription_ids": [9]})
    assert len(house.state.subscriptions) == 1


def test_wills(house: House) -> None:
    b = house.connect("b")
    b.subscribe("w", qos=1)
    will = Will("w", b"gone", 1)
    house.connect("a", will=will).lose()
    assert payloads(b) == [b"gone"]
    house.connect("a", will=will).leave()
    assert payloads(b) == []
    house.connect("a", will=will).leave(4)
    assert payloads(b) == [b"gone"]
    late = Will("w", b"late", 0, False, {"will_delay_interval": 5})
    lasting = {"session_expiry_interval": 100}
    house.connect("a", will=late, properties=lasting).lose()
    house.pass_time(4)
    assert payloads(b) == []
    house.connect("a", clean_start=False, will=late, properties=lasting).lose()  # back in time
    house.pass_time(4)
    assert payloads(b) == []
    house.pass_time(2)
    assert payloads(b) == [b"late"]
    house.connect("a", will=late, properties={"session_expiry_interval": 2}).lose()
    house.pass_time(3)  # the session has ended
    assert payloads(b) == [b"late"]


def test_message_expiry(house: House) -> None:
    a, b = house.connect("a"), house.connect("b", properties={"session_expiry_interval": 100})
    b.subscribe("#", qos=1)
    b.lose()
    for seconds in (5, 20):
        a.publish("x", b"%d" % seconds, 1, seconds, properties={"message_expiry_interval": seconds})
    a.publish("r", b"r", retain=True, properties={"message_expiry_interval": 5})
    house.pass_time(10)
    again = Client(house)
    again.send(Connect("b", clean_start=False))
    assert [(m.payload, m.properties) for m in again.messages()] == [(b"20", {"message_expiry_interval": 10})]
    assert len(house.state.retained) == 0


def test_shared_subscriptions(house: House) -> None:
    a = house.connect("a")
    members = [house.connect(name) for name in "bcd"]
    for member in members:
        member.subscribe("$share/g/x/+", qos=1)
    members[0].subscribe("x/y", qos=0)
    members[1].subscribe("$share/other/x/+", qos=0)
    for number in range(60):
        a.publish("x/y", b"%d" % number, 1, number + 1)
    got = [[(m.payload, m.qos) for m in member.messages()] for member in members]
    shared = [pair for found in got for pair in found if pair[1] == 1]
    assert sorted(shared) == sorted((b"%d" % number, 1) for number in range(60))
    assert all(any(pair[1] == 1 for pair in found) for found in got)
    assert len([pair for pair in got[0] if pair[1] == 0]) == 60
    assert len([pair for pair in got[1] if pair[1] == 0]) == 60


def test_what_a_member_has_not_acknowledged_goes_to_another(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("$share/g/x", qos=1)
    a.publish("x", b"1", 1)
    assert payloads(b) == [b"1"]
    c = house.connect("c")
    c.subscribe("$share/g/x", qos=1)
    b.lose()
    assert payloads(c) == [b"1"]


def test_a_group_that_has_ended_takes_no_memory(house: House) -> None:
    def groups() -> int:
        gc.collect()
        return sum(isinstance(thing, Group) for thing in gc.get_objects())

    member, before = house.connect("a"), groups()
    member.subscribe("$share/g/x")
    assert groups() == before + 1
    member.send(Unsubscribe(2, ("$share/g/x",)))
    assert groups() == before


def test_aliases_from_clients(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("#")
    a.publish("x", b"1", properties={"topic_alias": 1})
    a.publish("", b"2", properties={"topic_alias": 1})
    a.publish("y", b"3", properties={"topic_alias": 1})
    a.publish("", b"4", properties={"topic_alias": 1})
    assert [(m.topic, m.payload, m.properties) for m in b.messages()] == [
        ("x", b"1", {}),
        ("x", b"2", {}),
        ("y", b"3", {}),
        ("y", b"4", {}),
    ]
    a.publish("", b"5", properties={"topic_alias": 2})
    assert a.told_why() == 0x94


def test_aliases_to_clients(house: House) -> None:
    a, b = house.connect("a"), house.connect("b", properties={"topic_alias_max": 1})
    b.subscribe("#")
    for topic in ("x", "x", "y", "x"):
        a.publish(topic)
    assert [(m.topic, m.properties.get("topic_alias")) for m in b.messages()] == [
        ("x", 1),
        ("", 1),
        ("y", None),
        ("", 1),
    ]


def test_the_largest_packet_that_a_client_takes(house: House) -> None:
    a, b = house.connect("a"), house.connect("b", properties={"max_packet_size": 50})
    b.subscribe("#", qos=1)
    a.publish("x", b"." * 60, 1, 1)
    a.publish("x", b"." * 60, 0)
    a.publish("x", b"small", 1, 2)
    assert payloads(b) == [b"small"]


def test_keep_alive(house: House) -> None:
    b = house.connect("b", keep_alive=10)
    house.pass_time(14)
    assert not b.link.closed
    b.link.heard = house.state.now
    house.pass_time(16)
    assert b.told_why() == 0x8D
    own = House(keep_alive=60).connect("x", keep_alive=120)
    assert own.connack.properties["server_keep_alive"] == 60


def test_pings_and_unsubscribing(house: House) -> None:
    a = house.connect("a")
    a.send(PingReq())
    assert a.take(PingResp)
    a.subscribe("x", "y?z > 1")
    assert a.unsubscribe("x", "y", "y?z > 1").codes == (0, 0x11, 0)
    a.publish("x")
    assert a.messages() == []
    assert not house.state.subscriptions


@pytest.mark.parametrize("version", [4, 5])
def test_what_is_refused(house: House, version: int) -> None:
    silent = Client(house, version)
    silent.send(PingReq())
    assert silent.link.closed
    assert silent.received() == []
    twice = house.connect("a", version)
    twice.send(Connect("a", version))
    assert twice.link.closed
    if version == 5:
        assert twice.told_why() == 0x82
        method = Client(house)
        method.send(Connect("m", properties={"authentication_method": "x"}))
        assert method.told_why() == 0x8C
        hasty = Client(house)
        refused = Connect("h", properties={"authentication_method": "x"})
        house.deliver(hasty.link, write(refused, MQTT_5) + write(Ack(PUBACK, 1), MQTT_5))
        assert hasty.told_why() == 0x8C
        assert not house.state.counts.faults
        server = house.connect("s")
        server.send(SubAck(1, (0,)))
        assert server.told_why() == 0x82
        auth = house.connect("t")
        auth.send(Auth())
        assert auth.told_why() == 0x82
    else:
        nameless = Client(house, version)
        nameless.send(Connect("", version, clean_start=False))
        assert nameless.told_why() == 2


def test_too_many_messages_at_once(house: House) -> None:
    few = House(house.tick is not None, receive_max=2)
    a = few.connect("a")
    for number in range(3):
        a.publish("x", b"", 2, number + 1)
    assert a.told_why() == 0x93


def test_a_session_in_which_too_much_waits_is_ended(house: House) -> None:
    few = House(house.tick is not None, queued=2)
    a, b = few.connect("a"), few.connect("b", properties={"receive_max": 1})
    c = few.connect("c", properties={"session_expiry_interval": 100})
    for client in (b, c):
        client.subscribe("#", "x", qos=1)
    c.lose()
    for number in range(5):
        a.publish("x", b"", 1, number + 1)
    assert b.told_why() == 0x97
    assert list(few.state.sessions) == ["a"]
    assert not few.state.subscriptions
    assert few.state.losses.overflowed >= 2


def test_a_client_that_does_not_read_loses_qos_0(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    b.subscribe("#", qos=1)
    house.core.congested(b.link, True)
    a.publish("x", b"0", 0)
    a.publish("x", b"1", 1)
    assert b.messages() == []
    house.core.congested(b.link, False)
    assert payloads(b) == [b"1"]
    a.publish("x", b"2", 1)
    assert payloads(b) == [b"2"]
    assert house.state.losses.slow == 1


def test_who_subscribes_gets_what_others_publish_in_the_same_turn(house: House) -> None:
    a, b = house.connect("a"), house.connect("b")
    asked, message = Subscribe(1, (Asked("x", 1),)), Publish("x", b"1", 1, False, 1)
    house.together([(b, write(asked, MQTT_5)), (a, write(message, MQTT_5))])
    answer, found = b.received()
    assert isinstance(answer, SubAck)
    assert isinstance(found, Publish)
