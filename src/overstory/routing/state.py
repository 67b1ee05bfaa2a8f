"""What a router knows, and the few changes that all inputs are made of."""

from collections.abc import Iterable, Sequence

import msgspec

from overstory.errors import EpochError
from overstory.filters import Filter
from overstory.routing.epoch import Epoch
from overstory.routing.flow import Flow, Orders
from overstory.routing.messages import (
    LATE,
    Advertise,
    Begin,
    Drained,
    Gate,
    Held,
    Key,
    Output,
    Packed,
    Renew,
    Retired,
    Send,
    Subscribe,
    Unsubscribe,
)
from overstory.routing.outlet import Order
from overstory.routing.policy import Policy
from overstory.routing.share import Member
from overstory.routing.tombstones import Tombstones


class Home(msgspec.Struct):
    """A subscription whose client is here, and the flows (epoch, flow) that it has joined."""

    client: int
    version: int
    filter: Filter
    no_local: bool
    joined: set[tuple[int, int]]
    planned: bool = False  # a plan has brought it here, no client


class State:
    def __init__(self, broker: int, policy: Policy, incarnation: int) -> None:
        self.broker, self.policy, self.incarnation = broker, policy, incarnation
        self.now = 0.0
        self.epochs: dict[int, Epoch] = {}
        self.active: int | None = None  # the epoch that events are stamped with
        self.retired = -1  # and all before it
        self.up: set[int] = set()
        self.homes: dict[int, Home] = {}
        self.announced: dict[int, tuple[int, Key, Filter]] = {}  # by clients here: client, advertisement, filter
        self.unannounced: Tombstones[int] = Tombstones()  # advertisements that clients here took back
        self.narrowed = False  # clients here publish nothing else
        self.ended: Tombstones[int] = Tombstones()  # subscriptions that clients here took back
        self.incarnations: dict[int, int] = {}  # of neighbours
        self.retirements: dict[int, Retired] = {}  # what each neighbour said last of the epochs that it has left
        self.too_early: dict[int, int] = {}  # the latest epoch of which a neighbour spoke before it was installed here
        self.dropped = 0  # messages that came too early

    def epoch(self, number: int) -> Epoch:
        if number not in self.epochs:
            raise EpochError(f"epoch {number} is not installed at broker {self.broker}")
        return self.epochs[number]

    def is_past(self, number: int) -> bool:
        """Whether an epoch that is not here will not come any more."""
        return number <= self.retired or (self.active is not None and number < self.active)

    def end(self, id_: int, version: int) -> None:
        """No client here has this version of the subscription any more, or an older one, nor will have."""
        self.ended.add(id_, version, self.now)

    def flows(self) -> Iterable[tuple[int, Flow]]:
        """With the epoch of each."""
        return ((number, flow) for number, epoch in self.epochs.items() for flow in epoch.flows.values())

    def introduced(self, number: int, peer: int, again: bool) -> list[Output]:
        """All that a neighbour has to know of an epoch. ``again``: it may know something that no longer holds."""
        flows = [flow for flow in self.epochs[number].flows.values() if peer in flow.share.neighbours]
        outputs: list[Output] = [Send(peer, Begin(number, self.incarnation))] if flows else []
        for flow in flows:
            outputs += self._told(number, flow, peer)
            if again:
                if flow.share.everyone_advertises:
                    outputs.append(Send(peer, Gate(number, flow.share.number, flow.gate_to(peer))))
                outputs.append(self.renewal(number, flow, peer))
        return outputs + list(self.epochs[number].said_again(peer)) if again else outputs

    def renewal(self, number: int, flow: Flow, peer: int) -> Send:
        """All that this broker has said in the flow and stands by."""
        return Send(peer, Renew(number, flow.share.number, flow.renewed(peer), flow.renewed_advertisements(peer)))

    def _told(self, number: int, flow: Flow, peer: int) -> list[Output]:
        outputs: list[Output] = [
            Send(peer, Advertise(number, flow.share.number, (id_, each.version), each.filter))
            for id_, each in flow.advertisements.items()
            if each.hop != peer
        ]
        return outputs + self.messages(number, flow.share.number, flow.open_outlet(peer))

    def gates(self, number: int, flow: Flow) -> list[Output]:
        return [Send(peer, Gate(number, flow.share.number, is_open)) for peer, is_open in flow.gates()]

    def join_plan(self, epoch: Epoch) -> list[Output]:
        """The plan's members here join their flows; subscriptions here that it does not know, or that were made anew
        since it was made, join the flow for late ones. What has ended since stays away."""
        outputs = []
        parts: dict[int, list[Member]] = {}
        for each in epoch.share.members:
            if not self.ended.holds(each.subscription, each.version):
                parts.setdefault(each.subscription, []).append(each)
        for id_, members in parts.items():
            home, first = self.homes.get(id_), members[0]
            if home is not None and home.version < first.version:
                outputs += self.left(id_, home)
                home = None
            if home is None:
                whole = first.filter.union(*[each.filter for each in members[1:]]) if members[1:] else first.filter
                home = self.homes[id_] = Home(first.client, first.version, whole, first.no_local, set(), planned=True)
            if home.version == first.version:
                for each in members:
                    outputs += self.join(epoch, home, id_, each.flow, each.filter)
        for id_, home in self.homes.items():
            if home.version > epoch.share.planned.get(id_, -1):
                outputs += self.join(epoch, home, id_, LATE, home.filter)
        return outputs

    def join(self, epoch: Epoch, home: Home, id_: int, flow: int, wanted: Filter) -> list[Output]:
        number, key = epoch.share.epoch, (id_, home.version)
        home.joined.add((number, flow))
        orders = epoch.flows[flow].subscribe(home.client, key, wanted, self.now, client=True, no_local=home.no_local)
        return self.messages(number, flow, orders)

    def left(self, id_: int, home: Home) -> list[Output]:
        """A subscription leaves all its flows."""
        joined = sorted(each for each in home.joined if each[0] in self.epochs)
        return [output for number, flow in joined for output in self.leave(number, flow, id_, home)]

    def leave(self, number: int, flow: int, id_: int, home: Home) -> list[Output]:
        """As far as the window of statistics says."""
        epoch, key = self.epochs[number], (id_, home.version)
        entry = epoch.flows[flow].entries.get((home.client, key))
        prunes = None
        if entry is not None and self.policy.statistics:
            seen = epoch.window.of(epoch.table.serial(entry.number), self.now)
            if (seen.advertisements >= 0).all():  # else publishers are about of whom nobody knows where they are
                prunes = self.policy.prunes(seen, epoch.flows[flow].matched_by(entry.filter))
        home.joined.discard((number, flow))
        orders = epoch.flows[flow].unsubscribe(home.client, key, self.now, prunes, withdrawn=False)
        return self.messages(number, flow, orders)

    def to_those_up(self, sends: Sequence[Send]) -> list[Output]:
        """The others are told when they come up."""
        return [each for each in sends if each.peer in self.up]

    def held(self, number: int) -> list[Output]:
        return [Held(number)] if self.epochs[number].is_held else []

    def drained(self, number: int) -> list[Output]:
        return [Drained(number)] if self.epochs[number].has_drained else []

    def messages(self, epoch: int, flow: int, orders: Orders) -> list[Output]:
        """Orders as messages. With packing all for one neighbour are one."""
        if not self.policy.packs or len(orders) < 2:
            return [Send(peer, _message(epoch, flow, order)) for peer, order in orders]
        by_peer: dict[int, list[Subscribe | Unsubscribe]] = {}
        for peer, order in orders:
            by_peer.setdefault(peer, []).append(_message(epoch, flow, order))
        return [Send(peer, some[0] if len(some) == 1 else Packed(tuple(some))) for peer, some in by_peer.items()]


def _message(epoch: int, flow: int, order: Order) -> Subscribe | Unsubscribe:
    if order.filter is None:
        return Unsubscribe(epoch, flow, order.key, order.prunes, order.withdrawn)
    return Subscribe(epoch, flow, order.key, order.filter, order.triggered)
