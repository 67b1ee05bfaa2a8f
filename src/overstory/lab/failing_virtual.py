"""Failures by seed in the simulator: the product's brokers under a clock of their own, thousands of schedules.

The events of a *steered* line are in a flow of ``paths`` or ``steiner``, whose frames are numbered. Every second such
line is closed to a ring: then a link that is cut leaves another way, and a broker that is killed leaves none.
"""

from collections.abc import Mapping

import msgspec

from overstory.broker.fabric import Place
from overstory.broker.places import Who, neighbours_of, next_hops
from overstory.broker.reports import rows_of
from overstory.lab.failures import CUT, HUNG, KILLED, SLOW, STORM, TOPICS, Outcome, Schedule, fresh_tables, judged
from overstory.lab.steady import Steady
from overstory.lab.virtual import STEP, VirtualNetwork
from overstory.model.tables import PATHS, STEINER
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Member, Share, tree_shares
from overstory.wire.packets import Asked
from overstory.wire.topics import filter_of, read_filter

PATIENCE = 120.0  # seconds of virtual time until a network has to be quiet
PAUSE = 3.0  # seconds by which bytes are late on a slow link, at most
FEW = 300  # subscriptions of a storm
TOGETHER = 50  # events of a publisher that are not acknowledged
SUBSCRIBER, PLANNED = (
    1_000_000,
    {qos: 1_000_000 + qos for qos in TOPICS},
)  # the plan's client, and its subscriptions by QoS
STEERED = 1  # the flow


class NotQuietError(AssertionError):
    """A network did not recover by itself."""


class VirtualLine:
    """Brokers in a line, a client that publishes at the first and one that subscribes at the last."""

    def __init__(self, brokers: int, seed: int, durable: bool, steered: bool = False) -> None:
        shares = tree_shares([(u, u + 1) for u in range(brokers - 1)], epoch=1)
        self.shares = steered_shares(shares, seed) if steered else shares
        self.is_steered = steered
        who = WHO if steered else Who({}, {})
        self.network = VirtualNetwork(places_in(self.shares), seed, durable, kernels=seed % 2 == 0, who=who)
        asked = tuple(Asked(topic, qos) for qos, topic in TOPICS.items())
        self.publisher, self.subscriber = Steady("publisher"), Steady("subscriber", asked)
        self.storm = Steady("storm", tuple(Asked(f"storm/{number}", 1) for number in range(FEW)))
        self.network.attach(self.publisher, 0)
        self.network.attach(self.subscriber, brokers - 1)

    def run(self, schedule: Schedule) -> Outcome:
        """Publishes while something fails, and says what came of it."""
        network = self.network
        self._until_quiet()
        before = dict(network.connections)
        begins = ends = None
        sent, until = 0, network.now + PATIENCE
        while sent < schedule.events or ends is None or network.now < ends:
            if network.now > until:
                raise NotQuietError(f"no event was acknowledged for {PATIENCE:g} seconds")
            if sent < schedule.events and len(self.publisher.inflight) < TOGETHER:
                until = network.now + schedule.seconds + PATIENCE
                for qos, topic in TOPICS.items():
                    network.publish(self.publisher, topic, sent, qos)
                sent += 1
            if begins is None and sent > schedule.after:
                begins, ends = network.now, network.now + schedule.seconds
                self._fail(schedule)
            network.step()
            if ends is not None and network.now >= ends > network.now - STEP:
                self._mend(schedule)
        self._until_quiet()
        missed = sum(network.connections[wire] - before[wire] for wire in before) if schedule.kind == STORM else 0
        return judged(self.publisher, self.subscriber, self._tables_differ(schedule), missed)

    def _until_quiet(self) -> None:
        """Lets time go on until nothing is under way."""
        until = self.network.now + PATIENCE
        quiet = 0
        while quiet < 10:
            self.network.step()
            is_quiet = self.network.is_idle and self.subscriber.is_subscribed
            quiet = quiet + 1 if is_quiet else 0
            if self.network.now > until:
                raise NotQuietError(f"the network is not quiet after {PATIENCE:g} seconds")

    def _fail(self, schedule: Schedule) -> None:
        network, victim = self.network, schedule.victim
        if schedule.kind == KILLED:
            network.kill(victim)
        elif schedule.kind == HUNG:
            network.hung.add(victim)
        elif schedule.kind == CUT:
            network.cut((victim, victim + 1))
        elif schedule.kind == SLOW:
            network.delays[victim, victim + 1] = network.dice.uniform(STEP, PAUSE)
        else:
            network.attach(self.storm, victim)

    def _mend(self, schedule: Schedule) -> None:
        network, victim = self.network, schedule.victim
        if schedule.kind == KILLED:
            network.start(victim)
        elif schedule.kind == HUNG:
            network.hung.discard(victim)
        elif schedule.kind == CUT:
            network.cut_wires.discard((victim, victim + 1))
        elif schedule.kind == SLOW:
            network.delays.clear()

    def _tables_differ(self, schedule: Schedule) -> bool:
        last = max(self.shares)
        wanted = {} if self.is_steered else {last: [filter_of(read_filter(topic)) for topic in TOPICS.values()]}
        if schedule.kind == STORM:
            wanted[schedule.victim] = [
                *wanted.get(schedule.victim, ()),
                *(filter_of(read_filter(asked.filter)) for asked in self.storm.wishes),
            ]
        fresh = fresh_tables(self.shares, wanted)
        return any(rows_of(self.network.brokers[broker].state.router) != rows for broker, rows in fresh.items())


