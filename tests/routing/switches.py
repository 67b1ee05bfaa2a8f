"""Plans that take each other's place in a storm, and brokers that restart: what a shell has to do, and nothing more.

1. Brokers are told to install a plan one after the other. Once all have said that they hold it, they are told to
   activate it, one after the other. A broker that says that an epoch has drained there is told to retire it, whatever
   the others are doing. A plan that nobody has activated yet may be given up.
2. A broker that restarts has lost everything, and comes with a higher incarnation. It is told what has ended of that
   which its plans still know; it installs the epochs that others may have, and activates the one that the network is
   on. Its clients come back, or do not. When it is up, and for whom, is a matter of links: before or after all that.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from overstory.model.tables import PATHS, STEINER, TREE
from overstory.routing.messages import LATE, Key
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share, with_regions

from .network import TRUE, Link, random_tree

if TYPE_CHECKING:
    from .storm import Storm

CLIENT = 1000  # of broker b: 1000 + b
LEASE = 20
BETTER = 1  # the flow that late subscriptions may move to
Trees = Mapping[int, list[Link]]  # by flow


class Coordinator:
    def __init__(self, storm: "Storm", size: int, everyone: bool, plans_switch: bool) -> None:
        self.storm, self.dice, self.size, self.everyone = storm, storm.dice, size, everyone
        flows = [LATE, BETTER] if storm.two_flows else [LATE]
        self._variants: list[Trees] = [
            {flow: random_tree(self.dice, size) for flow in flows} for _ in range(3 if plans_switch else 1)
        ]
        self.kind, self.ordered, extra = TREE, False, set[Link]()
        if storm.steered:  # summaries take the late tree, and events any link
            self._variants = [dict.fromkeys(flows, trees[LATE]) for trees in self._variants]
            self.kind, self.ordered = self.dice.choice([PATHS, STEINER, STEINER]), self.dice.random() < 0.4
            # A plan that takes long to install must not meet leases that run out while events wait
            self.ordered &= not (plans_switch and storm.links_fail) and not storm.regions
            extra = {tuple(sorted(self.dice.sample(range(size), 2))) for _ in range(size)}  # type: ignore[misc]
        self.links = sorted({link for trees in self._variants for tree in trees.values() for link in tree} | extra)
        self.prices = {end: float(self.dice.randint(0, 5)) for link in self.links for end in both_ends(link)}
        self.active = self.latest = 0  # epochs
        self.pending: int | None = None  # the one that is being installed, or activated
        self.activated: set[int] = set()  # brokers that use the pending one
        self.shares: dict[int, dict[int, Share]] = {}
        self.better: dict[int, set[Key]] = defaultdict(set)  # by epoch: subscriptions in the better flow
        self._trees: dict[int, Trees] = {}
        self.recovering: dict[int, list[int]] = {}  # brokers that have restarted, and who is still to come back
        self.switches = self.restarts = 0
        self.finishing = False  # no other plan begins
        self._plan(0, {})

    @property
    def trees(self) -> Trees:
        return self._trees[self.active]

    def _plan(self, epoch: int, members: Mapping[int, list[Member]]) -> None:
        self._trees[epoch] = self.dice.choice(self._variants)
        self.shares[epoch] = shares(epoch, self._trees[epoch], self.size, self.everyone, members)
        if self.kind != TREE:
            self.shares[epoch] = steered_shares(self.shares[epoch], self.kind, self.ordered, self.prices)
        if self.storm.regions:
            self.shares[epoch] = regional_shares(
                self.shares[epoch], random_regions(self.dice, self._trees[epoch][LATE])
            )

    # Plans

    def step(self) -> None:
        """The next thing that can be done for a switch."""
        network, routers = self.storm.network, self.storm.routers
        if network.drained and (self.finishing or self.dice.random() < 0.5):
            self.retire()
        elif self.pending is None:
            self._begin()
        elif waiting := [broker for broker, router in routers.items() if self._may_install(broker, router)]:
            if self.dice.random() < 0.05 and not self.finishing:
                self._give_up()
            else:
                broker = self.dice.choice(waiting)
                self.storm.do(broker, routers[broker].install(self.shares[self.pending][broker]))
        elif self._is_held():
            ready = sorted(routers.keys() - self.activated - self.recovering.keys())
            if ready:
                self._activate(self.dice.choice(ready))

    def _may_install(self, broker: int, router: Router) -> bool:
        return self.pending not in router.state.epochs and broker not in self.recovering

    def _is_held(self) -> bool:
        held = {broker for broker, epoch in self.storm.network.held if epoch == self.pending}
        return bool(self.activated) or held == set(self.storm.routers)

    def _begin(self) -> None:
        """A plan that knows most of the subscriptions as they are now."""
        self.latest += 1
        self.pending, self.activated = self.latest, set()
        members: dict[int, list[Member]] = defaultdict(list)
        for id_, (broker, version, wanted) in self.storm.at.items():
            flow = self.dice.choice([None, *self._trees[0]])
            if flow is not None:
                members[broker].append(Member(flow, id_, CLIENT + broker, wanted, version=version))
            if flow == BETTER:
                self.better[self.pending].add((id_, version))
        self._plan(self.pending, members)

    def _activate(self, broker: int) -> None:
        assert self.pending is not None
        self.storm.do(broker, self.storm.routers[broker].activate(self.pending))
        self.activated.add(broker)
        if self.activated == set(self.storm.routers):
            self.active, self.pending = self.pending, None
            self.switches += 1

    def _give_up(self) -> None:
        assert self.pending is not None
        for broker, router in self.storm.routers.items():
            if self.pending in router.state.epochs:
                self.storm.do(broker, router.retire(self.pending))
        del self.shares[self.pending]
        self.pending = None

    def retire(self) -> None:
        drained = self.storm.network.drained
        broker, epoch = drained.pop(self.dice.randrange(len(drained)))
        self.storm.do(broker, self.storm.routers[broker].retire(epoch))

    def finish(self) -> None:
        """Whatever has begun comes to its end, if nothing is stuck."""
        storm, left, self.finishing = self.storm, 20 * len(self.storm.routers), True
        while self.pending is not None:
            self.step()
            storm.settle()
            left -= 1
            assert left, f"epoch {self.pending} is stuck"
        if storm.steered:  # steered events that were lost are given up after two leases
            storm.leases(8 if storm.regions else 4)  # by gateways, and then by hosts
        while storm.network.drained:
            self.step()
            storm.settle()
            left -= 1
            assert left, f"epoch {self.pending} is stuck"
        for broker, router in storm.routers.items():
            assert list(router.state.epochs) == [self.active], f"broker {broker} does not get rid of an epoch"

    # Subscriptions

    def is_late(self, id_: int) -> bool:
        """Whether it can move to the better flow now, as its broker sees it."""
        broker, version, _ = self.storm.at[id_]
        state = self.storm.routers[broker].state
        home = state.homes.get(id_)
        if home is None or home.version != version or state.active is None:
            return False
        return (state.active, LATE) in home.joined and (id_, version) not in self.better[state.active]

    def move(self, id_: int) -> None:
        broker, version, _ = self.storm.at[id_]
        router = self.storm.routers[broker]
        assert router.state.active is not None
        self.better[router.state.active].add((id_, version))
        self.storm.do(broker, router.move(id_, BETTER))

    # Restarts

    def restart(self) -> None:
        """A broker loses all that it knew; for now it is cut off."""
        storm, broker = self.storm, self.dice.choice(sorted(self.storm.routers))
        if self.recovering:
            return
        self.restarts += 1
        for link in self.links:
            if broker in link and link not in storm.cut:
                storm.cut_off(link)
        for end in [end for end in storm.unnoticed if end[0] == broker]:
            del storm.unnoticed[end]  # it knows of no neighbours
        before = storm.routers[broker].state
        storm.routers[broker] = Router(
            broker,
            storm.policy,
            LEASE,
            now=storm.now,
            incarnation=before.incarnation + 1,
            slice_=storm.network.slice,
            tells_served=True,
        )
        storm.network.served = [each for each in storm.network.served if each[0] != broker]
        storm.asked = {each for each in storm.asked if each[0] != broker}
        storm.network.held = [each for each in storm.network.held if each[0] != broker]
        storm.network.drained = [each for each in storm.network.drained if each[0] != broker]
        self.activated.discard(broker)
        self._lose_clients(broker)
        self._say_what_has_ended(broker)

    def _lose_clients(self, broker: int) -> None:
        """One in five of them does not come back; what moved between flows is where the plans have it."""
        storm, returning = self.storm, []
        for id_, (at, version, wanted) in list(storm.at.items()):
            if at == broker:
                self._forget_moves(broker, id_, version)
                storm._not_required(id_, wanted)
                if self.dice.random() < 0.2:
                    del storm.at[id_]
                else:
                    returning.append(id_)
        self.dice.shuffle(returning)
        self.recovering[broker] = returning

    def _forget_moves(self, broker: int, id_: int, version: int) -> None:
        for epoch, keys in self.better.items():
            members = self.shares[epoch][broker].members if epoch in self.shares else ()
            planned = any(
                each.flow == BETTER and (each.subscription, each.version) == (id_, version) for each in members
            )
            if (id_, version) in keys and not planned:
                keys.discard((id_, version))
                for event in self.storm.pending:
                    self.storm.may_repeat[event].add(id_)

    def _say_what_has_ended(self, broker: int) -> None:
        for plan in self.shares.values():
            for member in plan[broker].members:
                at, version, _ = self.storm.at.get(member.subscription, (-1, -1, TRUE))
                if (at, version) != (broker, member.version):
                    self.storm._unsubscribe(member.subscription, broker, member.version)

    def recover(self) -> None:
        """One step: the next epoch, a client, or the last."""
        if not self.recovering:
            return
        broker = self.dice.choice(sorted(self.recovering))
        router, returning = self.storm.routers[broker], self.recovering[broker]
        missing = [epoch for epoch in self._alive(broker) if epoch not in router.state.epochs]
        if returning and (not missing or self.dice.random() < 0.5):
            self._comes_back(broker, returning.pop())
        elif missing:
            self.storm.do(broker, router.install(self.shares[missing[0]][broker]))
        else:
            del self.recovering[broker]
            self._announce_again(broker)
            if self.activated and self.pending is not None:
                self._activate(broker)
            else:
                self.storm.do(broker, router.activate(self.active))

    def _alive(self, broker: int) -> list[int]:
        """What others may still have, and what it has itself; the pending plan only once it is used."""
        latest = self.active if self.pending is None or not self.activated else self.pending
        routers = self.storm.routers
        found = {epoch for router in routers.values() for epoch in router.state.epochs if epoch <= latest}
        return sorted(found | {latest})

    def _comes_back(self, broker: int, id_: int) -> None:
        """As it was, or with a new version; unless it has gone elsewhere meanwhile."""
        storm = self.storm
        at, version, wanted = storm.at.get(id_, (-1, 0, TRUE))
        if at != broker:
            return
        if id_ in storm.routers[broker].state.homes and storm.routers[broker].state.homes[id_].planned is False:
            return  # it has been here
        storm._subscribe(id_, broker, version + self.dice.randrange(2), wanted)

    def _announce_again(self, broker: int) -> None:
        storm = self.storm
        if self.everyone and broker in storm.narrowed:
            storm.do(broker, storm.routers[broker].narrow())
        for id_, (at, version, announced) in storm.announced.items():
            if at == broker:
                storm.do(broker, storm.routers[broker].advertise(CLIENT + broker, id_, version, announced))


def shares(
    epoch: int, trees: Trees, size: int, everyone_advertises: bool, members: Mapping[int, list[Member]]
) -> dict[int, Share]:
    """Of a plan in which every flow carries everything."""

    def near(broker: int, tree: Iterable[Link]) -> frozenset[int]:
        return frozenset(end for link in tree if broker in link for end in link) - {broker}

    planned = {member.subscription: member.version for some in members.values() for member in some}
    return {
        broker: Share(
            epoch,
            {flow: FlowShare(flow, TRUE, near(broker, tree), {}, everyone_advertises) for flow, tree in trees.items()},
            tuple(members.get(broker, ())),
            planned,
        )
        for broker in range(size)
    }


def steered_shares(plan: Mapping[int, Share], kind: str, ordered: bool, prices: dict[Link, float]) -> dict[int, Share]:
    """The same plan, whose better flow is steered."""
    return {
        broker: msgspec.structs.replace(
            share,
            flows=share.flows | {BETTER: msgspec.structs.replace(share.flows[BETTER], kind=kind, ordered=ordered)},
            prices=prices,
        )
        for broker, share in plan.items()
    }


def regional_shares(plan: Mapping[int, Share], gateway_of: dict[int, int]) -> dict[int, Share]:
    """The same plan, whose better flow, which is steered, has regions."""
    tree = {broker: share.flows[LATE].neighbours for broker, share in plan.items()}
    made = with_regions({broker: share.flows[BETTER] for broker, share in plan.items()}, tree, gateway_of)
    return {
        broker: msgspec.structs.replace(share, flows=share.flows | {flow.number: flow for flow in made[broker]})
        for broker, share in plan.items()
    }


def random_regions(dice: random.Random, tree: Iterable[Link]) -> dict[int, int]:
    """The gateway of each broker: the tree falls into pieces."""
    region = {end: {end} for link in tree for end in link}
    for u, v in tree:
        if dice.random() < 0.6:
            region[u] |= region[v]
            for each in region[v]:
                region[each] = region[u]
    found: dict[int, int] = {}
    for broker in sorted(region):
        if broker not in found:
            found |= dict.fromkeys(region[broker], dice.choice(sorted(region[broker])))
    return found


def both_ends(link: Link) -> tuple[Link, Link]:
    return link, (link[1], link[0])
