"""A late subscription moves to better flows: it is in both for a while, and no event is lost or delivered twice.

The *old* flow is the late flow; the *new* ones are those that the subscription moves to, in parts if there are several.
A *flush* goes through a tree. A broker answers a flush with an *echo* once all its other neighbours in the tree have
answered. So behind the last echo no event comes that was in flight before the flush. From the beginning of the move the
host remembers which events the subscription got, and passes each of them on once.

1. The host flushes the new trees. After that, no event that the subscription got before the move began comes over the
   new trees any more.
2. The subscription joins the new flows, and the host sends a *probe* through each new tree, behind the subscription.
   The host flushes the old tree; this time a broker answers only once the probes have reached it. After that, no event
   comes over the old tree that missed the new ones.
3. The subscription leaves the old flow, and the host flushes the new trees again. After that, no event comes over the
   new trees that came over the old one already, and the move is over.

A steered flow has no tree that its events take. It is flushed over the tree of its summaries, and the echoes say how
many events all brokers have sent to the host before: the flush is over once so many have come.

In a flow with regions, brokers of other regions send to the gateway of the host's region, which sends on. So the echoes
say how many they have sent to the gateway. The host flushes once more, with these numbers; the gateway answers once so
many have come, and says how many it has sent to the host. In step 2 the probe goes through the region; from the gateway
another one goes through the tree of the flow above, behind the summary of the region.

A subscription that another broker has taken over, under a higher version, is *flushed* before it ends here: all flows
that it is in. Whoever asks for that knows that the whole network serves the newer version (``service``). So after the
flushes no event comes that the newer version can have missed.

A newer version at the same broker is in the late flow. The *older* one stays in its other flows until the whole network
serves the newer one, and these flows are flushed: events may be under way in them, or wait in them for a broker that is
down, that never enter the late flow.

A flush never overtakes events. Links keep their order, but for one case: events wait for a neighbour that has restarted
until it is active, and messages do not. So a broker that is not active yet leaves flushes for later.

If a link fails, the echoes that were to come over it are lost. An attempt whose echoes have not come within ``AGAIN``
seconds, or two leases, begins again. Steered events that were counted, and have not come within ``LOST`` seconds, or
two leases, were lost, or had come before the host restarted: they are waited for no longer. The host still remembers
the events that the subscription got meanwhile. A neighbour that has been away for two leases is waited for no longer:
its events from before have come or are lost, and when it comes back it is told everything first.
"""

from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.errors import RoutingError, UnknownTreeError
from overstory.filters import Filter, parse_filter
from overstory.routing.epoch import Epoch
from overstory.routing.frames import Frames, Routed
from overstory.routing.messages import LATE, Attempt, Echo, Flush, Flushed, Key, Output, Probe, Send
from overstory.routing.regions import above
from overstory.routing.state import Home, State
from overstory.routing.table import NONE

Move = tuple[int, Key]  # the epoch, the subscription
Round = tuple[int, Attempt, int]  # the epoch, the attempt, the flow that is flushed


LAST, OLDER = 4, 5
AGAIN, LOST = 10.0, 30.0  # seconds


class Moving(msgspec.Struct):
    """A subscription on the move, as its host knows it."""

    targets: tuple[int, ...]  # the flows that the subscription moves to
    step: int = 1  # of the three above; LAST: it is flushed before it ends; OLDER: so is this version of it
    attempt: int = 0
    since: float = 0.0  # when the attempt began
    flushing: set[int] = msgspec.field(default_factory=set)  # flows whose echoes have not all come
    # In steered flows: how many events are to come from each broker
    expected: dict[int, dict[int, int]] = msgspec.field(default_factory=dict)
    # The events that the subscription has got, by publishing broker and number
    seen: set[tuple[int, int]] = msgspec.field(default_factory=set)
    older: Home | None = None  # the version that leaves these flows

    @property
    def probed(self) -> tuple[int, ...]:
        """The flows whose probes have to come before a broker answers a flush of the late flow."""
        return () if self.step >= LAST else self.targets


class PendingFlush(msgspec.Struct):
    """A flush that this broker has passed on and not answered yet."""

    peer: int | None  # the neighbour that it came from; None: this broker began it
    missing: set[int]  # neighbours whose echoes have to come first
    since: float
    host: int  # that began it
    probes: set[int]  # new flows whose probes have to come first
    counts: dict[int, int]  # in a steered flow: how many events brokers from here on have sent to the host
    # At the gateway of the host's region, the second time: how many events have to come from each broker first
    awaited: dict[int, int] | None = None
    again: bool = False  # whether this is the second time


