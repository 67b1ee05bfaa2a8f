"""Clients that take clusters get every copy of the law, wanted or not; what they asked for carries an identifier."""

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.places import Who, places_of, who_is_who
from overstory.filters import parse_filter
from overstory.routing.law import Journey, Law
from overstory.routing.share import FlowShare, Member, tree_shares
from overstory.wire.packets import PUBACK, Ack
from overstory.wire.topics import TAKES

from ..plans import events_of, random_plan, random_scenario, random_short_plan
from ..routing.network import FEWER
from .nets import Broker, Net, places_in
from .test_networks import is_told_alike, published

SAYS = {"user_properties": [TAKES]}
Got = Counter[tuple[int, int]]  # events and clients


@FEWER
@given(seed=st.integers(0, 10**9), kernels=st.booleans(), short=st.booleans())
def test_every_copy_for_clients_is_the_laws(seed: int, kernels: bool, short: bool) -> None:
    dice = random.Random(seed)
    types = {"symbol": "string", "price": "number", "volume": "number"}
    with TemporaryDirectory() as folder:
        scenario = random_scenario(dice, Path(folder) / "scenario")
        plan = (random_short_plan if short else random_plan)(dice, scenario)
        law = Law(scenario, plan)
        net = Net(places_of(scenario, plan), who_is_who(scenario, plan), kernels=kernels, types=types)
        clients = {id_: net.brokers[at].connect(str(id_), properties=SAYS) for id_, at in law.broker_of.items()}
        for row in scenario.subscriptions.to_pylist():
            text = f"#?{row['filter']}"
            clients[row["client"]].subscribe(text, qos=0, no_local=row["no_local"], identifier=row["id"] + 1)
        net.settle()
        events = [event for event in events_of(scenario) if is_told_alike(event)]
        for event in events:
            clients[event.publisher].send(published(event))
        net.settle()
        journeys = {event.id: law.travel(event) for event in events}
    came = [(int(one.payload), id_, one) for id_, client in clients.items() for one in client.messages()]
    assert Counter((event, client) for event, client, _ in came) == copies(journeys, law)
    wanted = [(event, client) for event, client, one in came if "subscription_ids" in one.properties]
    assert Counter(wanted) == Counter(
        (id_, copy.client) for id_, way in journeys.items() for copy in way.copies if copy.subscriptions
    )


def copies(journeys: dict[int, Journey], law: Law) -> Got:
    """All copies for clients with a share in their flows. (A row of a plan may also be for a client without one.)"""
    shares = {
        (flow, law.subscriptions[each.subscription].client) for flow, one in law.flows.items() for each in one.members
    }
    return Counter(
        (id_, copy.client)
        for id_, way in journeys.items()
        for copy in way.copies
        if copy.subscriptions or any((flow, copy.client) in shares for flow in copy.flows)
    )


def two_in_a_cluster() -> tuple[Net, Broker]:
    """A broker beside another, where client 100 wants topic a of the cluster of a and b."""
    shares = tree_shares([(0, 1)], epoch=1)
    cluster, wanted = parse_filter("topic IN ('a', 'b')"), parse_filter("topic = 'a'")
    for number, peer in ((0, 1), (1, 0)):
        rows = {100: cluster} if number == 1 else {}
        share = shares[number]
        flow = FlowShare(0, cluster, frozenset({peer}), rows)
        members = (Member(0, 7, 100, wanted),) if number == 1 else ()
        clients = frozenset({100} if number == 1 else ())
        made = type(share)(1, {**share.flows, 0: flow}, members, {7: 0}, clients=clients)
        shares[number] = made
    who = Who({"c": 100}, {100: [(7, "topic = 'a'", False)]})
    net = Net(places_in(shares), who)
    return net, net.brokers[1]


def test_what_is_thrown_away_is_never_acknowledged_nor_kept() -> None:
    net, host = two_in_a_cluster()
    publisher = host.connect("p")  # between brokers travels only what somebody behind the link wants
    plain = host.connect("c", properties={"session_expiry_interval": 60})
    plain.subscribe("#?topic = 'a'", qos=1, identifier=3)
    for topic in ("a", "b"):
        publisher.publish(topic, topic.encode(), 1, 1)
    net.settle()
    assert [one.topic for one in plain.messages()] == ["a"]  # its host filters
    plain.lose()
    taker = host.connect("c", clean_start=False, properties={"session_expiry_interval": 60, **SAYS})
    assert TAKES in taker.connack.properties["user_properties"]
    taker.received()
    for topic in ("a", "b"):
        publisher.publish(topic, topic.encode(), 1, 2)
    net.settle()
    came = [(one.topic, one.qos, one.properties.get("subscription_ids")) for one in taker.messages()]
    assert came == [("a", 1, [3]), ("b", 0, None)]
    taker.answer(Ack(PUBACK, 1), Ack(PUBACK, 2))
    taker.lose()
    publisher.publish("b", b"b", 1, 3)  # while nobody is there
    net.settle()
    again = host.connect("c", clean_start=False, properties={"session_expiry_interval": 60, **SAYS})
    assert again.messages() == []
    again.unsubscribe("#?topic = 'a'")
    publisher.publish("b", b"b", 1, 4)
    net.settle()
    assert again.messages() == []  # it has no share of the cluster any more
