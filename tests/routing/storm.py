"""A storm: random changes to a network, and an oracle that says which events have to arrive, and which may.

The oracle knows filters, who has subscribed and who announces what, and of brokers only that events get lost

- when a link is cut, and when a broker restarts, which cuts all its links: all that are under way, and all that are
  published until everything is quiet again;
- when a broker announces something else: those that it publishes itself before everyone knows.

Every other event goes once to each subscription that wants it, was known everywhere before it was published, and stays
until it has arrived everywhere. A subscription that comes or goes in between may get it, once. What may get lost does
not come twice either; only a subscription whose client moves may find an event at both its brokers, and one that was
between two flows when its broker restarted, on both ways.

Plans take each other's place meanwhile, as the coordinator of ``switches`` decides.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Set

from overstory.filters import Filter, parse_filter
from overstory.model.values import Attributes
from overstory.routing.messages import LATE, Acknowledge, Key
from overstory.routing.policies import make_policy
from overstory.routing.router import SLICE

from .network import TRUE, Link, Network
from .switches import BETTER, CLIENT, LEASE, Coordinator, both_ends

FALSE = parse_filter("FALSE")
SYMBOLS = ["IBM", "AIG", "IBX", "A", "é"]
PATTERNS = ["I%", "IB%", "%M", "_B%", "A%", "%"]


def random_filter(dice: random.Random) -> Filter:
    """Few values and wide ranges, so that many cover each other."""
    text = " AND ".join(random_term(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
    if dice.random() < 0.2:
        text = f"({text}) OR ({random_term(dice)})"
    return parse_filter(f"NOT ({text})" if dice.random() < 0.08 else text)


def random_term(dice: random.Random) -> str:
    low, symbol, other, pattern = dice.randint(0, 20), dice.choice(SYMBOLS), dice.choice(SYMBOLS), dice.choice(PATTERNS)
    between = f"x BETWEEN {low} AND {low + dice.choice([0, 2, 5, 12, 30])}"
    terms = [
        *[between] * 2,
        f"y {dice.choice(['<', '>=', '=', '<>'])} {dice.randint(0, 4)}",
        f"x + y > {low}",
        f"s LIKE '{pattern}'",
        f"s NOT LIKE '{pattern}'",
        f"s = '{symbol}'",
        f"s IN ('{symbol}', '{other}')",
        f"tags HAS ANY ('{dice.choice('abc')}', '{dice.choice('abc')}')",
        f"NOT tags HAS ANY ('{dice.choice('abc')}')",
        "y IS NULL",
        "s IS NOT NULL",
        "TRUE",
        "FALSE",
    ]
    return dice.choice(terms)


def random_event(dice: random.Random) -> Attributes:
    event = {"x": dice.randint(0, 30), "s": dice.choice(SYMBOLS), "tags": dice.sample("abc", dice.randint(0, 2))}
    return event | {"y": dice.randint(0, 4)} if dice.random() < 0.7 else event


class Storm:
    """Random changes to a network, with what the oracle knows of them."""

    def __init__(
        self,
        dice: random.Random,
        policy: str,
        links_fail: bool = False,
        two_flows: bool = False,
        plans_switch: bool = False,
        brokers_restart: bool = False,
        steered: bool = False,
        regions: bool = False,
    ) -> None:
        """With ``steered``, the better flow has no tree: each event has one of its own. It may have ``regions``."""
        self.dice, self.links_fail, self.two_flows = dice, links_fail, two_flows
        self.plans_switch, self.brokers_restart, self.steered = plans_switch, brokers_restart, steered
        self.regions = regions
        size, everyone = dice.randint(3 if regions else 2, 6), dice.random() < 0.5
        self.brokers = list(range(size))
        self.coordinator = Coordinator(self, size, everyone, plans_switch)
        self.links = self.coordinator.links
        slow = both_ends(dice.choice(self.links))[dice.randrange(2)]
        self.slow = slow if dice.random() < 0.5 else None  # it delivers nothing before all settles
        threshold = dice.choice([0.3, 0.7, 0.9]) if policy == "selective" else None
        self.policy = make_policy(policy, threshold)
        # Long work is done at once, or bit by bit between other inputs
        slice_ = dice.choice([0, 1, 3, SLICE])
        self.network = Network(self.coordinator.shares[0], self.policy, LEASE, slice_, tells_served=True)
        self.asked: set[tuple[int, Key]] = set()  # subscriptions that are to be served, and where they were made
        self.network.recovering = self.coordinator.recovering
        self.do, self.routers = self.network.do, self.network.routers
        for link in self.links:
            for here, there in both_ends(link):
                self.do(here, self.routers[here].neighbour_up(there))
        self.now = self.settled = 0  # and when nothing was under way last
        self.at: dict[int, tuple[int, int, Filter]] = {}  # of each subscription: broker, version and filter
        self.announced: dict[int, tuple[int, int, Filter]] = {}  # of each advertisement: the same
        self.can_narrow = everyone
        self.narrowed = set() if everyone else set(self.brokers)  # brokers that publish only what they announce
        self.cut: set[Link] = set()
        self.unnoticed: dict[Link, bool] = {}  # here, of the broker there: whether it is up now
        self.published: list[Attributes] = []
        self.required: list[set[int]] = []
        self.allowed: list[set[int]] = []
        self.may_repeat: list[set[int]] = []  # those of them that may get the event twice
        self.next_id = 0

        # Since all was quiet
        self.pending: list[int] = []  # events
        self.changed: dict[int, list[Filter]] = defaultdict(list)  # subscriptions, and what they wanted or want
        self.moved: set[int] = set()  # those of them whose client has
        self.uncertain: set[int] = set()  # brokers whose events may get lost
        if not everyone:
            for broker in dice.sample(self.brokers, dice.randint(1, size)):
                self._advertise(broker, self._new_id(), 1)
        self.quiet()

    def run(self, steps: int) -> None:
        ways = self.ways()
        for _ in range(steps):
            self.dice.choice(ways)()
            if self.dice.random() < 0.15 and not self.cut:
                self.quiet()
        while self.cut:
            self.mend_link()
        self.quiet()
        self.coordinator.finish()
        self.quiet()

    def ways(self) -> list[Callable[[], None]]:
        ways = [*[self.subscribe] * 3, *[self.unsubscribe] * 2, *[self.publish] * 4, *[self.step] * 2]
        ways += [self.tick, self.advertise, self.narrow, self.move, *self.failures()]
        if self.plans_switch:
            ways += [self.coordinator.step] * 4
        if self.brokers_restart:
            ways += [self.coordinator.restart, *[self.coordinator.recover] * 4]
        return [*ways, self.change_flow, self.change_flow] if self.two_flows else ways

    def failures(self) -> list[Callable[[], None]]:
        return [self.cut_link, *[self.mend_link] * 2, *[self.notice] * 3] if self.links_fail else []

    # Subscriptions

    def subscribe(self) -> None:
        self._subscribe(self._new_id(), self.dice.choice(self.brokers), 1, random_filter(self.dice))

    def unsubscribe(self) -> None:
        if self.at:
            id_ = self.dice.choice(sorted(self.at))
            broker, version, wanted = self.at.pop(id_)
            self._not_required(id_, wanted)
            self._unsubscribe(id_, broker, version)

    def move(self) -> None:
        """A client goes to another broker, and may want something else there; it leaves before or after."""
        if not self.at:
            return
        id_ = self.dice.choice(sorted(self.at))
        old, version, wanted = self.at[id_]
        self.moved.add(id_)
        self._not_required(id_, wanted)
        for event in self.pending:
            self.may_repeat[event].add(id_)
        first = self.dice.random() < 0.5
        for leaves in (first, not first):
            if leaves:
                self._unsubscribe(id_, old, version)
            else:
                then = wanted if self.dice.random() < 0.7 else random_filter(self.dice)
                self._subscribe(id_, self.dice.choice(self.brokers), version + 1, then)
            self.step()

    def change_flow(self) -> None:
        """While events are about that come on both ways, on one of them late."""
        if late := sorted(id_ for id_ in self.at if self.coordinator.is_late(id_)):
            id_ = self.dice.choice(late)
            self.burst(2)
            if id_ in self.at and self.coordinator.is_late(id_):  # a plan may have come in between
                self.coordinator.move(id_)
            self.burst(4)

    def _subscribe(self, id_: int, broker: int, version: int, wanted: Filter) -> None:
        self.at[id_] = (broker, version, wanted)
        self.changed[id_].append(wanted)
        for event in self.pending:
            if wanted.matches(self.published[event]):
                self.allowed[event].add(id_)
        outputs = self.routers[broker].subscribe(CLIENT + broker, id_, version, wanted)
        self.asked |= {(broker, output.key) for output in outputs if isinstance(output, Acknowledge)}
        self.do(broker, outputs)

    def _not_required(self, id_: int, wanted: Filter) -> None:
        self.changed[id_].append(wanted)
        for event in self.pending:
            self.required[event].discard(id_)

    def _unsubscribe(self, id_: int, broker: int, version: int) -> None:
        self.do(broker, self.routers[broker].unsubscribe(CLIENT + broker, id_, version))

    # What is published, and what is announced

    def publish(self) -> None:
        """A broker that has narrowed what it publishes keeps to what it announces."""
        broker = self.dice.choice(self.brokers)
        if self.routers[broker].state.active is None:
            return  # it has restarted
        for _ in range(8):
            attributes = random_event(self.dice)
            under = [id_ for id_, (at, _, some) in self.announced.items() if at == broker and some.matches(attributes)]
            if under or broker not in self.narrowed:
                break
        else:
            return
        event, advertisement = len(self.published), self.dice.choice(under) if under else -1
        wanting = {id_ for id_, (_, _, wanted) in self.at.items() if wanted.matches(attributes)}
        may = {id_ for id_, some in self.changed.items() if any(wanted.matches(attributes) for wanted in some)}
        self.published.append(attributes)
        self.required.append(
            set() if broker in self.uncertain else wanting - self.changed.keys() | self._served(wanting)
        )
        self.allowed.append(wanting | may)
        self.may_repeat.append(set(self.moved))
        self.pending.append(event)
        self.network.publish(broker, CLIENT + broker, event, attributes, advertisement)

    def _served(self, wanting: set[int]) -> set[int]:
        """Those of these subscriptions that the whole network serves already, though not all is quiet."""
        served = set(self.network.served)
        return {id_ for id_ in wanting if (self.at[id_][0], (id_, self.at[id_][1])) in served}

    def check_served(self) -> None:
        """Each subscription that was made, and has not ended, is served."""
        served = set(self.network.served)
        for broker, (id_, version) in self.asked:
            home = self.routers[broker].state.homes.get(id_)
            assert home is None or home.version != version or (broker, (id_, version)) in served
        assert not any(router.is_serving for router in self.routers.values())

    def burst(self, events: int) -> None:
        for _ in range(events):
            self.publish()
            self.step()
            self.dice.choice([*[self.step] * 6, *self.failures()])()

    def advertise(self) -> None:
        """Something more, or something else instead, or less."""
        broker = self.dice.choice(self.brokers)
        known = sorted(id_ for id_, (at, _, _) in self.announced.items() if at == broker)
        if not known or self.dice.random() < 0.4:
            self._advertise(broker, self._new_id(), 1)
            return
        id_ = self.dice.choice(known)
        if self.dice.random() < 0.5:
            self._advertise(broker, id_, self.announced[id_][1] + 1)
        else:
            self._unadvertise(id_)

    def narrow(self) -> None:
        if self.can_narrow:
            broker, narrowed = self.dice.choice(self.brokers), self.dice.random() < 0.6
            if narrowed:
                self.narrowed.add(broker)
            else:
                self.narrowed.discard(broker)
            self.uncertain.add(broker)
            self.do(broker, self.routers[broker].narrow(narrowed))

    def _advertise(self, broker: int, id_: int, version: int) -> None:
        announced = random_filter(self.dice) if self.dice.random() < 0.6 else TRUE
        self.announced[id_] = (broker, version, announced)
        self.uncertain.add(broker)
        self.do(broker, self.routers[broker].advertise(CLIENT + broker, id_, version, announced))

    def _unadvertise(self, id_: int) -> None:
        broker, version, _ = self.announced.pop(id_)
        self.uncertain.add(broker)
        self.do(broker, self.routers[broker].unadvertise(CLIENT + broker, id_, version))

    # Links

    def cut_link(self) -> None:
        """What is on it is lost, and so is what is put there until it is mended."""
        if whole := sorted(set(self.links) - self.cut):
            self.cut_off(self.dice.choice(whole))

    def cut_off(self, link: Link) -> None:
        self.cut.add(link)
        for end in both_ends(link):
            self.network.links[end] = deque(maxlen=0)
            if self.unnoticed.pop(end, None) is None:  # else it had not even seen that it was mended
                self.unnoticed[end] = False
        self.uncertain.update(self.brokers)
        for event in self.pending:
            self.required[event].clear()

    def mend_link(self) -> None:
        """Not before both ends have noticed that it was cut; what comes over it may be read before either notices."""
        if self.cut:
            link = self.dice.choice(sorted(self.cut))
            self.cut.remove(link)
            for end in both_ends(link):
                if end in self.unnoticed:
                    self._notice(end)
            for end in both_ends(link):
                self.network.links[end] = deque()
                self.unnoticed[end] = True

    def notice(self) -> None:
        """One end of a link sees how it is now."""
        if self.unnoticed:
            self._notice(self.dice.choice(sorted(self.unnoticed)))

    def _notice(self, end: Link) -> None:
        here, there = end
        router = self.routers[here]
        self.do(here, router.neighbour_up(there) if self.unnoticed.pop(end) else router.neighbour_down(there))

    # Time

    def step(self) -> None:
        for _ in range(self.dice.randint(1, 6)):
            if busy := [link for link in self.network.busy() if link != self.slow]:
                self.network.deliver(self.dice.choice(busy))

    def tick(self) -> None:
        """No message takes as long as a lease."""
        self.now += self.dice.choice([1, 3, 10])
        if self.now >= self.settled + LEASE:
            self.settle()
        for broker in self.brokers:
            self.do(broker, self.routers[broker].tick(self.now))

    def settle(self) -> None:
        self.network.settle(self.dice)
        self.settled = self.now

    def quiet(self) -> None:
        """Everyone knows everything, if all links are whole."""
        while self.unnoticed or self.coordinator.recovering:
            self.notice()
            self.coordinator.recover()
            self.step()
        self.settle()
        if self.coordinator.ordered and any(router.statistics().waiting for router in self.routers.values()):
            self.leases(4)  # events wait for two leases for one that was lost before them
        self.pending.clear()
        self.changed.clear()
        self.moved.clear()
        self.uncertain.clear()

    def leases(self, count: int) -> None:
        for _ in range(count):
            self.now += LEASE
            for broker in self.brokers:
                self.do(broker, self.routers[broker].tick(self.now))
            self.settle()

    def all_leave(self) -> None:
        """All clients unsubscribe and unadvertise. Where links fail, one link fails for good first."""
        if self.links_fail:
            self.cut_link()
        while self.at:
            self.unsubscribe()
            if self.dice.random() < 0.7:
                self.step()
        for id_ in sorted(self.announced):
            self._unadvertise(id_)
        self.quiet()

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    # What has to hold

    def check_deliveries(self) -> None:
        got = Counter(self.network.deliveries())
        assert not [
            (event, id_) for (event, id_), times in got.items() if times > 1 and id_ not in self.may_repeat[event]
        ]
        received: dict[int, set[int]] = defaultdict(set)
        for event, id_ in got:
            received[event].add(id_)
        for event, (required, allowed) in enumerate(zip(self.required, self.allowed, strict=True)):
            assert required <= received[event] <= allowed

    def check_when_quiet(self) -> None:
        """Ten events go to all who want them and to nobody else."""
        before = len(self.published)
        for _ in range(10):
            self.publish()
            self.quiet()
        assert self.required[before:] == self.allowed[before:]
        self.check_deliveries()

    def check_tables(self) -> None:
        """Neighbours hold what they were told, and were told only of what may come from them."""
        told: dict[tuple[int, int, int], set[Key]] = {}  # by flow, source and target
        held: dict[tuple[int, int, int], set[Key]] = defaultdict(set)
        for broker, router in self.routers.items():
            for _, flow in router.state.flows():
                for peer, outlet in flow.outlets.items():
                    told[flow.share.number, broker, peer] = set(outlet.sent)
                    publishers = behind(
                        self.coordinator.trees[LATE if self.regions else flow.share.number], broker, peer
                    )
                    if flow.share.towards == peer:
                        continue  # a gateway hears of everything in its region
                    wanted = {outlet.filters[key] for key in outlet.sent} - {FALSE}  # which does no harm anywhere
                    assert all(self.may_publish(publishers, each) for each in wanted)
                for hop, key in flow.entries:
                    if hop in self.routers:
                        held[flow.share.number, hop, broker].add(key)
        assert {way: keys for way, keys in told.items() if keys} == held

    def may_publish(self, brokers: Set[int], wanted: Filter) -> bool:
        announced = [some for broker, _, some in self.announced.values() if broker in brokers]
        return not brokers <= self.narrowed or any(some.intersects(wanted) for some in announced)

    def check_flows(self) -> None:
        """Those that were to leave the flow for late subscriptions have, and those of the plan are where it says."""
        epoch = self.coordinator.active
        for id_, (broker, version, _) in self.at.items():
            flow = BETTER if (id_, version) in self.coordinator.better[epoch] else LATE
            assert self.routers[broker].state.homes[id_].joined == {(epoch, flow)}

    def check_empty(self) -> None:
        for router in self.routers.values():
            state, moves, found = router.state, router._moves, router.statistics()
            assert (found.entries + found.behind_rows, found.sent, found.left_over, found.subscriptions) == (0, 0, 0, 0)
            assert not any([moves._moving, moves._flushes, moves._probed])
            assert not any([found.ended, state.announced])
            assert not any(flow.advertisements for _, flow in state.flows())


def behind(tree: Iterable[Link], broker: int, peer: int) -> set[int]:
    """The brokers that are reached from here over this link."""
    found = {peer}
    for _ in tree:
        found |= {end for link in tree if found & set(link) for end in link} - {broker}
    return found