class Moves:
    """The moves of subscriptions whose host this broker is, and its answers to the flushes of other hosts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._moving: dict[Move, Moving] = {}
        self._flushes: dict[Round, PendingFlush] = {}
        self._probed: dict[tuple[int, Attempt, int], float] = {}  # when the probe of each attempt and flow came
        self._early: list[tuple[int, Flush]] = []  # flushes that came before this broker was active

    @property
    def is_moving(self) -> bool:
        """Whether a subscription whose host this broker is is on the move."""
        return bool(self._moving)

    @property
    def drops_repeats(self) -> bool:
        """Whether a subscription may get an event in two of its flows now: the second copy is dropped (``once``). One
        that is only flushed gets each event in one flow."""
        return bool(self._moving) and any(map(_may_repeat, self._moving.values()))

    def start(self, id_: int, targets: tuple[int, ...]) -> list[Output]:
        """Starts to move a subscription to other flows, or tries the present step again if the move has started."""
        state, targets = self._state, tuple(sorted(set(targets)))
        home, number = state.homes.get(id_), state.active
        if home is None or number is None or not {(number, flow) for flow in (LATE, *targets)} & home.joined:
            raise RoutingError(f"subscription {id_} is not in the flow for late subscriptions here")
        self._check(number, id_, home.filter, targets)
        move = (number, (id_, home.version))
        if self._moving.get(move, Moving(targets)).targets != targets:
            raise RoutingError(f"subscription {id_} is on the move already")
        if move not in self._moving and (number, LATE) not in home.joined:
            return []  # the subscription has moved there before
        self._moving.setdefault(move, Moving(targets))
        return self._begin(move)

    def is_on_its_way(self, id_: int) -> bool:
        """Whether a subscription moves to other flows, or is being flushed."""
        return any(key[0] == id_ for _, key in self._moving)

    def flush(self, id_: int) -> list[Output]:
        """Flushes all flows that a subscription is in, and those that older versions of it are in. ``Flushed``
        follows."""
        state = self._state
        home = state.homes.get(id_)
        if home is None:
            return []
        key = (id_, home.version)
        for number, joined in sorted(_by_epoch(home, state).items()):
            moving = self._moving.setdefault((number, key), Moving(()))
            moving.targets, moving.step = joined, LAST
        moves = sorted(move for move in self._moving if move[1][0] == id_)
        outputs = [output for move in moves if move in self._moving for output in self._begin(move)]
        return outputs if moves else [Flushed(key)]

    def replaced(self, id_: int, older: Home) -> list[Output]:
        """A subscription here has a newer version, which is in the late flow. The older one leaves that flow at once,
        and the others once the newer one is served (``served``)."""
        state = self._state
        outputs = [
            output
            for number, flow in sorted(older.joined)
            if flow == LATE and number in state.epochs
            for output in state.leave(number, flow, id_, older)
        ]
        for number, flows in sorted(_by_epoch(older, state).items()):
            move = (number, (id_, older.version))
            seen = self._moving[move].seen if move in self._moving else set()
            self._moving[move] = Moving(flows, OLDER, since=float("inf"), seen=seen, older=older)
        return outputs

    def served(self, id_: int) -> list[Output]:
        """The whole network serves the newest version of a subscription: the flows of older ones are flushed."""
        moves = [move for move, moving in self._moving.items() if move[1][0] == id_ and moving.step == OLDER]
        return [output for move in moves if move in self._moving for output in self._begin(move)]

    def end_older(self, id_: int) -> list[Output]:
        """A subscription has ended: so have the older versions of it."""
        moves = [move for move, moving in self._moving.items() if move[1][0] == id_ and moving.step == OLDER]
        return [output for move in moves for output in self._leave(move)]

    def _leave(self, move: Move) -> list[Output]:
        """An older version leaves its flows."""
        moving, (number, (id_, _)) = self._moving.pop(move), move
        assert moving.older is not None
        outputs = [output for flow in moving.targets for output in self._state.leave(number, flow, id_, moving.older)]
        return outputs + self._flushed_if_last(move)

    def _flushed_if_last(self, move: Move) -> list[Output]:
        """The output that says that a subscription is flushed, unless another flush of it is under way."""
        id_, version = move[1]
        return [] if self.is_on_its_way(id_) else [Flushed((id_, version))]

    def _check(self, number: int, id_: int, wanted: Filter, targets: tuple[int, ...]) -> None:
        """Raises a ``RoutingError`` if these flows of the epoch cannot serve a subscription, each event once."""
        epoch, broker = self._state.epochs[number], self._state.broker
        for target in targets:
            if target not in epoch.flows or target == LATE:
                raise UnknownTreeError(f"epoch {number} has no flow {target} at broker {broker}")
            if not epoch.flows[epoch.spanning(target)].share.neighbours:
                raise UnknownTreeError(
                    f"flow {target} has no tree at broker {broker} that subscription {id_} could join"
                )
        events = [epoch.flows[target].share.events for target in targets]
        if not events or not events[0].union(*events[1:]).covers(wanted):
            raise RoutingError(f"flows {_listed(targets)} do not carry all that subscription {id_} wants")
        for one, other in combinations(range(len(targets)), 2):
            if events[one].intersects(events[other]):
                raise RoutingError(f"flows {targets[one]} and {targets[other]} may both carry an event")

    def _begin(self, move: Move) -> list[Output]:
        """Begins the present step with a new attempt. Echoes of older attempts no longer count."""
        moving, (number, key) = self._moving[move], move
        moving.attempt += 1
        moving.since = self._state.now
        moving.expected.clear()
        attempt, outputs = (*key, moving.attempt), list[Output]()
        flushed = moving.targets if moving.step != 2 else (LATE,)
        moving.flushing = set(flushed)
        epoch = self._state.epochs[number]
        if moving.step == 2:
            for target in moving.targets:
                if self._has_tree(epoch, target):
                    self._probed[number, attempt, target] = self._state.now
                outputs += self._probe_on(None, Probe(number, target, attempt))
        for flow in flushed:
            flush = Flush(number, epoch.spanning(flow), attempt, moving.probed, self._state.broker)
            outputs += self._flush(None, flush)
        return outputs

    def _end(self, move: Move) -> list[Output]:
        """Ends the present step and begins the next one, if there is one."""
        moving, (number, key) = self._moving[move], move
        home = self._state.homes.get(key[0])
        if moving.step == OLDER:
            return self._leave(move)
        if moving.step >= 3 or home is None or home.version != key[1]:  # over, or the subscription has gone
            del self._moving[move]
            return self._flushed_if_last(move) if moving.step == LAST else []
        outputs: list[Output] = []
        if moving.step == 1:
            epoch = self._state.epochs[number]
            for target in moving.targets:
                part = _part(home.filter, epoch.flows[target].share.events) if len(moving.targets) > 1 else home.filter
                outputs += self._state.join(epoch, home, key[0], target, part)
        else:
            outputs += self._state.leave(number, LATE, key[0], home, withdrawn=True)
        moving.step += 1
        return outputs + self._begin(move)

    def arrived(self, epoch: Epoch) -> list[Output]:
        """Events have come in steered flows: the steps that waited for them end, and gateways answer."""
        answers = [
            output
            for round_, flush in list(self._flushes.items())
            if round_[0] == epoch.share.epoch and flush.awaited is not None
            for output in self._answer(round_)
        ]
        return answers + [
            output
            for move in list(self._moving)
            if move[0] == epoch.share.epoch
            for output in self._end_if_flushed(move)
        ]

    def _end_if_flushed(self, move: Move) -> list[Output]:
        """Ends the present step, if all echoes have come, and all events that they counted."""
        moving, steered = self._moving[move], self._state.epochs[move[0]].steered
        if moving.flushing:
            return []
        if not all(
            steered.has_all(entry, {flow: count})
            for flow, counts in moving.expected.items()
            for entry, count in counts.items()
        ):
            return []
        return self._end(move)

    def receive(self, peer: int, message: Flush | Probe | Echo) -> list[Output]:
        """Handles a neighbour's message about a move."""
        if isinstance(message, Flush) and self._state.active is None:
            self._early.append((peer, message))
            return []
        if isinstance(message, Flush):
            return self._flush(peer, message)
        return self._probe(peer, message) if isinstance(message, Probe) else self._echo(peer, message)

    def once(self, frames: Frames, routed: Routed) -> Routed:
        """The decision without events that a subscription on the move has got before."""
        if not self._moving or not len(routed.delivered):
            return routed
        mine = [(key[0], moving) for (epoch, key), moving in self._moving.items() if epoch == frames.epoch]
        seen = {id_: moving.seen for id_, moving in mine if _may_repeat(moving)}
        kept = np.ones(len(routed.delivered), np.bool_)
        pairs = zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True)
        for place, (frame, id_) in enumerate(pairs):
            if id_ in seen:
                event = int(frames.entries[frame]), int(frames.ids[frame])
                kept[place] = event not in seen[id_]
                seen[id_].add(event)
        return self._without_idle_copies(routed, kept)._replace(
            delivered_frames=routed.delivered_frames[kept],
            delivered=routed.delivered[kept],
            delivered_serials=routed.delivered_serials[kept],
        )

    def _without_idle_copies(self, routed: Routed, kept: NDArray[np.bool_]) -> Routed:
        """The decision without the copies to clients that no kept delivery is for."""
        if kept.all():
            return routed
        homes = self._state.homes
        clients = [homes[id_].client if id_ in homes else NONE for id_ in routed.delivered.tolist()]
        steps = list(zip(routed.delivered_frames.tolist(), clients, strict=True))
        idle = {step for step, keep in zip(steps, kept.tolist(), strict=True) if not keep}
        idle -= {step for step, keep in zip(steps, kept.tolist(), strict=True) if keep}
        copies = zip(routed.frames.tolist(), routed.peers.tolist(), strict=True)
        needed = np.array([copy not in idle for copy in copies], np.bool_)
        flows = [served for served, keep in zip(routed.flows, needed.tolist(), strict=True) if keep]
        return routed._replace(frames=routed.frames[needed], peers=routed.peers[needed], flows=flows)

    @property
    def has_early(self) -> bool:
        """Whether there are flushes to be passed on that came before this broker was active."""
        return bool(self._early) and self._state.active is not None

    def pass_early_on(self) -> list[Output]:
        """Passes on the flushes that came before this broker was active."""
        early, self._early = self._early, []
        known = [(peer, flush) for peer, flush in early if flush.epoch in self._state.epochs]
        return [output for peer, flush in known for output in self._flush(peer, flush)]

    def down(self, peer: int) -> None:
        """A neighbour is down: flushes that it sent, or that wait for its echo, are forgotten."""
        self._early = [one for one in self._early if one[0] != peer]
        self._flushes = {
            round_: flush for round_, flush in self._flushes.items() if peer != flush.peer and peer not in flush.missing
        }

    def forget(self, number: int) -> list[Output]:
        """An epoch was retired: the moves in it are forgotten. No event of it comes any more, so they were flushed."""
        gone = {move: moving for move, moving in self._moving.items() if move[0] == number}
        self._moving = {move: moving for move, moving in self._moving.items() if move[0] != number}
        self._flushes = {round_: flush for round_, flush in self._flushes.items() if round_[0] != number}
        self._probed = {probe: since for probe, since in self._probed.items() if probe[0] != number}
        return [output for move in gone if gone[move].step >= LAST for output in self._flushed_if_last(move)]

    def try_again(self) -> list[Output]:
        """Begins attempts again that have taken too long: perhaps a link has failed, and took an echo with it."""
        now, outputs = self._state.now, list[Output]()
        for move, moving in list(self._moving.items()):
            home = self._state.homes.get(move[1][0])
            if moving.step != OLDER and (home is None or home.version != move[1][1]):
                del self._moving[move]
                outputs += self._flushed_if_last(move) if moving.step == LAST else []
            elif moving.flushing and moving.since < now - AGAIN:
                outputs += self._begin(move)
            elif moving.expected and not moving.flushing and moving.since < now - LOST:
                outputs += self._end_without_lost(move)
        return outputs

    def renew(self, old: float) -> list[Output]:
        """Begins attempts from before the time ``old`` again, and forgets the flushes and probes from before it."""
        self._give_up_awaited(old)
        self._flushes = {round_: flush for round_, flush in self._flushes.items() if flush.since >= old}
        self._probed = {probe: since for probe, since in self._probed.items() if since >= old}
        outputs: list[Output] = []
        for move, moving in list(self._moving.items()):
            home = self._state.homes.get(move[1][0])
            if moving.step != OLDER and (home is None or home.version != move[1][1]):
                del self._moving[move]
            elif moving.since < old:
                outputs += self._begin(move) if moving.flushing else self._end_without_lost(move)
        return outputs

    def _end_without_lost(self, move: Move) -> list[Output]:
        """Ends the present step: the events that echoes counted long ago, and that have not come since, were lost."""
        steered = self._state.epochs[move[0]].steered
        for flow, counts in self._moving[move].expected.items():
            for entry, count in counts.items():
                steered.give_up(entry, {flow: count})
        return self._end(move)

    def _give_up_awaited(self, old: float) -> None:
        """Events that this broker has awaited as a gateway since before the time ``old`` were lost."""
        for (number, _, flow), flush in self._flushes.items():
            if flush.since < old and number in self._state.epochs:
                for entry, count in (flush.awaited or {}).items():
                    self._state.epochs[number].steered.give_up(entry, {above(flow): count})

    def _flush(self, peer: int | None, flush: Flush) -> list[Output]:
        """Passes a flush on to all other neighbours in the tree, and waits for the echoes of all of them.

        A neighbour that is down is waited for as well, because events may be in flight behind it; but not for ever.
        """
        epoch = self._state.epochs[flush.epoch]
        flow = epoch.flows[flush.flow]
        others = sorted(other for other in flow.share.neighbours - {peer} if not self._has_gone(other))
        round_: Round = (flush.epoch, flush.move, flush.flow)
        probes = {self._probe_for(epoch, target, flush.host) for target in flush.targets if flush.flow == LATE}
        probes = {probe for probe in probes if self._has_tree(epoch, probe)}
        self._forget_earlier(flush)
        counts, awaited = self._sent_to(epoch, flush), None
        if flush.awaited is not None and epoch.steered.is_onward(above(flush.flow), flush.host):
            awaited = dict(flush.awaited)
        self._flushes[round_] = PendingFlush(
            peer, set(others), self._state.now, flush.host, probes, counts, awaited, flush.awaited is not None
        )
        onward = self._state.to_those_up([Send(other, flush) for other in others])
        return onward + self._answer(round_)

    def _forget_earlier(self, flush: Flush) -> None:
        """Forgets earlier attempts of the move that a flush is for: nobody waits for their echoes."""
        number, (id_, version, attempt) = flush.epoch, flush.move

        def is_earlier(epoch: int, other: Attempt) -> bool:
            return epoch == number and other[:2] == (id_, version) and other[2] < attempt

        for round_ in [one for one in self._flushes if is_earlier(one[0], one[1])]:
            del self._flushes[round_]
        for probe in [one for one in self._probed if is_earlier(one[0], one[1])]:
            del self._probed[probe]

    def _has_gone(self, peer: int) -> bool:
        """Whether a neighbour has been down for two leases."""
        return self._state.now - self._state.away.get(peer, self._state.now) >= 2 * self._state.lease

    def _has_tree(self, epoch: Epoch, target: int) -> bool:
        """Whether this broker is in the tree of a flow. If it is not, no probe comes to it."""
        return target in epoch.flows and bool(epoch.flows[target].share.neighbours)

    def _probe_for(self, epoch: Epoch, target: int, host: int) -> int:
        """The flow whose probe tells this broker that a host's summary, or that of its region, has come."""
        if epoch.spanning(target) == target or epoch.steered.is_inside(target, host):
            return target
        return above(target)

    def _sent_to(self, epoch: Epoch, flush: Flush) -> dict[int, int]:
        """How many events this broker has sent to a host in a flow, if it is steered.

        If the flow has regions, a broker of another region has sent them to the gateway of the host's. That gateway
        does not say before it is asked the second time, and then nobody else does.
        """
        steered, flow, goal = epoch.steered, flush.flow, flush.host
        if above(flow) in steered.place_of:
            flow = above(flow)
            if flush.awaited is not None or steered.is_onward(flow, goal):
                return {}
            goal = epoch.flows[flow].share.gateway_of[goal] if not steered.is_inside(flow, goal) else goal
        place = steered.place_of.get(flow)
        if place is None or goal == self._state.broker:
            return {}
        count = steered.sent_to(place, goal)
        return {self._state.broker: count} if count else {}

    def _probe(self, peer: int, message: Probe) -> list[Output]:
        """Passes a probe on through the new tree, once, and answers a flush that has waited for it."""
        probe, epoch = (message.epoch, message.move, message.flow), self._state.epochs[message.epoch]
        if probe in self._probed:
            return []
        if message.gateway == NONE or not epoch.steered.is_inside(above(message.flow), message.gateway):
            self._probed[probe] = self._state.now
        return self._probe_on(peer, message) + self._answer((message.epoch, message.move, LATE))

    def _probe_on(self, peer: int | None, probe: Probe) -> list[Output]:
        """Sends a probe to all other neighbours in its tree; from a gateway, one more through the flow above."""
        epoch, upper = self._state.epochs[probe.epoch], above(probe.flow)
        outlets = epoch.flows[probe.flow].outlets
        onward = [Send(other, probe) for other in sorted(outlets) if other != peer]
        if probe.gateway != NONE or not epoch.is_gateway(probe.flow):
            return self._state.to_those_up(onward)
        further = Probe(probe.epoch, upper, probe.move, self._state.broker)
        onward += [Send(other, further) for other in sorted(epoch.flows[upper].outlets)]
        return self._state.to_those_up(onward)

    def _echo(self, peer: int, message: Echo) -> list[Output]:
        """Notes that a neighbour has answered a flush, and answers the flush if no other echo is missing."""
        round_ = (message.epoch, message.move, message.flow)
        if round_ in self._flushes:
            self._flushes[round_].missing.discard(peer)
            self._flushes[round_].counts.update(message.counts)
        return self._answer(round_)

    def _answer(self, round_: Round) -> list[Output]:
        """Answers a flush once all echoes and probes have come. If this broker began the flush, the step may end."""
        number, attempt, flow = round_
        flush = self._flushes.get(round_)
        if (
            flush is None
            or flush.missing
            or any((number, attempt, target) not in self._probed for target in flush.probes)
            or not self._has_awaited(number, flow, flush)
        ):
            return []
        del self._flushes[round_]
        for target in flush.probes:
            del self._probed[number, attempt, target]
        if flush.peer is not None:
            return [Send(flush.peer, Echo(number, flow, attempt, tuple(sorted(flush.counts.items()))))]
        move = (number, attempt[:2])
        current = self._moving.get(move)
        if current is None or current.attempt != attempt[2]:
            return []
        return self._flushed(move, flow, flush)

    def _has_awaited(self, number: int, flow: int, flush: PendingFlush) -> bool:
        """Whether all events that a gateway awaits have come. If so, it says how many it has sent to the host."""
        steered = self._state.epochs[number].steered
        if flush.awaited is None:
            return True
        if not all(steered.has_all(entry, {above(flow): count}) for entry, count in flush.awaited.items()):
            return False
        count = steered.sent_to(steered.place_of[above(flow)], flush.host)
        flush.counts.update({self._state.broker: count} if count else {})
        return True

    def _flushed(self, move: Move, flow: int, flush: PendingFlush) -> list[Output]:
        """All echoes of a flush that this broker began have come. The step may end, or the gateway is asked first."""
        moving, (number, key) = self._moving[move], move
        epoch = self._state.epochs[number]
        target = above(flow) if above(flow) in epoch.steered.place_of else flow
        counts = moving.expected.setdefault(target, {}) if flush.counts else {}
        if target == flow or flush.again or epoch.is_gateway(target):
            counts.update(flush.counts)
            moving.flushing.discard(target)
            return self._end_if_flushed(move)
        inside = {entry for entry in flush.counts if epoch.steered.is_inside(target, entry)}
        counts.update({entry: count for entry, count in flush.counts.items() if entry in inside})
        awaited = tuple(sorted((entry, count) for entry, count in flush.counts.items() if entry not in inside))
        attempt = (*key, moving.attempt)
        return self._flush(None, Flush(number, flow, attempt, moving.probed, self._state.broker, awaited))


def _may_repeat(moving: Moving) -> bool:
    """Whether a subscription may get an event in two of its flows."""
    return moving.step != LAST or bool(moving.seen)


def _by_epoch(home: Home, state: State) -> dict[int, tuple[int, ...]]:
    """The flows that a subscription is in, by epoch."""
    numbers = {number for number, _ in home.joined if number in state.epochs}
    return {one: tuple(sorted(flow for number, flow in home.joined if number == one)) for one in numbers}


def _part(wanted: Filter, events: Filter) -> Filter:
    """The part of a subscription that a flow carries."""
    return parse_filter(f"({wanted}) AND ({events})")


def _listed(flows: tuple[int, ...]) -> str:
    return ", ".join(map(str, flows))
