"""Steered events of QoS 0 that come from neighbours, by kernels: frames go on as their headers say, without an object
for any of their events, and clients here get what stays.

It does what ``Fabric`` does with the same frames one by one, for as long as nothing is out of the ordinary
(``kernels.following``), every next hop is up, and kernels can decide about those events that stay.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.broker.tick import Came, Tick
from overstory.kernels.following import (
    BEGIN,
    COPIES,
    DONE,
    END,
    ENTRY,
    FLOW,
    HEADER_BYTES,
    ID,
    ONE_BROKER,
    ONE_FLOW,
    PACKET_BYTES,
    PORTS,
    PUBLISHER,
    ROOM,
    TAKEN,
    WIDTH,
    WORK,
    Place,
    follow,
)
from overstory.kernels.mqtt import CHUNK
from overstory.kernels.nothing import NONE
from overstory.routing.compiled import Decision
from overstory.routing.epoch import Epoch
from overstory.wire.frames import Flows, Ready
from overstory.wire.packets import MQTT_5

Ints = NDArray[np.int64]
Rows = NDArray[Any]
Decided = list[tuple[Decision, Rows, Came]]


class Followed(NamedTuple):
    """What was done of some frames."""

    frames: int  # the first of them, that were handled
    work: int  # that they were
    refused: int = 0  # if none was: how many of the first are not for kernels


class Following:
    """How one broker follows headers."""

    def __init__(self, fabric: Any, tick: Tick) -> None:
        self._fabric, self._tick = fabric, tick
        self.begun = 0  # frames that the latest call has begun to handle
        self._known: tuple[Epoch, Place] | None = None
        self._flows: dict[int, Flows] = {}  # by the number of a flow: the set of it alone
        self._chunks = np.zeros(1, CHUNK)
        self._chunks[0] = (0, 0, NONE, MQTT_5, NONE, 0, 0, 0)

    def follow(self, epoch: Epoch, bodies: Sequence[memoryview], most: int, faster: int) -> Followed:
        """Handles the first of some frames, until that is about so much work; ``faster`` events are as much work as one
        that kernels do not handle. Where the first frame is not for kernels, or they cannot decide about one of those
        that came with it, nothing has happened."""
        self.begun = 0
        if self._known is None or self._known[0] is not epoch:
            self._known = epoch, _place_of(epoch)
        place = self._known[1]
        bounds = np.zeros(len(bodies) + 1, np.int64)
        np.cumsum([len(body) for body in bodies], out=bounds[1:])
        data = np.frombuffer(bodies[0] if len(bodies) == 1 else b"".join(bodies), np.uint8)
        while True:
            seen = epoch.arrivals.seen
            report, staying, frames, out = follow(data, bounds, place, seen.arrays, most, faster)
            told = report.tolist()
            if told[DONE]:
                break
            if told[ROOM]:
                seen.make_room(told[ROOM])
            elif told[TAKEN]:
                bounds = bounds[: told[TAKEN] + 1]  # what is behind these is not for kernels
            else:
                return Followed(0, 0, 1)
        ready = list(_ready(told, epoch, out.data))
        if not all(peer in epoch.steered.links.up for peer, _ in ready):
            return Followed(0, 0, told[TAKEN])
        decisions = self._decided(told, data, staying, frames)
        if decisions is None:
            return Followed(0, 0, told[TAKEN])
        self.begun = told[TAKEN]
        for peer, frame in ready:
            self._fabric.pass_on(peer, frame)
        for decision, some, came in decisions:
            left = self._tick.fast.for_clients(decision)
            self._tick.hand_out(decision, left, data, some, self._chunks, came)
        if len(staying):
            self._fabric.act(self._tick.state.router.stayed(epoch.share.epoch, staying))
        return Followed(told[TAKEN], told[WORK])

    def _decided(self, told: list[int], data: NDArray[np.uint8], staying: Ints, frames: Rows) -> Decided | None:
        """What is decided about the events that stay; None if kernels cannot."""
        compiled, found = self._tick.compiled, Decided()
        starts = [0, len(staying)] if len(staying) else [0]
        if not told[ONE_FLOW] or (compiled.asks_broker and not told[ONE_BROKER]):
            columns = staying[:, [FLOW, ENTRY] if compiled.asks_broker else [FLOW]]
            starts[1:1] = (np.flatnonzero((columns[1:] != columns[:-1]).any(axis=1)) + 1).tolist()
        for begin, end in pairwise(starts):
            some, rows = frames[begin:end], staying[begin:end]
            flow, entry = rows.item(0, FLOW), rows.item(0, ENTRY)
            flows = self._flows.setdefault(flow, frozenset((flow,)))
            decision = compiled.decide(data, some, self._chunks, self._tick.slots, flows, entry)
            if decision is None or decision.decided != end - begin:
                return None
            found.append((decision, some, Came(rows[:, PUBLISHER], rows[:, ID], rows[:, ENTRY])))
        return found


def _place_of(epoch: Epoch) -> Place:
    """What the kernel knows of a broker and the steered flows of an epoch."""
    steered = epoch.steered
    facts = np.array([epoch.share.epoch, steered.position, steered.whole.digest])
    return Place(*steered.whole.ports, steered.numbers, steered.ids, facts)


def _ready(told: list[int], epoch: Epoch, out: memoryview) -> Iterator[tuple[int, Ready]]:
    """The neighbours that events go on to, each with its frame."""
    for port, peer in enumerate(epoch.steered.beside):
        at = PORTS + WIDTH * port
        if copies := told[at + COPIES]:
            body = out[told[at + BEGIN] : told[at + END]]
            yield peer, Ready(body, epoch.share.epoch, copies, told[at + PACKET_BYTES], told[at + HEADER_BYTES])
