"""A late subscription moves to a better flow: it is in both for a while, and no event is lost or delivered twice.

The *old* flow is the late flow; the *new* one is the flow that the subscription moves to. A *flush* goes through a
tree. A broker answers a flush with an *echo* once all its other neighbours in the tree have answered. So behind the
last echo no event comes that was in flight before the flush. From the beginning of the move the host remembers which
events the subscription got, and passes each of them on once.

1. The host flushes the new tree. After that, no event that the subscription got before the move began comes over the
   new tree any more.
2. The subscription joins the new flow, and the host sends a *probe* through the new tree, behind the subscription. The
   host flushes the old tree; this time a broker answers only once the probe has reached it. After that, no event comes
   over the old tree that missed the new one.
3. The subscription leaves the old flow, and the host flushes the new tree again. After that, no event comes over the
   new tree that came over the old one already, and the move is over.

If a link fails, the echoes that were to come over it are lost. An attempt that has not ended within two leases is given
up, and its step begins again. The host still remembers the events that the subscription got meanwhile. So while a
broker of either tree is away, the subscription stays in the flows that it is in.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.errors import RoutingError, UnknownTreeError
from overstory.routing.frames import Frames, Routed
from overstory.routing.messages import LATE, Attempt, Echo, Flush, Key, Output, Probe, Send
from overstory.routing.state import State
from overstory.routing.table import NONE

Move = tuple[int, Key]  # the epoch, the subscription
Round = tuple[int, Attempt, int]  # the epoch, the attempt, the flow that is flushed


class Moving(msgspec.Struct):
    """A subscription on the move, as its host knows it."""

    target: int  # the flow that the subscription moves to
    step: int = 1  # of the three above
    attempt: int = 0
    since: float = 0.0  # when the attempt began
    seen: set[int] = msgspec.field(default_factory=set)  # the events that the subscription has got


class PendingFlush(msgspec.Struct):
    """A flush that this broker has passed on and not answered yet."""

    peer: int | None  # the neighbour that it came from; None: this broker began it
    missing: set[int]  # neighbours whose echoes have to come first
    since: float


class Moves:
    """The moves of subscriptions whose host this broker is, and its answers to the flushes of other hosts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._moving: dict[Move, Moving] = {}
        self._flushes: dict[Round, PendingFlush] = {}
        self._probed: dict[tuple[int, Attempt], float] = {}  # when the probe of each attempt came

    @property
    def is_moving(self) -> bool:
        """Whether a subscription whose host this broker is is on the move."""
        return bool(self._moving)

    def start(self, id_: int, target: int) -> list[Output]:
        """Starts to move a subscription to the target flow, or tries the present step again if the move has started."""
        state = self._state
        home, number = state.homes.get(id_), state.active
        if home is None or number is None or not {(number, LATE), (number, target)} & home.joined:
            raise RoutingError(f"subscription {id_} is not in the flow for late subscriptions here")
        epoch, move = state.epochs[number], (number, (id_, home.version))
        if target not in epoch.flows or target == LATE:
            raise UnknownTreeError(f"epoch {number} has no flow {target} at broker {state.broker}")
        share = epoch.flows[target].share
        if not share.neighbours or target in {member.flow for member in epoch.share.steered}:
            raise UnknownTreeError(
                f"flow {target} has no tree at broker {state.broker} that subscription {id_} could join"
            )
        if not share.events.covers(home.filter):
            raise RoutingError(f"flow {target} does not carry all that subscription {id_} wants")
        if self._moving.get(move, Moving(target)).target != target:
            raise RoutingError(f"subscription {id_} is on the move already")
        if move not in self._moving and (number, LATE) not in home.joined:
            return []  # the subscription has moved there before
        self._moving.setdefault(move, Moving(target))
        return self._begin(move)

    def _begin(self, move: Move) -> list[Output]:
        """Begins the present step with a new attempt. Echoes of older attempts no longer count."""
        moving, (number, key) = self._moving[move], move
        moving.attempt += 1
        moving.since = self._state.now
        attempt = (*key, moving.attempt)
        if moving.step != 2:
            return self._flush(None, Flush(number, moving.target, attempt, moving.target))
        self._probed[number, attempt] = self._state.now
        outlets = self._state.epochs[number].flows[moving.target].outlets
        probes: list[Output] = [Send(peer, Probe(number, moving.target, attempt)) for peer in sorted(outlets)]
        return probes + self._flush(None, Flush(number, LATE, attempt, moving.target))

    def _end(self, move: Move) -> list[Output]:
        """Ends the present step and begins the next one, if there is one."""
        moving, (number, key) = self._moving[move], move
        home = self._state.homes.get(key[0])
        if moving.step == 3 or home is None or home.version != key[1]:  # over, or the subscription has gone
            del self._moving[move]
            return []
        if moving.step == 1:
            epoch = self._state.epochs[number]
            outputs = self._state.join(epoch, home, key[0], moving.target, home.filter)
        else:
            outputs = self._state.leave(number, LATE, key[0], home)
        moving.step += 1
        return outputs + self._begin(move)

    def receive(self, peer: int, message: Flush | Probe | Echo) -> list[Output]:
        """Handles a neighbour's message about a move."""
        if isinstance(message, Flush):
            return self._flush(peer, message)
        return self._probe(peer, message) if isinstance(message, Probe) else self._echo(peer, message)

    def once(self, frames: Frames, routed: Routed) -> Routed:
        """The decision without events that a subscription on the move has got before."""
        if not self._moving or not len(routed.delivered):
            return routed
        seen = {key[0]: moving.seen for (epoch, key), moving in self._moving.items() if epoch == frames.epoch}
        kept = np.ones(len(routed.delivered), np.bool_)
        pairs = zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True)
        for place, (frame, id_) in enumerate(pairs):
            if id_ in seen:
                event = int(frames.ids[frame])
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

    def down(self, peer: int) -> None:
        """A neighbour is down: flushes that it sent, or that wait for its echo, are forgotten."""
        self._flushes = {
            round_: flush for round_, flush in self._flushes.items() if peer != flush.peer and peer not in flush.missing
        }

    def forget(self, number: int) -> None:
        """An epoch was retired: the moves in it are forgotten."""
        self._moving = {move: moving for move, moving in self._moving.items() if move[0] != number}
        self._flushes = {round_: flush for round_, flush in self._flushes.items() if round_[0] != number}
        self._probed = {probe: since for probe, since in self._probed.items() if probe[0] != number}

    def renew(self, old: float) -> list[Output]:
        """Begins attempts from before the time ``old`` again, and forgets the flushes and probes from before it."""
        self._flushes = {round_: flush for round_, flush in self._flushes.items() if flush.since >= old}
        self._probed = {probe: since for probe, since in self._probed.items() if since >= old}
        outputs: list[Output] = []
        for move, moving in list(self._moving.items()):
            home = self._state.homes.get(move[1][0])
            if home is None or home.version != move[1][1]:
                del self._moving[move]
            elif moving.since < old:
                outputs += self._begin(move)
        return outputs

    def _flush(self, peer: int | None, flush: Flush) -> list[Output]:
        """Passes a flush on to all other neighbours in the tree, and waits for the echoes of all of them.

        A neighbour that is down is waited for as well, because events may be in flight behind it.
        """
        epoch = self._state.epochs[flush.epoch]
        flow = epoch.flows[flush.flow]
        others = sorted(flow.share.neighbours - {peer})
        round_: Round = (flush.epoch, flush.move, flush.flow)
        self._flushes[round_] = PendingFlush(peer, set(others), self._state.now)
        elsewhere = flush.target not in epoch.flows or not epoch.flows[flush.target].share.neighbours
        if elsewhere and flush.flow == LATE:  # this broker is not in the new tree, so no probe comes
            self._probed[round_[:2]] = self._state.now
        onward: list[Output] = [Send(other, flush) for other in others if other in flow.outlets]
        return onward + self._answer(round_)

    def _probe(self, peer: int, message: Probe) -> list[Output]:
        """Passes a probe on through the new tree, once, and answers a flush that has waited for it."""
        if (message.epoch, message.move) in self._probed:
            return []
        self._probed[message.epoch, message.move] = self._state.now
        outlets = self._state.epochs[message.epoch].flows[message.flow].outlets
        onward: list[Output] = [Send(other, message) for other in sorted(outlets) if other != peer]
        return onward + self._answer((message.epoch, message.move, LATE))

    def _echo(self, peer: int, message: Echo) -> list[Output]:
        """Notes that a neighbour has answered a flush, and answers the flush if no other echo is missing."""
        round_ = (message.epoch, message.move, message.flow)
        if round_ in self._flushes:
            self._flushes[round_].missing.discard(peer)
        return self._answer(round_)

    def _answer(self, round_: Round) -> list[Output]:
        """Answers a flush once all echoes and the probe have come. If this broker began the flush, the step ends."""
        number, attempt, flow = round_
        unprobed = flow == LATE and round_[:2] not in self._probed
        if round_ not in self._flushes or unprobed or self._flushes[round_].missing:
            return []
        peer = self._flushes.pop(round_).peer
        if flow == LATE:
            del self._probed[round_[:2]]
        if peer is not None:
            return [Send(peer, Echo(number, flow, attempt))]
        move = (number, attempt[:2])
        current = self._moving.get(move)
        return self._end(move) if current is not None and current.attempt == attempt[2] else []
