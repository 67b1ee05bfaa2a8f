"""What a network with disks promises: QoS 2 once though brokers restart, retained messages, sessions that move."""

from typing import Any

from overstory.wire.packets import PUBACK, PUBREC, PUBREL, Ack, Connect, Disconnect, Publish

from .house import Client
from .nets import Net
from .test_networks import line
from .test_spreading import settle

KEPT: dict[str, Any] = {"clean_start": False, "properties": {"session_expiry_interval": 1000}}


def commit(net: Net, number: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Writes what a broker has to write, as often as there is something. Returns the changes."""
    journal, found = net.brokers[number].state.journal, []
    while (batch := journal.take()) is not None:
        found += batch.changes
        journal.written(batch)
    return found


def with_disks(*numbers: int) -> Net:
    net = line(kernels=False)
    for number in numbers:
        net.brokers[number].state.journal.keeps = True
    return net


def acks(client: Client) -> list[tuple[int, int]]:
    return [(packet.kind, packet.packet_id) for packet in client.received() if isinstance(packet, Ack)]


def test_an_event_of_qos_2_goes_to_nobody_before_its_number_is_on_disk() -> None:
    net = with_disks(0)
    a, c = net.brokers[0].connect("a", **KEPT), net.brokers[2].connect("c")
    c.subscribe("x", qos=2)
    settle(net)
    commit(net, 0)
    a.publish("x", b"1", 2, packet_id=5)
    settle(net)
    assert c.messages() == []
    changes = commit(net, 0)
    (received,) = [values for name, values in changes if name == "received"]
    assert [name for name, _ in changes].index("received") < [name for name, _ in changes].index("handed")
    settle(net)
    commit(net, 0)
    assert [message.payload for message in c.messages()] == [b"1"]
    assert acks(a) == [(PUBREC, 5)]
    # The broker restarts before the client has the PUBREC: the client sends it again, under the same number
    session = net.brokers[0].state.sessions["a"]
    session.promised.clear()
    session.uncertain[5] = received[2]
    a.send(Publish("x", b"1", 2, packet_id=5, duplicate=True))
    settle(net)
    commit(net, 0)
    assert acks(a) == [(PUBREC, 5)]
    assert c.messages() == []
    a.send(Ack(PUBREL, 5))
    a.publish("x", b"2", 2, packet_id=5)
    commit(net, 0)
    settle(net)
    assert [message.payload for message in c.messages()] == [b"2"]


def test_a_host_that_restarts_does_not_hand_out_again_what_is_on_its_disk() -> None:
    net = with_disks(2)
    c = net.brokers[2].connect("c", **KEPT)
    c.subscribe("x", qos=2)
    settle(net)
    commit(net, 2)
    a = net.brokers[0].connect("a")
    a.publish("x", b"1", 2, packet_id=1)
    settle(net)
    changes = commit(net, 2)
    assert {"deliver", "seen"} <= {name for name, _ in changes}
    (seen,) = [values for name, values in changes if name == "seen"]
    net.restart(2, 1)
    host = net.brokers[2]
    host.state.journal.keeps = True
    host.fabric.seen.recall(*seen)
    again = host.connect("c", **KEPT)
    again.subscribe("x", qos=2)
    settle(net)  # the neighbour sends again what was not said to be safe
    commit(net, 2)
    settle(net)
    assert again.messages() == []
    assert acks(a) == [(PUBREC, 1)]


def test_the_acknowledgement_of_a_retained_message_waits_for_the_late_tree() -> None:
    net = with_disks()
    a = net.brokers[0].connect("a")
    net.cut(1, 2)
    a.publish("x", b"1", 1, packet_id=1, retain=True)
    settle(net)
    assert acks(a) == []
    net.mend(1, 2)
    settle(net)
    assert acks(a) == [(PUBACK, 1)]
    assert [broker.state.retained.find("x").payload for broker in net.brokers.values()] == [b"1"] * 3  # type: ignore[union-attr]
    net.restart(2, 1)
    a.publish("x", b"", 1, packet_id=2, retain=True)
    settle(net)
    assert acks(a) == [(PUBACK, 2)]
    assert not any(len(broker.fabric.retaining) for broker in net.brokers.values())


def test_while_a_neighbour_is_down_a_retained_message_on_disk_is_safe() -> None:
    net = with_disks(1)
    a = net.brokers[0].connect("a")
    net.cut(1, 2)
    a.publish("x", b"1", 1, packet_id=1, retain=True)
    settle(net)
    net.down(1, 2)
    settle(net)
    assert acks(a) == []
    changes = commit(net, 1)
    assert {"retain", "stamp"} <= {name for name, _ in changes}
    settle(net)
    assert acks(a) == [(PUBACK, 1)]
    net.mend(1, 2)
    settle(net)
    found = net.brokers[2].state.retained.find("x")
    assert found is not None
    assert found.payload == b"1"


def test_a_broker_that_recalls_its_stamps_tells_what_others_missed() -> None:
    net = with_disks()
    net.brokers[0].connect("a").publish("x", b"1", retain=True)
    settle(net)
    stamp = net.brokers[1].fabric.spreading.stamp_of("x")
    assert stamp is not None
    kept = net.brokers[1].state.retained.find("x")
    for number in (0, 2):
        net.cut(1, number)
        net.restart(number, 1)
    for number in (0, 1, 2):
        for peer in net.places[number].neighbours:
            net.cut(number, peer)
    net.restart(1, 1)
    assert kept is not None
    net.brokers[1].state.retained.keep(kept)
    net.brokers[1].fabric.recall_stamp("x", *stamp)
    for one, other in net.links:
        net.cut(one, other)
        net.mend(one, other)
    settle(net)
    assert all(broker.state.retained.find("x") == kept for broker in net.brokers.values())


def test_a_session_that_moves_is_written_to_the_new_disk() -> None:
    net = with_disks(2)
    c = net.brokers[0].connect("c", **KEPT)
    c.subscribe("x", qos=1)
    settle(net)
    c.send(Disconnect())
    net.brokers[1].connect("a").publish("x", b"1", 1, packet_id=1)
    settle(net)
    commit(net, 2)
    again = Client(net.brokers[2])
    again.send(Connect("c", **KEPT))
    settle(net)
    changes = commit(net, 2)
    settle(net)
    names = [name for name, _ in changes]
    assert {"session", "subscribe", "deliver"} <= set(names)
    assert [message.payload for message in again.messages()] == [b"1"]


def test_what_is_passed_on_to_a_session_that_has_moved_survives_a_broker_in_between() -> None:
    net = with_disks()
    c = net.brokers[0].connect("c", **KEPT)
    c.subscribe("x", qos=1)
    settle(net)
    then = Client(net.brokers[2])
    then.send(Connect("c", **KEPT))
    while then.link.waits:
        for number in net.brokers:
            net.step(number)
            for wire in list(net.wires):
                net.carry(*wire)
    a = net.brokers[0].connect("a")
    a.publish("x", b"1", 1, packet_id=1)  # it comes to the old owner, which passes it on
    net.step(0)
    net.carry(0, 1)
    net.brokers[1].fabric.run(10**9)
    net.restart(1, 1)
    settle(net)
    assert b"1" in [message.payload for message in then.messages()]
    assert acks(a) == [(PUBACK, 1)]
