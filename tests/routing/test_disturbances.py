"""Advertisements made anew, neighbours that were away, plans that come late: what has to hold then, case by case."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import pytest

from overstory.errors import RoutingError, UnknownTreeError, VersionError
from overstory.filters import Filter, parse_filter
from overstory.model.tables import STEINER
from overstory.routing.messages import LATE, Echo, Flush, Held, Missing, Packed, Send, Subscribe, Unsubscribe
from overstory.routing.moves import AGAIN
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, tree_shares

from .network import TRUE, Link, Network, entries_of, interval, network_on

POLICIES = sorted(SUMMARIES)
PATH: list[Link] = [(0, 1), (1, 2)]


def near(tree: Iterable[Link], broker: int) -> frozenset[int]:
    return frozenset(end for link in tree if broker in link for end in link) - {broker}


def down(network: Network, u: int, v: int) -> None:
    """The link is cut, and what was on it is lost."""
    for here, there in ((u, v), (v, u)):
        network.links[here, there].clear()
        network.do(here, network.routers[here].neighbour_down(there))


def up(network: Network, u: int, v: int) -> None:
    for here, there in ((u, v), (v, u)):
        network.do(here, network.routers[here].neighbour_up(there))


def switch(network: Network, epoch: int) -> None:
    for broker in network.routers:
        network.do(broker, network.routers[broker].activate(epoch))
    network.settle()
    for broker, drained in network.drained:
        network.do(broker, network.routers[broker].retire(drained))
    network.drained.clear()


def deliveries(network: Network, broker: int, *events: float) -> list[tuple[int, int]]:
    """Of events with these numbers as x, published one after the other: the place of each, and the subscription."""
    network.copies.clear()
    for place, x in enumerate(events):
        network.publish(broker, 100 + broker, place, {"x": x}, advertisement=5)
        network.settle()
    return sorted(network.deliveries())


# Advertisements


@pytest.mark.parametrize("policy", POLICIES)
def test_an_advertisement_made_anew_keeps_what_it_still_meets(policy: str) -> None:
    network = network_on([(0, 1)], make_policy(policy), everyone_advertises=False)
    network.do(0, network.routers[0].advertise(100, 5, 1, interval(0, 10)))
    network.settle()
    network.do(1, network.routers[1].subscribe(101, 7, 1, interval(5, 6)))
    network.do(1, network.routers[1].subscribe(101, 8, 1, interval(15, 16)))
    network.do(1, network.routers[1].subscribe(101, 9, 1, interval(0, 2)))
    network.settle()
    network.do(0, network.routers[0].advertise(100, 5, 2, interval(4, 20)))
    network.settle()
    assert network.sent()[1, 0] == {(7, 1), (8, 1)}
    assert deliveries(network, 0, 5, 15) == [(0, 7), (1, 8)]


@pytest.mark.parametrize("gated", [True, False])
def test_what_was_to_be_taken_back_and_is_wanted_again_stays(gated: bool) -> None:
    """Paced forwarding takes its time with what it takes back."""
    network = network_on([(0, 1)], make_policy("paced"), everyone_advertises=gated)
    publisher = network.routers[0]
    network.do(0, [] if gated else publisher.advertise(100, 5, 1, interval(0, 50)))
    network.settle()
    for id_, wanted in enumerate([interval(0, 50), *[interval(k, k + 20) for k in (1, 2, 3)]]):
        network.do(1, network.routers[1].subscribe(101, id_, 1, wanted))
    network.settle()
    network.do(0, publisher.narrow() if gated else publisher.unadvertise(100, 5, 1))
    network.settle()
    network.do(0, publisher.narrow(False) if gated else publisher.advertise(100, 5, 2, interval(0, 50)))
    network.settle()
    for time in range(10, 100, 10):
        for broker in (0, 1):
            network.do(broker, network.routers[broker].tick(time))
        network.settle()
    assert deliveries(network, 0, 45) == [(0, 0)]


def test_an_advertisement_that_ended_while_the_link_was_down_is_forgotten_everywhere() -> None:
    network = network_on(PATH, make_policy("active"), everyone_advertises=False)
    network.do(0, network.routers[0].advertise(100, 5, 1, TRUE))
    network.settle()
    network.do(2, network.routers[2].subscribe(102, 7, 1, TRUE))
    network.settle()
    down(network, 0, 1)
    network.do(0, network.routers[0].unadvertise(100, 5, 1))
    up(network, 0, 1)
    network.settle()
    assert not any(flow.advertisements for router in network.routers.values() for _, flow in router.state.flows())
    assert not any(network.sent().values())
    network.do(0, network.routers[0].advertise(100, 5, 2, TRUE))
    network.settle()
    assert deliveries(network, 0, 1) == [(0, 7)]


def test_advertisements_run_out_and_come_again() -> None:
    network = network_on(PATH, make_policy("active"), everyone_advertises=False, lease=10)
    network.do(0, network.routers[0].advertise(100, 5, 1, TRUE))
    network.settle()
    network.do(2, network.routers[2].subscribe(102, 7, 1, TRUE))
    network.settle()
    down(network, 0, 1)
    for time in (10, 20, 30, 40, 50):
        for broker in (0, 1, 2):
            network.do(broker, network.routers[broker].tick(time))
        network.settle()
    assert not network.routers[2].state.epochs[0].flows[LATE].advertisements
    up(network, 0, 1)
    network.settle()
    assert deliveries(network, 0, 1) == [(0, 7)]


def test_an_advertisement_that_was_taken_back_first_is_not_announced_by_the_next_plan_either() -> None:
    network = network_on([(0, 1)], make_policy("active"), everyone_advertises=False)
    network.do(0, network.routers[0].unadvertise(100, 5, 1))
    assert network.routers[0].advertise(100, 5, 1, TRUE) == []
    network.install(tree_shares([(0, 1)], 1, everyone_advertises=False))
    network.settle()
    assert not any(flow.advertisements for router in network.routers.values() for _, flow in router.state.flows())


def test_an_advertisement_leaves_the_flows_that_it_no_longer_meets() -> None:
    shares = {
        broker: Share(
            0,
            {
                LATE: FlowShare(LATE, TRUE, near([(0, 1)], broker), {}, False),
                1: FlowShare(1, parse_filter("x < 5"), near([(0, 1)], broker), {}, False),
            },
        )
        for broker in (0, 1)
    }
    network = Network(shares, make_policy("active"))
    network.do(0, network.routers[0].advertise(100, 5, 1, interval(0, 9)))
    network.settle()
    network.do(0, network.routers[0].advertise(100, 5, 2, interval(7, 9)))
    network.settle()
    held = {number: set(flow.advertisements) for number, flow in network.routers[1].state.epochs[0].flows.items()}
    assert held == {LATE: {5}, 1: set()}


def test_one_unadvertisement_asks_only_those_that_met_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_on([(0, 1)], make_policy("active"), everyone_advertises=False)
    for id_ in range(20):
        network.do(0, network.routers[0].advertise(100, id_, 1, interval(10 * id_, 10 * id_ + 5)))
        network.do(1, network.routers[1].subscribe(101, id_, 1, interval(10 * id_, 10 * id_ + 1)))
    network.settle()
    asked = 0
    intersects = Filter.intersects

    def counted(one: Filter, other: Filter) -> bool:
        nonlocal asked
        asked += 1
        return intersects(one, other)

    monkeypatch.setattr(Filter, "intersects", counted)
    network.do(0, network.routers[0].unadvertise(100, 3, 1))
    network.settle()
    assert network.sent()[1, 0] == {(id_, 1) for id_ in range(20) if id_ != 3}
    assert asked <= 20 + 19  # each subscription about the one that went, and one of them about all others


# Neighbours that were away


def test_a_gate_that_opened_while_the_neighbour_was_away_is_open() -> None:
    network = network_on([(0, 1)], make_policy("active"))
    network.do(1, network.routers[1].subscribe(101, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].narrow())
    network.settle()
    down(network, 0, 1)
    network.do(0, network.routers[0].narrow(False))
    network.do(1, network.routers[1].neighbour_up(0))
    network.settle()  # 1 sees it first, and what it says is read before 0 does
    network.do(0, network.routers[0].neighbour_up(1))
    network.settle()
    assert deliveries(network, 0, 5) == [(0, 7)]


def test_an_epoch_drains_though_a_neighbour_was_away_when_it_ended() -> None:
    network = network_on(PATH, make_policy("active"))
    network.install(tree_shares(PATH, 1))
    network.settle()
    down(network, 0, 1)
    for broker, router in network.routers.items():
        outputs = router.activate(1)
        assert all(each.peer in router.state.up for each in outputs if isinstance(each, Send))
        network.do(broker, outputs)
    network.settle()
    assert network.drained == []
    up(network, 0, 1)
    network.settle()
    assert sorted(network.drained) == [(0, 0), (1, 0), (2, 0)]


def test_markers_of_steered_flows_are_said_again_too() -> None:
    prices = {link: 1.0 for u, v in PATH for link in ((u, v), (v, u))}
    shares = {
        broker: Share(
            0,
            {
                LATE: FlowShare(LATE, TRUE, near(PATH, broker)),
                1: FlowShare(1, TRUE, near(PATH, broker), kind=STEINER),
            },
            prices=prices,
        )
        for broker in (0, 1, 2)
    }
    network = Network(shares, make_policy("active"))
    network.install(tree_shares(PATH, 1))
    network.settle()
    down(network, 0, 1)
    for broker, router in network.routers.items():
        network.do(broker, router.activate(1))
    network.settle()
    assert network.drained == []
    up(network, 0, 1)
    network.settle()
    assert sorted(network.drained) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("policy", ["active", "packing"])
def test_a_neighbour_that_comes_up_is_told_only_what_stays(policy: str) -> None:
    network = network_on([(0, 1)], make_policy(policy))
    dice = random.Random(1)
    widths = [1.0] * 50 + [100.0]
    for id_, width in enumerate(widths):
        low = 0.0 if width > 1 else dice.uniform(0, 99)
        network.do(0, network.routers[0].subscribe(100, id_, 1, interval(low, low + width)))
    network.settle()
    for is_new in (False, True):
        down(network, 0, 1)
        if is_new:  # it has restarted, and knows nothing
            network.routers[1] = Router(1, make_policy(policy), incarnation=1)
            network.do(1, network.routers[1].install(tree_shares([(0, 1)])[1]))
        network.control.clear()
        up(network, 0, 1)
        network.settle()
        entries = [entry for _, message in network.control for entry in entries_of(message)]
        assert [(type(each), each.key) for each in entries] == ([(Subscribe, (50, 1))] if is_new else [])


# Plans


@pytest.mark.parametrize("policy", POLICIES)
def test_once_all_hold_a_plan_no_event_misses_its_way(policy: str) -> None:
    """In whatever order links deliver. That it is installed everywhere is not enough."""
    for seed in range(20):
        dice = random.Random(seed)
        everyone = dice.random() < 0.5
        network = network_on(PATH, make_policy(policy), everyone_advertises=everyone)
        for u in network.routers:
            for v in network.routers.keys() - {u}:
                network.do(u, network.routers[u].neighbour_up(v))
        if not everyone:
            network.do(0, network.routers[0].advertise(100, 5, 1, TRUE))
        for id_, broker in enumerate((2, 1, 2)):
            network.do(broker, network.routers[broker].subscribe(100 + broker, id_, 1, interval(0, 9 - id_)))
        network.settle(dice)
        network.held.clear()
        shares = tree_shares([(0, 2), (2, 1)], 1, everyone_advertises=everyone)
        for broker in dice.sample(sorted(shares), len(shares)):
            network.do(broker, network.routers[broker].install(shares[broker]))
            network.step(dice)
        while len(network.held) < len(shares):
            network.step(dice)
        assert sorted(network.held) == [(0, 1), (1, 1), (2, 1)]
        switch(network, 1)
        assert deliveries(network, 0, 5) == [(0, 0), (0, 1), (0, 2)]


def test_a_plan_without_links_is_held_at_once() -> None:
    router = Router(0, make_policy("active"))
    assert router.install(Share(0, {LATE: FlowShare(LATE, TRUE, frozenset())})) == [Held(0)]


def test_a_later_plan_may_drain_before_an_earlier_one() -> None:
    network = network_on(PATH, make_policy("active"))
    for broker in network.routers:
        for peer in {0, 1, 2} - {broker}:
            network.do(broker, network.routers[broker].neighbour_up(peer))
    for epoch, tree in ((1, [(0, 2), (2, 1)]), (2, PATH)):
        network.install(tree_shares(tree, epoch))
        network.settle()
    for epoch in (1, 2):
        for broker in network.routers:
            network.do(broker, network.routers[broker].activate(epoch))
    slow = (2, 1)
    while busy := [link for link in network.busy() if link != slow] or network.busy():
        network.deliver(busy[0])
        for broker, epoch in network.drained:
            network.do(broker, network.routers[broker].retire(epoch))
        network.drained.clear()
    assert [sorted(router.state.epochs) for router in network.routers.values()] == [[2]] * 3


def test_a_plan_that_not_all_brokers_took_is_given_up() -> None:
    network = network_on([(0, 1)], make_policy("active"))
    network.do(0, network.routers[0].install(tree_shares([(0, 1)], 1)[0]))
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    assert network.routers[0].retire(1) == []
    network.install(tree_shares([(0, 1)], 2))
    network.settle()
    switch(network, 2)
    assert [sorted(router.state.epochs) for router in network.routers.values()] == [[2]] * 2
    assert not network.routers[1].state.too_early
    assert deliveries(network, 1, 5) == [(0, 7)]


def test_a_first_plan_that_is_given_up_takes_no_subscription_with_it() -> None:
    """But for those that it has brought."""
    router = Router(0, make_policy("active"))
    router.subscribe(100, 6, 1, TRUE)
    router.install(msgspec.structs.replace(tree_shares([(0, 1)], 1)[0], members=(Member(LATE, 9, 100, TRUE),)))
    router.subscribe(100, 7, 1, TRUE)
    router.retire(1)
    router.install(tree_shares([(0, 1)], 2)[0])
    assert sorted(router.state.homes) == [6, 7]
    assert router.statistics().entries == 2


def members(epoch: int, planned: Mapping[int, int], at: Mapping[int, tuple[Member, ...]]) -> dict[int, Share]:
    return {
        broker: Share(epoch, {LATE: FlowShare(LATE, TRUE, near(PATH, broker))}, at.get(broker, ()), dict(planned))
        for broker in (0, 1, 2)
    }


def test_a_plan_does_not_bring_back_what_has_ended_since_it_was_made() -> None:
    network = network_on(PATH, make_policy("active"))
    network.do(1, network.routers[1].subscribe(101, 7, 1, TRUE))
    network.settle()
    network.do(1, network.routers[1].unsubscribe(101, 7, 1))
    network.settle()
    network.install(members(1, {7: 1}, {1: (Member(LATE, 7, 101, TRUE, version=1),)}))
    network.settle()
    switch(network, 1)
    assert deliveries(network, 0, 5) == []


def test_a_plan_that_moves_a_client_serves_it_where_it_goes() -> None:
    """Though the subscription's name travels in the old epoch too, once nothing covers it there any more."""
    network = network_on(PATH, make_policy("active"))
    network.do(2, network.routers[2].subscribe(102, 8, 1, TRUE))
    network.do(2, network.routers[2].subscribe(107, 7, 1, interval(0, 9)))
    network.settle()
    network.install(members(1, {7: 1}, {0: (Member(LATE, 7, 107, interval(0, 9), version=1),)}))
    network.settle()
    network.do(2, network.routers[2].unsubscribe(102, 8, 1))
    network.settle()
    switch(network, 1)
    assert [sorted(router.state.homes) for router in network.routers.values()] == [[7], [], []]
    assert deliveries(network, 1, 5) == [(0, 7)]


