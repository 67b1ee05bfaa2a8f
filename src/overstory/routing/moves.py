"""A late subscription moves to a better flow: it is in both for a while, and no event is lost or comes twice.

A *flush* goes through a tree; a broker answers it with an *echo* once its own neighbours have, so that behind the last
echo no event comes that was under way before the flush. From the beginning the host keeps in mind which events the
subscription got, and passes each on once.

1. It flushes the new tree. What the subscription got before the beginning does not come on the new way any more.
2. It joins the new flow and sends a *probe* through the new tree, behind the subscription. It flushes the old tree;
   this time a broker answers only when the probe has been there. Now no event comes that missed the new way.
3. It leaves the old flow, and flushes the new tree again. Now none comes that came on the old way already: the end.

Should a link fail, the answers that were to come over it do not come. An attempt that has not come to its end within
two leases is given up, and the step begins again; what the subscription got meanwhile is still kept in mind. So while a
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
    """At the host."""

    target: int  # the flow that it goes to
    step: int = 1
    attempt: int = 0
    since: float = 0.0  # when the attempt began
    seen: set[int] = msgspec.field(default_factory=set)  # the events that the subscription has got


class Asked(msgspec.Struct):
    peer: int | None  # who asked; None: this broker itself
    missing: set[int]  # who has to answer first
    since: float


class Moves:
    def __init__(self, state: State) -> None:
        self._state = state
        self._moving: dict[Move, Moving] = {}
        self._asked: dict[Round, Asked] = {}
        self._probed: dict[tuple[int, Attempt], float] = {}  # and when

    def start(self, id_: int, target: int) -> list[Output]:
        """Or again, if it has been started."""
        state = self._state
        home, number = state.homes.get(id_), state.active
        if home is None or number is None or not {(number, LATE), (number, target)} & home.joined:
            raise RoutingError(f"subscription {id_} is not in the flow for late subscriptions here")
        epoch, move = state.epochs[number], (number, (id_, home.version))
        if target not in epoch.flows or target == LATE:
            raise UnknownTreeError(f"epoch {number} has no flow {target} at broker {state.broker}")
        share = epoch.flows[target].share
        if not share.neighbours or target in {each.flow for each in epoch.share.steered}:
            raise UnknownTreeError(
                f"flow {target} has no tree at broker {state.broker} that subscription {id_} could join"
            )
        if not share.events.covers(home.filter):
            raise RoutingError(f"flow {target} does not carry all that subscription {id_} wants")
        if self._moving.get(move, Moving(target)).target != target:
            raise RoutingError(f"subscription {id_} is on the move already")
        if move not in self._moving and (number, LATE) not in home.joined:
            return []  # it is there
        self._moving.setdefault(move, Moving(target))
        return self._begin(move)

    def _begin(self, move: Move) -> list[Output]:
        """A step, with a new attempt: what is answered to an older one counts no longer."""
        moving, (number, key) = self._moving[move], move
        moving.attempt += 1
        moving.since = self._state.now
        attempt = (*key, moving.attempt)
        if moving.step != 2:
            return self._ask(None, Flush(number, moving.target, attempt, moving.target))
        self._probed[number, attempt] = self._state.now
        outlets = self._state.epochs[number].flows[moving.target].outlets
        probes: list[Output] = [Send(peer, Probe(number, moving.target, attempt)) for peer in sorted(outlets)]
        return probes + self._ask(None, Flush(number, LATE, attempt, moving.target))

    def _end(self, move: Move) -> list[Output]:
        """Of a step."""
        moving, (number, key) = self._moving[move], move
        home = self._state.homes.get(key[0])
        if moving.step == 3 or home is None or home.version != key[1]:  # there, or taken back meanwhile
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
        if isinstance(message, Flush):
            return self._ask(peer, message)
        return self._probe(peer, message) if isinstance(message, Probe) else self._echo(peer, message)

    def once(self, frames: Frames, routed: Routed) -> Routed:
        """Without what a subscription on the move has got before."""
        if not self._moving or not len(routed.delivered):
            return routed
        ids = {key[0]: moving.seen for (epoch, key), moving in self._moving.items() if epoch == frames.epoch}
        kept = np.ones(len(routed.delivered), np.bool_)
        pairs = zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True)
        for place, (frame, id_) in enumerate(pairs):
            if id_ in ids:
                event = int(frames.ids[frame])
                kept[place] = event not in ids[id_]
                ids[id_].add(event)
        return self._without_idle_copies(routed, kept)._replace(
            delivered_frames=routed.delivered_frames[kept],
            delivered=routed.delivered[kept],
            delivered_serials=routed.delivered_serials[kept],
        )

    def _without_idle_copies(self, routed: Routed, kept: NDArray[np.bool_]) -> Routed:
        """A client gets no copy of which all that it was for has been passed on before."""
        if kept.all():
            return routed
        homes = self._state.homes
        clients = [homes[id_].client if id_ in homes else NONE for id_ in routed.delivered.tolist()]
        steps = list(zip(routed.delivered_frames.tolist(), clients, strict=True))
        idle = {step for step, keep in zip(steps, kept.tolist(), strict=True) if not keep}
        idle -= {step for step, keep in zip(steps, kept.tolist(), strict=True) if keep}
        copies = zip(routed.frames.tolist(), routed.peers.tolist(), strict=True)
        needed = np.array([copy not in idle for copy in copies], np.bool_)
        flows = [each for each, keep in zip(routed.flows, needed.tolist(), strict=True) if keep]
        return routed._replace(frames=routed.frames[needed], peers=routed.peers[needed], flows=flows)

    def down(self, peer: int) -> None:
        """A neighbour is there no longer: neither will it answer, nor is it answered."""
        self._asked = {
            around: each for around, each in self._asked.items() if peer != each.peer and peer not in each.missing
        }

    def forget(self, number: int) -> None:
        """An epoch has gone, and all that moved in it."""
        self._moving = {move: each for move, each in self._moving.items() if move[0] != number}
        self._asked = {around: each for around, each in self._asked.items() if around[0] != number}
        self._probed = {probe: since for probe, since in self._probed.items() if probe[0] != number}

    def renew(self, old: float) -> list[Output]:
        """What has not come to an end since then begins again; what others have asked is forgotten."""
        self._asked = {around: each for around, each in self._asked.items() if each.since >= old}
        self._probed = {probe: since for probe, since in self._probed.items() if since >= old}
        outputs: list[Output] = []
        for move, moving in list(self._moving.items()):
            home = self._state.homes.get(move[1][0])
            if home is None or home.version != move[1][1]:
                del self._moving[move]
            elif moving.since < old:
                outputs += self._begin(move)
        return outputs

    def _ask(self, peer: int | None, flush: Flush) -> list[Output]:
        """All other neighbours of the tree: behind one that is down, too, events may be under way."""
        epoch = self._state.epochs[flush.epoch]
        flow = epoch.flows[flush.flow]
        others = sorted(flow.share.neighbours - {peer})
        around: Round = (flush.epoch, flush.move, flush.flow)
        self._asked[around] = Asked(peer, set(others), self._state.now)
        elsewhere = flush.target not in epoch.flows or not epoch.flows[flush.target].share.neighbours
        if elsewhere and flush.flow == LATE:  # the new tree does not come here, nor does a probe
            self._probed[around[:2]] = self._state.now
        onward: list[Output] = [Send(each, flush) for each in others if each in flow.outlets]
        return onward + self._answer(around)

    def _probe(self, peer: int, message: Probe) -> list[Output]:
        if (message.epoch, message.move) in self._probed:
            return []
        self._probed[message.epoch, message.move] = self._state.now
        outlets = self._state.epochs[message.epoch].flows[message.flow].outlets
        onward: list[Output] = [Send(each, message) for each in sorted(outlets) if each != peer]
        return onward + self._answer((message.epoch, message.move, LATE))

    def _echo(self, peer: int, message: Echo) -> list[Output]:
        around = (message.epoch, message.move, message.flow)
        if around in self._asked:
            self._asked[around].missing.discard(peer)
        return self._answer(around)

    def _answer(self, around: Round) -> list[Output]:
        number, attempt, flow = around
        unprobed = flow == LATE and around[:2] not in self._probed
        if around not in self._asked or unprobed or self._asked[around].missing:
            return []
        peer = self._asked.pop(around).peer
        if flow == LATE:
            del self._probed[around[:2]]
        if peer is not None:
            return [Send(peer, Echo(number, flow, attempt))]
        move = (number, attempt[:2])
        current = self._moving.get(move)
        return self._end(move) if current is not None and current.attempt == attempt[2] else []
