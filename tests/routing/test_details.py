"""Where an unsubscription stops, what comes in the wrong order, what is remembered and for how long, and who drains.

Small cases worked out by hand, for what random ones seldom meet.
"""

from itertools import permutations

import pytest

from overstory.errors import EpochError
from overstory.model.tables import PATHS
from overstory.routing.digests import bucket_of, hash_of
from overstory.routing.messages import (
    LATE,
    Acknowledge,
    Advertise,
    Drained,
    Entered,
    Listed,
    Marker,
    Message,
    Output,
    Renew,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from overstory.routing.policies import SUMMARIES, cost, make_policy
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, tree_shares

from .network import TRUE, Link, Network, interval, network_on

CLIENT = 100  # of broker b: 100 + b
LEASE = 10.0
ROW = [(0, 1), (1, 2), (2, 3)]
BROAD = 1  # a subscription


def router_between(policy: str = "active", lease: float = LEASE) -> Router:
    """Broker 1 of a row of three. Broker 0 has advertised everything."""
    router = Router(1, make_policy(policy), lease)
    router.neighbour_up(0)
    router.neighbour_up(2)
    router.install(tree_shares([(0, 1), (1, 2)], everyone_advertises=False)[1])
    router.activate(0)
    router.receive(0, Advertise(0, LATE, (5, 1), TRUE))
    return router


def tick_all(network: Network, now: float) -> None:
    for broker, router in network.routers.items():
        network.do(broker, router.tick(now))
    network.settle()


# How far an unsubscription goes


def holding(network: Network, id_: int) -> set[Link]:
    return {link for link, keys in network.sent().items() if any(each == id_ for each, _ in keys)}


def row_with_a_broad_one(policy: Policy) -> Network:
    """A row of brokers where broker 3 first subscribes to everything that broker 0 publishes.

    Then brokers 1, 2 and 3 subscribe to 20–29, 10–19 and 0–9.
    """
    network = network_on(ROW, policy, everyone_advertises=False)
    network.do(0, network.routers[0].advertise(CLIENT, 5, 1, TRUE))
    network.settle()
    for broker, id_, low, high in ((3, BROAD, 0, 100), (3, 30, 0, 9), (2, 20, 10, 19), (1, 10, 20, 29)):
        network.do(broker, network.routers[broker].subscribe(CLIENT + broker, id_, 1, interval(low, high)))
        network.settle()
    return network


@pytest.mark.parametrize("there", [0, 9])
@pytest.mark.parametrize(
    ("near", "far", "alone", "horizon", "stops_at"),
    [
        (0, 0, 0, None, 3),
        (2, 0, 0, None, 3),
        (1, 0, 1, None, 3),
        (3, 0, 0, None, 2),
        (0, 0, 3, None, 2),
        (9, 1, 2, None, 2),
        (0, 4, 0, None, 1),
        (0, 0, 4, None, 1),
        (9, 9, 4, None, 1),
        (0, 0, 5, None, 0),
        (0, 0, 4, 1.1, 0),
        (0, 0, 9, 0.5, 0),
        (0, 0, 8, 0.5, 1),
        (0, 0, 50, 0.0, 3),
    ],
)
def test_by_cost_an_unsubscription_goes_on_where_that_saves_more_than_it_takes(
    there: int, near: int, far: int, alone: int, horizon: float | None, stops_at: int
) -> None:
    """The broad one quenches one more subscription at each broker: 1, 2 and 3 of them.

    So to tell the next broker takes 2 messages at broker 3, 3 at broker 2 and 4 at broker 1. What it saves there is
    ``near + far + alone``, ``far + alone`` and ``alone``: those that nobody else wants from there on, and as many
    again are expected, unless the horizon says otherwise.
    """
    network = row_with_a_broad_one(make_policy("cost") if horizon is None else cost.Policy(horizon))
    values = [5] * there + [15] * near + [25] * far + [50] * alone
    for event, x in enumerate(values):
        network.publish(0, CLIENT, event, {"x": x}, advertisement=5)
    network.settle()
    network.do(3, network.routers[3].unsubscribe(CLIENT + 3, BROAD, 1))
    network.settle()
    assert holding(network, BROAD) == {(broker, broker - 1) for broker in range(stops_at, 0, -1)}
    assert holding(network, 30) == {(broker, broker - 1) for broker in range(3, stops_at, -1)}
    assert holding(network, 20) == {(broker, broker - 1) for broker in range(2, stops_at, -1)}
    assert holding(network, 10) == {(broker, broker - 1) for broker in range(1, stops_at, -1)}


@pytest.mark.parametrize("policy", ["selective", "cost"])
@pytest.mark.parametrize(("advertisement", "stays"), [(5, True), (-1, False)])
def test_where_a_publisher_is_unknown_an_unsubscription_goes_all_the_way(
    policy: str, advertisement: int, stays: bool
) -> None:
    """Else it would stop, for all that came was wanted by others too."""
    network = network_on([(0, 1), (1, 2)], make_policy(policy), everyone_advertises=False)
    network.do(0, network.routers[0].advertise(CLIENT, 5, 1, TRUE))
    network.settle()
    for id_, high in ((BROAD, 100), (2, 50)):
        network.do(2, network.routers[2].subscribe(CLIENT + 2, id_, 1, interval(0, high)))
    network.settle()
    for event in range(20):
        network.publish(0, CLIENT, event, {"x": 20}, advertisement=5)
    network.publish(0, CLIENT, 20, {"x": 20}, advertisement=advertisement)
    network.settle()
    network.do(2, network.routers[2].unsubscribe(CLIENT + 2, BROAD, 1))
    network.settle()
    assert holding(network, BROAD) == ({(2, 1), (1, 0)} if stays else set())
    assert holding(network, 2) == (set() if stays else {(2, 1), (1, 0)})


# What comes in the wrong order


def test_a_subscription_that_comes_after_its_end_stays_away() -> None:
    router = router_between()
    assert router.receive(2, Unsubscribe(0, LATE, (7, 1))) == []
    late = Subscribe(0, LATE, (7, 1), TRUE)
    assert router.receive(2, late) == []
    assert router.statistics().entries == 0
    assert router.receive(2, Listed(0, LATE, 1, bucket_of((7, 1)), ((7, 1),))) == []  # nor is it asked for
    newer = Subscribe(0, LATE, (7, 2), TRUE)
    assert router.receive(2, newer) == [Send(0, newer)]


def test_what_ended_at_one_neighbour_may_be_alive_at_another() -> None:
    router = router_between()
    router.receive(0, Unsubscribe(0, LATE, (7, 1)))
    alive = Subscribe(0, LATE, (7, 1), TRUE)
    assert router.receive(2, alive) == [Send(0, alive)]


def test_what_was_only_withdrawn_may_come_again() -> None:
    router = router_between()
    router.receive(2, Unsubscribe(0, LATE, (7, 1), withdrawn=True))
    again = Subscribe(0, LATE, (7, 1), TRUE)
    assert router.receive(2, again) == [Send(0, again)]


def test_an_advertisement_that_comes_after_its_end_stays_away() -> None:
    router = router_between()
    wanted = Subscribe(0, LATE, (7, 1), TRUE)
    router.receive(0, wanted)
    assert router.receive(2, Unadvertise(0, LATE, (6, 1))) == []
    assert router.receive(2, Advertise(0, LATE, (6, 1), TRUE)) == []
    listed = Listed(0, LATE, 1, bucket_of((6, 1)), ((6, 1),), advertisements=True)
    assert router.receive(2, listed) == []  # nor is it asked for
    newer = Advertise(0, LATE, (6, 2), TRUE)
    assert router.receive(2, newer) == [Send(0, newer), Send(2, wanted)]


def test_an_advertisement_that_ran_out_on_the_way_may_come_again() -> None:
    router = router_between()
    router.receive(2, Unadvertise(0, LATE, (6, 1), withdrawn=True))
    again = Advertise(0, LATE, (6, 1), TRUE)
    assert router.receive(2, again) == [Send(0, again)]


def test_what_a_client_took_back_stays_away_though_it_said_so_first() -> None:
    router = router_between()
    assert router.unsubscribe(CLIENT, 7, 1) == []
    assert router.subscribe(CLIENT, 7, 1, TRUE) == []
    assert router.unadvertise(CLIENT, 6, 1) == []
    assert router.advertise(CLIENT, 6, 1, TRUE) == []
    assert router.subscribe(CLIENT, 7, 2, TRUE)[-1] == Acknowledge(CLIENT, (7, 2))
    assert len(router.advertise(CLIENT, 6, 2, TRUE)) == 2


# Withdrawn is not unsubscribed


def test_what_was_withdrawn_and_leaves_slowly_is_withdrawn_in_the_end() -> None:
    router = router_between("paced")
    router.receive(2, Subscribe(0, LATE, (BROAD, 1), interval(0, 100)))
    router.subscribe(CLIENT, 2, 1, interval(0, 50))
    assert router.receive(2, Unsubscribe(0, LATE, (BROAD, 1), withdrawn=True)) == []
    assert router.tick(1.0) == [
        Send(0, Subscribe(0, LATE, (2, 1), interval(0, 50), triggered=True)),
        Send(0, Unsubscribe(0, LATE, (BROAD, 1), withdrawn=True)),
    ]


def test_what_was_unsubscribed_and_leaves_slowly_is_unsubscribed_in_the_end() -> None:
    router = router_between("paced")
    router.receive(2, Subscribe(0, LATE, (BROAD, 1), interval(0, 100)))
    router.subscribe(CLIENT, 2, 1, interval(0, 50))
    assert router.receive(2, Unsubscribe(0, LATE, (BROAD, 1))) == []
    assert router.tick(1.0)[-1] == Send(0, Unsubscribe(0, LATE, (BROAD, 1)))


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_an_advertisement_goes_and_comes_again_and_so_do_subscriptions(policy: str) -> None:
    """The first covers the second, which it leaves uncovered when it is taken back."""
    network = network_on([(0, 1)], make_policy(policy), everyone_advertises=False)
    network.do(0, network.routers[0].advertise(CLIENT, 5, 1, TRUE))
    network.settle()
    network.do(1, network.routers[1].subscribe(CLIENT + 1, BROAD, 1, interval(0, 100)))
    network.do(1, network.routers[1].subscribe(CLIENT + 1, 2, 1, interval(0, 50)))
    network.settle()
    network.do(0, network.routers[0].unadvertise(CLIENT, 5, 1))
    network.settle()
    tick_all(network, 100.0)
    assert not any(network.sent().values())
    network.do(0, network.routers[0].advertise(CLIENT, 5, 2, TRUE))
    network.settle()
    for event, x in enumerate((20, 80)):
        network.publish(0, CLIENT, event, {"x": x}, advertisement=5)
    network.settle()
    assert sorted(network.deliveries()) == [(0, BROAD), (0, 2), (1, BROAD)]


# What is remembered


@pytest.mark.parametrize(("leases", "remembered"), [(1, True), (2, True), (4, False)])
def test_ends_are_remembered_for_two_leases(leases: int, remembered: bool) -> None:
    """Nobody knows when something came between two ticks, so it may be a little longer."""
    router = router_between()
    router.receive(2, Unsubscribe(0, LATE, (7, 1)))
    router.receive(2, Unadvertise(0, LATE, (6, 1)))
    router.unsubscribe(CLIENT, 17, 1)
    router.unadvertise(CLIENT, 16, 1)
    for turn in range(1, leases + 1):
        router.tick(turn * LEASE)
        router.receive(0, Renew(0, LATE, 0, hash_of((5, 1))))
    subscribe, advertise = Subscribe(0, LATE, (7, 1), interval(0, 5)), Advertise(0, LATE, (6, 1), TRUE)
    assert router.receive(2, subscribe) == ([] if remembered else [Send(0, subscribe)])
    assert router.receive(2, advertise) == ([] if remembered else [Send(0, advertise)])
    assert bool(router.subscribe(CLIENT, 17, 1, TRUE)) != remembered
    assert bool(router.advertise(CLIENT, 16, 1, TRUE)) != remembered


def test_a_subscription_goes_with_the_last_epoch_that_it_is_in() -> None:
    """Its client was here in the first plan, and is elsewhere in the second. The other one came late, and stays."""
    router = Router(0, make_policy("active"))
    flows = {LATE: FlowShare(LATE, TRUE, frozenset()), 1: FlowShare(1, TRUE, frozenset())}
    router.install(Share(1, flows, (Member(1, 7, CLIENT, TRUE),), {7: 0}))
    router.activate(1)
    router.subscribe(CLIENT, 8, 1, interval(0, 9))
    router.install(Share(2, flows, (), {7: 0}))
    assert router.statistics().subscriptions == 2
    assert router.activate(2) == [Drained(1)]
    assert router.statistics().subscriptions == 2  # events of the first plan may still be here
    router.retire(1)
    assert router.statistics().subscriptions == 1
    assert router.subscribe(CLIENT, 8, 1, interval(0, 9)) == []
    assert router.subscribe(CLIENT, 7, 0, interval(0, 9)) == [Acknowledge(CLIENT, (7, 0))]  # it is new here


# How an epoch with steered flows drains


def steered_shares(epoch: int, tree: list[Link], prices: dict[Link, float]) -> dict[int, Share]:
    """Flow 1 is steered, and has a member at broker 2."""
    return {
        broker: Share(
            epoch,
            {**share.flows, 1: FlowShare(1, TRUE, share.flows[LATE].neighbours, kind=PATHS)},
            (Member(1, 7, CLIENT + 2, TRUE),) if broker == 2 else (),
            {7: 0},
            prices | {(v, u): price for (u, v), price in prices.items()},
        )
        for broker, share in tree_shares(tree, epoch).items()
    }


MARKERS: list[tuple[int, Message]] = [
    *((peer, Marker(1, flow)) for flow in (LATE, 1) for peer in (0, 2)),
    *((peer, Entered(1, peer, ())) for peer in (0, 2)),
]


@pytest.mark.parametrize("order", [*permutations(range(len(MARKERS)))][::7])
def test_it_waits_for_the_markers_of_all_entries(order: tuple[int, ...]) -> None:
    """Broker 1 is between the others. Whatever comes last, it says once that the epoch has drained, and not before."""
    row = [(0, 1), (1, 2)]
    router = Router(1, make_policy("active"))
    router.neighbour_up(0)
    router.neighbour_up(2)
    router.install(steered_shares(1, row, dict.fromkeys(row, 1.0))[1])
    router.activate(1)
    router.install(tree_shares(row, 2)[1])
    own = Entered(1, 1, ())
    assert router.activate(2) == [Send(0, own), Send(2, own)]
    sent: list[Output] = []
    for place, each in enumerate(order, start=1):
        with pytest.raises(EpochError, match="has not drained"):
            router.retire(1)
        source, marker = MARKERS[each]
        outputs = router.receive(source, marker)
        assert (Drained(1) in outputs) == (place == len(MARKERS))
        sent += outputs
        assert router.receive(source, marker) == []  # old news
    expected = [Send(2 - source, marker) for source, marker in MARKERS]
    assert sorted(map(repr, sent[:-1])) == sorted(map(repr, expected))
    router.retire(1)


def test_an_event_on_a_link_that_is_in_no_tree_finds_its_epoch() -> None:
    """From broker 0 to 2 it is cheaper the direct way, which is slow; all else has long come."""
    network = Network(steered_shares(1, [(0, 1), (1, 2)], {(0, 1): 9, (1, 2): 9, (0, 2): 1}), make_policy("active"))
    network.publish(0, CLIENT, 50, {"x": 1})
    slow: Link = (0, 2)
    assert [(each.source, each.target) for each in network.crossings] == [slow]
    network.install(tree_shares([(0, 1), (1, 2)], 2))
    for broker, router in network.routers.items():
        network.do(broker, router.activate(2))
    while others := [link for link in network.busy() if link != slow]:
        network.deliver(others[0])
    assert (2, 1) not in network.drained
    network.settle()
    assert network.deliveries() == [(50, 7)]
    assert sorted(network.drained) == [(0, 1), (1, 1), (2, 1)]
    for router in network.routers.values():
        router.retire(1)
