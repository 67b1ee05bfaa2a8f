"""Many at once, and those who do not keep up: nobody else suffers, and no turn is long."""

import asyncio

from overstory.broker.core import STEPS
from overstory.broker.server import LONGEST_PAUSE, MANY_WRITES, PAUSE, pause_after
from overstory.broker.state import MOST_UNFILED
from overstory.broker.tick import SLICE
from overstory.wire.packets import (
    PUBACK,
    Ack,
    Asked,
    Connect,
    Disconnect,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)

from .house import House, write
from .running import PATIENCE, broker
from .wires import Wire

CROWD = 1000


def test_a_thousand_clients_come_and_leave_at_once() -> None:
    async def visit(port: int, number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        hello = write(Connect(f"c{number}"), 5) + write(Subscribe(1, (Asked(f"t/{number}"), Asked("t/#"))), 5)
        writer.write(hello)
        await reader.readexactly(4)
        if number % 2:
            writer.write(write(Disconnect(), 5))
        writer.close()
        return b""

    async def crowd(port: int) -> None:
        await asyncio.gather(*[visit(port, number) for number in range(CROWD)])

    with broker() as running:
        asyncio.run(asyncio.wait_for(crowd(running.port), PATIENCE))
        running.wait(lambda state: not state.links and not state.sessions and not state.subscriptions)
        assert running.server.state.counts.connections == CROWD
        running.wait(lambda state: not running.server.connections)
        healthy = Wire(running.port, "healthy")
        healthy.send(Subscribe(1, (Asked("x", 1),)))
        assert isinstance(healthy.take(), SubAck)
        healthy.publish("x", b"1", 1, 1)
        assert {type(healthy.take()), type(healthy.take())} == {Ack, Publish}


def test_a_client_that_stops_reading() -> None:
    count, size = 600, 40_000  # more than the sockets' buffers take
    with broker(limits={"write_buffer": 1 << 16}) as running:
        slow, quick, pub = Wire(running.port, "slow"), Wire(running.port, "quick"), Wire(running.port, "pub")
        for wire in (slow, quick):
            wire.send(Subscribe(1, (Asked("x", 0), Asked("last", 1))))
            assert isinstance(wire.take(), SubAck)
        for number in range(count):
            pub.send(Publish("x", b"%05d" % number + b"." * size))
            assert quick.message().payload[:5] == b"%05d" % number
        pub.publish("last", b"1", 1, 1)
        assert pub.take() == Ack(PUBACK, 1)
        assert quick.message().payload == b"1"
        lost = running.server.state.losses.slow
        assert lost > 0
        got = []
        while (message := slow.message()).topic == "x":
            got.append(int(message.payload[:5]))
        assert message.payload == b"1"  # QoS 1 waited
        assert got == sorted(got)
        assert len(got) == count - lost


def test_fifty_thousand_subscriptions_in_one_packet_are_sliced() -> None:
    """No turn takes more than its share of steps, and another client is served in between."""
    house = House()
    assert house.tick is not None
    many, other = house.connect("many"), house.connect("other")
    other.subscribe("x")
    filters = tuple(Asked(f"a/{number}/+", 1) for number in range(50_000))
    house.tick.add(many.link, write(Subscribe(1, filters), 5))
    turns = 0
    while house.tick.pending:
        before = len(house.state.subscriptions)
        house.tick.add(other.link, write(Publish("x", b"%d" % turns), 5))
        house.tick.run()
        assert len(house.state.subscriptions) - before <= STEPS
        assert house.state.router.state.epochs[0].table._filed.waiting <= MOST_UNFILED  # nor does a message wait
        turns += 1
        if not many.link.work and house.tick.pending:
            house.tick.run()
    assert turns >= 50_000 // STEPS
    assert len(other.messages()) == turns
    answer = many.take(SubAck)
    assert len(answer.codes) == 50_000
    many.send(Unsubscribe(2, tuple(asked.filter for asked in filters)))
    assert len(many.take(UnsubAck).codes) == 50_000
    assert len(house.state.subscriptions) == 1


def test_the_end_of_a_large_session_is_sliced() -> None:
    house = House()
    many = house.connect("many")
    many.subscribe(*[f"a/{number}" for number in range(1000)])
    house.core.lost(many.link)
    assert len(house.state.subscriptions) == 1000
    house.core.tidy(100)
    assert len(house.state.subscriptions) == 900
    house.settle()
    assert not house.state.subscriptions
    assert not house.core.chores


def test_much_that_comes_at_once_is_sliced() -> None:
    house = House()
    assert house.tick is not None
    sink = house.connect("sink")
    sink.subscribe("x")
    senders = [house.connect(f"s{number}") for number in range(8)]
    piece = write(Publish("x", b"." * 1000), 5) * (SLICE // 2000)
    for sender in senders:
        house.tick.add(sender.link, piece)
    turns = 0
    while house.tick.pending:
        before = house.state.counts.messages_in
        house.tick.run()
        assert (house.state.counts.messages_in - before) * 1000 < 2 * SLICE
        turns += 1
    assert turns >= 3
    assert len(sink.messages()) == 8 * (SLICE // 2000)


def test_retained_messages_are_sent_in_slices() -> None:
    house = House()
    assert house.tick is not None
    a, b = house.connect("a"), house.connect("b")
    for number in range(1000):
        a.publish(f"r/{number}", retain=True)
    house.tick.add(b.link, write(Subscribe(1, (Asked("r/#"),)), 5))
    turns = 0
    while house.tick.pending:
        house.tick.run()
        turns += 1
    assert turns >= 1000 // STEPS
    assert len(b.messages()) == 1000


def test_after_a_turn_with_very_many_writes_messages_gather_for_a_moment() -> None:
    """Nobody misses anything by it."""
    assert pause_after(MANY_WRITES - 1, 0.1) == 0
    assert pause_after(MANY_WRITES, 0.002) == 0.002 * PAUSE
    assert pause_after(MANY_WRITES, 1.0) == LONGEST_PAUSE

    async def listen(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(write(Connect(f"c{number}"), 5) + write(Subscribe(1, (Asked("all"),)), 5))
        for _ in range(2):  # CONNACK and SUBACK
            head = await reader.readexactly(2)
            await reader.readexactly(head[1])
        return reader, writer

    async def crowd(port: int) -> None:
        listeners = [await listen(port, number) for number in range(MANY_WRITES)]
        _, publisher = await asyncio.open_connection("127.0.0.1", port)
        publisher.write(write(Connect("pub"), 5))
        for number in range(5):
            message = write(Publish("all", b"%d" % number), 5)
            publisher.write(message)
            for reader, _ in listeners:
                assert await reader.readexactly(len(message)) == message
        for writer in [publisher, *(writer for _, writer in listeners)]:
            writer.close()

    with broker() as running:
        asyncio.run(asyncio.wait_for(crowd(running.port), PATIENCE))
