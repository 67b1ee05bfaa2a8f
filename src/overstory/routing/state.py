"""The state of a router, and the few changes of state that all inputs are made of."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from overstory.errors import EpochError
from overstory.filters import Filter
from overstory.routing.epoch import Epoch
from overstory.routing.flow import Flow, Orders
from overstory.routing.foreseen import Coming
from overstory.routing.link_state import LinkStates
from overstory.routing.messages import (
    LATE,
    Begin,
    Compare,
    Drained,
    Gate,
    Held,
    Key,
    Output,
    Packed,
    Probe,
    Reach,
    Renew,
    Retired,
    Send,
    Settled,
    Subscribe,
    Unsubscribe,
)
from overstory.routing.outlet import Order
from overstory.routing.policy import Policy
from overstory.routing.share import Member
from overstory.routing.tombstones import Tombstones

FOLLOWING = (Settled, Probe, Reach)  # messages that follow subscriptions, and must not come before them
Memberships: TypeAlias = frozenset[tuple[int, int]]  # epochs and flows
MOST_SHARED = 1000  # sets of memberships; most subscriptions have one of a few


class Home(msgspec.Struct):
    """A subscription whose client is at this broker, its host, and the flows that it has joined."""

    client: int
    version: int
    filter: Filter
    no_local: bool
    joined: Memberships
    planned: bool = False  # the subscription came with a plan; no client has made it here


class State:
    """All that one router knows, apart from the subscriptions that are between two flows (``moves``)."""

    def __init__(self, broker: int, policy: Policy, incarnation: int, lease: float) -> None:
        self.broker, self.policy, self.incarnation, self.lease = broker, policy, incarnation, lease
        self.now = 0.0
        self.epochs: dict[int, Epoch] = {}
        self.active: int | None = None  # the epoch that events are stamped with
        self.retired = -1  # this epoch was let go, and so were all before it
        self.links = LinkStates(broker, incarnation)
        self.away: dict[int, float] = {}  # neighbours that are down, and since when
        self.homes: dict[int, Home] = {}
        self.announced: dict[int, tuple[int, Key, Filter]] = {}  # by clients here: client, advertisement, filter
        self.unannounced: Tombstones[int] = Tombstones()  # advertisements that clients here took back
        self.narrowed = False  # whether clients here publish only what they have advertised
        self.ended: Tombstones[int] = Tombstones()  # subscriptions that clients here took back
        self.incarnations: dict[int, int] = {}  # of neighbours
        self.retirements: dict[int, Retired] = {}  # the last such message of each neighbour
        self.too_early: dict[int, int] = {}  # the latest epoch of which a neighbour spoke before it was installed here
        self.dropped = 0  # messages that came too early
        self.said_drained: set[int] = set()  # epochs of which the shell knows that they have drained
        self.coming: dict[int, Coming] = {}  # epochs that are to be installed here, by their numbers
        self.leaving: dict[int, None] = {}  # subscriptions that may be in flows of epochs that were retired
        self._memberships: dict[Memberships, Memberships] = {}

    def same(self, joined: Memberships) -> Memberships:
        """The set that stands for all that equal it: many subscriptions share one, and its memory."""
        if len(self._memberships) > MOST_SHARED:
            self._memberships.clear()
        return self._memberships.setdefault(joined, joined)

    @property
    def up(self) -> set[int]:
        """The neighbours that are up."""
        return self.links.up

    def epoch(self, number: int) -> Epoch:
        """The epoch of this number. Raises an ``EpochError`` if it is not installed."""
        if number not in self.epochs:
            raise EpochError(f"epoch {number} is not installed at broker {self.broker}")
        return self.epochs[number]

    def has(self, number: int) -> bool:
        """Whether an epoch is installed here, or is about to be."""
        return number in self.epochs or number in self.coming

    def is_past(self, number: int) -> bool:
        """Whether an epoch that is not installed here was retired, or comes before the active one."""
        return number <= self.retired or (self.active is not None and number < self.active)

    def end(self, id_: int, version: int) -> None:
        """This version of a subscription, and all before it, have ended at this broker for good."""
        self.ended.add(id_, version, self.now)

    def flows(self) -> Iterable[tuple[int, Flow]]:
        """All flows of all epochs, each with the number of its epoch."""
        return ((number, flow) for number, epoch in self.epochs.items() for flow in epoch.flows.values())

    def introduced(self, number: int, peer: int) -> list[Output]:
        """Begins to tell a neighbour of an epoch. It may know something already, which may no longer hold.

        The two compare what they know. What follows subscriptions is told behind that.
        """
        outputs: list[Output] = []
        for flow in self.epochs[number].flows.values():
            if peer in flow.share.neighbours:
                if not outputs:
                    outputs.append(Send(peer, Begin(number, self.incarnation)))
                flow.outlets[peer].tasks.cut()
                if flow.share.everyone_advertises:
                    outputs.append(Send(peer, Gate(number, flow.share.number, flow.gate_to(peer))))
                outputs.append(self.comparison(number, flow, peer))
        return outputs + self.to_those_up(self.epochs[number].told_again(peer))

    def comparison(self, number: int, flow: Flow, peer: int) -> Send:
        """The message that begins to compare what this broker stands by in a flow with what a neighbour knows."""
        flow.let_go(peer)
        round_ = flow.outlets[peer].tasks.begin_round()
        return Send(peer, Compare(number, flow.share.number, round_, *flow.sums(peer)))

    def renewal(self, number: int, flow: Flow, peer: int) -> Send:
        """The message that renews all subscriptions and advertisements that this broker stands by in a flow."""
        return Send(peer, Renew(number, flow.share.number, *flow.totals(peer)))

    def gates(self, number: int, flow: Flow) -> list[Output]:
        """Tells those neighbours for which the gate of this flow has changed."""
        sends = [Send(peer, Gate(number, flow.share.number, is_open)) for peer, is_open in flow.gates()]
        return self.to_those_up(sends)

    def join_plan(self, epoch: Epoch) -> None:
        """Members of the plan whose clients are here are to join the plan's flows, one after the other.

        Subscriptions here that the plan does not know, or knows in an older version, are to join the late flow.
        """
        joining: dict[int, list[Member]] = {}
        for member in epoch.share.members:
            joining.setdefault(member.subscription, []).append(member)
        for id_ in (*self.homes, *epoch.own):
            joining.setdefault(id_, [])
        epoch.joining = joining

    def join_now(self, id_: int) -> list[Output]:
        """A subscription joins the plans that it is still to join, before anything happens to it."""
        joining = [epoch for epoch in self.epochs.values() if epoch.joining and id_ in epoch.joining]
        return [output for epoch in joining for output in self.join_next(epoch, id_)]

    def join_next(self, epoch: Epoch, id_: int) -> list[Output]:
        """A subscription joins a plan, unless it has ended since the plan was made."""
        assert epoch.joining is not None
        members = epoch.joining.pop(id_)
        outputs: list[Output] = []
        if members and not self.ended.holds(id_, members[0].version):
            home, first = self.homes.get(id_), members[0]
            if home is not None and home.version < first.version:
                outputs += self.leave_all(id_, home)
                home = None
            if home is None:
                parts = list(dict.fromkeys(member.filter for member in members))
                whole = parts[0].union(*parts[1:]) if parts[1:] else parts[0]
                home = self.homes[id_] = Home(
                    first.client, first.version, whole, first.no_local, frozenset(), planned=True
                )
            if home.version == first.version:
                for member in members:
                    outputs += self.join(epoch, home, id_, member.flow, member.filter)
        home = self.homes.get(id_)
        if home is not None and home.version > epoch.share.planned.get(id_, -1):
            outputs += self.join(epoch, home, id_, LATE, home.filter)
        for flow, key in epoch.own.pop(id_, ()):  # what has ended since the plan was made has not joined
            outputs += self.messages(epoch.share.epoch, flow, epoch.flows[flow].unforeseen(key))
        return outputs

    def forget_memberships(self, id_: int) -> None:
        """A subscription is no longer in flows of epochs that were retired. If it is in no other, it has gone."""
        home = self.homes.get(id_)
        if home is None:
            return
        home.joined = self.same(frozenset(joined for joined in home.joined if joined[0] in self.epochs))
        if not home.joined and (self.epochs or home.planned):  # else it waits for the next plan
            del self.homes[id_]

    def join(self, epoch: Epoch, home: Home, id_: int, flow: int, wanted: Filter) -> list[Output]:
        """A client's subscription joins one flow, with the part of its filter that the flow serves."""
        number, key = epoch.share.epoch, (id_, home.version)
        home.joined = self.same(home.joined | {(number, flow)})
        orders = epoch.flows[flow].subscribe(home.client, key, wanted, self.now, client=True, no_local=home.no_local)
        return self.messages(number, flow, orders)

    def leave_all(self, id_: int, home: Home) -> list[Output]:
        """A client's subscription leaves all its flows."""
        joined = sorted(membership for membership in home.joined if membership[0] in self.epochs)
        return [output for number, flow in joined for output in self.leave(number, flow, id_, home)]

    def leave(self, number: int, flow: int, id_: int, home: Home, withdrawn: bool = False) -> list[Output]:
        """A client's subscription leaves one flow. The policy decides how far the unsubscription goes.

        ``withdrawn`` means that the subscription goes on in other flows. It may come again under the same version, if
        its broker restarts and does not know of its move.
        """
        epoch, key = self.epochs[number], (id_, home.version)
        entry = epoch.flows[flow].entries.get((home.client, key))
        prunes = None
        if entry is not None and self.policy.statistics and flow not in epoch.steered.place_of:
            seen = epoch.window.take(epoch.table.serial(entry.number), self.now)
            if (seen.advertisements >= 0).all():  # else some came from a publisher whose place in the tree is unknown
                prunes = self.policy.prunes(seen, epoch.flows[flow].matched_by(entry.filter))
        home.joined = self.same(home.joined - {(number, flow)})
        orders = epoch.flows[flow].unsubscribe(home.client, key, self.now, prunes, withdrawn)
        return self.messages(number, flow, orders)

    def to_those_up(self, sends: Sequence[Send]) -> list[Output]:
        """Only the messages for neighbours that are up. The other neighbours are told when they come up.

        Messages that follow subscriptions are held back while their neighbour is not told of all of these.
        """
        outputs: list[Output] = []
        for send in sends:
            if send.peer not in self.up:
                continue
            if isinstance(send.message, FOLLOWING):
                tasks = self.epochs[send.message.epoch].flows[send.message.flow].outlets[send.peer].tasks
                if tasks.held_back or not tasks.is_clear:
                    tasks.held_back.append(send.message)
                    continue
            outputs.append(send)
        return outputs

    def let_go(self, number: int, flow: Flow, peer: int) -> list[Output]:
        """The messages that were held back, if the neighbour has been told of all subscriptions now."""
        tasks = flow.outlets[peer].tasks
        if not tasks.held_back or not tasks.is_clear:
            return []
        held_back, tasks.held_back = tasks.held_back, []
        return [Send(peer, message) for message in held_back]

    def held(self, number: int) -> list[Output]:
        """The output that says that this broker holds the epoch, if it does."""
        return [Held(number)] if self.epochs[number].is_held else []

    def drained(self, number: int) -> list[Output]:
        """The output that says that the epoch has drained here, if it has. It is said once."""
        if number in self.said_drained or not self.epochs[number].has_drained:
            return []
        self.said_drained.add(number)
        return [Drained(number)]

    def messages(self, epoch: int, flow: int, orders: Orders) -> list[Output]:
        """Turns orders into messages for neighbours that are up. A policy that packs has one message for each.

        At a gateway what changes in a flow may change the summary of its region, which is told in the flow above.
        """
        region = getattr(self.epochs[epoch].flows[flow], "region", None)  # of a steered flow at a gateway
        further = [] if region is None else self.messages(epoch, region.share.number, region.take_orders())
        return self._packed(epoch, flow, orders) + further

    def _packed(self, epoch: int, flow: int, orders: Orders) -> list[Output]:
        """The messages for orders of one flow."""
        said = [(peer, self._message(epoch, flow, order)) for peer, order in orders if peer in self.up]
        if not self.policy.packs or len(said) < 2:
            return [Send(peer, message) for peer, message in said]
        by_peer: dict[int, list[Subscribe | Unsubscribe]] = {}
        for peer, message in said:
            by_peer.setdefault(peer, []).append(message)
        return [
            Send(peer, messages[0] if len(messages) == 1 else Packed(tuple(messages)))
            for peer, messages in by_peer.items()
        ]

    def _message(self, epoch: int, flow: int, order: Order) -> Subscribe | Unsubscribe:
        """The message that tells a neighbour of one order."""
        if order.filter is None:
            return Unsubscribe(epoch, flow, order.key, order.prunes, order.withdrawn)
        host = self.epochs[epoch].flows[flow].host_of(order.key)
        return Subscribe(epoch, flow, order.key, order.filter, order.triggered, host)
