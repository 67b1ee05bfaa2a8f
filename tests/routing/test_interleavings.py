"""No event is lost and none comes twice, whatever happens in whatever order, under every policy.

The oracle knows filters and who has subscribed, and nothing of brokers. A subscription that was known everywhere before
an event was published, and stays until the event has arrived everywhere, gets it once; one that comes or goes in
between may get it, once.
"""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import Filter, parse_filter
from overstory.routing.messages import Send, Subscribe, Unsubscribe
from overstory.routing.policies import SUMMARIES, make_policy

from .network import FEWER, Network, network_on, random_tree

POLICIES = sorted(SUMMARIES)
CLIENT = 1000  # of broker b: 1000 + b


class Play:
    """Random changes to a network, with what the oracle knows of them."""

    def __init__(self, dice: random.Random, policy: str, everyone_advertises: bool, moves: bool = True) -> None:
        self.dice, self.moves = dice, moves
        self.hasty = True  # whether one change may come while another is on its way
        self.tree = random_tree(dice, dice.randint(2, 8))
        self.brokers = sorted({end for link in self.tree for end in link})
        threshold = dice.choice([0.3, 0.7, 0.9]) if policy == "selective" else None
        self.network: Network = network_on(self.tree, make_policy(policy, threshold), everyone_advertises)
        self.at: dict[int, tuple[int, int, Filter]] = {}  # of each subscription: broker, version and filter
        self.changed: set[int] = set()  # since all was quiet
        self.moved: set[int] = set()  # ever
        self.published: list[int] = []
        self.required: list[set[int]] = []
        self.allowed: list[set[int]] = []
        self.pending: list[int] = []  # events since all was quiet
        self.next_id = self.time = 0
        self.advertise(everyone_advertises)

    def advertise(self, everyone: bool) -> None:
        self.publishers = self.brokers if everyone else self.dice.sample(self.brokers, self.dice.randint(1, 2))
        self.announced: dict[int, tuple[int, int]] = dict.fromkeys(self.brokers, (0, 30))
        if not everyone:
            for each in self.publishers:
                low = self.dice.randint(0, 10)
                self.announced[each] = (low, low + self.dice.randint(5, 20))
                announced = parse_filter("x BETWEEN {} AND {}".format(*self.announced[each]))
                self.network.do(each, self.network.routers[each].advertise(CLIENT + each, each, 1, announced))
        self.network.settle(self.dice)

    def narrow(self) -> None:
        """Some brokers, or all, say that they publish only what they announce, or nothing; in any order."""
        self.publishers = [each for each in self.brokers if self.dice.random() < 0.7] or self.brokers[:1]
        for each in self.dice.sample(self.brokers, self.dice.randint(1, len(self.brokers))):
            router = self.network.routers[each]
            if each in self.publishers:
                low = self.dice.randint(0, 10)
                self.announced[each] = (low, low + self.dice.randint(5, 20))
                announced = parse_filter("x BETWEEN {} AND {}".format(*self.announced[each]))
                self.network.do(each, router.advertise(CLIENT + each, each, 1, announced))
            self.network.do(each, router.narrow())
            self.step()

    def run(self, steps: int) -> None:
        ways = [self.subscribe, self.subscribe, self.unsubscribe, self.publish, self.publish, self.step, self.tick]
        for _ in range(steps):
            self.dice.choice([*ways, self.move] if self.moves else ways)()
            if self.dice.random() < 0.15:
                self.quiet()
        self.quiet()

    def subscribe(self) -> None:
        broker = self.dice.choice(self.brokers)
        id_ = self.next_id
        self.next_id += 1
        self.at[id_] = (broker, 1, self.filter())
        self.changed.add(id_)
        self._subscribe(id_)
        for each in self.pending:
            self.allowed[each].add(id_)

    def filter(self) -> Filter:
        low = self.dice.randint(0, 25)
        wide = self.dice.choice([0, 2, 5, 5, 12, 30])
        more = self.dice.choice(["", "", "", " AND y = 1", " AND symbol LIKE 'I%'"])
        return parse_filter(f"x BETWEEN {low} AND {low + wide}{more}")

    def unsubscribe(self) -> None:
        if self.at:
            id_ = self.dice.choice(sorted(self.at))
            broker, version, _ = self.at.pop(id_)
            self.changed.add(id_)
            self.network.do(broker, self.network.routers[broker].unsubscribe(CLIENT + broker, id_, version))
            for each in self.pending:
                self.required[each].discard(id_)

    def move(self) -> None:
        """A subscription is made again elsewhere with the next version; the old one is taken back before or after."""
        if not self.at:
            return
        id_ = self.dice.choice(sorted(self.at))
        old, version, wanted = self.at[id_]
        new = self.dice.choice(self.brokers)
        self.at[id_] = (new, version + 1, wanted if self.dice.random() < 0.7 else self.filter())
        self.changed.add(id_)
        self.moved.add(id_)
        first = self.dice.random() < 0.5
        for leaves in (first, not first):
            if leaves:
                self.network.do(old, self.network.routers[old].unsubscribe(CLIENT + old, id_, version))
            else:
                self._subscribe(id_)
            if self.hasty:
                self.step()
            else:
                self.network.settle()
        for each in self.pending:
            self.required[each].discard(id_)
            self.allowed[each].add(id_)

    def publish(self) -> None:
        broker = self.dice.choice(self.publishers)
        event = len(self.published)
        x = self.dice.randint(*self.announced[broker])
        attributes = {"x": x, "y": self.dice.choice([0, 1]), "symbol": self.dice.choice(["IBM", "AIG"])}
        wanting = {id_ for id_, (_, _, wanted) in self.at.items() if wanted.matches(attributes)}
        self.published.append(x)
        self.required.append(wanting - self.changed)
        self.allowed.append(set(self.at) | self.changed)
        self.pending.append(event)
        self.network.publish(broker, CLIENT + broker, event, attributes, advertisement=broker)

    def step(self) -> None:
        for _ in range(self.dice.randint(1, 6)):
            self.network.step(self.dice)

    def tick(self) -> None:
        self.time += self.dice.randint(1, 20)
        for broker, router in self.network.routers.items():
            self.network.do(broker, router.tick(self.time))

    def quiet(self) -> None:
        self.network.settle(self.dice)
        self.changed.clear()
        self.pending.clear()

    def _subscribe(self, id_: int) -> None:
        broker, version, wanted = self.at[id_]
        self.network.do(broker, self.network.routers[broker].subscribe(CLIENT + broker, id_, version, wanted))

    def check(self) -> None:
        got = Counter(self.network.deliveries())
        # An event may find a moving subscription at both its brokers; only a plan moves it without that.
        assert not [pair for pair, times in got.items() if times > 1 and pair[1] not in self.moved]
        for event, required in enumerate(self.required):
            received = {id_ for number, id_ in got if number == event}
            assert required <= received
            assert received <= self.allowed[event]


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES), everyone=st.booleans())
def test_no_event_is_lost_and_none_comes_twice(seed: int, policy: str, everyone: bool) -> None:
    play = Play(random.Random(seed), policy, everyone)
    if everyone and seed % 2:
        play.run(20)
        play.narrow()
    play.run(60)
    play.check()


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_when_all_is_quiet_every_event_goes_to_all_who_want_it(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    play = Play(dice, policy, everyone_advertises=True)
    play.run(40)
    for _ in range(10):
        play.publish()
        play.quiet()
    play.check()
    for event in range(len(play.published) - 10, len(play.published)):
        assert {id_ for number, id_ in play.network.deliveries() if number == event} == play.required[event]


@FEWER
@given(seed=st.integers(0, 10**9))
def test_tables_of_active_covering_are_those_made_from_scratch(seed: int) -> None:
    dice = random.Random(seed)
    play = Play(dice, "active", everyone_advertises=True, moves=dice.random() < 0.5)
    play.run(50)
    again = network_on(play.tree, make_policy("active"))
    for id_, (broker, version, wanted) in sorted(play.at.items(), key=lambda _: dice.random()):
        again.do(broker, again.routers[broker].subscribe(CLIENT + broker, id_, version, wanted))
        again.settle(dice)
    assert held(play.network) == held(again)


def held(network: Network) -> dict[tuple[int, int], Counter[Filter]]:
    """The filters that each broker holds from each neighbour: of equal ones it does not matter whose."""
    found: dict[tuple[int, int], Counter[Filter]] = {}
    for broker, router in network.routers.items():
        for _, flow in router.state.flows():
            for (hop, _), entry in flow.entries.items():
                if hop in network.routers:
                    found.setdefault((broker, hop), Counter())[entry.filter] += 1
    return found


@FEWER
@given(seed=st.integers(0, 10**9))
def test_brokers_that_narrow_what_they_publish_are_as_if_they_had_never_advertised_more(seed: int) -> None:
    dice = random.Random(seed)
    play = Play(dice, "active", everyone_advertises=True)
    play.run(20)
    open_again = dice.choice(play.brokers)
    for broker in dice.sample(play.brokers, len(play.brokers)):
        if dice.random() < 0.5:
            announced = parse_filter(f"x BETWEEN {broker} AND {broker + 9}")
            play.network.do(broker, play.network.routers[broker].advertise(CLIENT + broker, broker, 1, announced))
        play.network.do(broker, play.network.routers[broker].narrow())
        play.step()
    play.quiet()
    again = network_on(play.tree, make_policy("active"), everyone_advertises=False)
    for broker, router in play.network.routers.items():
        for client, (id_, version), announced in router.state.announced.values():
            again.do(broker, again.routers[broker].advertise(client, id_, version, announced))
    again.settle(dice)
    for id_, (broker, version, wanted) in play.at.items():
        again.do(broker, again.routers[broker].subscribe(CLIENT + broker, id_, version, wanted))
        again.settle(dice)
    assert held(play.network) == held(again)

    play.network.do(open_again, play.network.routers[open_again].narrow(False))
    play.quiet()
    play.publishers, play.announced = [open_again], {open_again: (0, 30)}
    for _ in range(5):
        play.publish()
    play.quiet()
    play.check()


@FEWER
@given(seed=st.integers(0, 10**9))
def test_what_neighbours_hold_is_what_they_were_told(seed: int) -> None:
    dice = random.Random(seed)
    play = Play(dice, dice.choice(POLICIES), everyone_advertises=True)
    play.run(40)
    told = {link: keys for link, keys in play.network.sent().items() if keys}
    hold: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for broker, router in play.network.routers.items():
        for _, flow in router.state.flows():
            for hop, key in flow.entries:
                if hop in play.network.routers:
                    hold.setdefault((hop, broker), set()).add(key)
    assert hold == told


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_what_is_said_twice_changes_nothing(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    play = Play(dice, policy, everyone_advertises=True, moves=False)
    play.run(20)
    network = play.network
    before = network.sent(), held(network)
    for (source, target), keys in before[0].items():
        (flow,) = (flow for _, flow in network.routers[source].state.flows())
        for key in sorted(keys):
            again = Subscribe(0, -1, key, flow.outlets[target].filters[key])
            assert network.routers[target].receive(source, again) == []
        never = Unsubscribe(0, -1, (10**6, 1))
        assert network.routers[target].receive(source, never) == []
    assert (network.sent(), held(network)) == before


@pytest.mark.parametrize("policy", POLICIES)
def test_an_unsubscription_that_comes_first_is_remembered(policy: str) -> None:
    network = network_on([(0, 1)], make_policy(policy))
    router = network.routers[0]
    assert router.unsubscribe(CLIENT, 7, 1) == []
    assert router.subscribe(CLIENT, 7, 1, parse_filter("x > 1")) == []
    assert router.statistics().subscriptions == router.statistics().entries == 0
    again = router.subscribe(CLIENT, 7, 2, parse_filter("x > 1"))
    assert [type(each.message) for each in again if isinstance(each, Send)] == [Subscribe]


def test_a_newer_subscription_elsewhere_leaves_the_old_one_until_that_is_taken_back() -> None:
    """Events may be under way to the old one alone."""
    network = network_on([(0, 1), (1, 2)], make_policy("active"))
    wanted = parse_filter("x > 1")
    network.do(0, network.routers[0].subscribe(CLIENT, 7, 1, wanted))
    network.settle()
    network.publish(2, CLIENT, 1, {"x": 5})  # before broker 1 hears of the newer one
    network.do(2, network.routers[2].subscribe(CLIENT + 2, 7, 2, parse_filter("x > 0")))
    network.settle()
    assert [each.state.homes.keys() for each in network.routers.values()] == [{7}, set(), {7}]
    assert [broker for broker, _ in network.copies] == [0]
    network.do(0, network.routers[0].unsubscribe(CLIENT, 7, 1))
    network.settle()
    network.publish(0, CLIENT, 2, {"x": 5})
    network.settle()
    assert [(broker, copy.event) for broker, copy in network.copies] == [(0, 1), (2, 2)]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_neighbour_that_comes_back_with_an_older_state(policy: str) -> None:
    """Broker 1 was away while 7 ended and 8 came: it learns of 8, and that 8 is all there is."""
    network = network_on([(0, 1), (1, 2)], make_policy(policy))
    network.do(0, network.routers[0].subscribe(CLIENT, 7, 1, parse_filter("x > 1")))
    network.settle()
    for here, there in ((0, 1), (1, 0)):
        network.do(here, network.routers[here].neighbour_down(there))
    network.do(0, network.routers[0].unsubscribe(CLIENT, 7, 1))
    network.do(0, network.routers[0].subscribe(CLIENT, 8, 1, parse_filter("x < 0")))
    assert not network.busy()
    for here, there in ((0, 1), (1, 0)):
        network.do(here, network.routers[here].neighbour_up(there))
    network.settle()
    assert network.sent()[1, 2] == {(8, 1)}
    network.publish(2, CLIENT + 2, 1, {"x": -5})
    network.settle()
    assert network.deliveries() == [(1, 8)]


def test_a_neighbour_that_has_lost_what_it_was_told_asks_for_it() -> None:
    network = network_on([(0, 1)], make_policy("active"), lease=10)
    network.do(0, network.routers[0].subscribe(CLIENT, 7, 1, parse_filter("x > 1")))
    network.links[0, 1].clear()
    network.do(0, network.routers[0].tick(10))
    network.settle()
    network.publish(1, CLIENT + 1, 1, {"x": 5})
    network.settle()
    assert network.deliveries() == [(1, 7)]


@pytest.mark.parametrize("policy", POLICIES)
def test_leases_collect_what_nobody_renews(policy: str) -> None:
    network = network_on([(0, 1), (1, 2)], make_policy(policy), lease=10)
    network.do(0, network.routers[0].subscribe(CLIENT, 7, 1, parse_filter("x > 1")))
    network.settle()
    network.do(1, network.routers[1].neighbour_down(0))  # and it never comes back
    for now in (10, 20, 30, 40):
        for broker in (1, 2):
            network.do(broker, network.routers[broker].tick(now))
        network.settle()
    assert [network.routers[each].statistics().entries for each in (1, 2)] == [0, 0]
