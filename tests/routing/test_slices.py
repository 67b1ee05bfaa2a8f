"""No input takes long: work is done in slices, and brokers that compare what they know say only what differs."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from overstory.filters import Filter
from overstory.routing.flow import Flow
from overstory.routing.messages import LATE, Listed, Output, Subscribe
from overstory.routing.outlet import Outlet
from overstory.routing.policies import make_policy
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import Member, Share, tree_shares

from .network import TRUE, Network, entries_of, interval
from .test_disturbances import down, up

MANY, SLICE = 300, 10


class Effort:
    """Counts the subscriptions that are looked at in one call of a router: the most, over all calls."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def count(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch, network: Network) -> Iterator[Effort]:
    """Each message, and each input, is one call. To decide on a subscription is to ask the policy about it."""
    effort = Effort()

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            effort.count()
            return function(*arguments, **named)

        return call

    def fresh(function: Callable[..., list[Output]]) -> Callable[..., list[Output]]:
        def call(*arguments: object) -> list[Output]:
            effort.now = 0
            return function(*arguments)

        return call

    with monkeypatch.context() as patched:
        for owner, name in ((Policy, "added"), (Outlet, "leave"), (Flow, "tellable"), (Filter, "intersects")):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        for name in ("receive", "neighbour_up", "work", "tick", "install", "retire", "narrow", "advertise"):
            patched.setattr(Router, name, fresh(getattr(Router, name)))
        yield effort


def crowded(everyone: bool = True, lease: float = 10.0) -> Network:
    """Three brokers in a row, and many subscriptions at the last, which do not cover each other."""
    network = Network(tree_shares([(0, 1), (1, 2)], everyone_advertises=everyone), make_policy("active"), lease, SLICE)
    for id_ in range(MANY):
        network.do(2, network.routers[2].subscribe(102, id_, 1, interval(2 * id_, 2 * id_ + 1)))
    network.settle()
    network.control.clear()
    return network


def flap(network: Network) -> None:
    down(network, 1, 2)
    up(network, 1, 2)


def restart(network: Network) -> None:
    """Broker 1 loses all that it knew."""
    for peer in (0, 2):
        network.do(peer, network.routers[peer].neighbour_down(1))
    router = network.routers[1] = Router(1, make_policy("active"), 10.0, incarnation=1, slice_=SLICE)
    network.do(1, router.install(tree_shares([(0, 1), (1, 2)])[1]))
    for peer in (0, 2):
        network.do(1, router.neighbour_up(peer))
        network.do(peer, network.routers[peer].neighbour_up(1))


def away_for_long(network: Network) -> None:
    """Until all that came over the link has run out."""
    down(network, 1, 2)
    for now in range(10, 60, 10):
        for broker in network.routers:
            network.do(broker, network.routers[broker].tick(now))
        network.settle()
    up(network, 1, 2)


def gates(network: Network) -> None:
    network.do(0, network.routers[0].narrow())
    network.settle()
    assert not network.sent()[1, 0]
    network.do(0, network.routers[0].narrow(False))


def advertisements(network: Network) -> None:
    network.do(0, network.routers[0].narrow())
    for id_ in range(2):
        network.do(0, network.routers[0].advertise(100, 1000 + id_, 1, TRUE))
        network.settle()
    for id_ in range(2):
        network.do(0, network.routers[0].unadvertise(100, 1000 + id_, 1))
        network.settle()
    assert not network.sent()[1, 0]
    network.do(0, network.routers[0].advertise(100, 1002, 1, TRUE))


def plan(network: Network) -> None:
    """Half of the subscriptions are members of it."""
    members = tuple(Member(LATE, id_, 102, interval(2 * id_, 2 * id_ + 1), version=1) for id_ in range(0, MANY, 2))
    known = {member.subscription: 1 for member in members}
    shares = tree_shares([(0, 1), (1, 2)], 1)
    shares = {b: msgspec.structs.replace(share, planned=known) for b, share in shares.items()}
    shares[2] = msgspec.structs.replace(shares[2], members=members)
    network.install(shares)
    network.settle()
    network.activate(shares)
    network.settle()
    for broker, router in network.routers.items():
        network.do(broker, router.retire(0))


