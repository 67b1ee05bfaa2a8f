"""Several brokers without sockets are held to the law, and to a client they are one."""

import random
from collections import Counter
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from overstory.broker.places import Who, places_of, who_is_who
from overstory.broker.pressure import LinkLimits
from overstory.broker.traces import NOT_WANTED, TRACE
from overstory.cli.trace import tree_of
from overstory.filters import parse_filter
from overstory.model.scenario import Scenario
from overstory.routing.law import Event, Law
from overstory.routing.messages import LATE, Settled
from overstory.routing.share import Member, tree_shares
from overstory.wire.attributes import pairs_of
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, PUBREC, Ack, Publish

from ..plans import events_of, random_plan, random_scenario
from ..routing.network import FEWER
from .house import Client
from .nets import Net, places_in

LINE = [(0, 1), (1, 2)]
TIMES = 3  # that each event is published: what is like an event before is looked up


def line(**settings: Any) -> Net:
    return Net(places_in(tree_shares(LINE, epoch=1)), **settings)


def published(event: Event) -> Publish:
    """An event as a client publishes it."""
    attributes = {name: value for name, value in event.attributes.items() if value is not None and name != "topic"}
    topic = str(event.attributes.get("topic") or "event")
    return Publish(topic, b"%d" % event.id, properties={"user_properties": pairs_of(attributes)})


def is_told_alike(event: Event) -> bool:
    """Whether properties say the same as the attributes: not of lists of one word, or of none."""
    values = event.attributes.values()
    return all(not isinstance(value, list) or len(value) > 1 for value in values) and bool(event.attributes["topic"])


def joined_clients(net: Net, scenario: Scenario, law: Law) -> dict[int, Client]:
    """The scenario's clients, each at its broker and with its subscriptions."""
    clients = {id_: net.brokers[broker].connect(str(id_)) for id_, broker in law.broker_of.items()}
    for row in scenario.subscriptions.to_pylist():
        if row["client"] in clients:
            text = f"#?{row['filter']}"
            clients[row["client"]].subscribe(text, qos=0, no_local=row["no_local"])
    net.settle()
    return clients


@FEWER
@given(seed=st.integers(0, 10**9), kernels=st.booleans())
def test_every_copy_is_the_laws(seed: int, kernels: bool) -> None:
    dice = random.Random(seed)
    types = {"symbol": "string", "price": "number", "volume": "number"}
    with TemporaryDirectory() as folder:
        scenario = random_scenario(dice, Path(folder) / "scenario")
        plan = random_plan(dice, scenario)
        law = Law(scenario, plan)
        net = Net(places_of(scenario, plan), who_is_who(scenario, plan), kernels=kernels, types=types)
        clients = joined_clients(net, scenario, law)
        before = {link: count for link, (count, _, _) in traffic(net).items()}
        events = [event for event in events_of(scenario) if is_told_alike(event)]
        for _ in range(2):  # what comes for the second time is learned
            for event in events:
                clients[event.publisher].send(published(event))
            net.settle()
        for id_, client in clients.items():
            client.send(*(published(event) for event in events if event.publisher == id_))
        net.settle()
        journeys = {event.id: law.travel(event) for event in events}
    assert not any(before.values())
    sizes = {event.id: len(encode(published(event))) for event in events}
    expected: dict[tuple[int, int], tuple[int, int, int]] = {}
    for id_, way in journeys.items():
        for crossing in way.crossings:
            link = crossing.source, crossing.target
            count, size, header = expected.get(link, (0, 0, 0))
            expected[link] = count + TIMES, size + TIMES * sizes[id_], header + TIMES * crossing.header
    assert {link: counts for link, counts in traffic(net).items() if counts[0]} == expected
    got = Counter((int(one.payload), id_) for id_, client in clients.items() for one in client.messages())
    wanted = Counter((id_, copy.client) for id_, way in journeys.items() for copy in way.copies if copy.subscriptions)
    assert set(got) == set(wanted)
    # A host gives a client one copy of each event for each frame, as the law does
    assert got == {delivery: TIMES * count for delivery, count in wanted.items()}


