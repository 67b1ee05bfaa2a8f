"""A late subscription moves to a better flow: it is in both for a while, and no event is lost or comes twice.

A *flush* goes through a tree; a broker answers it with an *echo* once its own neighbours have, so that behind the last
echo no event comes that was under way before the flush. From the beginning the host keeps in mind which events the
subscription got, and passes each on once.

1. It flushes the new tree. What the subscription got before the beginning does not come on the new way any more.
2. It joins the new flow and sends a *probe* through the new tree, behind the subscription. It flushes the old tree;
   this time a broker answers only when the probe has been there. Now no event comes that missed the new way.
3. It leaves the old flow, and flushes the new tree again. Now none comes that came on the old way already: the end.

From a neighbour that is down no event comes, so nobody waits for its echo.
"""

import numpy as np
from numpy.typing import NDArray

from overstory.errors import RoutingError, UnknownTreeError
from overstory.routing.frames import Frames, Routed
from overstory.routing.messages import LATE, Echo, Flush, Key, Output, Probe, Send
from overstory.routing.state import State
from overstory.routing.table import NONE

Move = tuple[int, Key]  # the epoch, the subscription
Round = tuple[int, Key, int]  # and the flow that is flushed


class Moves:
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: dict[Move, set[int]] = {}  # at hosts: the events that the subscription has got
        self._target: dict[Move, int] = {}  # at hosts: the flow that it goes to
        self._joined: set[Move] = set()  # at hosts: those that have
        self._asked: dict[Round, tuple[int | None, set[int]]] = {}  # who asked, and who has to answer first
        self._probed: set[Move] = set()

    def start(self, id_: int, target: int) -> list[Output]:
        state = self._state
        home = state.homes.get(id_)
        if home is None or state.active is None or (state.active, LATE) not in home.joined:
            raise RoutingError(f"subscription {id_} is not in the flow for late subscriptions here")
        number = state.active
        epoch = state.epochs[number]
        if target not in epoch.flows or target == LATE:
            raise UnknownTreeError(f"epoch {number} has no flow {target} at broker {state.broker}")
        share = epoch.flows[target].share
        if not share.neighbours or target in {each.flow for each in epoch.share.steered}:
            raise UnknownTreeError(
                f"flow {target} has no tree at broker {state.broker} that subscription {id_} could join"
            )
        if not share.events.covers(home.filter):
            raise RoutingError(f"flow {target} does not carry all that subscription {id_} wants")
        move = (number, (id_, home.version))
        if move in self._seen:
            raise RoutingError(f"subscription {id_} is on the move already")
        self._seen[move] = set()
        self._target[move] = target
        return self._ask(None, Flush(number, target, move[1], target))

    def _join(self, move: Move, target: int) -> list[Output]:
        number, key = move
        epoch, home = self._state.epochs[number], self._state.homes.get(key[0])
        if home is None or home.version != key[1]:
            return self._finish(move)  # it was taken back meanwhile
        outputs = self._state.join(epoch, home, key[0], target, home.filter)
        probes = [Send(peer, Probe(number, target, key)) for peer in sorted(epoch.flows[target].outlets)]
        self._probed.add(move)
        self._joined.add(move)
        return [*outputs, *probes, *self._ask(None, Flush(number, LATE, key, target))]

    def _finish(self, move: Move) -> list[Output]:
        del self._seen[move], self._target[move]
        self._joined.discard(move)
        return []

    def receive(self, peer: int, message: Flush | Probe | Echo) -> list[Output]:
        if isinstance(message, Flush):
            return self._ask(peer, message)
        return self._probe(peer, message) if isinstance(message, Probe) else self._echo(peer, message)

    def once(self, frames: Frames, routed: Routed) -> Routed:
        """Without what a subscription on the move has got before."""
        if not self._seen or not len(routed.delivered):
            return routed
        ids = {key[0]: seen for (epoch, key), seen in self._seen.items() if epoch == frames.epoch}
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

    def down(self, peer: int) -> list[Output]:
        """A neighbour is there no longer: nobody waits for it, nor is it answered."""
        outputs: list[Output] = []
        for around, (asking, missing) in list(self._asked.items()):
            if asking == peer:
                del self._asked[around]
            elif peer in missing:
                missing.discard(peer)
                outputs += self._answer(around)
        return outputs

    def forget(self, number: int) -> None:
        """An epoch has gone, and all that moved in it."""
        self._seen = {move: seen for move, seen in self._seen.items() if move[0] != number}
        self._target = {move: target for move, target in self._target.items() if move[0] != number}
        self._asked = {around: each for around, each in self._asked.items() if around[0] != number}
        self._joined = {move for move in self._joined if move[0] != number}
        self._probed = {move for move in self._probed if move[0] != number}

    def _ask(self, peer: int | None, flush: Flush) -> list[Output]:
        epoch = self._state.epochs[flush.epoch]
        others = sorted(each for each in epoch.flows[flush.flow].outlets if each != peer)
        around: Round = (flush.epoch, flush.move, flush.flow)
        self._asked[around] = (peer, set(others))
        elsewhere = flush.target not in epoch.flows or not epoch.flows[flush.target].share.neighbours
        if elsewhere and flush.flow == LATE:  # the new tree does not come here, nor does a probe
            self._probed.add(around[:2])
        onward: list[Output] = [Send(each, flush) for each in others]
        return onward + self._answer(around)

    def _probe(self, peer: int, message: Probe) -> list[Output]:
        if (message.epoch, message.move) in self._probed:
            return []
        self._probed.add((message.epoch, message.move))
        outlets = self._state.epochs[message.epoch].flows[message.flow].outlets
        onward: list[Output] = [Send(each, message) for each in sorted(outlets) if each != peer]
        return onward + self._answer((message.epoch, message.move, LATE))

    def _echo(self, peer: int, message: Echo) -> list[Output]:
        around = (message.epoch, message.move, message.flow)
        if around in self._asked:
            self._asked[around][1].discard(peer)
        return self._answer(around)

    def _answer(self, around: Round) -> list[Output]:
        number, move, flow = around
        unprobed = flow == LATE and around[:2] not in self._probed
        if around not in self._asked or unprobed or self._asked[around][1]:
            return []
        peer, _ = self._asked.pop(around)
        if flow == LATE:
            self._probed.discard(around[:2])
        if peer is not None:
            return [Send(peer, Echo(number, flow, move))]
        target = self._target[around[:2]]
        if flow == LATE:
            return [*self._leave_late(number, move), *self._ask(None, Flush(number, target, move, target))]
        if around[:2] in self._joined:
            return self._finish(around[:2])
        return self._join(around[:2], target)

    def _leave_late(self, number: int, move: Key) -> list[Output]:
        home = self._state.homes.get(move[0])
        if home is None or home.version != move[1] or (number, LATE) not in home.joined:
            return []  # it was taken back meanwhile
        return self._state.leave(number, LATE, move[0], home)