@pytest.mark.parametrize("happens", [flap, restart, away_for_long, gates, advertisements, plan])
def test_no_call_looks_at_more_subscriptions_than_a_slice(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[Network], None]
) -> None:
    """Each item of work asks about one subscription, and of a policy and of advertisements a few times."""
    network = crowded()
    with measured(monkeypatch, network) as effort:
        happens(network)
        network.settle()
    assert effort.most <= 6 * SLICE < MANY
    epoch = max(network.routers[1].state.epochs)
    held = {key for hop, key in network.routers[0].state.epochs[epoch].flows[LATE].entries if hop == 1}
    assert held == {(id_, 1) for id_ in range(MANY)}
    assert not any(router.has_work for router in network.routers.values())
    if network.routers[1].state.active is not None:
        network.copies.clear()
        network.publish(0, 100, 1, {"x": 7}, advertisement=1002)
        network.settle()
        assert network.deliveries() == [(1, 3)]


@pytest.mark.parametrize("changes", [0, 1, 7])
def test_a_link_that_comes_up_carries_what_has_changed_and_no_more(changes: int) -> None:
    network = crowded()
    down(network, 1, 2)
    for id_ in range(changes):
        network.do(2, network.routers[2].unsubscribe(102, id_, 1))
        network.do(2, network.routers[2].subscribe(102, MANY + id_, 1, interval(-2 * id_ - 1, -2 * id_)))
    up(network, 1, 2)
    network.settle()
    told = [entry for link, message in network.control for entry in entries_of(message) if link == (2, 1)]
    assert Counter(type(entry) for entry in told) == ({Subscribe: changes} if changes else {})
    listed = sum(len(message.keys) for _, message in network.control if isinstance(message, Listed))
    assert listed <= 2 * changes * (MANY // 256 + 2)
    gone = {(id_, 1) for id_ in range(changes)}
    entries = network.routers[0].state.epochs[0].flows[LATE].entries
    assert {key for _, key in entries} & gone == set()
    assert len(entries) == MANY


def test_a_renewal_is_as_short_for_many_as_for_one() -> None:
    network = crowded()
    for broker, router in network.routers.items():
        network.do(broker, router.tick(10.0))
    network.settle()
    sizes = {len(msgspec.msgpack.encode(message)) for _, message in network.control}
    assert [type(message).__name__ for _, message in network.control] == ["Renew"] * 4
    assert max(sizes) < 120


def test_what_differs_for_whatever_reason_is_found_at_the_next_renewal() -> None:
    """Here a fault of a neighbour: it has forgotten some, and invented others."""
    network = crowded()
    flow = network.routers[1].state.epochs[0].flows[LATE]
    for id_ in (5, 6, 7):
        network.routers[1].receive(2, Subscribe(0, LATE, (5000 + id_, 1), TRUE))
        flow.unsubscribe(2, (id_, 1), 0.0, None, withdrawn=True)
    for broker, router in network.routers.items():
        network.do(broker, router.tick(10.0))
    network.settle()
    assert {key for hop, key in flow.entries if hop == 2} == {(id_, 1) for id_ in range(MANY)}


def held_while(network: Network, share: dict[int, Share]) -> list[tuple[int, int]]:
    return [each for each in network.held if each[1] == share[0].epoch]


def test_a_plan_is_not_held_before_what_it_takes_has_been_told() -> None:
    """In whatever order slices and messages come: who holds it has all that the others have to say."""
    for seed in range(5):
        dice = random.Random(seed)
        network = crowded()
        shares = tree_shares([(0, 1), (1, 2)], 1)
        late = dice.choice([0, 1, 2])
        for broker in network.routers:
            if broker != late:
                network.do(broker, network.routers[broker].install(shares[broker]))
        for _ in range(dice.randrange(40)):
            network.step(dice)
        network.do(late, network.routers[late].install(shares[late]))
        while network.busy():
            network.step(dice)
            for broker, _ in held_while(network, shares):
                if broker < 2:
                    assert len(network.routers[broker].state.epochs[1].flows[LATE].entries) == MANY
        assert sorted(held_while(network, shares)) == [(0, 1), (1, 1), (2, 1)]


def test_a_client_that_comes_while_its_plan_is_installed_is_in_no_flow_twice() -> None:
    """Its turn to join has not come when it subscribes, or unsubscribes, or another broker makes a newer version."""
    share = tree_shares([(0, 1)], 1)[0]
    members = tuple(Member(LATE, id_, 100, interval(id_, id_ + 1), version=1) for id_ in range(4))
    share = msgspec.structs.replace(share, members=members, planned=dict.fromkeys(range(4), 1))
    router = Router(0, make_policy("active"), slice_=0)
    router.neighbour_up(1)
    router.install(share)
    assert router.subscribe(100, 0, 1, interval(0, 1))
    router.unsubscribe(100, 1, 1)
    router.receive(1, Subscribe(1, LATE, (2, 2), TRUE))
    while router.has_work:
        router.work(1)
    assert sorted(router.state.homes) == [0, 3]
    assert router.statistics().entries == 3  # these two, and that of the neighbour