def traffic(net: Net) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Events, bytes and bytes of headers on each directed link."""
    return {
        (number, peer): (link.traffic.events, link.traffic.event_bytes, link.traffic.header_bytes)
        for number, broker in net.brokers.items()
        for peer, link in broker.fabric.neighbours.items()
    }


def test_an_event_goes_where_it_is_wanted_and_nowhere_else() -> None:
    net = line()
    a, b, c = (net.brokers[number].connect(f"c{number}") for number in range(3))
    c.subscribe("x/#?price > 3")
    net.settle()
    for price in (2, 4):
        a.publish("x/y", b"%d" % price, properties={"user_properties": [("price", str(price))]})
    net.settle()
    assert [message.payload for message in c.messages()] == [b"4"]
    assert b.messages() == a.messages() == []
    assert {link: count for link, (count, _, _) in traffic(net).items() if count} == {(0, 1): 1, (1, 2): 1}
    c.unsubscribe("x/#?price > 3")
    net.settle()
    a.publish("x/y", b"5", properties={"user_properties": [("price", "5")]})
    net.settle()
    assert traffic(net)[0, 1][0] == 1


@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)])
@pytest.mark.parametrize("kernels", [True, False])
def test_an_acknowledgement_waits_for_all_next_hops(qos: int, kind: int, kernels: bool) -> None:
    net = line(kernels=kernels)
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=qos)
    net.settle()
    a.publish("x", b"1", qos, packet_id=5)
    a.publish("y", b"2", qos, packet_id=6)  # nobody wants it, and yet its answer keeps its place
    for number in (0, 1):
        net.step(number)
        net.carry(number, number + 1)
        net.carry(number + 1, number)
    assert a.received() == []
    net.settle()
    assert a.received() == [Ack(kind, 5), Ack(kind, 6)]
    assert [message.payload for message in c.messages()] == [b"1"]


def test_a_cut_link_loses_nothing_and_doubles_nothing() -> None:
    net = line()
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    for number in range(9):
        a.publish("x", b"%d" % number, number % 3 and 1, packet_id=number + 1)
        if number % 3 == 1:
            net.step(0)
            net.cut(0, 1)
        if number == 4:
            net.down(0, 1)
        if number % 3 == 2:
            net.mend(0, 1)
            net.step(1)
    net.settle()
    assert [message.payload for message in c.messages()] == [b"%d" % number for number in range(9)]
    assert len([packet for packet in a.received() if isinstance(packet, Ack)]) == 6


def test_what_was_acknowledged_survives_a_broker_in_the_middle() -> None:
    net = line()
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    a.publish("x", b"1", 1, packet_id=1)
    net.step(0)
    net.carry(0, 1)
    net.step(1)
    net.carry(1, 2)
    net.step(2)  # the subscriber has it, and nobody before knows
    a.publish("x", b"2", 1, packet_id=2)
    net.restart(1, incarnation=1)
    a.publish("x", b"3", 1, packet_id=3)
    net.settle()
    assert net.brokers[1].fabric.is_active
    assert [message.payload for message in c.messages()] == [b"1", b"2", b"3"]
    assert [packet.packet_id for packet in a.received() if isinstance(packet, Ack)] == [1, 2, 3]


def test_no_broker_is_active_before_all_hold_the_plan() -> None:
    net = Net(places_in(tree_shares([(0, 1), (1, 2), (1, 3)], epoch=1)), connected=False)
    for number in (0, 2):
        net.mend(number, 1)
        net.settle()
        assert not any(broker.fabric.is_active for broker in net.brokers.values())
    net.mend(3, 1)
    net.settle()
    assert all(broker.fabric.is_active for broker in net.brokers.values())


def test_a_message_to_any_broker_goes_along_the_late_tree() -> None:
    class Word(msgspec.Struct, frozen=True, tag=True):
        said: str

    net = Net(places_in(tree_shares([(0, 1), (1, 2), (2, 3)], epoch=1)), kinds=[Word])
    heard: list[tuple[int, int, str]] = []

    def hear(at: int, source: int, word: Word) -> None:
        heard.append((at, source, word.said))

    for number, broker in net.brokers.items():
        broker.fabric.on[Word] = partial(hear, number)
    net.brokers[0].fabric.tell_broker(3, Word("far"))
    net.brokers[2].fabric.tell_broker(1, Word("near"))
    net.settle()
    assert sorted(heard) == [(1, 2, "near"), (3, 0, "far")]


def test_a_frame_that_cannot_be_ends_its_link_and_nothing_else() -> None:
    net = line()
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    errors: list[str] = []
    net.brokers[1].fabric.on_error = lambda neighbour, error: errors.append(f"{neighbour.peer}: {error}")
    link = net.brokers[0].fabric.neighbours[1]
    link.tell(b"nonsense", 1)
    link.tell(net.brokers[0].fabric.codec.encode([Settled(1, 99, 1)]), 1)
    a.publish("x", b"1", 1)
    net.settle()
    assert [error.partition(":")[0] for error in errors] == ["0", "0"]
    assert "cannot be read" in errors[0]
    assert "no flow 99" in errors[1]
    assert [message.payload for message in c.messages()] == [b"1"]


def test_a_planned_subscription_is_known_by_its_clients_name_and_its_filter(tmp_path: Path) -> None:
    dice = random.Random(5)
    scenario = random_scenario(dice, tmp_path / "scenario")
    plan = random_plan(dice, scenario)
    net, law = Net(places_of(scenario, plan), who_is_who(scenario, plan)), Law(scenario, plan)
    row = scenario.subscriptions.to_pylist()[0]
    broker = net.brokers[law.broker_of[row["client"]]]
    client = broker.connect(str(row["client"]))
    planned = set(broker.state.router.state.homes)
    client.subscribe(f"#?({row['filter']}) AND TRUE", no_local=row["no_local"])  # another text, the same normal form
    assert set(broker.state.subscriptions) == {row["id"]}
    client.subscribe("#?z = 77")
    client.subscribe(f"#?{row['filter']}", no_local=not row["no_local"])
    late = set(broker.state.subscriptions) - {row["id"]}
    assert len(late) == 2
    assert not late & planned
    other = broker.connect("somebody")
    other.subscribe(f"#?{row['filter']}", no_local=row["no_local"])
    assert len(broker.state.subscriptions) == 4


def test_an_event_is_followed_from_hop_to_hop() -> None:
    net = Net(places_in(tree_shares([(0, 1), (1, 2), (1, 3)], epoch=1)))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x?price > 3")
    net.settle()
    a.publish("x", qos=2, properties={"user_properties": [("price", "4"), (TRACE, "name")]})
    net.settle()
    (first,), (second,), (third,), nothing = (broker.fabric.traces.hops("name") for broker in net.brokers.values())
    assert (first.origin, second.origin, third.origin, nothing) == (None, 0, 1, [])
    assert [step.peer for hop in (first, second, third) for step in hop.steps] == [1, 2]
    assert second.stopped == {3: NOT_WANTED}
    assert third.clients == ["c"]
    assert first.matched == second.matched == []
    shown = Console(width=100, record=True, file=StringIO())
    shown.print(tree_of([third, first, second]))
    assert "broker 2, in flow -1: matches 1 subscription, to c" in shown.export_text()


def committed(net: Net, number: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Writes what a broker has to write, and returns the changes."""
    journal = net.brokers[number].state.journal
    batch = journal.take()
    assert batch is not None
    journal.written(batch)
    return [change for change in batch.changes if "spool" in change[0]]


