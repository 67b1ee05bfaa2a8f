"""A broker's mind: inputs in, outputs out. No I/O, no clock, no randomness; what time it is, ``tick`` says.

What may be relied on:

1. Every input returns what is to be sent, in order. Links keep that order; then no event is lost and none comes twice.
2. An input that cannot be raises a ``RoutingError``, and the state is as it was before:
   ``UnknownTreeError`` for a flow that the epoch does not have, or a sender that is no neighbour in its tree;
   ``EpochError`` for an epoch that is not there, is there already, or has not drained;
   ``VersionError`` for a subscription or an advertisement that says something else under the same version.
3. Ignored, because it is old news: what was said before; an unsubscription of something never seen, or of a version
   that a newer one has replaced; a subscription that has ended; a tuple for an advertisement that is not known;
   a message of an epoch that was retired.
4. A message of an epoch that is not installed yet is dropped: a neighbour may have been told first. Once it is
   installed, the neighbour is asked to begin again, and what it says of the epoch before it does so does not count.
5. A subscription whose id comes with a higher version takes the place of the older one at this broker. A host that
   hears of a newer one elsewhere ends its own; it need not hear, if another one covers that on the way, so whoever
   moves a client unsubscribes it where it was.
6. A neighbour that is down is told nothing. What it said stays for two leases. When it is up again it is told
   everything, and that this is all; what it says again is old news.
7. A broker that restarts comes with a higher incarnation, installs every epoch that others may still have and then
   activates the one that the network is on. What its earlier incarnations said is void, in whatever order it is up
   and installs. Frames of an epoch that is not installed raise an ``EpochError``, and are lost.
8. An epoch that has drained here may be retired at once. A neighbour whose last marker was lost is told that nothing
   more comes from here.
9. Time is what ``tick`` said last. What comes between two ticks is taken to come at the first, and is kept for two
   leases from the second.

How to think about it: per epoch there are flows, per flow a tree, and per neighbour in a tree an outlet, which holds
what the neighbour was told (``outlet``). A policy decides what that is (``policy``). The table is the other direction:
what neighbours and clients told this broker, as one index for all flows (``table``). Control comes one message at a
time; publications come in batches, and leave as arrays.
"""

from dataclasses import replace

import msgspec
import numpy as np

from overstory.errors import EpochError, RoutingError, UnknownTreeError, VersionError
from overstory.filters import Filter
from overstory.matching import Batch, Matches
from overstory.model.values import Attributes
from overstory.routing.epoch import Epoch
from overstory.routing.frames import NOWHERE, Flows, Frames, Header, Ints, Routed
from overstory.routing.law import PUBLISHING_BROKER
from overstory.routing.messages import (
    LATE,
    Acknowledge,
    Advertise,
    Begin,
    Key,
    Message,
    Output,
    Packed,
    Resynchronise,
    Retired,
    Send,
    Unadvertise,
)
from overstory.routing.moves import Moves
from overstory.routing.neighbours import (
    HANDLERS,
    MOVING,
    advertised,
    check,
    check_together,
    left_epochs,
    ran_out,
    unadvertised,
    voided,
)
from overstory.routing.policy import Policy
from overstory.routing.share import Share
from overstory.routing.state import Home, State

FOR_EVER = float("inf")
WINDOW = 3600.0  # seconds of statistics


class RouterStatistics(msgspec.Struct, frozen=True):
    entries: int  # of tables, in all epochs
    subscriptions: int  # of clients here
    sent: int  # subscriptions that neighbours hold from here
    left_over: int  # those of them that nobody stands behind
    epochs: int
    window: int  # rows of statistics
    ended: int  # unsubscriptions and unadvertisements that are remembered
    dropped: int  # messages of epochs that were not installed yet, since the router began


