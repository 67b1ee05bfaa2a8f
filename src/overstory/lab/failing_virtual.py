"""Failures by seed in the simulator: the product's brokers under a clock of their own, thousands of schedules."""

from overstory.broker.fabric import Place
from overstory.broker.places import neighbours_of, next_hops
from overstory.broker.reports import rows_of
from overstory.lab.failures import CUT, HUNG, KILLED, SLOW, STORM, TOPICS, Outcome, Schedule, fresh_tables, judged
from overstory.lab.steady import Steady
from overstory.lab.virtual import STEP, VirtualNetwork
from overstory.routing.share import Share, tree_shares
from overstory.wire.packets import Asked
from overstory.wire.topics import filter_of, read_filter

PATIENCE = 120.0  # seconds of virtual time until a network has to be quiet
PAUSE = 3.0  # seconds by which bytes are late on a slow link, at most
FEW = 300  # subscriptions of a storm
TOGETHER = 50  # events of a publisher that are not acknowledged


class NotQuietError(AssertionError):
    """A network did not recover by itself."""


class VirtualLine:
    """Brokers in a line, a client that publishes at the first and one that subscribes at the last."""

    def __init__(self, brokers: int, seed: int, durable: bool) -> None:
        shares = tree_shares([(u, u + 1) for u in range(brokers - 1)], epoch=1)
        self.shares = shares
        self.network = VirtualNetwork(places_in(shares), seed, durable, kernels=seed % 2 == 0)
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
        sent = 0
        while sent < schedule.events or ends is None or network.now < ends:
            if sent < schedule.events and len(self.publisher.inflight) < TOGETHER:
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
        wanted = {last: [filter_of(read_filter(topic)) for topic in TOPICS.values()]}
        if schedule.kind == STORM:
            wanted[schedule.victim] = [
                *wanted.get(schedule.victim, ()),
                *(filter_of(read_filter(asked.filter)) for asked in self.storm.wishes),
            ]
        fresh = fresh_tables(self.shares, wanted)
        return any(rows_of(self.network.brokers[broker].state.router) != rows for broker, rows in fresh.items())


def places_in(shares: dict[int, Share]) -> dict[int, Place]:
    """The places of brokers with these shares of a plan."""
    return {
        number: Place(share, neighbours_of(number, share), next_hops(number, shares), "plan")
        for number, share in shares.items()
    }


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed: kinds take turns, and so do lengths of lines, and whether there are disks."""
    return Schedule.drawn(seed, _brokers(seed), _has_disks(seed), events=40)


def simulated(seed: int) -> tuple[Schedule, Outcome]:
    """Draws a schedule by its seed, and lets it happen. Raises a ``NotQuietError`` if the network does not recover."""
    schedule = schedule_of(seed)
    return schedule, VirtualLine(_brokers(seed), seed, _has_disks(seed)).run(schedule)


def _brokers(seed: int) -> int:
    return 3 + seed // 5 % 3


def _has_disks(seed: int) -> bool:
    return seed // 15 % 3 > 0
