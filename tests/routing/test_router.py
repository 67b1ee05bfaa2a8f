"""What a router refuses, what it ignores, and what it says of itself. After an error its state is as it was."""

import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import EpochError, OverstoryError, RoutingError, UnknownTreeError, VersionError
from overstory.filters import parse_filter
from overstory.matching import Batch, Lists, Numbers, Texts
from overstory.routing.frames import taken
from overstory.routing.messages import (
    LATE,
    Acknowledge,
    Advertise,
    Echo,
    Flush,
    Marker,
    Message,
    Packed,
    Probe,
    Prune,
    Renew,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Share

from .network import FEWER, TRUE, Network, interval, network_on, random_tree

SOME = parse_filter("x > 1")


def busy_router() -> Router:
    """Broker 1 of a row of three, with an advertisement from 0 and subscriptions from 2 and a client."""
    router = Router(1, make_policy("selective"))
    router.neighbour_up(0)
    router.neighbour_up(2)
    router.install(Share(3, {LATE: FlowShare(LATE, TRUE, frozenset({0, 2}), {}, False)}))
    router.activate(3)
    router.receive(0, Advertise(3, LATE, (5, 1), TRUE))
    router.receive(2, Subscribe(3, LATE, (1, 1), SOME))
    router.subscribe(100, 2, 1, interval(0, 9))
    return router


def picture(router: Router) -> object:
    flow = router.state.epochs[3].flows[LATE]
    outlets = {peer: (sorted(each.sent), sorted(each.left_over), len(each)) for peer, each in flow.outlets.items()}
    homes = {id_: (home.client, home.version, sorted(home.joined)) for id_, home in router.state.homes.items()}
    found = msgspec.structs.replace(router.statistics(), ended=0)  # that something has ended may be remembered
    return sorted(flow.entries), outlets, sorted(flow.advertisements.items()), homes, found


@pytest.mark.parametrize(
    ("peer", "message", "error"),
    [
        (2, Subscribe(3, 44, (9, 1), SOME), UnknownTreeError),
        (2, Unsubscribe(3, 44, (9, 1)), UnknownTreeError),
        (2, Advertise(3, 44, (9, 1), SOME), UnknownTreeError),
        (2, Renew(3, 44, 0), UnknownTreeError),
        (2, Marker(3, 44), UnknownTreeError),
        (2, Probe(3, 44, (9, 1, 1)), UnknownTreeError),
        (7, Subscribe(3, LATE, (9, 1), SOME), UnknownTreeError),
        (7, Echo(3, LATE, (9, 1, 1)), UnknownTreeError),
        (2, Subscribe(3, LATE, (1, 1), TRUE), VersionError),
        (0, Advertise(3, LATE, (5, 1), SOME), VersionError),
        (2, Packed((Subscribe(3, LATE, (9, 1), SOME), Subscribe(3, LATE, (1, 1), TRUE))), VersionError),
        (2, Packed((Subscribe(3, LATE, (9, 1), SOME), Unsubscribe(3, 44, (1, 1)))), UnknownTreeError),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(peer: int, message: Message, error: type[RoutingError]) -> None:
    router = busy_router()
    before = picture(router)
    with pytest.raises(error) as raised:
        router.receive(peer, message)
    assert picture(router) == before
    assert isinstance(raised.value, OverstoryError)


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (2, Unsubscribe(3, LATE, (77, 1))),  # never seen
        (2, Unsubscribe(3, LATE, (1, 0))),  # of an older version
        (2, Subscribe(3, LATE, (1, 1), SOME)),  # known
        (0, Advertise(3, LATE, (5, 1), TRUE)),  # known
        (0, Advertise(3, LATE, (5, 0), SOME)),  # older
        (0, Unadvertise(3, LATE, (5, 0))),
        (0, Unadvertise(3, LATE, (6, 1))),
        (0, Subscribe(2, LATE, (8, 1), SOME)),  # of an epoch that waits for ever, or is retired
        (0, Echo(3, LATE, (1, 1, 1))),
    ],
)
def test_old_news_is_ignored(peer: int, message: Message) -> None:
    router = busy_router()
    before = picture(router)
    assert router.receive(peer, message) == []
    assert picture(router) == before


def test_a_tuple_for_an_unknown_advertisement_leads_nowhere() -> None:
    router = busy_router()
    assert router.receive(2, Unsubscribe(3, LATE, (1, 1), (Prune(99, 5),))) == []
    assert router.statistics().left_over == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda router: router.subscribe(100, 2, 1, SOME),
        lambda router: router.subscribe(101, 2, 1, interval(0, 9)),
        lambda router: router.subscribe(100, 3, 1, parse_filter("$broker = 1")),
        lambda router: router.advertise(100, 5, 1, SOME),
        lambda router: router.move(2, 44),
        lambda router: router.move(55, LATE),
        lambda router: router.install(Share(4, {})),
        lambda router: (router.tick(5.0), router.tick(4.0)),
    ],
)
def test_what_a_client_or_the_shell_cannot_do(wrong: object) -> None:
    router = busy_router()
    before = picture(router)
    with pytest.raises(RoutingError):
        wrong(router)  # type: ignore[operator]
    assert picture(router) == before


