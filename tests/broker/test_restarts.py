"""What is acknowledged survives: brokers are killed, disks are full, ports are taken."""

import resource
from pathlib import Path

import pytest

from overstory.cli import main
from overstory.wire.packets import PUBACK, PUBCOMP, PUBREC, PUBREL, Ack, Asked, Publish, SubAck, Subscribe, Will

from .running import Process
from .wires import Wire

LASTING = {"session_expiry_interval": 10_000}


def subscribe(wire: Wire, *filters: str, qos: int = 2) -> None:
    wire.send(Subscribe(1, tuple(Asked(text, qos) for text in filters)))
    assert isinstance(wire.take(), SubAck)


def test_nothing_acknowledged_is_lost_and_qos_2_comes_once(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    first = Process("--store", store)
    sub = Wire(first.port, "sub", clean_start=False, properties=LASTING)
    subscribe(sub, "t/+", "$share/g/s", "c?x > 1")
    pub = Wire(first.port, "pub", clean_start=False, properties=LASTING)
    held = Publish("t/retained", b"kept", 1, True, 900)
    pub.send(held)
    assert pub.take() == Ack(PUBACK, 900)
    assert sub.message().payload == b"kept"
    sub.close()
    for number in range(1, 51):
        pub.publish("t/1", b"%d" % number, 1, number)
        pub.publish("t/2", b"%d" % number, 2, 100 + number)
    for _ in range(100):
        assert isinstance(pub.take(), Ack)
    pub.send(Ack(PUBREL, 101))
    assert pub.take() == Ack(PUBCOMP, 101)
    first.kill()  # 101 is released, the others of QoS 2 are not

    second = Process("--store", store, port=first.port)
    pub = Wire(second.port, "pub", clean_start=False, properties=LASTING)
    assert pub.connack.session_present
    for number in range(2, 51):
        pub.publish("t/2", b"%d" % number, 2, 100 + number, again=True)
        assert pub.take() == Ack(PUBREC, 100 + number)
        pub.send(Ack(PUBREL, 100 + number))
        assert pub.take() == Ack(PUBCOMP, 100 + number)
    pub.publish("t/2", b"last", 2, 101)
    assert pub.take() == Ack(PUBREC, 101)
    sub = Wire(second.port, "sub", clean_start=False, properties=LASTING)
    assert sub.connack.session_present
    got = [sub.message() for _ in range(101)]
    for topic in ("t/1", "t/2"):
        found = [message.payload for message in got if message.topic == topic]
        assert found == [b"%d" % number for number in range(1, 51)] + ([b"last"] if topic == "t/2" else [])
    late = Wire(second.port, "late")
    subscribe(late, "t/retained")
    assert late.message().payload == b"kept"
    assert second.stop()[0] == 0


def test_messages_in_flight_are_sent_again_after_a_kill(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    first = Process("--store", store)
    sub = Wire(first.port, "sub", clean_start=False, properties=LASTING)
    subscribe(sub, "#")
    pub = Wire(first.port, "pub", will=Will("will", b"gone", 1), clean_start=False, properties=LASTING)
    pub.publish("a", b"1", 1, 1)
    pub.publish("b", b"2", 2, 2)
    assert [pub.take(), pub.take()] == [Ack(PUBACK, 1), Ack(PUBREC, 2)]
    one, two = sub.take(), sub.take()
    assert isinstance(one, Publish)
    assert isinstance(two, Publish)
    sub.send(Ack(PUBREC, two.packet_id))
    assert sub.take() == Ack(PUBREL, two.packet_id)
    first.kill()
    second = Process("--store", store)
    sub = Wire(second.port, "sub", clean_start=False, properties=LASTING)
    again = {repr(sub.take()) for _ in range(3)}
    assert repr(Publish("a", b"1", 1, False, one.packet_id, True)) in again
    assert any("gone" in packet for packet in again)  # the will of the client that the broker lost with itself
    assert repr(Ack(PUBREL, two.packet_id)) in again or repr(Publish("b", b"2", 2, False, two.packet_id, True)) in again
    second.stop()


def test_sessions_that_have_ended_do_not_come_back(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    first = Process("--store", store)
    for clean in (False, True):
        wire = Wire(first.port, "c", clean_start=clean, properties={} if clean else LASTING)
        subscribe(wire, "x", "y")
    first.stop()
    second = Process("--store", store)
    assert not Wire(second.port, "c", clean_start=False).connack.session_present
    second.stop()


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


def test_a_full_disk_acknowledges_nothing_and_says_so(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    full = Process("--store", store, preexec=_small_files)
    sub = Wire(full.port, "sub", clean_start=False, properties=LASTING)
    subscribe(sub, "#")
    sub.close()
    pub = Wire(full.port, "pub")
    acknowledged = 0
    try:
        for number in range(1, 200):
            pub.publish("x", b"%05d" % number + b"." * 10_000, 1, number)
            packet = pub.take()
            if not isinstance(packet, Ack):
                break
            acknowledged = number
    except (EOFError, OSError):
        pass
    _, errors = full.process.communicate(timeout=20)
    assert full.process.returncode == 1
    assert errors.splitlines()[-1].startswith(f"overstory: cannot write to {store}")
    assert "Traceback" not in errors
    assert 0 < acknowledged < 100
    again = Process("--store", store)
    sub = Wire(again.port, "sub", clean_start=False, properties=LASTING)
    got = [sub.message().payload[:5] for _ in range(acknowledged)]
    assert got == [b"%05d" % number for number in range(1, acknowledged + 1)]
    again.stop()


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    first = Process()
    assert main(["broker", "--listen", f"127.0.0.1:{first.port}"]) == 1
    assert capsys.readouterr().err.startswith(f"overstory: cannot listen on 127.0.0.1:{first.port}: ")
    first.stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = 5", "is no configuration of a broker"),
        ("nonsense = 1", "unknown field `nonsense`"),
        ("[limits]\npacket = -1", "the limit packet is too small"),
        ("[types]\nx = 'date'", "declared as 'date'"),
        ("listen = 'here'", "'here' is no address"),
        ("number = 99999999", "the number of a broker"),
        ("[[", "is no configuration of a broker"),
    ],
)
def test_a_malformed_configuration(tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    assert main(["broker", str(path)]) == 64
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_store_in_use_or_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"not a database" * 100)
    assert main(["broker", "--listen", "127.0.0.1:0", "--store", str(other)]) == 1
    assert "as a store" in capsys.readouterr().err
