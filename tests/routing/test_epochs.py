"""One plan takes the place of another: nothing is lost, nothing comes twice, and the old one always drains.

Every order in which things can happen is tried, for three brokers. The switch begins when all brokers have said that
they hold the new plan; in which order that came about is of no matter, and tried at random. Then, in any order, brokers
activate it, clients publish, and links deliver; a broker retires the old plan at once when it is told that it has
drained, so an event that came too late would not find it.
"""

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.errors import EpochError
from overstory.filters import parse_filter
from overstory.model.scenario import Scenario
from overstory.routing.digests import bucket_of, hash_of
from overstory.routing.frames import Frames
from overstory.routing.law import Law
from overstory.routing.messages import (
    LATE,
    Ask,
    Begin,
    Compare,
    Gate,
    Listed,
    Missing,
    Resynchronise,
    Send,
    Settled,
    Subscribe,
)
from overstory.routing.policies import make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, shares_of, tree_shares

from ..plans import events_of, random_plan, random_scenario
from .network import FEWEST, TRUE, Link, Network

BROKERS = (0, 1, 2)
OLD: tuple[list[Link], list[Link]] = ([(0, 1), (1, 2)], [(1, 0), (0, 2)])  # the trees of its two flows
NEW: tuple[list[Link], list[Link]] = ([(0, 2), (2, 1)], [(0, 1), (1, 2)])
THOROUGH = settings().max_examples > 1000
MOVING, STAYING = 7, 8  # subscriptions: one has its client at broker 2, then at 0; the other always at 1


def shares(epoch: int, trees: tuple[list[Link], list[Link]], where: int) -> dict[int, Share]:
    """Two flows: one for late subscriptions, which has one member here, and one for events with x > 0."""

    def near(tree: list[Link], broker: int) -> frozenset[int]:
        return frozenset(end for link in tree if broker in link for end in link) - {broker}

    some = parse_filter("x > 0")
    members = {where: Member(1, MOVING, 100 + MOVING, TRUE), 1: Member(LATE, STAYING, 100 + STAYING, TRUE)}
    return {
        broker: Share(
            epoch,
            {LATE: FlowShare(LATE, TRUE, near(trees[0], broker)), 1: FlowShare(1, some, near(trees[1], broker))},
            (members[broker],) if broker in members else (),
            {MOVING: 0, STAYING: 0},
        )
        for broker in BROKERS
    }


class Switch:
    """The network in one of its states; ``ways`` are the steps that it can take next."""

    def __init__(self, publishing: tuple[int, ...]) -> None:
        self.network = Network(shares(1, OLD, where=2), make_policy("active"))
        for link in ((0, 2), (2, 0), (0, 1), (1, 0), (1, 2), (2, 1)):
            self.network.do(link[0], self.network.routers[link[0]].neighbour_up(link[1]))
        self.network.install(shares(2, NEW, where=0))
        self.network.settle()
        assert sorted(self.network.held) == [(broker, epoch) for broker in BROKERS for epoch in (1, 2)]
        self.publishing = publishing
        self.published: frozenset[int] = frozenset()
        self.activated: frozenset[int] = frozenset()

    def ways(self) -> Iterator[tuple[str, Any]]:
        yield from (("deliver", link) for link in self.network.busy())
        yield from (("activate", broker) for broker in BROKERS if broker not in self.activated)
        yield from (("publish", broker) for broker in self.publishing if broker not in self.published)

    def take(self, way: tuple[str, Any]) -> None:
        what, where = way
        network = self.network
        if what == "deliver":
            network.deliver(where)
        elif what == "publish":
            self.published |= {where}
            network.publish(where, 100 + where, where, {"x": 1})
        else:
            self.activated |= {where}
            network.do(where, network.routers[where].activate(2))
        for broker, epoch in network.drained:
            network.routers[broker].retire(epoch)
        network.drained.clear()

    def signature(self) -> Hashable:
        network = self.network
        queues = tuple((link, tuple(map(_name, queue))) for link, queue in sorted(network.links.items()) if queue)
        routers = tuple(_drain_state(router) for router in network.routers.values())
        return self.published, self.activated, queues, routers, tuple(sorted(network.deliveries()))

    def save(self) -> Any:
        network = self.network
        epochs = [
            (router.state, dict(router.state.epochs), router.state.active, router.state.retired)
            for router in network.routers.values()
        ]
        homes = [
            (router.state, {id_: (home, set(home.joined)) for id_, home in router.state.homes.items()})
            for router in network.routers.values()
        ]
        drains = [
            (epoch.draining, epoch.draining.begun, _copied(epoch.draining._heard), _copied(epoch.draining._told))
            for _, some, _, _ in epochs
            for epoch in some.values()
        ]
        links = {link: list(queue) for link, queue in network.links.items()}
        return epochs, homes, drains, links, list(network.copies), self.published, self.activated

    def load(self, saved: Any) -> None:
        epochs, homes, drains, links, copies, self.published, self.activated = saved
        for state, some, active, retired in epochs:
            state.epochs, state.active, state.retired = dict(some), active, retired
        for state, some in homes:
            state.homes = {id_: home for id_, (home, _) in some.items()}
            for home, joined in some.values():
                home.joined = set(joined)
        for wave, wave.begun, heard, told in drains:
            wave._heard, wave._told = _copied(heard), _copied(told)
        for link, queue in self.network.links.items():
            queue.clear()
            queue.extend(links.get(link, ()))
        self.network.copies[:] = copies