def test_a_client_that_has_moved_since_the_plan_was_made_is_served_where_it_is() -> None:
    network = network_on(PATH, make_policy("active"))
    network.do(0, network.routers[0].subscribe(107, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].unsubscribe(107, 7, 1))
    network.do(2, network.routers[2].subscribe(107, 7, 2, TRUE))
    network.settle()
    network.install(members(1, {7: 1}, {0: (Member(LATE, 7, 107, TRUE, version=1),)}))
    network.settle()
    switch(network, 1)
    assert [sorted(router.state.homes) for router in network.routers.values()] == [[], [], [7]]
    assert deliveries(network, 1, 5) == [(0, 7)]


def test_a_subscription_that_was_served_in_parts_is_whole_again_in_a_plan_that_does_not_know_it() -> None:
    low, high = parse_filter("x < 5"), parse_filter("x >= 5")
    parts = tuple(
        Member(flow, 7, 101, parse_filter(text))
        for flow, text in ((1, "x BETWEEN 0 AND 10 AND x < 5"), (2, "x BETWEEN 0 AND 10 AND x >= 5"))
    )
    shares = {
        broker: Share(
            0,
            {
                flow: FlowShare(flow, events, near([(0, 1)], broker))
                for flow, events in ((LATE, TRUE), (1, low), (2, high))
            },
            parts if broker == 1 else (),
            {7: 0},
        )
        for broker in (0, 1)
    }
    network = Network(shares, make_policy("active"))
    assert deliveries(network, 0, 2, 7) == [(0, 7), (1, 7)]
    network.install(tree_shares([(0, 1)], 1))
    network.settle()
    switch(network, 1)
    assert deliveries(network, 0, 2, 7, 11) == [(0, 7), (1, 7)]


