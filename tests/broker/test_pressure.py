"""Publishers are not read while too many of their events wait for acknowledgements."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.identities import Store
from overstory.broker.journal import Change
from overstory.broker.pressure import Window
from overstory.wire.packets import (
    MQTT_3_1_1,
    MQTT_5,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Asked,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
)

from .house import House, write
from .running import PATIENCE, broker
from .wires import Wire

LASTING = {"session_expiry_interval": 10_000}
TOO_MANY = 0x93


def run(count: int, qos: int = 1, version: int = MQTT_5, first: int = 1) -> bytes:
    """Messages that are sent without waiting."""
    return b"".join(write(Publish("x", b"", qos, False, first + number), version) for number in range(count))


@pytest.fixture(params=[True, False], ids=["kernels", "plain"])
def kernels(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("qos", [1, 2])
def test_who_sends_more_than_the_receive_maximum_is_hung_up_on(kernels: bool, qos: int) -> None:
    house = House(kernels, receive_max=5)
    client = house.connect("a")
    assert client.connack.properties["receive_max"] == 5
    house.deliver(client.link, run(5, qos))
    assert len(client.received()) == 5
    house.deliver(client.link, run(5, 1) if qos == 1 else b"")
    client.received()
    house.deliver(client.link, run(6, qos, first=6))
    assert client.told_why() == TOO_MANY
    assert house.state.counts.protocol_errors == 1


def test_both_qualities_count_together(kernels: bool) -> None:
    house = House(kernels, receive_max=5)
    client = house.connect("a")
    house.deliver(client.link, run(3, 2))
    client.received()
    house.deliver(client.link, run(2, 1, first=10))
    client.received()
    client.send(Ack(PUBREL, 1), Ack(PUBREL, 2))
    assert [packet.kind for packet in client.received() if isinstance(packet, Ack)] == [PUBCOMP, PUBCOMP]
    house.deliver(client.link, run(4, 1, first=20))
    client.received()
    house.deliver(client.link, run(5, 1, first=30))
    assert client.told_why() == TOO_MANY


def test_clients_that_know_no_receive_maximum_may_send_what_they_like(kernels: bool) -> None:
    house = House(kernels, receive_max=5)
    client = house.connect("a", MQTT_3_1_1)
    house.deliver(client.link, run(50, 1, MQTT_3_1_1))
    assert len(client.received()) == 50


def test_a_new_connection_begins_with_an_empty_window(kernels: bool) -> None:
    house = House(kernels, receive_max=5)
    client = house.connect("a", clean_start=False, properties=LASTING)
    house.deliver(client.link, run(5, 2))
    client.lose()
    client = house.connect("a", clean_start=False, properties=LASTING)
    house.deliver(client.link, run(5, 2, first=6))
    assert [packet.kind for packet in client.received() if isinstance(packet, Ack)] == [PUBREC] * 5
    client.send(*[Ack(PUBREL, number) for number in range(1, 11)])
    assert len(client.received()) == 10
    house.deliver(client.link, run(5, 2, first=6))
    assert not client.link.closed


def test_events_that_wait_for_the_disk_fill_windows(kernels: bool) -> None:
    house = House(kernels, keeps=True, receive_max=5, unacknowledged=7)
    state = house.state
    reader = house.connect("reader", clean_start=False, properties=LASTING)
    reader.subscribe("x", qos=2)
    first, second, third = house.connect("a"), house.connect("b"), house.connect("c")
    commit(house)
    house.deliver(first.link, run(4))
    assert not state.stalled
    house.deliver(first.link, run(1, 2, first=9))
    assert list(state.stalled) == [first.link]
    assert first.link.window.is_full
    house.deliver(second.link, run(1))
    assert list(state.stalled) == [first.link]
    house.deliver(second.link, run(1))
    assert list(state.stalled) == [first.link, second.link]  # since all events together are too many
    assert third.link.window.is_full
    assert not first.received()
    first.lose()
    assert state.window.pending == 2
    commit(house)
    assert state.window.pending == 0
    assert not second.link.window.is_full
    assert [packet.kind for packet in second.received() if isinstance(packet, Ack)] == [PUBACK] * 2


def commit(house: House) -> None:
    """The disk takes all changes."""
    batch = house.state.journal.take()
    assert batch is not None
    house.state.journal.written(batch)


@given(st.lists(st.sampled_from(["one", "two", "answer one", "answer two", "write", "release"])))
def test_a_window_counts_what_a_list_of_events_would(steps: list[str]) -> None:
    window = Window(3, Window(100))
    events: list[list[str]] = []  # of each event how far it is
    for step in steps:
        waiting = [event for event in events if event[1] == "waits" and event[0] == step.removeprefix("answer ")]
        if step == "one":
            window.enter(1)
            events.append(["one", "waits"])
        elif step == "two":
            window.enter_once(len(events))
            events.append(["two", "waits"])
        elif step == "answer one" and waiting:
            window.answer(1)
            waiting[0][1] = "answered"
        elif step == "answer two" and waiting:
            window.answer(0, 1)
            waiting[0][1] = "answered"
        elif step == "write":
            window.written()
            for event in events:
                if event == ["one", "answered"]:
                    event[1] = "over"
        elif step == "release":
            for number, event in enumerate(events):
                if event == ["two", "answered"]:
                    window.release(number)
                    event[1] = "over"
        pending = sum(state == "waits" for _, state in events)
        assert window.is_full == (pending >= 3)
        assert window.above is not None
        assert window.above.pending == pending
        assert window.is_exceeded == (sum(state != "over" for _, state in events) > 3)


def test_a_publisher_is_not_read_while_the_disk_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write = threading.Event()
    may_write.set()
    writes = Store.write

    def slowly(store: Store, changes: Iterable[Change]) -> None:
        assert may_write.wait(PATIENCE)
        writes(store, changes)

    monkeypatch.setattr(Store, "write", slowly)
    with broker(store=str(tmp_path / "store.db"), limits={"receive_max": 100}) as running:
        reader = Wire(running.port, "reader", clean_start=False, properties=LASTING)
        reader.send(Subscribe(1, (Asked("x", 1),)))
        assert isinstance(reader.take(), SubAck)
        writer, other = Wire(running.port, "writer", MQTT_3_1_1), Wire(running.port, "other")
        may_write.clear()
        writer.socket.sendall(run(100, 1, MQTT_3_1_1))
        server = running.server
        running.wait(lambda state: any(link.is_paused for link in state.links))
        assert server.state.counts.messages_in == 100
        writer.socket.sendall(run(5000, 1, MQTT_3_1_1, first=101))
        for _ in range(3):  # so that the broker has looked at its sockets
            other.send(PingReq())
            assert isinstance(other.take(), PingResp)
        assert server.state.counts.messages_in == 100  # of which none is acknowledged
        assert server.state.window.pending == 100
        may_write.set()
        assert [writer.take() for _ in range(5100)] == [Ack(PUBACK, number) for number in range(1, 5101)]
        assert server.state.window.pending == 0


def test_nobody_who_is_not_listened_to_counts_as_silent() -> None:
    house = House()
    client, other = house.connect("a", keep_alive=10), house.connect("b", keep_alive=10)
    client.link.is_paused = True
    house.pass_time(16)
    assert not client.link.closed
    assert other.told_why() == 0x8D
    client.link.is_paused = False
    house.pass_time(14)
    assert not client.link.closed
    house.pass_time(2)
    assert client.told_why() == 0x8D


def test_the_time_is_that_of_the_turn_and_not_of_the_last_tick() -> None:
    """Else the will of a client that is lost would come too early."""
    with broker() as running:
        state = running.server.state
        client = Wire(running.port, "a", properties={"session_expiry_interval": 100})
        state.now = 0.0
        client.close()
        running.wait(lambda state: "a" in state.away)
        ends = state.away["a"].ends
        assert ends is not None
        assert ends > 1e9
