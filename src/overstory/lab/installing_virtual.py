"""Plans installed on the product's brokers in the simulator, while brokers, links and coordinators fail at any step.

python -m overstory.lab.installing_virtual FIRST LAST runs the schedules of these seeds, and says which were wrong.

A client at one end of a network publishes to a client at the other, with QoS 1 and 2, while one plan after the other is
installed: trees and steered flows over the same links. Brokers are killed and restarted, hang, and lose links; the
coordinator is killed, and another one goes on from what brokers say; or another one comes while the first is at work.
In the end all brokers have one epoch, the same, and what was acknowledged has come. Across an epoch no order is
promised, so none is asked for.
"""

import random
import sys

import msgspec

from overstory.broker.leading import RefusedError
from overstory.broker.packages import Package, Portion, encode_package, encode_portion, encode_rows
from overstory.broker.place import Place
from overstory.broker.places import next_hops
from overstory.broker.standing import Standing, standing_of
from overstory.control.installing import (
    ABORT,
    ACTIVATE,
    GIVE_UP,
    PREPARE,
    RETIRE,
    STABLE,
    Course,
    is_in_use,
    next_epoch,
    next_step,
)
from overstory.control.installing import under_way as latest_of
from overstory.errors import OverstoryError
from overstory.filters import parse_filter
from overstory.lab.failures import TOPICS, Outcome, judged
from overstory.lab.steady import Steady
from overstory.lab.virtual import VirtualNetwork
from overstory.model.tables import PATHS, STEINER, TREE
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Member, Share
from overstory.wire.packets import Asked

KILLED, HUNG, CUT, COORDINATOR, SECOND = "killed", "hung", "cut", "coordinator", "second"
KINDS = (KILLED, HUNG, CUT, COORDINATOR, SECOND)
PATIENCE = 240.0  # seconds of virtual time until all has to be over
PREPARING = 20.0  # seconds that coordinators wait
SWITCHES, EVENTS = 3, 60
TRUE = parse_filter("TRUE")
Link = tuple[int, int]


class Failure(msgspec.Struct, frozen=True):
    """A broker, a link or a coordinator that fails for a while."""

    kind: str
    victim: int  # a broker, or the number of a link
    after: float  # seconds from the beginning of the first installation
    seconds: float


class Plotted(msgspec.Struct, frozen=True):
    """The schedule of a seed."""

    brokers: int
    links: tuple[Link, ...]
    durable: bool
    failures: tuple[Failure, ...]

    @classmethod
    def drawn(cls, seed: int) -> "Plotted":
        """Draws a network and what fails in it. Without disks the brokers of the two clients are never killed."""
        draw = random.Random(seed)
        brokers, durable = draw.randrange(3, 6), draw.random() < 0.6
        links = [(u, u + 1) for u in range(brokers - 1)]
        others = [(u, v) for u in range(brokers) for v in range(u + 2, brokers)]
        links += draw.sample(others, draw.randrange(1, len(others) + 1))
        failures = []
        for _ in range(draw.randrange(1, 4)):
            kind = draw.choice(KINDS)
            inner = kind == KILLED and not durable
            victim = draw.randrange(1, brokers - 1) if inner else draw.randrange(brokers)
            if kind == CUT:
                victim = draw.randrange(len(links))
            failures.append(Failure(kind, victim, draw.uniform(0.0, 6.0), draw.uniform(0.3, 4.0)))
        return cls(brokers, tuple(links), durable, tuple(failures))


class Ended(msgspec.Struct, frozen=True):
    """What came of a schedule."""

    outcome: Outcome
    epochs: list[list[int]]  # that brokers have in the end
    installed: int
    given_up: int

    @property
    def is_right(self) -> bool:
        """Whether every promise was kept."""
        one = len({tuple(found) for found in self.epochs}) == 1 and len(self.epochs[0]) == 1
        outcome = self.outcome
        return one and not (outcome.missing - outcome.excused) and not outcome.repeated_once


