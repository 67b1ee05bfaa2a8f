"""Events that enter steered flows by kernels leave as the router's plain way sends them: copy for copy, header for
header."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker import fabric
from overstory.broker.carrying import Carrying
from overstory.broker.fast import Fast
from overstory.broker.following import Followed
from overstory.broker.places import Who
from overstory.broker.warming import carry_between_two
from overstory.errors import LinkError
from overstory.filters import parse_filter
from overstory.kernels.following import follow, stay
from overstory.kernels.gather import decide
from overstory.model.tables import PATHS, STEINER, TREE
from overstory.routing.messages import LATE
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, tree_shares
from overstory.wire.encode import encode
from overstory.wire.packets import Ack, Publish

from ..routing.network import FEWER
from .house import Client
from .nets import Net, places_in
from .test_networks import traffic

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]  # the late tree is all but the last
PRICES = {end: 1.0 + u / 8 for u, v in RING for end in ((u, v), (v, u))}
EVENTS = {1: "price < 4", 2: "price >= 4 AND price < 8", 3: "price >= 8"}  # by flow
CLIENT, EPOCH = 100, 1
Kinds = list[tuple[str, bool]]
KINDS = st.lists(st.sampled_from([(STEINER, False), (STEINER, True), (PATHS, False), (TREE, False)]), min_size=3)
LEAST = st.lists(st.integers(-1, 11), min_size=len(RING), max_size=len(RING))  # prices that each broker's client wants
BATCHES = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1)), min_size=1, max_size=5)),
    max_size=6,
)


def shares(kinds: Kinds, least: list[int]) -> dict[int, Share]:
    """A plan on the ring: three flows by price. The subscription of broker b's client is in all of them, in parts."""
    made = {}
    for broker, share in tree_shares(RING[:-1], epoch=EPOCH).items():
        near = share.flows[LATE].neighbours
        flows = {
            number: FlowShare(number, parse_filter(events), near, kind=kind, ordered=ordered)
            for (number, events), (kind, ordered) in zip(EVENTS.items(), kinds, strict=False)
        }
        wanted = f"price > {least[broker]}"
        members = tuple(
            Member(number, broker + 1, CLIENT + broker, parse_filter(f"({wanted}) AND {events}"))
            for number, events in EVENTS.items()
        )
        made[broker] = msgspec.structs.replace(
            share,
            flows={**share.flows, **flows},
            members=members,
            planned=dict.fromkeys(range(1, len(RING) + 1), 0),
            prices=PRICES,
            clients=frozenset({CLIENT + broker}),
        )
    return made


def begun(kinds: Kinds, least: list[int], kernels: bool = True) -> tuple[Net, list[Client]]:
    """Brokers that use the plan, with a client each."""
    subscriptions = {CLIENT + b: [(b + 1, f"price > {least[b]}", False)] for b in range(len(RING))}
    who = Who({f"c{b}": CLIENT + b for b in range(len(RING))}, subscriptions)
    net = Net(places_in(shares(kinds, least)), who, kernels=kernels, types={"price": "number"})
    clients = [net.brokers[b].connect(f"c{b}") for b in range(len(RING))]
    for b, client in enumerate(clients):
        client.subscribe(f"#?price > {least[b]}", qos=1)
    net.settle()
    return net, clients


def outcome(
    kernels: bool, kinds: Kinds, least: list[int], batches: list[Any], at_once: bool = False
) -> tuple[Any, ...]:
    """What crosses the links, what clients get, what is acknowledged, and what brokers have counted. ``at_once`` says
    that all brokers publish before any of their events arrives."""
    net, clients = begun(kinds, least, kernels)
    number = 0
    for broker, events in batches:
        data = b""
        for price, qos in events:
            number += 1
            properties = {"user_properties": [("price", str(price))]}
            data += encode(Publish("t", b"%d" % number, qos, packet_id=number * qos, properties=properties))
        net.brokers[broker].deliver(clients[broker].link, data)
        if not at_once:
            net.settle()
    net.settle()
    got = []
    for client in clients:
        packets = client.received()
        # Of a topic those of one QoS keep their order, which is what MQTT promises
        messages = [[p.payload for p in packets if isinstance(p, Publish) and p.qos == qos] for qos in (0, 1)]
        if at_once:  # there is no order among those of several publishers
            messages = [sorted(of_one_qos) for of_one_qos in messages]
        got.append((messages, Counter(packet.packet_id for packet in packets if isinstance(packet, Ack))))
    steered = [broker.state.router.state.epochs[EPOCH].steered for broker in net.brokers.values()]
    counted = [(one.sent.tolist(), one.received.tolist()) for one in steered]
    assert not any(broker.state.counts.faults for broker in net.brokers.values())
    assert not kernels or not any(broker.state.counts.plain for broker in net.brokers.values())
    for broker in net.brokers.values():
        for session in broker.state.sessions.values():
            session.subscriptions.clear()  # which garbage collection does not look into
    return traffic(net), got, counted


@FEWER
@given(kinds=KINDS, least=LEAST, batches=BATCHES)
def test_kernels_send_what_the_router_sends(kinds: Kinds, least: list[int], batches: list[Any]) -> None:
    assert outcome(True, kinds, least, batches) == outcome(False, kinds, least, batches)


def test_one_event_goes_around_the_ring_the_short_way() -> None:
    links, got, counted = outcome(True, [(STEINER, True)] * 3, [99, 99, 99, 1, 1], [(0, [(2, 1)])])
    assert {link: count for link, (count, _, _) in links.items() if count} == {(0, 4): 1, (4, 3): 1}
    assert links[0, 4][2] > 0
    assert [messages for messages, _ in got] == [[[], []]] * 3 + [[[], [b"1"]]] * 2
    assert got[0][1] == {1: 1}
    assert sum(map(sum, counted[0][0])) == 2


