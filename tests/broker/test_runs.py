"""What durable sessions do with many messages and acknowledgements at once: the same as with one after the other, but
with less work."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker import tick
from overstory.kernels.mqtt import frame
from overstory.wire.packets import MQTT_5, PUBACK, PUBREC, Ack, Publish

from .house import Client, House, write

LASTING = {"session_expiry_interval": 1000, "receive_max": 6}


def durable(kernels: bool = True, **given_: Any) -> tuple[House, Client, Client]:
    """A broker with a journal, a client whose session lasts, and a publisher."""
    house = House(kernels, keeps=True)
    reader = house.connect("reader", clean_start=False, properties={**LASTING, **given_})
    reader.subscribe("x", qos=2)
    writer = house.connect("writer")
    committed(house)
    return house, reader, writer


def committed(house: House) -> list[str]:
    """Writes what the journal holds, and returns the names of the changes."""
    batch = house.state.journal.take()
    if batch is None:
        return []
    house.state.journal.written(batch)
    return [name for name, _ in batch.changes]


def messages(count: int, qos: int = 1) -> bytes:
    return b"".join(write(Publish("x", b"%d" % number, qos, False, number + 1), MQTT_5) for number in range(count))


acks = st.lists(
    st.builds(Ack, st.sampled_from([PUBACK, PUBACK, PUBACK, PUBREC]), st.integers(1, 12), st.sampled_from([0, 0, 0x80]))
)


@given(st.booleans(), st.lists(st.sampled_from([1, 1, 2]), max_size=12), acks, st.integers(1, 7))
def test_acknowledgements_in_a_run_do_what_each_does(
    kernels: bool, sent: list[int], given_: list[Ack], cut: int
) -> None:
    outcomes = []
    for together in (True, False):
        house, reader, writer = durable(kernels)
        for number, qos in enumerate(sent):
            writer.publish("x", b"%d" % number, qos, number + 1)
            committed(house)
        stream = b"".join(write(ack, MQTT_5) for ack in given_)
        pieces = [stream[:cut], stream[cut:]] if together else [write(ack, MQTT_5) for ack in given_]
        for piece in pieces:
            house.deliver(reader.link, piece)
        committed(house)
        session = reader.link.session
        inflight = [(number, delivery.sequence, delivery.state) for number, delivery in session.inflight.items()]
        outcomes.append((reader.received(), inflight, [delivery.sequence for delivery in session.queue]))
    assert outcomes[0] == outcomes[1]


def test_a_run_of_acknowledgements_is_framed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    house, reader, writer = durable(receive_max=500)
    house.deliver(writer.link, messages(500))
    assert committed(house) == ["deliver"] * 500  # and not another change for the packet identifier
    received = [message for message in reader.received() if isinstance(message, Publish)]
    calls = []

    def counted(*given_: Any) -> Any:
        calls.append(given_)
        return frame(*given_)

    monkeypatch.setattr(tick, "frame", counted)
    reader.answer(*[Ack(PUBACK, message.packet_id) for message in received])
    assert len(calls) <= 2
    assert committed(house) == ["done"] * 500
    assert not reader.link.session.inflight


def test_subscriptions_are_looked_up_once_for_each_kind_of_message(monkeypatch: pytest.MonkeyPatch) -> None:
    house, reader, writer = durable(receive_max=500)
    assert house.tick is not None
    calls, find = [], house.tick.compiled.subscriptions

    def counted(*given_: Any) -> list[int]:
        calls.append(given_)
        found: list[int] = find(*given_)
        return found

    monkeypatch.setattr(house.tick.compiled, "subscriptions", counted)
    house.deliver(writer.link, messages(300))
    committed(house)
    assert [message.payload for message in reader.messages()] == [b"%d" % number for number in range(300)]
    assert len(calls) == 1