class Plans:
    """Plans for a network, each on another tree, or steered."""

    def __init__(self, plotted: Plotted, seed: int) -> None:
        self._plotted, self._draw = plotted, random.Random(seed + 1)
        self._late = {u: frozenset({u - 1, u + 1} & set(range(plotted.brokers))) for u in range(plotted.brokers)}

    def places(self) -> dict[int, Place]:
        """The places of all brokers under the first plan, which has only the late flow."""
        shares = {u: Share(1, {LATE: FlowShare(LATE, TRUE, self._late[u])}) for u in self._late}
        near = {u: frozenset(v for link in self._plotted.links if u in link for v in link if v != u) for u in shares}
        return {
            u: Place(share, near[u], next_hops(u, shares), "plan", 0, "network", "first") for u, share in shares.items()
        }

    def package(self, epoch: int, members: dict[int, list[Member]]) -> bytes:
        """The package of the next plan. Three in four plans foresee their members, and one in three leaves all
        subscriptions in the late flow."""
        kind = self._draw.choice((TREE, TREE, PATHS, STEINER))
        tree = self._tree()
        flow_of_members = LATE if epoch % 3 == 1 else 0
        foreseen = [
            (flow_of_members, broker, one.subscription, one.version, str(one.filter))
            for broker, all_ in members.items()
            for one in all_
            if epoch % 4
        ]
        members = {} if flow_of_members == LATE else members
        prices = [(u, v, 1.0) for one in self._plotted.links for u, v in (one, one[::-1])] if kind != TREE else []
        planned = {member.subscription: member.version for all_ in members.values() for member in all_}
        portions = {}
        for broker, late in self._late.items():
            flow = FlowShare(0, TRUE, tree[broker] if kind == TREE else late, kind=kind)
            mine = Portion([FlowShare(LATE, TRUE, late), flow], members.get(broker, []), [], [])
            portions[broker] = encode_portion(mine)
        late_tree = {broker: sorted(peers) for broker, peers in self._late.items()}
        return encode_package(
            Package(
                epoch,
                f"plan {epoch}",
                "network",
                planned,
                prices,
                True,
                late_tree,
                {},
                {},
                portions,
                trees={0: [(u, v) for u, peers in tree.items() for v in peers if u < v]},
                foreseen=encode_rows(foreseen),
            )
        )

    def _tree(self) -> dict[int, frozenset[int]]:
        """The neighbours of each broker in a tree that is drawn."""
        links, near = list(self._plotted.links), {u: set[int]() for u in self._late}
        self._draw.shuffle(links)
        root = list(near)
        for u, v in links:
            if root[u] != root[v]:
                old, new = root[u], root[v]
                root = [new if one == old else one for one in root]
                near[u].add(v)
                near[v].add(u)
        return {u: frozenset(peers) for u, peers in near.items()}