@FEWER
@given(kinds=KINDS, least=LEAST, batches=BATCHES)
def test_events_that_come_with_headers_go_where_the_router_sends_them(
    kinds: Kinds, least: list[int], batches: list[Any]
) -> None:
    kinds = [(kind, False) for kind, _ in kinds]
    batches = [(broker, [(price, 0) for price, _ in events]) for broker, events in batches]
    assert outcome(True, kinds, least, batches) == outcome(False, kinds, least, batches)


def test_events_of_qos_0_that_come_with_headers_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Carrying, "read", lambda *_: pytest.fail("an event was read"))
    _, got, _ = outcome(True, [(STEINER, False)] * 3, [99, 1, 99, 1, 1], [(0, [(2, 0), (3, 0), (9, 0)])])
    assert [messages for messages, _ in got] == [[[b"1", b"2", b"3"] if b in (1, 3, 4) else [], []] for b in range(5)]


@FEWER
@given(kinds=KINDS, least=LEAST, batches=BATCHES)
def test_frames_that_come_together_are_handled_as_one_or_one_by_one(
    kinds: Kinds, least: list[int], batches: list[Any]
) -> None:
    kinds = [(kind, False) for kind, _ in kinds]
    batches = [(broker, [(price, 0) for price, _ in events]) for broker, events in batches]
    assert outcome(True, kinds, least, batches, True) == outcome(False, kinds, least, batches, True)


def test_steered_frames_of_several_neighbours_are_handled_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    handled = list[int]()
    whole = Fast.followed

    def followed(self: Fast, bodies: Sequence[memoryview], most: int, faster: int) -> Followed:
        done = whole(self, bodies, most, faster)
        handled.append(done.frames)
        return done

    carry_between_two()
    kernels: list[Any] = [follow, stay, decide]
    before = [len(kernel.signatures) for kernel in kernels]
    monkeypatch.setattr(Fast, "followed", followed)
    batches = [(broker, [(2, 0)]) for broker in (1, 4)]
    _, got, _ = outcome(True, [(STEINER, False)] * 3, [1, 99, 99, 99, 99], batches, True)
    assert handled == [2]
    assert got[0][0] == [[b"1", b"2"], []]
    assert [len(kernel.signatures) for kernel in kernels] == before  # none has to be compiled for that


def with_two_frames(events: int) -> Net:
    """Two neighbours of the first broker have each sent it a frame of so many steered events."""
    net, clients = begun([(STEINER, False)] * 3, [1, 99, 99, 99, 99])
    data = encode(Publish("t", b"", properties={"user_properties": [("price", "2")]}))
    for broker in (1, 4):
        net.brokers[broker].deliver(clients[broker].link, events * data)
        net.step(broker)
        net.carry(broker, 0)
    return net


def test_joined_frames_are_no_more_work_than_a_turn_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric, "FASTER", 1)
    there = with_two_frames(3).brokers[0].fabric
    assert [len(there._inbox), there.run(4), len(there._inbox)] == [2, True, 1]
    there.run(4)
    assert not there._inbox


def test_joined_frames_have_no_more_bytes_than_allowed_but_one_alone_may(monkeypatch: pytest.MonkeyPatch) -> None:
    there, joined = with_two_frames(1).brokers[0].fabric, list[int]()
    whole = Fast.followed

    def followed(self: Fast, bodies: Sequence[memoryview], most: int, faster: int) -> Followed:
        joined.append(len(bodies))
        return whole(self, bodies, most, faster)

    monkeypatch.setattr(Fast, "followed", followed)
    monkeypatch.setattr(fabric, "MOST_BYTES", 2 * len(there._inbox[0][2].body) - 1)
    there.run(100)
    assert (joined, len(there._inbox)) == ([1, 1], 0)


def test_an_error_while_joined_frames_are_handled_is_said_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    there, said = with_two_frames(1).brokers[0].fabric, list[int]()
    there.on_error = lambda neighbour, error: said.append(neighbour.peer)

    def fails(self: Fast, *_: object) -> Followed:
        raise LinkError("no")

    monkeypatch.setattr(Fast, "followed", fails)
    there.run(100)
    assert (said, there.lost, len(there._inbox)) == ([1, 4], 2, 0)


def test_an_error_does_not_take_frames_along_that_were_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    net, said = with_two_frames(1), list[int]()
    there, sender = net.brokers[0].fabric, net.brokers[1]
    there.on_error = lambda neighbour, error: said.append(neighbour.peer)
    (link,) = (session.link for session in sender.state.sessions.values() if session.link is not None)
    properties = {"user_properties": [("price", "2")]}
    sender.deliver(link, encode(Publish("t", b"", 1, packet_id=1, properties=properties)))
    net.step(1)
    net.carry(1, 0)
    assert len(there._inbox) == 3

    def fails(*_: object) -> None:
        raise LinkError("no")

    monkeypatch.setattr(Router, "stayed", fails)
    there.run(100)
    assert (said, there.lost, len(there._inbox)) == ([1, 4], 2, 0)


def test_frames_that_kernels_refuse_together_have_their_turns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    there, asked = with_two_frames(1).brokers[0].fabric, list[int]()

    def refuses(self: Fast, bodies: Sequence[memoryview], *_: object) -> Followed:
        asked.append(len(bodies))
        return Followed(0, 0, 2)

    monkeypatch.setattr(Fast, "followed", refuses)
    there.run(100)
    assert (asked, there.lost, len(there._inbox)) == ([2], 0, 0)