def test_a_version_that_was_taken_back_when_a_newer_one_was_elsewhere_does_not_come_back() -> None:
    network = network_on(PATH, make_policy("active"))
    for broker, version in ((0, 1), (2, 2)):
        network.do(broker, network.routers[broker].subscribe(100 + broker, 7, version, TRUE))
        network.settle()
    network.do(0, network.routers[0].unsubscribe(100, 7, 1))
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    assert [sorted(router.state.homes) for router in network.routers.values()] == [[], [], [7]]
    assert deliveries(network, 0, 5) == [(0, 7)]


@pytest.mark.parametrize("slice_", [1, 64])
def test_while_neighbours_compare_nothing_goes_before_what_stands_in_its_place_has_come(slice_: int) -> None:
    """A subscription was made anew elsewhere while a link was down: events that enter meanwhile find one of the two."""
    network = Network(tree_shares(PATH), make_policy("active"), slice_=slice_)
    network.do(1, network.routers[1].subscribe(101, 7, 1, TRUE))
    network.settle()
    down(network, 0, 1)
    network.do(2, network.routers[2].subscribe(102, 7, 2, TRUE))
    network.settle()
    network.do(1, network.routers[1].unsubscribe(101, 7, 1))
    network.settle()
    up(network, 0, 1)
    dice = random.Random(1)
    for event in range(60):
        network.publish(0, 100, event, {"x": 1})
        for _ in range(2):
            network.step(dice)
    network.settle()
    assert {event for event, _ in network.deliveries()} == set(range(60))
    assert [key for _, key in network.routers[0].state.epochs[0].flows[LATE].entries] == [(7, 2)]