def _copied(sets: dict[int, set[int]]) -> dict[int, set[int]]:
    return {key: set(some) for key, some in sets.items()}


def _name(message: Any) -> Hashable:
    if isinstance(message, Frames):
        return message.epoch, tuple(message.ids.tolist()), tuple(sorted(message.flows[0]))
    return repr(message)


def _drain_state(router: Router) -> Hashable:
    return router.state.active, tuple(
        (number, epoch.draining.begun, repr(sorted(epoch.draining._heard.items())), repr(epoch.draining._told))
        for number, epoch in router.state.epochs.items()
    )


@pytest.mark.parametrize("publishing", [(2,), (0, 1), (0, 1, 2)] if THOROUGH else [(2,), (0, 1)])
def test_every_interleaving_of_a_switch(publishing: tuple[int, ...]) -> None:
    switch = Switch(publishing)
    seen, ends = set(), 0
    waiting = [switch.save()]
    while waiting:
        saved = waiting.pop()
        switch.load(saved)
        ways = list(switch.ways())
        if not ways:
            ends += 1
            expected = {(event, id_): 1 for event in publishing for id_ in (MOVING, STAYING)}
            assert Counter(switch.network.deliveries()) == expected
            assert [sorted(router.state.epochs) for router in switch.network.routers.values()] == [[2]] * 3
        for way in ways:
            switch.load(saved)
            switch.take(way)
            signature = switch.signature()
            if signature not in seen:
                seen.add(signature)
                waiting.append(switch.save())
    assert ends >= 1
    assert len(seen) > 400