WHO = Who(
    {"subscriber": SUBSCRIBER},
    {SUBSCRIBER: [(PLANNED[qos], str(filter_of(read_filter(topic))), False) for qos, topic in TOPICS.items()]},
)


def steered_shares(shares: Mapping[int, Share], seed: int) -> dict[int, Share]:
    """The shares of a line with a steered flow for what the subscriber at its last broker wants."""
    last = max(shares)
    pairs = [(u, u + 1) for u in range(last)] + ([(0, last)] if seed // 2 % 2 else [])
    kind, prices = (PATHS, STEINER)[seed // 4 % 2], {end: 1.0 for u, v in pairs for end in ((u, v), (v, u))}
    wanted = {qos: filter_of(read_filter(topic)) for qos, topic in TOPICS.items()}
    members = tuple(Member(STEERED, PLANNED[qos], SUBSCRIBER, filter_) for qos, filter_ in wanted.items())
    made = {}
    for broker, share in shares.items():
        late = share.flows[LATE]
        flow = FlowShare(STEERED, late.events, late.neighbours, kind=kind, ordered=True)
        made[broker] = msgspec.structs.replace(
            share,
            flows={**share.flows, STEERED: flow},
            members=members if broker == last else (),
            planned=dict.fromkeys(PLANNED.values(), 0),
            prices=prices,
            clients=frozenset({SUBSCRIBER} if broker == last else ()),
        )
    return made


def places_in(shares: dict[int, Share]) -> dict[int, Place]:
    """The places of brokers with these shares of a plan."""
    return {
        number: Place(share, neighbours_of(number, share), next_hops(number, shares), "plan")
        for number, share in shares.items()
    }


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed: kinds take turns, and so do lengths of lines, and whether there are disks."""
    return Schedule.drawn(seed, _brokers(seed), _has_disks(seed), events=40)


def simulated(seed: int, steered: bool = False) -> tuple[Schedule, Outcome]:
    """Draws a schedule by its seed, and lets it happen. Raises a ``NotQuietError`` if the network does not recover."""
    schedule = schedule_of(seed)
    return schedule, VirtualLine(_brokers(seed), seed, _has_disks(seed), steered).run(schedule)


def _brokers(seed: int) -> int:
    return 3 + seed // 5 % 3


def _has_disks(seed: int) -> bool:
    return seed // 15 % 3 > 0