class Router:
    def __init__(
        self,
        broker: int,
        policy: Policy,
        lease: float = FOR_EVER,
        window: float = WINDOW,
        now: float = 0.0,
        incarnation: int = 0,
    ) -> None:
        """``incarnation``: a higher number each time that the broker restarts with nothing of what it knew."""
        self.lease = lease
        self.state = State(broker, policy, incarnation)
        self.state.now = self._renewed = now
        self._window = window
        self._looked = float("-inf")  # when it was last seen to what waits
        self._moves = Moves(self.state)

    # Neighbours and plans

    def neighbour_up(self, peer: int) -> list[Output]:
        """The neighbour is told everything, and of what it spoke too early it is asked again."""
        if peer in self.state.up:
            return []
        self.state.up.add(peer)
        outputs: list[Output] = []
        if self.state.active is not None:
            outputs.append(Send(peer, self._retired()))
        for number, epoch in self.state.epochs.items():
            outputs += self.state.introduced(number, peer, again=True)
            if peer in epoch.not_begun:
                outputs.append(Send(peer, Resynchronise(number)))
        return outputs

    def neighbour_down(self, peer: int) -> list[Output]:
        self.state.up.discard(peer)
        for epoch in self.state.epochs.values():
            for flow in epoch.flows.values():
                flow.close_outlet(peer)
        self._moves.down(peer)
        return []

    def install(self, share: Share) -> list[Output]:
        """This input or a later one says that the epoch is ``Held`` here. Nothing uses it until it is activated."""
        if share.epoch in self.state.epochs or self.state.is_past(share.epoch):
            raise EpochError(f"epoch {share.epoch} has been installed before; a new plan needs a higher number")
        if LATE not in share.flows:
            raise UnknownTreeError("a plan needs the flow for late subscriptions")
        epoch = self.state.epochs[share.epoch] = Epoch(self.state.broker, share, self.state.policy, self._window)
        epoch.not_begun = {peer for peer, latest in self.state.too_early.items() if latest >= share.epoch}
        outputs: list[Output] = []
        for peer in sorted(self.state.up):
            outputs += self.state.introduced(share.epoch, peer, again=False)
        outputs += [Send(peer, Resynchronise(share.epoch)) for peer in sorted(epoch.not_begun & self.state.up)]
        for client, key, announced in self.state.announced.values():
            outputs += self._announce(share.epoch, client, key, announced)
        if self.state.narrowed:
            outputs += self.narrow()
        outputs += self.state.join_plan(epoch)
        outputs += [*self.state.to_those_up(epoch.settle()), *self.state.held(share.epoch)]
        for peer, retired in self.state.retirements.items():
            if retired.has_left(share.epoch):
                outputs += self.state.to_those_up(epoch.left_by(peer))
        return outputs

    def activate(self, number: int) -> list[Output]:
        """To be called once all brokers have said that they hold the epoch. Older ones end here, and drain."""
        if number not in self.state.epochs:
            raise EpochError(f"epoch {number} is not installed here")
        if self.state.active is not None and number <= self.state.active:
            raise EpochError(f"epoch {number} comes before epoch {self.state.active}, which is active")
        is_first, self.state.active = self.state.active is None, number
        outputs: list[Output] = []
        if is_first:  # perhaps after a restart: neighbours wait for no marker of epochs that are not here
            outputs += [Send(peer, self._retired()) for peer in sorted(self.state.up)]
        for each in sorted(self.state.epochs):
            if each < number and not self.state.epochs[each].draining.begun:
                outputs += self.state.to_those_up(self.state.epochs[each].end())
                outputs += self.state.drained(each)
        self.state.too_early = {peer: latest for peer, latest in self.state.too_early.items() if latest > number}
        return outputs

    def retire(self, number: int) -> list[Output]:
        """Lets go of an epoch that has drained, or of one that is given up before it was activated anywhere."""
        if number not in self.state.epochs:
            raise EpochError(f"epoch {number} is not installed here")
        was_used = self.state.active is not None and number <= self.state.active
        if was_used and not self.state.epochs[number].has_drained:
            raise EpochError(f"epoch {number} has not drained: events of it may still come")
        del self.state.epochs[number]
        self.state.retired = max(self.state.retired, number)
        self._moves.forget(number)
        for id_, home in list(self.state.homes.items()):
            home.joined = {each for each in home.joined if each[0] != number}
            if not home.joined and (self.state.epochs or home.planned):  # else it waits for the next plan
                del self.state.homes[id_]
        return []

    # Clients

    def advertise(self, client: int, id_: int, version: int, announced: Filter) -> list[Output]:
        """In all flows that its events may enter, of this epoch and those to come."""
        for _, flow in self.state.flows():
            flow.knows_advertisement((id_, version), announced)
        if self.state.unannounced.holds(id_, version):
            return []
        known = self.state.announced.get(id_)
        if known is None or known[1][1] < version:
            self.state.announced[id_] = (client, (id_, version), announced)
        return [
            output for epoch in self.state.epochs for output in self._announce(epoch, client, (id_, version), announced)
        ]

    def unadvertise(self, client: int, id_: int, version: int) -> list[Output]:
        known = self.state.announced.get(id_)
        if known is not None and known[1][1] <= version:
            del self.state.announced[id_]
        self.state.unannounced.add(id_, version, self.state.now)
        outputs: list[Output] = []
        for number, flow in self.state.flows():
            outputs += unadvertised(self.state, client, Unadvertise(number, flow.share.number, (id_, version)))
        return outputs

    def narrow(self, narrowed: bool = True) -> list[Output]:
        """From now on clients here publish only what they have advertised; or anything again."""
        self.state.narrowed = narrowed
        outputs: list[Output] = []
        for number, flow in self.state.flows():
            if flow.share.everyone_advertises:
                flow.narrowed = narrowed
                outputs += self.state.gates(number, flow)
        return outputs

    def _announce(self, number: int, client: int, key: Key, announced: Filter) -> list[Output]:
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
        """Joins the flow for late subscriptions of every epoch, and is acknowledged."""
        if any(PUBLISHING_BROKER in box.sets for box in wanted.boxes):
            raise RoutingError(f"subscription {id_} asks for {PUBLISHING_BROKER}, which only plans may use")
        home = self.state.homes.get(id_)
        if home is not None and (home.version > version or _is_same(home, id_, version, client, wanted, no_local)):
            return []
        if self.state.ended.holds(id_, version):
            return []
        late = {number: epoch.flows[LATE] for number, epoch in self.state.epochs.items()}
        outputs: list[Output] = []
        self.state.homes[id_] = Home(client, version, wanted, no_local, {(number, LATE) for number in late})
        for number, flow in late.items():
            orders = flow.subscribe(client, (id_, version), wanted, self.state.now, client=True, no_local=no_local)
            outputs += self.state.messages(number, LATE, orders)
        if home is not None:
            outputs += self.state.left(id_, home)
        return [*outputs, Acknowledge(client, (id_, version))]

    def unsubscribe(self, client: int, id_: int, version: int) -> list[Output]:
        """What is not here is remembered, so that it stays away should it come after all."""
        home = self.state.homes.get(id_)
        if home is not None and home.version > version:
            return []
        self.state.end(id_, version)
        if home is None or home.client != client:
            return []
        del self.state.homes[id_]
        return self.state.left(id_, home)

    def move(self, id_: int, flow: int) -> list[Output]:
        """From the flow for late subscriptions to a better one, which carries all that the subscription wants."""
        return self._moves.start(id_, flow)

    # Publications

    def enter(self, batch: Batch, ids: Ints, publishers: Ints, advertisements: Ints | None = None) -> Frames:
        """Stamps what clients here published with the active epoch and its flows; what enters no flow is left out."""
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
            [{}] * size,
            header,
        )
        begun = [each for each in self.state.epochs[self.state.active].entered(bare) if each[1]]
        rows = np.array([event for event, _, _ in begun], np.int64)
        frames = bare.take(rows, [flows for _, flows, _ in begun], NOWHERE)
        return replace(frames, routes=[routes for _, _, routes in begun])

    def match(self, frames: Frames) -> Matches:
        """What ``decide`` needs; of use to whoever wants to match ahead."""
        return self.state.epoch(frames.epoch).table.match(frames)

    def decide(self, frames: Frames, matches: Matches | None = None) -> Routed:
        """Where the frames go. Changes nothing."""
        table = self.state.epoch(frames.epoch).table
        return table.route(frames, table.match(frames) if matches is None else matches, self.state.broker)

    def publish(self, frames: Frames) -> tuple[Routed, list[Output]]:
        """Frames that came from a neighbour or entered here: where they go, and what else follows from them."""
        routed = self._moves.once(frames, self.decide(frames))
        return routed, self.note(frames, routed)

    def note(self, frames: Frames, routed: Routed) -> list[Output]:
        """Keeps what was decided as statistics, for policies that want them."""
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
        """A neighbour sent an event that nobody here wants: the policy may want to know."""
        outputs: list[Output] = []
        for each in sorted(flows):
            flow = self.state.epoch(number).flows.get(each)
            outlet = None if flow is None else flow.outlets.get(peer)
            if outlet is not None:
                orders = self.state.policy.wasted(outlet, [event])
                outputs += self.state.messages(number, each, [(peer, order) for order in orders])
        return outputs

    # Neighbours' messages, and time

    def receive(self, peer: int, message: Message) -> list[Output]:
        if isinstance(message, Packed):
            check_together(message)
            for each in message.messages:
                check(self.state, peer, each)
            return [output for each in message.messages for output in self.receive(peer, each)]
        if isinstance(message, Retired):
            return left_epochs(self.state, peer, message)
        if message.epoch not in self.state.epochs:
            return self._not_here(peer, message)
        check(self.state, peer, message)
        if isinstance(message, Begin):
            return self._begun(peer, message)
        if peer in self.state.epochs[message.epoch].not_begun:
            return []
        if isinstance(message, MOVING):
            return self._moves.receive(peer, message)
        return HANDLERS[type(message)](self.state, peer, message)

    def _not_here(self, peer: int, message: Message) -> list[Output]:
        """A message of an epoch that has gone, or is yet to come: then the neighbour will be asked to begin again."""
        assert not isinstance(message, (Packed, Retired))
        if self.state.is_past(message.epoch):
            is_answered = isinstance(message, Resynchronise) and self.state.active is not None
            return [Send(peer, self._retired())] if is_answered else []
        self.state.too_early[peer] = max(message.epoch, self.state.too_early.get(peer, message.epoch))
        self.state.dropped += 1
        return []

    def _begun(self, peer: int, message: Begin) -> list[Output]:
        """From here on all counts that the neighbour says of the epoch. If it has restarted, nothing else does."""
        self.state.epochs[message.epoch].not_begun.discard(peer)
        known = self.state.incarnations.get(peer, message.incarnation)
        self.state.incarnations[peer] = max(known, message.incarnation)
        if known >= message.incarnation:
            return []
        self._moves.down(peer)
        return voided(self.state, peer)

    def _retired(self) -> Retired:
        assert self.state.active is not None
        return Retired(self.state.active, frozenset(self.state.epochs))

    def tick(self, now: float) -> list[Output]:
        """It is later now: what was waiting for that is sent, and leases are renewed."""
        if now < self.state.now:
            raise RoutingError(f"time goes backwards, from {self.state.now} to {now}")
        before, self.state.now = self.state.now, now
        outputs: list[Output] = []
        if self.state.policy.waits and now - self._looked >= self.state.policy.waits:
            self._looked = now
            for number, flow in self.state.flows():
                for peer, outlet in flow.outlets.items():
                    if self.state.policy.is_due(outlet):
                        orders = [(peer, order) for order in self.state.policy.tick(outlet, now)]
                        outputs += self.state.messages(number, flow.share.number, orders)
        if now - self._renewed >= self.lease:
            self._renewed = now
            outputs += self._renewals(before - 2 * self.lease)
        return outputs

    @property
    def is_waiting(self) -> bool:
        """Whether a tick is needed for something other than leases."""
        return self.state.policy.waits > 0 and any(
            self.state.policy.is_due(outlet) for _, flow in self.state.flows() for outlet in flow.outlets.values()
        )

    def statistics(self) -> RouterStatistics:
        outlets = [outlet for _, flow in self.state.flows() for outlet in flow.outlets.values()]
        return RouterStatistics(
            entries=sum(len(epoch.table) for epoch in self.state.epochs.values()),
            subscriptions=len(self.state.homes),
            sent=sum(len(outlet.sent) for outlet in outlets),
            left_over=sum(len(outlet.left_over) for outlet in outlets),
            epochs=len(self.state.epochs),
            window=sum(len(epoch.window) for epoch in self.state.epochs.values()),
            ended=len(self.state.ended)
            + len(self.state.unannounced)
            + sum(len(epoch.ended) + len(epoch.unadvertised) for epoch in self.state.epochs.values()),
            dropped=self.state.dropped,
        )

    def filters(self, number: int) -> list[tuple[int, int, int, Filter]]:
        """The table as rows of a plan's ``filters``: flow, from here, to a neighbour, what crosses."""
        rows = []
        for flow in self.state.epoch(number).flows.values():
            for peer in sorted(flow.share.neighbours - flow.share.rows.keys()):
                wanted = [entry.filter for (hop, _), entry in flow.entries.items() if hop == peer]
                if wanted:
                    rows.append((flow.share.number, self.state.broker, peer, wanted[0].union(*wanted[1:])))
            rows += [(flow.share.number, self.state.broker, peer, row) for peer, row in sorted(flow.share.rows.items())]
        return rows

    def _renewals(self, old: float) -> list[Output]:
        """What was said before then and not renewed has run out."""
        outputs: list[Output] = []
        self.state.ended.expire(old)
        self.state.unannounced.expire(old)
        for epoch in self.state.epochs.values():
            epoch.ended.expire(old)
            epoch.unadvertised.expire(old)
        for number, flow in self.state.flows():
            for peer in sorted(flow.share.neighbours):
                late = flow.advertised_by(peer, before=old)
                outputs += ran_out(self.state, peer, number, flow.share.number, late)
            outputs += self.state.messages(number, flow.share.number, flow.expire(old, self.state.now))
            outputs += [self.state.renewal(number, flow, peer) for peer in sorted(flow.outlets)]
        return outputs + self._moves.renew(old)


def _is_same(home: Home, id_: int, version: int, client: int, wanted: Filter, no_local: bool) -> bool:
    if home.version < version:
        return False
    if home.filter != wanted or home.client != client or home.no_local != no_local:
        raise VersionError(f"subscription {id_} was something else as version {version}; raise the version")
    return True
