"""Laws that hypothesis attacks: kernels deliver what the plain way does, and no bytes hurt anybody but their sender."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.wire.encode import encode
from overstory.wire.packets import (
    PUBACK,
    PUBREL,
    Ack,
    Asked,
    Connect,
    Packet,
    PingResp,
    Publish,
    Subscribe,
    Unsubscribe,
)

from ..wire.packets import packets
from .house import Client, House, write

FILTERS = ["a", "a/#", "+", "+/b", "#", "a?x > 1", "#?x = '1'", "$share/g/a", "$share/g/#", "a/+?y IS NULL"]
TOPICS = ["a", "a/b", "b", "$a", "c/b"]
clients = st.integers(0, 3)
subscribing = st.tuples(
    clients,
    st.builds(
        lambda filters, qos, no_local, identifier: Subscribe(
            1,
            tuple(Asked(text, qos, no_local and not text.startswith("$share")) for text in filters),
            {"subscription_ids": [identifier]} if identifier else {},
        ),
        st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2),
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from([0, 0, 5]),
    ),
)
publishing = st.tuples(
    clients,
    st.builds(
        lambda topic, payload, qos, retain, pairs: Publish(
            topic, payload, qos, retain, 0, False, {"user_properties": pairs} if pairs else {}
        ),
        st.sampled_from(TOPICS),
        st.binary(min_size=0, max_size=3),
        st.integers(0, 2),
        st.sampled_from([False, False, True]),
        st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("123")), max_size=2),
    ),
)
leaving = st.tuples(
    clients, st.builds(Unsubscribe, st.just(1), st.lists(st.sampled_from(FILTERS), min_size=1).map(tuple))
)
steps = st.lists(st.lists(st.one_of(publishing, publishing, subscribing, leaving), min_size=1, max_size=5), max_size=6)


def numbered(turns: list[list[tuple[int, Packet]]]) -> list[list[tuple[int, Packet]]]:
    """The same turns, with packet identifiers where messages need them."""
    count = 0
    found = []
    for turn in turns:
        row: list[tuple[int, Packet]] = []
        for client, packet in turn:
            if isinstance(packet, Publish) and packet.qos:
                count += 1
                packet = Publish(
                    packet.topic, packet.payload, packet.qos, packet.retain, count, False, packet.properties
                )
            row.append((client, packet))
            if isinstance(packet, Publish) and packet.qos == 2:
                row.append((client, Ack(PUBREL, count)))
        found.append(row)
    return found


def outcome(kernels: bool, turns: list[list[tuple[int, Packet]]], read: bool) -> list[dict[object, list[bytes]]]:
    """What each client got: by topic, QoS and the rest of a message, its payloads in order; and all other packets."""
    house = House(kernels)
    members = [house.connect(f"c{number}", version=5 if number else 4) for number in range(4)]
    got: list[dict[object, list[bytes]]] = [defaultdict(list) for _ in members]
    for turn in turns:
        for client, packet in turn:  # of one client together, so that kernels see more than one packet
            house.deliver(members[client].link, write(packet, members[client].version))
        for number, member in enumerate(members):
            for packet in member.received():
                if isinstance(packet, Publish):
                    ids = tuple(sorted(packet.properties.pop("subscription_ids", ())))
                    key = (packet.topic, packet.qos, packet.retain, ids, repr(packet.properties))
                    got[number][key].append(packet.payload)
                    if read and packet.qos == 1:
                        member.answer(Ack(PUBACK, packet.packet_id))
                else:
                    got[number][repr(packet)].append(b"")
    return [dict(found) for found in got]


@given(steps, st.booleans())
def test_kernels_deliver_what_the_plain_way_delivers(turns: list[list[tuple[int, Packet]]], read: bool) -> None:
    made = numbered(turns)
    assert outcome(True, made, read) == outcome(False, made, read)


@given(st.lists(st.one_of(packets.map(lambda packet: write_any(packet)), st.binary(max_size=40)), max_size=6))
def test_no_bytes_hurt_anybody_else(pieces: list[bytes]) -> None:
    house = House()
    a, b = house.connect("other-a"), house.connect("other-b")
    b.subscribe("healthy", qos=1)
    fresh, known = Client(house), house.connect("known")
    for client in (fresh, known):
        for piece in pieces:
            if not client.link.closed:
                house.deliver(client.link, piece)
    if known.link.closed and known.link.session is not None:
        assert not known.link.buffer
    a.publish("healthy", b"1", 1, 1)
    assert [m.payload for m in b.messages() if m.topic == "healthy"][-1:] == [b"1"]


def write_any(packet: Packet) -> bytes:
    return encode(packet)


@given(st.lists(packets, max_size=4), st.data())
def test_spoiled_packets_end_in_a_protocol_error_or_an_answer(sent: list[Packet], data: st.DataObject) -> None:
    house = House(data.draw(st.booleans()))
    client = house.connect("spoiled")
    stream = bytearray(b"".join(map(write_any, sent)))
    for _ in range(data.draw(st.integers(0, 3)) if stream else 0):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    house.deliver(client.link, bytes(stream))
    assert client.received() is not None
    other = house.connect("other")
    other.send(Subscribe(1, (Asked("x"),)))
    assert len(other.received()) >= 1
    assert not other.link.closed


def test_a_packet_that_comes_byte_by_byte() -> None:
    house = House()
    client, other = Client(house), house.connect("o")
    other.subscribe("x")
    stream = write(Connect("slow"), 5) + write(Publish("x", b"y" * 200, 1, False, 3), 5) + b"\xc0\x00"
    for byte in stream:
        house.deliver(client.link, bytes([byte]))
    _, ack, pong = client.received()
    assert (ack, pong) == (Ack(PUBACK, 3), PingResp())
    assert [m.payload for m in other.messages()] == [b"y" * 200]


def test_clients_of_one_turn_keep_their_orders() -> None:
    house = House()
    sink = house.connect("sink")
    sink.subscribe("#", qos=1)
    senders = [house.connect(f"s{number}") for number in range(3)]
    mixed = [
        Publish(
            f"t{number % 2}", b"%d" % number, 1 if number % 3 else 0, number % 5 == 4, number + 1 if number % 3 else 0
        )
        for number in range(40)
    ]
    house.together([(sender, b"".join(write(packet, 5) for packet in mixed)) for sender in senders])
    found = sink.messages()
    assert len(found) == 3 * len(mixed)
    for topic in ("t0", "t1"):
        for qos in (0, 1):
            wanted = [packet.payload for packet in mixed if packet.topic == topic and packet.qos == qos]
            got = [packet.payload for packet in found if packet.topic == topic and packet.qos == qos]
            for payload in set(wanted):
                assert got.count(payload) == 3
            firsts = sorted(range(len(got)), key=lambda place: (wanted.index(got[place]), place))
            assert [got[place] for place in firsts[::3]] == wanted


@pytest.mark.parametrize("start", ["30 80 00", "30 ff 80 00", "32 80 80 00", "40 80 00", "30 80 80 80 80 01", "30 05"])
def test_a_length_that_is_no_length_ends_nobodys_turn(start: str) -> None:
    """Kernels and the decoder have to agree on what is malformed, or a turn would never end."""
    house = House()
    assert house.tick is not None
    client = house.connect("a")
    house.tick.add(client.link, bytes.fromhex(start))
    for _ in range(3):
        house.tick.run()
    assert not house.tick.pending
    assert client.link.closed == (start != "30 05")