def test_one_that_was_listed_and_has_gone_before_it_was_asked_for_is_not_waited_for() -> None:
    network = network_on([(0, 1)], make_policy("active"))
    down(network, 0, 1)
    for id_ in (7, 8):
        network.do(1, network.routers[1].subscribe(101, id_, 1, interval(id_, id_)))
    up(network, 0, 1)
    while not any(isinstance(message, Missing) for message in network.links[0, 1]):
        network.deliver(network.busy()[0])
    network.do(1, network.routers[1].unsubscribe(101, 7, 1))
    network.settle()
    flow = network.routers[0].state.epochs[0].flows[LATE]
    assert ([key for _, key in flow.entries], flow.lacking) == ([(8, 1)], {})


# Moves between flows


def two_trees(
    first: list[Link] = PATH,
    second: list[Link] = PATH,
    events: Filter = TRUE,
    rows: Mapping[int, Filter] | None = None,
    tells_served: bool = False,
) -> Network:
    """``rows`` are broker 1's, for the second."""
    shares = {
        broker: Share(
            0,
            {
                LATE: FlowShare(LATE, TRUE, near(first, broker)),
                1: FlowShare(1, events, near(second, broker), dict(rows or {}) if broker == 1 else {}),
            },
        )
        for broker in (0, 1, 2)
    }
    return Network(shares, make_policy("active"), lease=10, tells_served=tells_served)