def test_events_for_a_neighbour_that_is_down_are_safe_on_disk() -> None:
    net = line()
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    journal = net.brokers[0].state.journal
    journal.keeps = True
    a.publish("x", b"1", 1, packet_id=1)
    net.cut(0, 1)
    net.step(0)
    assert a.received() == []
    net.down(0, 1)
    assert a.received() == []  # it is not on disk yet
    (first,) = committed(net, 0)
    assert [packet.packet_id for packet in a.received() if isinstance(packet, Ack)] == [1]
    a.publish("x", b"2", 1, packet_id=2)
    net.step(0)
    (second,) = committed(net, 0)
    assert [packet.packet_id for packet in a.received() if isinstance(packet, Ack)] == [2]
    net.restart(0, incarnation=7)  # the broker that has them dies, and comes back with its disk
    again = net.brokers[0]
    again.state.journal.keeps = True
    for name, (key, peer, body) in (first, second):
        assert name == "spool"
        again.fabric.recall(key, peer, body)
    net.settle()
    assert [message.payload for message in c.messages()] == [b"1", b"2"]
    assert committed(net, 0) == [("unspool", (1,)), ("unspool", (2,))]
    assert again.fabric.spool.bytes == 0


def test_a_full_spool_withholds_the_acknowledgement() -> None:
    net = line(window=LinkLimits(spool=10))
    a, c = net.brokers[0].connect("a"), net.brokers[2].connect("c")
    c.subscribe("x", qos=1)
    net.settle()
    net.brokers[0].state.journal.keeps = True
    net.cut(0, 1)
    net.down(0, 1)
    a.publish("x", b"1", 1, packet_id=1)
    net.step(0)
    assert net.brokers[0].state.journal.take() is None
    assert a.received() == []
    net.mend(0, 1)
    net.settle()
    assert [packet.packet_id for packet in a.received() if isinstance(packet, Ack)] == [1]
    assert [message.payload for message in c.messages()] == [b"1"]


@pytest.mark.parametrize("kernels", [True, False])
def test_a_client_gets_nothing_for_what_only_the_plan_knows(kernels: bool) -> None:
    (share,) = tree_shares((), epoch=1, brokers=(0,)).values()
    wanted = parse_filter("a = 1")
    share = msgspec.structs.replace(
        share, members=(Member(LATE, 7, 500, wanted),), planned={7: 0}, clients=frozenset({500})
    )
    net = Net(places_in({0: share}), Who({"c": 500}, {500: [(7, "a = 1", False)]}), kernels=kernels)
    c, d = net.brokers[0].connect("c"), net.brokers[0].connect("d")
    properties = {"user_properties": [("a", "1")]}
    d.publish("x", b"1", properties=properties)
    assert c.messages() == []
    c.subscribe("#?a = 1")
    assert set(net.brokers[0].state.subscriptions) == {7}
    d.publish("x", b"2", properties=properties)
    assert [message.payload for message in c.messages()] == [b"2"]
