"""What a fuzzer attacks: bytes come from clients that nobody trusts, between others that are to be served all the same.

The first byte of an input says how the rest comes: on a connection of which version, in pieces of which size, from one
client or from two in turns, to a broker that keeps a journal or not. What must hold for all inputs:

1. No error of our own comes up.
2. A broker that uses kernels says the same to the same clients as one that does not.
3. Others are served as before, and what a client leaves behind when it goes is nothing.
"""

import re
from collections import Counter
from typing import Any

import msgspec

from overstory.broker import connecting
from overstory.wire.packets import (
    MQTT_3_1_1,
    MQTT_5,
    PUBACK,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Packet,
    Publish,
    Subscribe,
    Will,
)

from ..broker.house import Client, House, write

PIECES = (1 << 20, 1, 7, 64)
KEEPS, CONNECTED, OLD, TWO, LATER = 1, 2, 4, 8, 16  # bits of the first byte; the upper ones choose the pieces
LASTING = {"session_expiry_interval": 30, "receive_max": 3}
GIVEN_OUT = re.compile(r"auto-[0-9a-f]+")  # names that the broker has made up
Said = tuple[list[Counter[str]], list[bool]]


def one_input(data: bytes) -> None:
    """Raises an ``AssertionError`` if one of the rules is broken."""
    if not data:
        return
    by_kernels, by_plain = outcome(data, True), outcome(data, False)
    assert by_kernels == by_plain, f"kernels and the plain way differ:\n{by_kernels}\n{by_plain}"


def outcome(data: bytes, kernels: bool) -> Said:
    """What a broker says to whom, and on whom it hangs up."""
    house = House(kernels, keeps=bool(data[0] & KEEPS), packet=4096, queued=50, receive_max=20)
    reader, writer = house.connect("reader"), house.connect("writer")
    reader.subscribe("#", "$x/#", qos=1)
    clients = [_client(house, data[0], "one"), _client(house, data[0], "two")]
    used = 2 if data[0] & TWO else 1
    size = PIECES[data[0] >> 6]
    said: list[Counter[str]] = [Counter(), Counter(), Counter()]
    for number, start in enumerate(range(1, len(data), size)):
        client = clients[number % used]
        if not client.link.closed:
            house.deliver(client.link, data[start : start + size])
        commit(house)
        if data[0] & LATER and number % 8 == 7:
            house.pass_time(3)
        for listener, heard in zip((*clients, reader), said, strict=True):
            hear(listener, heard)
    check(house, reader, writer)
    closed = [client.link.closed for client in clients]
    for client in clients:
        client.lose()
    house.pass_time(5e9)  # longer than any expiry but the one that means never
    check(house, reader, writer)
    kept = set(house.state.sessions) - {"reader", "writer"}
    assert all(house.state.sessions[name].expiry == 0xFFFFFFFF for name in kept), kept
    end(house)
    return said, closed


def end(house: House) -> None:
    """Ends all sessions, after which nothing is left of any."""
    state = house.state
    for session in list(state.sessions.values()):
        connecting.end_session(state, session)
    house.core.tidy(1 << 20)
    for left in (state.subscriptions, state.groups, state.slots.by_client, state.away):
        assert not left, left


def commit(house: House) -> None:
    """The disk takes what waits for it."""
    batch = house.state.journal.take()
    if batch is not None:
        house.state.journal.written(batch)


def hear(client: Client, heard: Counter[str]) -> None:
    """Takes note of what has come, apart from what a broker may choose: numbers, and the order of properties."""
    client.version = client.link.version  # of CONNECT, which may be another one than expected
    for packet in client.received():
        text = repr(packet)
        if isinstance(packet, Publish):
            ordered = msgspec.structs.replace(packet, properties=dict(sorted(packet.properties.items())))
            text = re.sub(r"packet_id=\d+", "", repr(ordered))
        elif isinstance(packet, ConnAck):
            text = GIVEN_OUT.sub("auto", text)
        heard[text] += 1


def check(house: House, reader: Client, writer: Client) -> None:
    """Others are served, and no error of our own has come up."""
    assert not house.state.counts.faults, house.logged
    hear(reader, Counter())
    writer.publish("healthy", b"1", 1, 7)
    commit(house)
    assert Ack(PUBACK, 7) in writer.received()
    (served,) = [message for message in reader.messages() if message.topic == "healthy"]
    reader.answer(Ack(PUBACK, served.packet_id))
    assert not house.state.slots.rows["count"].any()
    assert house.state.window.pending == 0


def _client(house: House, flags: int, name: str) -> Client:
    """A client that nobody trusts: connected already, or about to say who it is."""
    version = MQTT_3_1_1 if flags & OLD else MQTT_5
    if not flags & CONNECTED:
        return Client(house, version)
    given = {"properties": LASTING} if version == MQTT_5 else {}
    return house.connect(name, version, **given)


def seeds() -> list[bytes]:
    """Inputs to begin with: conversations as they should be."""
    will = Will("w/x", b"gone", 1, True, {"will_delay_interval": 2})
    properties = {"user_properties": [("price", "4"), ("a", "b")], "content_type": "application/json"}
    packets: list[Packet] = [
        Subscribe(
            1, (Asked("a/+", 2), Asked("b", 1, True), Asked("$share/g/c?price > 3", 1)), {"subscription_ids": [5]}
        ),
        Publish("a/b", b"{}", 0, False, 0, False, properties),
        Publish("a/b", b"x" * 200, 1, True, 3),
        Publish("c", b"x", 2, False, 4, False, {**properties, "message_expiry_interval": 9}),
        Publish("b", b"y", 1, False, 5, False, {"topic_alias": 2, "response_topic": "r", "correlation_data": b"z"}),
        Publish("", b"y", 1, False, 6, False, {"topic_alias": 2}),
        *[Ack(kind, number) for kind in (4, 5, 6, 7) for number in (1, 2, 4)],
    ]
    found = []
    for flags in (
        0,
        CONNECTED,
        CONNECTED | TWO | LATER,
        CONNECTED | KEEPS,
        CONNECTED | OLD,
        OLD,
        CONNECTED | 64 | LATER,
    ):
        version = MQTT_3_1_1 if flags & OLD else MQTT_5
        stream = b"".join(write(packet, version) for packet in packets)
        if not flags & CONNECTED:
            given: dict[str, Any] = (
                {} if flags & OLD else {"will": will, "properties": {**LASTING, "topic_alias_max": 3}}
            )
            stream = write(Connect("c", version, keep_alive=5, **given), version) + stream
        found.append(bytes([flags]) + stream + b"\xc0\0\xe0\0")
    return found