def test_a_newer_version_stands_in_the_place_of_one_in_other_flows_without_a_gap() -> None:
    """Events are under way to the older one in a flow that the newer one is not in. Each comes once."""
    network = two_trees(tells_served=True)
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].move(7, 1))
    network.settle()
    assert network.routers[0].state.homes[7].joined == {(0, 1)}
    network.publish(2, 102, 1, {"x": 1})  # in flow 1
    network.do(0, network.routers[0].subscribe(100, 7, 2, TRUE))
    dice = random.Random(1)
    for event in range(2, 30):
        network.publish(2, 102, event, {"x": 1})
        network.step(dice)
    network.settle()
    assert sorted(network.deliveries()) == [(event, 7) for event in range(1, 30)]
    assert network.routers[0].state.homes[7].joined == {(0, LATE)}
    assert [(flow, key) for _, flow in network.routers[2].state.flows() for _, key in flow.entries] == [
        (network.routers[2].state.epochs[0].flows[LATE], (7, 2))
    ]
    assert not any(on_the_move(router) for router in network.routers.values())


def test_one_that_ends_takes_its_older_version_with_it() -> None:
    network = two_trees(tells_served=True)
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].move(7, 1))
    network.settle()
    network.do(0, network.routers[0].subscribe(100, 7, 2, TRUE))
    network.do(0, network.routers[0].unsubscribe(100, 7, 2))
    network.settle()
    assert not any(flow.entries for router in network.routers.values() for _, flow in router.state.flows())
    assert not any(on_the_move(router) for router in network.routers.values())