def test_nothing_can_be_published_before_a_plan_is_active() -> None:
    router = Router(0, make_policy("active"))
    with pytest.raises(EpochError, match="no epoch is active"):
        router.enter(Batch.of([{"x": 1}]), np.array([1]), np.array([1]))


def test_a_subscription_is_acknowledged_once_it_has_joined_and_can_be_replaced() -> None:
    router = busy_router()
    outputs = router.subscribe(100, 2, 2, interval(0, 20))
    assert outputs[-1] == Acknowledge(100, (2, 2))
    said = [each.message for each in outputs if isinstance(each, Send)]
    assert [type(each) for each in said] == [Subscribe, Unsubscribe]  # the new one first
    assert router.subscribe(100, 2, 1, interval(0, 9)) == []
    assert router.unsubscribe(100, 2, 1) == []
    assert router.statistics().subscriptions == 1


def test_subscriptions_follow_advertisements_only() -> None:
    network = network_on([(0, 1), (1, 2)], make_policy("active"), everyone_advertises=False)
    network.do(1, network.routers[1].subscribe(101, 1, 1, interval(0, 5)))
    network.do(1, network.routers[1].subscribe(101, 2, 1, interval(10, 15)))
    network.settle()
    assert not any(network.sent().values())
    network.do(0, network.routers[0].advertise(100, 7, 1, interval(0, 3)))
    network.settle()
    assert {link: keys for link, keys in network.sent().items() if keys} == {(1, 0): {(1, 1)}}
    network.do(0, network.routers[0].advertise(100, 7, 2, interval(12, 20)))
    network.settle()
    assert {link: keys for link, keys in network.sent().items() if keys} == {(1, 0): {(2, 1)}}
    network.do(0, network.routers[0].unadvertise(100, 7, 2))
    network.settle()
    assert not any(network.sent().values())
    assert not network.routers[2].state.epochs[0].flows[LATE].advertisements


def test_tables_are_exported_as_rows_of_filters() -> None:
    network = network_on([(0, 1), (1, 2)], make_policy("active"))
    network.do(2, network.routers[2].subscribe(102, 1, 1, interval(0, 5)))
    network.do(2, network.routers[2].subscribe(102, 2, 1, interval(3, 9)))
    network.settle()
    ((flow, source, target, crosses),) = network.routers[0].filters(0)
    assert (flow, source, target) == (LATE, 0, 1)
    assert crosses.equals(interval(0, 9))


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(SUMMARIES)))
def test_a_subscription_moves_to_another_flow_and_misses_nothing(seed: int, policy: str) -> None:
    """It is in both for a while; whatever the order of messages, each event comes once."""
    dice = random.Random(seed)
    size = dice.randint(2, 6)
    trees = {LATE: random_tree(dice, size), 1: random_tree(dice, size)}

    def near(flow: int, broker: int) -> frozenset[int]:
        return frozenset(end for link in trees[flow] if broker in link for end in link) - {broker}

    shares = {
        broker: Share(0, {flow: FlowShare(flow, TRUE, near(flow, broker)) for flow in trees}) for broker in range(size)
    }
    network = Network(shares, make_policy(policy))
    hosts = {id_: dice.randrange(size) for id_ in range(4)}
    for id_, broker in hosts.items():
        network.do(broker, network.routers[broker].subscribe(100 + broker, id_, 1, interval(0, dice.randint(5, 10))))
    network.settle(dice)
    moved = dice.sample(sorted(hosts), 2)
    published: list[int] = []
    for event in range(25):
        broker = dice.randrange(size)
        network.publish(broker, 100 + broker, event, {"x": 3})
        published.append(event)
        if event % 8 == 4 and moved:
            id_ = moved.pop()
            network.do(hosts[id_], network.routers[hosts[id_]].move(id_, 1))
        for _ in range(dice.randint(0, 5)):
            network.step(dice)
    network.settle(dice)
    assert Counter(network.deliveries()) == {(event, id_): 1 for event in published for id_ in hosts}
    joined = [network.routers[broker].state.homes[id_].joined for id_, broker in hosts.items()]
    assert sorted(flow for each in joined for _, flow in each) == [LATE, LATE, 1, 1]
    assert not any(
        router._moves._moving or router._moves._flushes or router._moves._probed for router in network.routers.values()
    )


def test_rows_of_any_column_can_be_taken() -> None:
    words = Texts.of(["p", "q", "r"])
    batch = Batch(
        {
            "number": Numbers(np.array([1.5, 2.5, 3.5]), np.array([True, False, True])),
            "text": Texts.of(["a", None, "ccc"]),
            "list": Lists(np.array([0, 2, 2, 3]), words),
            "any": [1, "b", None],
        }
    )
    some = taken(batch, np.array([2, 0, 2]))
    assert [dict(each) for each in some.events()] == [dict(batch.event(i)) for i in (2, 0, 2)]


def test_a_flush_for_a_flow_that_is_not_here_is_answered() -> None:
    router = busy_router()
    router.receive(2, Flush(3, LATE, (9, 1, 1), (44,), 2))
    assert router.receive(0, Echo(3, LATE, (9, 1, 1))) == [Send(2, Echo(3, LATE, (9, 1, 1)))]
