"""Subscriptions that brokers know from a plan: they need not be told of them, and end up knowing what is so."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.packages import (
    Foreseeing,
    Package,
    Portion,
    decode_package,
    encode_package,
    encode_portion,
    encode_rows,
    portion_of,
    share_of,
)
from overstory.broker.standing import Subscribed
from overstory.control.foreseeing import rows_of, unrelated
from overstory.errors import LinkError
from overstory.filters import Filter, parse_filter
from overstory.kernels.nothing import NONE
from overstory.routing.messages import LATE, Subscribe, Unsubscribe
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.share import FlowShare, Member, Share

from .network import FEWER, TRUE, Link, Network, interval, random_tree

BROKERS = 6
CLIENT = 1000  # and the number of its broker
EVENTS = range(0, 100, 7)


def near(tree: list[Link], broker: int) -> frozenset[int]:
    return frozenset(end for link in tree if broker in link for end in link) - {broker}


class Switch:
    """A network whose subscriptions are late, and a plan that foresees most of them."""

    def __init__(self, seed: int, policy: str, kind: str) -> None:
        self.dice = random.Random(seed)
        self.kind, self.late = kind, random_tree(self.dice, BROKERS)
        self.tree = random_tree(self.dice, BROKERS)
        first = {u: Share(0, {LATE: FlowShare(LATE, TRUE, near(self.late, u))}) for u in range(BROKERS)}
        self.network = Network(first, make_policy(policy), slice_=self.dice.choice((2, 64)))
        self.live: dict[int, tuple[int, int, Filter]] = {}  # broker, version, filter
        for id_ in range(12):
            self.subscribe(id_, 1)
        self.network.settle(self.dice)

    def subscribe(self, id_: int, version: int) -> None:
        low = self.dice.randrange(100)
        wanted = interval(low, low + self.dice.choice((0, 5, 40)))
        broker = self.live[id_][0] if id_ in self.live else self.dice.randrange(BROKERS)
        self.live[id_] = broker, version, wanted
        router = self.network.routers[broker]
        self.network.do(broker, router.subscribe(CLIENT + broker, id_, version, wanted))

    def unsubscribe(self, id_: int) -> None:
        broker, version, _ = self.live.pop(id_)
        router = self.network.routers[broker]
        self.network.do(broker, router.unsubscribe(CLIENT + broker, id_, version))

    def package(self) -> Package:
        """The plan: two of three subscriptions are its members, the others stay late."""
        members: dict[int, list[Member]] = {u: [] for u in range(BROKERS)}
        known: dict[int, list[Subscribed]] = {u: [] for u in range(BROKERS)}
        for id_, (broker, version, wanted) in self.live.items():
            client = CLIENT + broker
            known[broker].append(Subscribed(id_, client, "", str(wanted), False, version, True, True))
            if id_ % 3:
                members[broker].append(Member(0, id_, client, wanted, False, version))
        planned = {one.subscription: one.version for all_ in members.values() for one in all_}
        steered = self.kind != "tree"
        prices = {(u, v): 1.0 for link in self.late for u, v in (link, link[::-1])} if steered else {}
        shares = {}
        for u in range(BROKERS):
            flow = FlowShare(0, TRUE, near(self.late if steered else self.tree, u), kind=self.kind)
            late = FlowShare(LATE, TRUE, near(self.late, u))
            shares[u] = Share(1, {LATE: late, 0: flow}, tuple(members[u]), planned, prices)
        portions = {
            u: encode_portion(Portion(list(share.flows.values()), list(share.members), [], []))
            for u, share in shares.items()
        }
        return Package(
            1,
            "plan",
            "network",
            planned,
            [(*link, price) for link, price in prices.items()],
            True,
            {u: sorted(near(self.late, u)) for u in range(BROKERS)},
            {},
            {},
            portions,
            trees={0: self.tree},
            foreseen=encode_rows(rows_of(shares, known)),
        )

    def install(self) -> None:
        """Brokers install the plan one after the other, while subscriptions come and go and links deliver."""
        package = decode_package(encode_package(self.package()))
        shares = {u: share_of(package, portion_of(package, u), u) for u in range(BROKERS)}
        brokers, later = list(range(BROKERS)), iter(range(100, 200))
        self.dice.shuffle(brokers)
        self.network.connect(shares)
        self.network.control.clear()
        while brokers:
            match self.dice.randrange(8):
                case 0:
                    broker = brokers.pop()
                    self.network.do(broker, self.network.routers[broker].install(shares[broker]))
                case 1 if self.live:
                    self.unsubscribe(self.dice.choice(sorted(self.live)))
                case 2 if self.live:
                    id_ = self.dice.choice(sorted(self.live))
                    self.subscribe(id_, self.live[id_][1] + 1)
                case 3:
                    self.subscribe(next(later), 1)
                case _:
                    self.network.step(self.dice)
        self.network.settle(self.dice)
        self.network.activate(shares)
        self.network.settle(self.dice)

    def wanted(self) -> list[tuple[int, int]]:
        return sorted((x, id_) for x in EVENTS for id_, (_, _, wanted) in self.live.items() if wanted.matches({"x": x}))

    def delivered(self) -> list[tuple[int, int]]:
        self.network.copies.clear()
        for x in EVENTS:
            self.network.publish(self.dice.randrange(BROKERS), 1, x, {"x": x})
        self.network.settle(self.dice)
        return sorted(self.network.deliveries())


@FEWER
@given(st.integers(0, 2**32), st.sampled_from(sorted(SUMMARIES)), st.sampled_from(("tree", "paths", "steiner")))
def test_every_subscription_gets_its_events_once_and_neighbours_agree(seed: int, policy: str, kind: str) -> None:
    switch = Switch(seed, policy, kind)
    switch.install()
    assert switch.delivered() == switch.wanted()
    for broker, router in switch.network.routers.items():
        for number, flow in router.state.epochs[1].flows.items():
            for peer, outlet in flow.outlets.items():
                there = switch.network.routers[peer].state.epochs[1].flows[number]
                assert set(outlet.sent) == set(there.heard[broker].keys)


@FEWER
@given(st.integers(0, 2**32), st.sampled_from(("tree", "steiner")))
def test_after_that_subscriptions_come_and_go_as_ever(seed: int, kind: str) -> None:
    switch = Switch(seed, "active", kind)
    switch.install()
    for id_ in sorted(switch.live)[::2]:
        switch.unsubscribe(id_)
    for id_ in range(300, 305):
        switch.subscribe(id_, 1)
    switch.network.settle(switch.dice)
    assert switch.delivered() == switch.wanted()


def test_nobody_is_told_of_what_was_foreseen() -> None:
    switch = Switch(1, "none", "tree")
    package = switch.package()
    shares = {u: share_of(package, portion_of(package, u), u) for u in range(BROKERS)}
    foreseen = {one.key for one in shares[0].foreseen}
    assert len(foreseen) > 3
    switch.network.connect(shares)
    switch.network.control.clear()
    switch.network.install(shares)
    switch.network.settle(switch.dice)
    told = {one.key for _, one in switch.network.control if isinstance(one, Subscribe | Unsubscribe)}
    assert not told & foreseen
    assert told | foreseen == {(id_, version) for id_, (_, version, _) in switch.live.items()}


def test_a_coming_epoch_can_be_given_up() -> None:
    switch = Switch(3, "active", "tree")
    package = switch.package()
    router = switch.network.routers[0]
    router.slice = 1
    router.install(share_of(package, portion_of(package, 0), 0))
    assert router.state.coming
    assert router.retire(1) == []
    assert not router.has_work
    assert router.state.is_past(1)


def test_what_covers_others_or_is_covered_is_not_foreseen() -> None:
    texts = ["x > 3", "x > 5", "y = 1", "y = 1", "z = 2", "topic LIKE 'a%'"]
    found = unrelated([(0, id_, 1, parse_filter(text)) for id_, text in enumerate(texts)])
    assert [id_ for _, id_, _, _ in found] == [4, 5]


def test_where_a_broker_hears_from_hosts() -> None:
    switch = Switch(5, "active", "tree")
    switch.tree = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5)]
    package = switch.package()
    hops = {(one.flow, one.host): one.hop for one in Foreseeing(package, portion_of(package, 3), 3)}
    assert all(hop == {0: 1, 1: 1, 2: 1, 3: NONE, 4: 4, 5: 4}[host] for (flow, host), hop in hops.items() if flow == 0)


@pytest.mark.parametrize("data", [b"\x01", msgspec.msgpack.encode([(0, 0, 1 << 63, 1, "x = 1")])])
def test_what_cannot_be_read_is_said(data: bytes) -> None:
    package = msgspec.structs.replace(Switch(5, "active", "tree").package(), foreseen=data)
    with pytest.raises(LinkError, match="foresees"):
        share_of(package, portion_of(package, 0), 0)