def test_a_flush_waits_for_a_broker_that_is_not_active_yet() -> None:
    """Events that waited for it while it was away are sent when it is active, and may not come behind the echo."""
    router = Router(1, make_policy("active"), incarnation=1)
    for peer in (0, 2):
        router.neighbour_up(peer)
    router.install(tree_shares(PATH)[1])
    flush = Flush(0, LATE, (7, 1, 1), (), 0)
    assert router.receive(0, flush) == []
    router.activate(0)
    assert router.has_work
    assert router.work() == [Send(2, flush)]
    assert router.receive(2, Echo(0, LATE, (7, 1, 1))) == [Send(0, Echo(0, LATE, (7, 1, 1)))]


def test_a_flush_whose_echo_is_lost_begins_again_by_itself() -> None:
    network = Network(tree_shares(PATH), make_policy("active"))
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].flush(7))
    down(network, 1, 2)
    network.settle()
    up(network, 1, 2)
    network.settle()
    assert on_the_move(network.routers[0])
    network.do(0, network.routers[0].tick(AGAIN + 1))
    network.settle()
    assert not any(on_the_move(router) for router in network.routers.values())


def on_the_move(router: Router) -> bool:
    moves = router._moves
    return any([moves._moving, moves._flushes, moves._probed])


@pytest.mark.parametrize("steps", range(16))
@pytest.mark.parametrize("cut", PATH)
@pytest.mark.parametrize("leaves", [False, True])
def test_a_move_ends_though_a_link_fails_on_the_way(steps: int, cut: Link, leaves: bool) -> None:
    """Whenever it does; and nothing is left behind, also if the subscription goes meanwhile."""
    network = two_trees(second=[(1, 0), (0, 2)])
    for u, v in ((0, 2), (2, 0)):
        network.do(u, network.routers[u].neighbour_up(v))
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].move(7, 1))
    for _ in range(steps):
        network.step(random.Random(1))
    down(network, *cut)
    up(network, *cut)
    if leaves:
        network.do(0, network.routers[0].unsubscribe(100, 7, 1))
    network.settle()
    for time in range(10, 150, 10):
        for broker in network.routers:
            network.do(broker, network.routers[broker].tick(time))
        network.settle()
    assert not any(map(on_the_move, network.routers.values()))
    if not leaves:
        assert network.routers[0].state.homes[7].joined == {(0, 1)}
        assert network.routers[0].move(7, 1) == []  # it is there
    assert deliveries(network, 2, 5) == ([] if leaves else [(0, 7)])


def test_a_move_whose_answer_is_lost_still_passes_on_each_event_once() -> None:
    network = two_trees([(0, 2), (2, 1)], [(0, 1), (1, 2)])
    for u, v in ((0, 1), (1, 0)):
        network.do(u, network.routers[u].neighbour_up(v))
    network.do(1, network.routers[1].subscribe(101, 8, 1, TRUE))
    network.settle()
    network.do(1, network.routers[1].move(8, 1))
    network.settle()
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.publish(2, 102, 0, {"x": 1})
    network.deliver((2, 0))  # in the old flow 7 has it; in the new one it is still between 2 and 1
    network.do(0, network.routers[0].move(7, 1))
    down(network, 0, 1)
    up(network, 0, 1)
    while network.links[0, 1]:
        network.deliver((0, 1))
    network.settle()
    network.do(0, network.routers[0].move(7, 1))  # again
    network.settle()
    assert network.routers[0].state.homes[7].joined == {(0, 1)}
    assert Counter(network.deliveries()) == {(0, 7): 1, (0, 8): 1}