class VirtualCoordinator:
    """A coordinator that talks to brokers in the simulator, as ``control.applying`` does over HTTP."""

    def __init__(self, network: VirtualNetwork, name: str, now: float) -> None:
        self._network, self.name = network, name
        seen = self.seen()
        self._fence = max((one.fence for one in seen.values()), default=0) + 1
        for broker in seen:
            network.brokers[broker].fabric.lead.take(self._fence, name, now, force=True)
        self._package: bytes | None = None
        self.course: Course | None = None

    def seen(self) -> dict[int, Standing]:
        """What the brokers say that answer."""
        able = self._network.brokers.keys() - self._network.hung
        return {broker: standing_of(self._network.brokers[broker].fabric, self._network.now) for broker in able}

    def install(self, package: bytes, epoch: int) -> None:
        """Begins to install a plan."""
        everyone = frozenset(self._network.places)
        self._package, self.course = package, Course(everyone, epoch, PREPARING)
        self._tell(PREPARE, epoch, tuple(self.seen()))

    def resume(self) -> None:
        """Goes on with what another coordinator began."""
        seen = self.seen()
        epoch = latest_of(seen)
        has = all(any(one.epoch == epoch for one in found.epochs) for found in seen.values())
        forward = is_in_use(seen, epoch) or has
        self.course = Course(frozenset(self._network.places), epoch, PREPARING, forward, own=False)

    def turn(self, now: float) -> None:
        """Looks, and does what is next. Raises a ``RefusedError`` if another coordinator leads."""
        assert self.course is not None
        step = self.course.turn(self.seen(), now)
        for action in step.actions:
            self._tell(action.kind, action.epoch, action.brokers)

    def _tell(self, kind: str, epoch: int, brokers: tuple[int, ...]) -> None:
        for broker in brokers:
            made = self._network.brokers.get(broker)
            if made is None or broker in self._network.hung:
                continue
            epochs = made.fabric.epochs
            made.fabric.lead.follow(self._fence, self.name, self._network.now)
            if kind == PREPARE:
                if self._package is not None:
                    epochs.install(self._package)
            elif kind == ACTIVATE:
                epochs.activate(epoch)
            elif kind == GIVE_UP:
                epochs.give_up(epoch)
            else:
                assert kind in (ABORT, RETIRE)
                epochs.retire(epoch)


