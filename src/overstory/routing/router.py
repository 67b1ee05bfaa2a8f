"""A broker's mind: inputs in, outputs out. It has no I/O, no clock and no randomness; ``tick`` tells it the time.

What may be relied on:

1. Every input returns the messages to be sent, in order. As long as links keep that order, no event is lost and none
   is delivered twice.
2. An impossible input raises a ``RoutingError`` and leaves the state as it was:
   ``UnknownTreeError`` for a flow that the epoch does not have, or a sender that is no neighbour in the flow's tree;
   ``EpochError`` for an epoch that is not installed, is installed already, or has not drained;
   ``VersionError`` for a subscription or an advertisement that says something else under the same version.
3. Old news is ignored: a message that repeats an earlier one; an unsubscription of a subscription never seen, or of a
   version that a newer one has replaced; a subscription that has ended; a ``Prune`` for an unknown advertisement; a
   message of a retired epoch.
4. A message of an epoch that is not installed yet is dropped, because the neighbour may have been told of the plan
   first. Once the epoch is installed, the neighbour is asked to begin again. Until it begins, its messages of that
   epoch do not count, except for answers to what this broker has told it.
5. A subscription whose id comes with a higher version replaces the older version at this broker. One that another
   broker has made stays beside it: events may be under way to the older one alone, also such as wait for a broker that
   is down and come behind the news of the newer one. So whoever moves a client waits until the newer version is
   ``Served``, flushes the older one at the old broker (``flush``), and then unsubscribes it there.
6. A neighbour that is down is told nothing. The subscriptions and advertisements that it sent stay for two leases.
   When the neighbour is up again, the two compare what they know by digests, and only the differences are told.
7. A broker that restarts comes with a higher incarnation. It installs every epoch that others may still have, and then
   activates the one that the network is on. All messages of its earlier incarnations are void, whether it comes up
   before or after it installs. Frames of an epoch that is not installed raise an ``EpochError``, and are lost.
8. An epoch that has drained here may be retired at once. A neighbour that lost the last marker is told that nothing
   more of this epoch comes from here.
9. The time is that of the last ``tick``. Messages between two ticks count as arriving at the earlier tick. Leases are
   checked at a tick: a subscription or an advertisement of a neighbour has run out if it was last renewed more than
   two leases before the previous tick. So where ticks are evenly spaced, it stays for at least two leases from the
   later of the two ticks that it came between.

10. No input takes long, however many subscriptions there are: it does ``slice_`` items of work at most, and leaves the
    rest to ``work``, which is to be called while ``has_work``. Messages that must not come before subscriptions are
    held back meanwhile, so it does not matter when. (A policy may have much to say at once all the same: ``active``,
    for one, when a subscription leaves that covered many.)

How to think about it: an epoch has flows, a flow has a tree, and each neighbour in a tree has an outlet. The outlet
holds the subscriptions that the neighbour was told of (``outlet``), and a policy decides which these are (``policy``).
The forwarding table is the other direction: the subscriptions that neighbours and clients told this broker of, as one
index for all flows (``table``). Control messages come one at a time. Publications come in batches and leave as arrays.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from overstory.errors import EpochError, RoutingError, UnknownTreeError, VersionError
from overstory.filters import Filter
from overstory.matching import Batch, Matches
from overstory.model.values import Attributes
from overstory.routing.arrivals import Waiting
from overstory.routing.epoch import Epoch
from overstory.routing.foreseen import Coming
from overstory.routing.frames import NOTHING_WRONG, NOWHERE, Flows, Frames, Header, Ints, Routed, Steered
from overstory.routing.law import PUBLISHING_BROKER
from overstory.routing.messages import (
    LATE,
    Acknowledge,
    Advertise,
    Begin,
    Key,
    LinkState,
    Message,
    Output,
    Packed,
    Released,
    Resynchronise,
    Retired,
    Send,
    Unadvertise,
)
from overstory.routing.moves import Moves
from overstory.routing.neighbours import (
    ANSWERS,
    HANDLERS,
    MOVING,
    SERVING,
    advertised,
    check,
    check_together,
    left_epochs,
    ran_out,
    unadvertised,
    voided,
)
from overstory.routing.policy import Policy
from overstory.routing.service import Service
from overstory.routing.share import Share
from overstory.routing.state import Home, State
from overstory.routing.steered_flows import NOTHING_SENT, Here
from overstory.routing.summaries import SteeredFlow
from overstory.routing.work import has_work, work
from overstory.wire.steering import FAULTS

FOR_EVER = float("inf")
WINDOW = 3600.0  # seconds of statistics
SLICE = 64  # items of long work that one input does at most


class RouterStatistics(msgspec.Struct, frozen=True):
    """How much a router holds, as counts at one moment."""

    entries_core: int  # in the forwarding tables of all epochs, for other brokers
    entries_access: int  # the same for clients
    behind_rows: int  # subscriptions of clients that rows of the plan stand for, and that are no entries by themselves
    subscriptions: int  # of clients here
    sent: int  # subscriptions that neighbours hold from here
    left_over: int  # sent subscriptions that no hop stands behind any more
    epochs: int
    window: int  # rows of publication statistics
    ended: int  # tombstones: unsubscriptions and unadvertisements that are remembered
    dropped: int  # messages of epochs that were not installed yet, since the router began
    waiting: int = 0  # events of ordered flows that wait for those before them
    wrong_headers: int = 0  # headers of steered frames that could not be followed
    header_faults: dict[str, int] = {}  # the same by what is wrong with them, in words
    unreachable: int = 0  # ends of steered events that could not be reached

    @property
    def entries(self) -> int:
        """How many entries there are, on core and access links."""
        return self.entries_core + self.entries_access


class Router:
    """The mind of one broker. Inputs are methods, and return the outputs that the broker's shell has to act on."""

    def __init__(
        self,
        broker: int,
        policy: Policy,
        lease: float = FOR_EVER,
        window: float = WINDOW,
        now: float = 0.0,
        incarnation: int = 0,
        slice_: int = SLICE,
        tells_served: bool = False,
    ) -> None:
        """``incarnation`` is a higher number each time that the broker restarts without its state.

        ``slice_`` is how many items of long work one input does at most; the rest is left to ``work``. With
        ``tells_served``, an output ``Served`` follows each subscription of a client, at the price of a flush.
        """
        self.slice = slice_
        self.lease = lease
        self.state = State(broker, policy, incarnation, lease)
        self.state.now = self._renewed = now
        self._window = window
        self._policy_ticked = float("-inf")  # when the policy last looked at the orders that wait
        self._moves = Moves(self.state)
        self._service = Service(self.state, self._moves.served)
        self._tells_served = tells_served

    # Neighbours and plans

    def neighbour_up(self, peer: int) -> list[Output]:
        """A neighbour is up: it is told everything, and asked again about the epochs that it spoke of too early."""
        if peer in self.state.up:
            return []
        self.state.away.pop(peer, None)
        outputs: list[Output] = [*self.state.links.neighbour_up(peer)]
        if self.state.active is not None:
            outputs.append(Send(peer, self._retired()))
        for number, epoch in self.state.epochs.items():
            outputs += self._introduced(number, peer)
            if peer in epoch.not_begun:
                outputs.append(Send(peer, Resynchronise(number)))
        return outputs + self._some_work()

    def _introduced(self, number: int, peer: int) -> list[Output]:
        """Tells a neighbour of an epoch, as far as it does not know it, and of all that is to follow."""
        return self.state.introduced(number, peer) + self._service.introduced(number, peer)

    def neighbour_down(self, peer: int) -> list[Output]:
        """A neighbour is down: its outlets are closed, and the entries that it sent stay until their leases end."""
        if peer not in self.state.up:
            return []
        outputs: list[Output] = [*self.state.links.neighbour_down(peer)]
        self.state.away[peer] = self.state.now
        for epoch in self.state.epochs.values():
            for flow in epoch.flows.values():
                if peer in flow.outlets:
                    flow.outlets[peer].tasks.cut()
        self._moves.down(peer)
        return outputs

    def install(self, share: Share) -> list[Output]:
        """Installs this broker's share of a plan as a new epoch. No event uses the epoch until it is activated.

        This input or a later one returns ``Held`` once the epoch's tables are complete here. If subscriptions are
        foreseen, the epoch is there once all of them are entered, which is long work: until then its messages come too
        early.
        """
        if self.state.has(share.epoch) or self.state.is_past(share.epoch):
            raise EpochError(f"epoch {share.epoch} has been installed before; a new plan needs a higher number")
        if LATE not in share.flows:
            raise UnknownTreeError("a plan needs the flow for late subscriptions")
        from_start = self.state.incarnation == 0 or self.state.active is not None
        known = self.state.policy, self._window, self.state.links, from_start
        epoch = Epoch(self.state.broker, share, *known)
        if not share.foreseen:
            return self._installed(epoch)
        self.state.coming[share.epoch] = Coming(epoch)
        return self.work(self.slice)

    def _installed(self, epoch: Epoch) -> list[Output]:
        """An epoch is here from now on: neighbours are told of it, and subscriptions of clients here join it."""
        share = epoch.share
        self.state.epochs[share.epoch] = epoch
        news = self.state.links.use() if len(epoch.steered) else []
        epoch.not_begun = {peer for peer, latest in self.state.too_early.items() if latest >= share.epoch}
        outputs: list[Output] = [*news]
        for peer in sorted(self.state.up & epoch.neighbours):
            if share.foreseen:  # what each of the two believes has to be compared
                outputs += self.state.introduced(share.epoch, peer)
                continue
            outputs.append(Send(peer, Begin(share.epoch, self.state.incarnation)))
            epoch.begin_with(peer)
        outputs += [Send(peer, Resynchronise(share.epoch)) for peer in sorted(epoch.not_begun & self.state.up)]
        for client, key, announced in self.state.announced.values():
            outputs += self._announce(share.epoch, client, key, announced)
        if self.state.narrowed:
            outputs += self.narrow()
        self.state.join_plan(epoch)
        outputs += self._some_work()
        for peer, retired in self.state.retirements.items():
            if retired.has_left(share.epoch):
                outputs += self.state.to_those_up(epoch.left_by(peer, self.state.now))
        return outputs

    def activate(self, number: int) -> list[Output]:
        """Stamps events that enter here with this epoch from now on. Older epochs end here, and begin to drain.

        To be called once all brokers have said that they hold the epoch.
        """
        if number not in self.state.epochs:
            raise EpochError(f"epoch {number} is not installed here")
        if self.state.active is not None and number <= self.state.active:
            raise EpochError(f"epoch {number} comes before epoch {self.state.active}, which is active")
        is_first, self.state.active = self.state.active is None, number
        for flow in self.state.epochs[number].flows.values():
            for outlet in flow.outlets.values():
                outlet.settle()
        outputs: list[Output] = []
        if is_first:  # perhaps after a restart: neighbours need not wait for markers of epochs that are not here
            outputs += [Send(peer, self._retired()) for peer in sorted(self.state.up)]
        for older in sorted(self.state.epochs):
            if older < number and not self.state.epochs[older].draining.begun:
                outputs += self.state.to_those_up(self.state.epochs[older].end(self.state.now))
                outputs += self.state.drained(older)
        self.state.too_early = {peer: latest for peer, latest in self.state.too_early.items() if latest > number}
        return outputs

    def retire(self, number: int) -> list[Output]:
        """Lets go of an epoch that has drained, or of one that is given up before any broker activated it."""
        if self.state.coming.pop(number, None) is not None:
            self.state.retired = max(self.state.retired, number)
            return []
        if number not in self.state.epochs:
            raise EpochError(f"epoch {number} is not installed here")
        was_used = self.state.active is not None and number <= self.state.active
        if was_used and not self.state.epochs[number].has_drained:
            raise EpochError(f"epoch {number} has not drained: events of it may still come")
        del self.state.epochs[number]
        self.state.retired = max(self.state.retired, number)
        self.state.said_drained.discard(number)
        outputs = self._moves.forget(number)
        self.state.leaving |= dict.fromkeys(self.state.homes)
        return outputs + self._service.forget(number) + self._some_work()

    def give_up(self, number: int) -> list[Output]:
        """Waits no longer for steered events of an older epoch that were lost with a broker that restarted.

        Leases do the same by themselves. Without leases, whoever knows that no such event is under way may say so.
        """
        epoch = self.state.epoch(number)
        if not epoch.draining.begun:
            return []
        outputs: list[Output] = [*self.state.to_those_up(epoch.give_up(FOR_EVER, self.state.now))]
        return outputs + self._released(epoch, epoch.arrivals.expire(FOR_EVER)) + self._steered_came(epoch)

    def _some_work(self) -> list[Output]:
        """Does a slice of the work that inputs have left, apart from what is foreseen: nobody waits for that."""
        return self._go_on(self.slice) if self.has_work else []

    def work(self, most: int = SLICE) -> list[Output]:
        """Goes on with work that takes long: with so many items at most. To be called while ``has_work``."""
        most, outputs = self._foresee(most)
        return outputs + self._go_on(most)

    def _go_on(self, most: int) -> list[Output]:
        """Goes on with work that is not about epochs that are still to be installed."""
        outputs: list[Output] = []
        joining = [number for number, epoch in self.state.epochs.items() if epoch.joining is not None]
        outputs += work(self.state, most)
        if self._moves.has_early:
            outputs += self._moves.pass_early_on()
        for number in joining:
            if self.state.epochs[number].joining is None:
                outputs += self._service.installed(number)
        return outputs

    def _foresee(self, most: int) -> tuple[int, list[Output]]:
        """Goes on with epochs that are to be installed. Returns how many items are left, and what follows."""
        outputs: list[Output] = []
        for number, coming in list(self.state.coming.items()):
            most = coming.enter(most, self.state.now)
            if not coming.left:
                del self.state.coming[number]
                outputs += self._installed(coming.epoch)
        return most, outputs

    @property
    def has_work(self) -> bool:
        """Whether there is work that takes long, which ``work`` goes on with."""
        return has_work(self.state) or self._moves.has_early

    # Clients

    def advertise(self, client: int, id_: int, version: int, announced: Filter) -> list[Output]:
        """A client advertises a filter: in every flow that its events may enter, now and in epochs to come."""
        for _, flow in self.state.flows():
            flow.knows_advertisement((id_, version), announced)
        if self.state.unannounced.holds(id_, version):
            return []
        known = self.state.announced.get(id_)
        if known is None or known[1][1] < version:
            self.state.announced[id_] = (client, (id_, version), announced)
        outputs = [
            output for epoch in self.state.epochs for output in self._announce(epoch, client, (id_, version), announced)
        ]
        return outputs + self._some_work()

    def unadvertise(self, client: int, id_: int, version: int) -> list[Output]:
        """A client takes back this version of an advertisement, and all before it."""
        known = self.state.announced.get(id_)
        if known is not None and known[1][1] <= version:
            del self.state.announced[id_]
        self.state.unannounced.add(id_, version, self.state.now)
        outputs: list[Output] = []
        for number, flow in self.state.flows():
            outputs += unadvertised(self.state, client, Unadvertise(number, flow.share.number, (id_, version)))
        return outputs + self._some_work()

    def narrow(self, narrowed: bool = True) -> list[Output]:
        """Clients here publish only what they have advertised from now on, or anything if ``narrowed`` is false."""
        self.state.narrowed = narrowed
        outputs: list[Output] = []
        for number, flow in self.state.flows():
            if flow.share.everyone_advertises:
                flow.narrowed = narrowed
                outputs += self.state.gates(number, flow)
        return outputs + self._some_work()

    def _announce(self, number: int, client: int, key: Key, announced: Filter) -> list[Output]:
        """Advertises in the flows of one epoch that the filter meets, and ends older versions in the other flows."""
        outputs: list[Output] = []
        for flow in self.state.epochs[number].flows.values():
            older = flow.advertisements.get(key[0])
            if flow.share.events.intersects(announced):
                outputs += advertised(self.state, client, Advertise(number, flow.share.number, key, announced))
            elif older is not None and older.version < key[1]:
                gone = Unadvertise(number, flow.share.number, (key[0], older.version))
                outputs += unadvertised(self.state, client, gone)
        return outputs

    def subscribe(self, client: int, id_: int, version: int, wanted: Filter, no_local: bool = False) -> list[Output]:
        """A client's subscription joins the late flow of every epoch, and is acknowledged."""
        if any(PUBLISHING_BROKER in box.sets for box in wanted.boxes):
            raise RoutingError(f"subscription {id_} asks for {PUBLISHING_BROKER}, which only plans may use")
        before = self.state.join_now(id_)
        home = self.state.homes.get(id_)
        if home is not None and (home.version > version or _is_same(home, id_, version, client, wanted, no_local)):
            return before
        if self.state.ended.holds(id_, version):
            return before
        late = {number: epoch.flows[LATE] for number, epoch in self.state.epochs.items()}
        outputs = before
        joined = self.state.same(frozenset((number, LATE) for number in late))
        self.state.homes[id_] = Home(client, version, wanted, no_local, joined)
        for number, flow in late.items():
            orders = flow.subscribe(client, (id_, version), wanted, self.state.now, client=True, no_local=no_local)
            outputs += self.state.messages(number, LATE, orders)
        if home is not None:
            outputs += self._moves.replaced(id_, home) if self._tells_served else self.state.leave_all(id_, home)
        outputs.append(Acknowledge(client, (id_, version)))
        return outputs + (self._service.made((id_, version)) if self._tells_served else [])

    def unsubscribe(self, client: int, id_: int, version: int) -> list[Output]:
        """A client's subscription leaves all its flows. One that is not here is remembered, so that it stays away."""
        before = self.state.join_now(id_)
        home = self.state.homes.get(id_)
        if home is not None and home.version > version:
            return before
        self.state.end(id_, version)
        if home is None or home.client != client:
            return before
        del self.state.homes[id_]
        self._service.ended(id_)
        return before + self.state.leave_all(id_, home) + self._moves.end_older(id_)

    def flush(self, id_: int) -> list[Output]:
        """Flushes the flows of a subscription. After the output ``Flushed`` no event comes in them that was published
        before. So one that another broker has taken over, and that the whole network serves there, can be ended
        here."""
        return self._moves.flush(id_)

    def is_on_its_way(self, id_: int) -> bool:
        """Whether a subscription here moves to other flows, or is being flushed."""
        return self._moves.is_on_its_way(id_)

    def move(self, id_: int, *flows: int) -> list[Output]:
        """Moves a subscription from the late flow to one or more that together carry every event that it wants.

        No two of them may carry the same event.
        """
        return self.state.join_now(id_) + self._moves.start(id_, flows)

    # Publications

    def enter(self, batch: Batch, ids: Ints, publishers: Ints, advertisements: Ints | None = None) -> Frames:
        """Stamps events of clients here with the active epoch and its flows. Events that enter no flow are left out."""
        if self.state.active is None:
            raise EpochError("no epoch is active here yet")
        size = len(batch)
        header = (
            Header.fresh(size) if advertisements is None else Header.fresh(size)._replace(advertisements=advertisements)
        )
        bare = Frames(
            self.state.active,
            batch,
            ids,
            publishers,
            np.full(size, self.state.broker),
            np.full(size, NOWHERE),
            [frozenset()] * size,
            Steered.none(size),
            header,
        )
        begun = [entering for entering in self.state.epochs[self.state.active].entered(bare) if entering[1]]
        return bare.take(np.array([event for event, _ in begun], np.int64), [flows for _, flows in begun], NOWHERE)

    def match(self, frames: Frames) -> Matches:
        """Which table entries match each frame. ``decide`` takes the answer, so that a caller can match ahead."""
        return self.state.epoch(frames.epoch).table.match(frames)

    def decide(self, frames: Frames, matches: Matches | None = None) -> Routed:
        """Where the frames go. This changes nothing."""
        epoch = self.state.epoch(frames.epoch)
        return self._route(epoch, frames, epoch.steered.here(frames), matches)

    def publish(self, frames: Frames) -> tuple[Routed, list[Output]]:
        """Routes frames that came from a neighbour or entered here, and returns the messages that follow from them."""
        epoch, released, early = self.state.epoch(frames.epoch), list[Waiting](), list[int]()
        here = epoch.steered.here(frames)
        if here is not None:
            here, released, early = epoch.arrivals.take(frames, here, self.state.now)
        routed = self._moves.once(frames, self._route(epoch, frames, here))
        if early:
            routed = routed._replace(early=np.array(early))
        epoch.steered.count(routed)
        outputs = self.note(frames, routed) + self._released(epoch, released)
        return routed, outputs if here is None else outputs + self._steered_came(epoch)

    def stayed(self, number: int, staying: Ints) -> list[Output]:
        """Events that came with headers have been handed out here, and sent on, without ``publish``. Their flows are
        not ordered, and none of them had come before. They are rows, as ``Arrivals.note`` takes them."""
        epoch = self.state.epoch(number)
        epoch.arrivals.note(staying, self.state.now)
        return self._steered_came(epoch)

    def _route(self, epoch: Epoch, frames: Frames, here: Here | None, matches: Matches | None = None) -> Routed:
        """Where frames go whose headers were read. Frames that only pass are not matched."""
        if matches is None:
            matches = epoch.table.match(frames, None if here is None else epoch.steered.matched(frames, here))
        return epoch.table.route(frames, matches, epoch.steered, here)

    def _released(self, epoch: Epoch, released: Sequence[Waiting]) -> list[Output]:
        """Events of ordered flows that had to wait go to clients here."""
        outputs: list[Output] = []
        for waiting in released:
            one = np.zeros(1, np.int64)
            here = Here(one, one + waiting.flow, np.ones(1, np.bool_), one, NOTHING_SENT, NOTHING_WRONG)
            routed = self._moves.once(waiting.frames, self._route(epoch, waiting.frames, here))
            outputs += [Released(waiting.frames, routed), *self.note(waiting.frames, routed)]
        return outputs

    def _steered_came(self, epoch: Epoch) -> list[Output]:
        """Events came in steered flows: a move may go on, and an epoch may have drained."""
        sends = self.state.to_those_up(epoch.steered_came(self.state.now))
        return [*self._moves.arrived(epoch), *sends, *self.state.drained(epoch.share.epoch)]

    def note(self, frames: Frames, routed: Routed) -> list[Output]:
        """Records the decisions in the window of statistics, if the policy uses one."""
        if not self.state.policy.statistics:
            return []
        at = routed.delivered_frames
        header = routed.header.take(at)
        self.state.epoch(frames.epoch).window.record(
            self.state.now,
            frames.ids[at],
            header.advertisements,
            routed.delivered_serials,
            header.distances,
            header.counts,
        )
        outputs: list[Output] = []
        for row in np.flatnonzero((routed.interests == 0) & (frames.origins != NOWHERE)).tolist():
            outputs += self.came_in_vain(
                frames.epoch, frames.flows[row], int(frames.origins[row]), frames.batch.event(row)
            )
        return outputs

    def came_in_vain(self, number: int, flows: Flows, peer: int, event: Attributes) -> list[Output]:
        """A neighbour sent an event that no neighbour or client of this broker wants: the policy is told."""
        outputs: list[Output] = []
        for flow_number in sorted(flows):
            epoch = self.state.epoch(number)
            flow = None if flow_number in epoch.steered.place_of else epoch.flows.get(flow_number)
            outlet = None if flow is None else flow.outlets.get(peer)
            if outlet is not None:
                orders = self.state.policy.wasted(outlet, [event])
                outputs += self.state.messages(number, flow_number, [(peer, order) for order in orders])
        return outputs

    # Neighbours' messages, and time

    def receive(self, peer: int, message: Message) -> list[Output]:
        """Handles one control message of a neighbour. A packed message is checked whole before any part is handled."""
        if isinstance(message, Packed):
            check_together(message)
            for packed in message.messages:
                check(self.state, peer, packed)
            return [output for packed in message.messages for output in self.receive(peer, packed)]
        return self._receive(peer, message) + self._some_work()

    def _receive(self, peer: int, message: Message) -> list[Output]:
        """Handles one message that is not packed."""
        assert not isinstance(message, Packed)
        if isinstance(message, Retired):
            return left_epochs(self.state, peer, message)
        if isinstance(message, LinkState):
            return self._link_state(peer, message)
        if message.epoch not in self.state.epochs:
            return self._of_absent_epoch(peer, message)
        check(self.state, peer, message)
        if isinstance(message, Begin):
            return self._begun(peer, message)
        if peer in self.state.epochs[message.epoch].not_begun and not isinstance(message, ANSWERS):
            return []
        if isinstance(message, Resynchronise):
            return self._introduced(message.epoch, peer) if peer in self.state.up else []
        if isinstance(message, SERVING):
            return self._service.receive(peer, message)
        if isinstance(message, MOVING):
            return self._moves.receive(peer, message)
        return HANDLERS[type(message)](self.state, peer, message)

    def _link_state(self, peer: int, message: LinkState) -> list[Output]:
        """Takes news of the state of links.

        If their broker has restarted, the numbers of its steered events begin anew.
        """
        before = self.state.links.incarnation_of(message.broker)
        outputs: list[Output] = [*self.state.links.hear(peer, message)]
        if before is not None and self.state.links.incarnation_of(message.broker) != before:
            for epoch in self.state.epochs.values():
                outputs += self._released(epoch, epoch.arrivals.restarted(message.broker, message.incarnation))
        return outputs

    def _of_absent_epoch(self, peer: int, message: Message) -> list[Output]:
        """Ignores a message of a past epoch. One of an epoch yet to come is dropped, and will be asked for again."""
        assert not isinstance(message, (Packed, Retired, LinkState))
        if self.state.is_past(message.epoch):
            is_answered = isinstance(message, Resynchronise) and self.state.active is not None
            return [Send(peer, self._retired())] if is_answered else []
        self.state.too_early[peer] = max(message.epoch, self.state.too_early.get(peer, message.epoch))
        self.state.dropped += 1
        return []

    def _begun(self, peer: int, message: Begin) -> list[Output]:
        """A neighbour's messages of this epoch count from now on. If it has restarted, its older ones are all void."""
        self.state.epochs[message.epoch].not_begun.discard(peer)
        known = self.state.incarnations.get(peer, message.incarnation)
        self.state.incarnations[peer] = max(known, message.incarnation)
        if known >= message.incarnation:
            return []
        self._moves.down(peer)
        return voided(self.state, peer)

    def _retired(self) -> Retired:
        """The message that says which epochs this broker has let go of."""
        assert self.state.active is not None
        return Retired(self.state.active, frozenset(self.state.epochs))

    def tick(self, now: float) -> list[Output]:
        """Sets the time, sends the orders that were waiting for it, and renews leases."""
        if now < self.state.now:
            raise RoutingError(f"time goes backwards, from {self.state.now} to {now}")
        before, self.state.now = self.state.now, now
        outputs = self._moves.try_again() if self._moves.is_moving else []
        if self.state.policy.waits and now - self._policy_ticked >= self.state.policy.waits:
            self._policy_ticked = now
            for number, flow in self.state.flows():
                for peer, outlet in flow.outlets.items():
                    if self.state.policy.is_due(outlet):
                        orders = [(peer, order) for order in self.state.policy.tick(outlet, now)]
                        outputs += self.state.messages(number, flow.share.number, orders)
        if now - self._renewed >= self.lease:
            self._renewed = now
            outputs += self._renewals(before - 2 * self.lease)
        return outputs + self._some_work()

    @property
    def is_moving(self) -> bool:
        """Whether a subscription is on the move between flows, and may get an event in two of them."""
        return self._moves.drops_repeats

    @property
    def is_serving(self) -> bool:
        """Whether a subscription of this broker, or of another that asked this one, waits to be served everywhere."""
        return self._service.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Whether the policy needs a tick, apart from those that leases need."""
        return self.state.policy.waits > 0 and any(
            self.state.policy.is_due(outlet) for _, flow in self.state.flows() for outlet in flow.outlets.values()
        )

    @property
    def header_faults(self) -> dict[str, int]:
        """How many headers of steered frames could not be followed, by what was wrong with them, in words."""
        wrong = sum((epoch.steered.wrong for epoch in self.state.epochs.values()), Counter[int]())
        return {FAULTS[fault]: count for fault, count in sorted(wrong.items())}

    def statistics(self) -> RouterStatistics:
        """Counts what the router holds at this moment."""
        outlets = [outlet for _, flow in self.state.flows() for outlet in flow.outlets.values()]
        tables = [epoch.table for epoch in self.state.epochs.values()]
        return RouterStatistics(
            entries_core=sum(table.entries_core for table in tables),
            entries_access=sum(table.entries_access for table in tables),
            behind_rows=sum(len(table) - table.entries_core - table.entries_access for table in tables),
            subscriptions=len(self.state.homes),
            sent=sum(len(outlet.sent) for outlet in outlets),
            left_over=sum(len(outlet.left_over) for outlet in outlets),
            epochs=len(self.state.epochs),
            window=sum(len(epoch.window) for epoch in self.state.epochs.values()),
            ended=len(self.state.ended)
            + len(self.state.unannounced)
            + sum(len(epoch.ended) + len(epoch.unadvertised) for epoch in self.state.epochs.values()),
            dropped=self.state.dropped,
            waiting=sum(epoch.arrivals.waiting for epoch in self.state.epochs.values()),
            wrong_headers=sum(self.header_faults.values()),
            header_faults=self.header_faults,
            unreachable=sum(epoch.steered.lost for epoch in self.state.epochs.values()),
        )

    def filters(self, number: int) -> list[tuple[int, int, int, Filter]]:
        """The forwarding table as rows of a plan's ``filters``: flow, this broker, the peer, the filter."""
        rows = []
        for flow in self.state.epoch(number).flows.values():
            if isinstance(flow, SteeredFlow):
                rows += flow.summary_rows()
                continue
            for peer in sorted(flow.share.neighbours - flow.share.rows.keys()):
                wanted = [entry.filter for (hop, _), entry in flow.entries.items() if hop == peer]
                if wanted:
                    rows.append((flow.share.number, self.state.broker, peer, wanted[0].union(*wanted[1:])))
            rows += [(flow.share.number, self.state.broker, peer, row) for peer, row in sorted(flow.share.rows.items())]
        return rows

    def _renewals(self, old: float) -> list[Output]:
        """Lets go of everything that was last renewed before the time ``old``, and renews this broker's own leases."""
        outputs: list[Output] = []
        self.state.ended.expire(old)
        self.state.unannounced.expire(old)
        for epoch in list(self.state.epochs.values()):
            epoch.ended.expire(old)
            epoch.unadvertised.expire(old)
            outputs += self.state.to_those_up(epoch.give_up(old, self.state.now))
            outputs += self._released(epoch, epoch.arrivals.expire(old)) + self._steered_came(epoch)
        for number, flow in self.state.flows():
            for peer in sorted(flow.share.neighbours):
                expired = flow.advertised_before(peer, old)
                outputs += ran_out(self.state, peer, number, flow.share.number, expired)
            flow.expire(old)
            for peer in flow.outlets:
                flow.let_go(peer)
            outputs += [self.state.renewal(number, flow, peer) for peer in sorted(self.state.up & flow.outlets.keys())]
        return outputs + self._moves.renew(old)


def _is_same(home: Home, id_: int, version: int, client: int, wanted: Filter, no_local: bool) -> bool:
    """Whether the subscription repeats the one at home. Raises a ``VersionError`` if it differs under one version."""
    if home.version < version:
        return False
    if home.filter != wanted or home.client != client or home.no_local != no_local:
        raise VersionError(f"subscription {id_} was something else as version {version}; raise the version")
    return True