def test_a_move_goes_with_its_epoch() -> None:
    network = two_trees()
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.install(tree_shares(PATH, 1))
    network.settle()
    for broker in (1, 2):
        network.do(broker, network.routers[broker].activate(1))
    network.do(0, network.routers[0].move(7, 1))
    network.do(0, network.routers[0].activate(1))
    while network.busy():
        network.deliver(network.busy()[0])
        for broker, epoch in network.drained:
            network.do(broker, network.routers[broker].retire(epoch))
        network.drained.clear()
    assert not any(map(on_the_move, network.routers.values()))
    assert deliveries(network, 2, 5) == [(0, 7)]


def test_rows_of_the_plan_do_not_stand_in_the_way_of_a_subscription_that_it_does_not_know() -> None:
    network = two_trees(rows={0: parse_filter("x < 5")})
    network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
    network.settle()
    network.do(0, network.routers[0].move(7, 1))
    network.settle()
    assert network.routers[0].state.homes[7].joined == {(0, 1)}
    assert deliveries(network, 2, 2, 7) == [(0, 7), (1, 7)]


def test_a_subscription_moves_to_no_flow_that_would_lose_events() -> None:
    narrow, alone = two_trees(events=parse_filter("x < 5")), two_trees(second=[])
    for network, error in ((narrow, RoutingError), (alone, UnknownTreeError)):
        network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
        network.settle()
        with pytest.raises(error):
            network.routers[0].move(7, 1)
        assert deliveries(network, 2, 2, 7) == [(0, 7), (1, 7)]
    narrow.do(0, narrow.routers[0].subscribe(100, 8, 1, parse_filter("x < 3")))
    narrow.do(0, narrow.routers[0].move(8, 1))  # all that this one wants is carried there
    narrow.settle()
    assert deliveries(narrow, 2, 2) == [(0, 7), (0, 8)]


def test_a_client_gets_no_copy_of_what_it_has_got() -> None:
    for seed in range(10):
        dice = random.Random(seed)
        network = two_trees(second=[(1, 0), (0, 2)])
        for u, v in ((0, 2), (2, 0)):
            network.do(u, network.routers[u].neighbour_up(v))
        network.do(0, network.routers[0].subscribe(100, 7, 1, TRUE))
        network.settle()
        network.do(0, network.routers[0].move(7, 1))
        for event in range(40):
            network.publish(2, 102, event, {"x": 1})
            network.step(dice)
        network.settle(dice)
        copies = Counter(each.event for _, each in network.copies if each.client == 100)
        assert copies == dict.fromkeys(range(40), 1)


# Time and messages that cannot be


def test_leases_count_from_when_the_router_began() -> None:
    router = Router(0, make_policy("active"), lease=10, now=1_700_000_000.0)
    router.neighbour_up(1)
    router.install(tree_shares([(0, 1)])[0])
    router.receive(1, Subscribe(0, LATE, (7, 1), TRUE))
    for after in (0.0, 10.0, 20.0):
        router.tick(1_700_000_000.0 + after)
        assert router.statistics().entries == 1
    for after in (30.0, 40.0):
        router.tick(1_700_000_000.0 + after)
    assert router.statistics().entries == 0


def test_a_packed_message_that_contradicts_itself_changes_nothing() -> None:
    router = Router(0, make_policy("active"))
    router.neighbour_up(1)
    router.install(tree_shares([(0, 1)])[0])
    packed = Packed((Subscribe(0, LATE, (9, 1), interval(0, 1)), Subscribe(0, LATE, (9, 1), TRUE)))
    with pytest.raises(VersionError):
        router.receive(1, packed)
    assert router.statistics().entries == 0
    assert router.receive(1, Packed((Subscribe(0, LATE, (9, 1), TRUE), Unsubscribe(0, LATE, (9, 1))))) == []