class Drama:
    """One schedule of a network that plans are installed on."""

    def __init__(self, seed: int) -> None:
        self.plotted = Plotted.drawn(seed)
        self._plans = Plans(self.plotted, seed)
        self.network = VirtualNetwork(self._plans.places(), seed, self.plotted.durable, kernels=seed % 2 == 0)
        asked = tuple(Asked(topic, qos) for qos, topic in TOPICS.items())
        self.publisher, self.subscriber = Steady("publisher"), Steady("subscriber", asked)
        self.network.attach(self.publisher, 0)
        self.network.attach(self.subscriber, self.plotted.brokers - 1)
        self._coordinator: VirtualCoordinator | None = None
        self._count = self.installed = self.given_up = self._sent = 0
        self._pending = list(self.plotted.failures)
        self._mending: list[tuple[float, Failure]] = []

    def run(self) -> Ended:
        """Publishes and installs while things fail, until all is over."""
        self._until_quiet()
        begins = self.network.now
        until = begins + PATIENCE
        while self.network.now < until:
            self._publish()
            self._fail(self.network.now - begins)
            self._coordinate()
            self.network.step()
            if self._is_over():
                break
        self._until_quiet()
        epochs = [broker.fabric.epochs.installed for broker in self.network.brokers.values()]
        return Ended(judged(self.publisher, self.subscriber, False, 0), epochs, self.installed, self.given_up)

    def _is_over(self) -> bool:
        return (
            self.installed + self.given_up >= SWITCHES
            and self._sent >= EVENTS
            and not self._pending
            and not self._mending
            and self._coordinator is None
            and self._is_stable()
        )

    def _is_stable(self) -> bool:
        seen = {broker: standing_of(made.fabric, self.network.now) for broker, made in self.network.brokers.items()}
        step = next_step(frozenset(self.network.places), seen)
        if step.state != STABLE and self._coordinator is None:
            self._begin(resumes=True)
        return step.state == STABLE

    def _publish(self) -> None:
        if self._sent < EVENTS and len(self.publisher.inflight) < 20:
            for qos, topic in TOPICS.items():
                self.network.publish(self.publisher, topic, self._sent, qos)
            self._sent += 1

    # Failures

    def _fail(self, since: float) -> None:
        for failure in [one for one in self._pending if one.after <= since]:
            self._pending.remove(failure)
            self._mending.append((self.network.now + failure.seconds, failure))
            self._begin_failure(failure)
        for ends, failure in list(self._mending):
            if self.network.now >= ends:
                self._mending.remove((ends, failure))
                self._mend(failure)

    def _begin_failure(self, failure: Failure) -> None:
        network, victim = self.network, failure.victim
        if failure.kind == KILLED and victim in network.brokers:
            network.kill(victim)
        elif failure.kind == HUNG and victim in network.brokers:
            network.hung.add(victim)
        elif failure.kind == CUT:
            network.cut(self.plotted.links[victim])
        elif failure.kind == COORDINATOR:
            self._coordinator = None
        elif failure.kind == SECOND and self._coordinator is not None:
            first = self._coordinator
            self._begin(resumes=True)
            try:
                first.turn(network.now)
                assert first.course is not None
            except RefusedError:
                pass

    def _mend(self, failure: Failure) -> None:
        network, victim = self.network, failure.victim
        if failure.kind == KILLED and victim not in network.brokers:
            network.start(victim)
        elif failure.kind == HUNG:
            network.hung.discard(victim)
        elif failure.kind == CUT:
            network.cut_wires.discard(self.plotted.links[victim])

    # Coordinators

    def _begin(self, resumes: bool) -> None:
        self._count += 1
        made = VirtualCoordinator(self.network, f"coordinator {self._count}", self.network.now)
        seen = made.seen()
        if not seen:
            return
        if resumes:
            made.resume()
        else:
            epoch = next_epoch(seen)
            made.install(self._plans.package(epoch, self._members()), epoch)
        self._coordinator = made

    def _coordinate(self) -> None:
        """A coordinator looks, and does what is next; or one begins, with what was left or with another plan."""
        if self._coordinator is None:
            if self._mending and any(one.kind == COORDINATOR for _, one in self._mending):
                return
            able = self.network.brokers.keys() - self.network.hung
            if not self._is_settled():
                self._begin(resumes=True)
            elif self.installed + self.given_up < SWITCHES and len(able) == len(self.network.places):
                self._begin(resumes=False)
            return
        try:
            self._coordinator.turn(self.network.now)
        except RefusedError:
            self._coordinator = None
            return
        course = self._coordinator.course
        assert course is not None
        if course.is_over or course.is_stuck:
            self.installed += course.is_over and not course.note
            self.given_up += bool(course.note)
            self._coordinator = None

    def _is_settled(self) -> bool:
        able = self.network.brokers.keys() - self.network.hung
        seen = {broker: standing_of(self.network.brokers[broker].fabric, self.network.now) for broker in able}
        return not seen or next_step(frozenset(self.network.places), seen).state in (STABLE, "waiting")

    def _members(self) -> dict[int, list[Member]]:
        """The subscriptions that are live, all in flow 0."""
        found: dict[int, list[Member]] = {}
        for broker, made in self.network.brokers.items():
            for id_, home in made.state.router.state.homes.items():
                if not home.planned and not made.state.is_elsewhere(id_):
                    member = Member(0, id_, home.client, home.filter, home.no_local, home.version)
                    found.setdefault(broker, []).append(member)
        return found

    def _until_quiet(self) -> None:
        until, quiet = self.network.now + PATIENCE, 0
        while quiet < 10:
            self._coordinate_to_the_end()
            self.network.step()
            quiet = quiet + 1 if self.network.is_idle and self.subscriber.is_subscribed else 0
            if self.network.now > until:
                raise OverstoryError(f"the network is not quiet after {PATIENCE:g} seconds")

    def _coordinate_to_the_end(self) -> None:
        """What was left half done is ended."""
        if self._sent and (self._coordinator is not None or not self._is_settled()):
            self._coordinate()


def simulated(seed: int) -> Ended:
    """Draws a schedule by its seed, and lets it happen."""
    return Drama(seed).run()


def main(first: int, last: int) -> int:
    wrong = installed = given_up = 0
    for seed in range(first, last):
        try:
            ended = simulated(seed)
            installed, given_up = installed + ended.installed, given_up + ended.given_up
            problem = "" if ended.is_right else f"{ended}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            wrong += 1
            print(f"seed {seed}: {problem}\n  {Plotted.drawn(seed)}", flush=True)
    print(f"{last - first} schedules, {installed} plans installed, {given_up} given up, {wrong} schedules wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