@FEWEST
@given(seed=st.integers(0, 10**9))
def test_random_plans_take_each_others_place(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Steered flows among them. Each subscription gets what it wants once, by the one plan or the other."""
    dice = random.Random(seed)
    scenario = random_scenario(dice, Path(tmp_path_factory.mktemp("switch")) / "scenario")
    plans = [random_plan(dice, scenario, regions=0.4) for _ in range(2)]
    laws = [Law(scenario, plan) for plan in plans]
    first, second = (shares_of(scenario, plan, epoch) for epoch, plan in enumerate(plans))
    network = Network(first, make_policy("active"))
    for u in network.routers:
        for v in network.routers:
            network.do(u, network.routers[u].neighbour_up(v))
    missing, brokers = (dice.sample(sorted(second), len(second)) for _ in range(2))
    events, inactive = events_of(scenario), set(brokers)
    while events or brokers or network.busy():
        if network.busy() and dice.random() < 0.7:
            network.step(dice)
        elif missing and dice.random() < 0.5:
            network.do(missing[-1], network.routers[missing[-1]].install(second[missing.pop()]))
        elif brokers and dice.random() < 0.3:
            if len(network.held) == 2 * len(second):  # once all hold the one and the other
                network.do(brokers[-1], network.routers[brokers[-1]].activate(1))
                inactive.discard(brokers.pop())
        elif events:
            publisher = events[-1].publisher
            before, after = (law.broker_of[publisher] for law in laws)
            if before in inactive or not inactive:  # a client that moves publishes nothing in between
                each = events.pop()
                network.publish(before if before in inactive else after, publisher, each.id, each.attributes)
    assert sorted(network.drained) == [(broker, 0) for broker in sorted(second)]
    assert Counter(network.deliveries()) == wanted(scenario)


def wanted(scenario: Scenario) -> Counter[tuple[int, int]]:
    return Counter(
        (event.id, row["id"])
        for event in events_of(scenario)
        for row in scenario.subscriptions.to_pylist()
        if parse_filter(row["filter"]).matches(event.attributes)
        and not (row["no_local"] and row["client"] == event.publisher)
    )


def test_what_clients_announced_holds_in_the_next_epoch_too() -> None:
    network = Network(tree_shares([(0, 1), (1, 2)], 0, everyone_advertises=False), make_policy("active"))
    network.do(0, network.routers[0].advertise(100, 5, 1, parse_filter("x > 0")))
    network.do(2, network.routers[2].subscribe(102, 7, 1, TRUE))
    network.install(tree_shares([(0, 2), (2, 1)], 1, everyone_advertises=False))
    for broker, router in network.routers.items():
        for peer in sorted({0, 1, 2} - {broker}):
            network.do(broker, router.neighbour_up(peer))
    network.settle()
    for broker, router in network.routers.items():
        network.do(broker, router.activate(1))
    network.publish(0, 100, 1, {"x": 1})
    network.settle()
    assert network.deliveries() == [(1, 7)]
    assert sorted(network.drained) == [(0, 0), (1, 0), (2, 0)]


def test_a_neighbour_that_spoke_too_early_is_asked_again() -> None:
    """And does not count before it begins, though more of what it said first is still on the way."""
    router = Router(0, make_policy("active"))
    router.neighbour_up(1)
    early = Subscribe(5, LATE, (1, 1), TRUE)
    assert router.receive(1, Begin(5, 0)) == []
    assert router.receive(1, early) == []
    assert router.statistics().dropped == 2
    outputs = router.install(Share(5, {LATE: FlowShare(LATE, TRUE, frozenset({1, 2}))}))
    assert Send(1, Resynchronise(5)) in outputs
    for message in (Settled(5, LATE, 1), Subscribe(5, LATE, (2, 1), TRUE)):
        assert router.receive(1, message) == []
    assert router.statistics().entries == 0
    router.receive(1, Begin(5, 0))
    router.receive(1, early)
    told = [each.message for each in router.neighbour_up(2) if isinstance(each, Send)]
    sums = ((bucket_of((1, 1)), hash_of((1, 1))),)
    assert told == [Begin(5, 0), Gate(5, LATE, is_open=True), Compare(5, LATE, 1, sums)]
    asked = router.receive(2, Ask(5, LATE, 1, (bucket_of((1, 1)),)))
    assert asked == [Send(2, Listed(5, LATE, 1, bucket_of((1, 1)), ((1, 1),), is_last=True))]
    assert router.receive(2, Missing(5, LATE, ((1, 1),))) == [Send(2, early)]


def test_epochs_that_cannot_be() -> None:
    switch = Switch(())
    router = switch.network.routers[0]
    for wrong in (
        lambda: router.install(shares(2, NEW, 0)[0]),
        lambda: router.activate(9),
        lambda: router.activate(1),
        lambda: router.retire(9),
        lambda: router.retire(1),
        lambda: router.filters(9),
    ):
        before = switch.signature()
        with pytest.raises(EpochError):
            wrong()
        assert switch.signature() == before
    assert router.receive(1, Subscribe(-1, LATE, (3, 1), TRUE)) == []  # of an epoch that is long gone
