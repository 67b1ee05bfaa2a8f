"""Events between neighbours by kernels: from the bytes that come to the bytes of link frames, without an object each.

A neighbour has a slot, as a client has. Kernels name the events that are for it (they are *special* to them), and here
these become one frame for each neighbour. What comes from a neighbour is decided by the same kernels, for the flows
that its frames serve. Where kernels cannot decide, ``Fabric`` has its plain way, which is the oracle of this one.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from overstory.broker.departing import Copies, Departing, Sent
from overstory.broker.fabric import Fabric
from overstory.broker.promises import Promise
from overstory.broker.tick import Came, Tick
from overstory.kernels.link_packets import link_packets
from overstory.kernels.mqtt import CHUNK, JSON, RETAIN, frame
from overstory.kernels.nothing import NONE
from overstory.routing.compiled import Decision
from overstory.wire.frames import Events, are_alike
from overstory.wire.packets import MQTT_5

Ints = NDArray[np.int64]
Rows = NDArray[Any]
MOST_FLOWS = 62  # bits


class Fast:
    """The kernels' way of one broker with neighbours."""

    def __init__(self, fabric: Fabric, tick: Tick) -> None:
        self.fabric, self.tick, self.state = fabric, tick, fabric.state
        self._slot_of: dict[int, int] = {}  # by broker: a neighbour, or an end of steered flows
        self._broker_of = np.zeros(0, np.int64)  # by slot; NONE: it is a client's or a group's
        self._know(fabric.neighbours)
        tick.fast = self
        tick.compiled.steers = True
        fabric.fast = self

    @property
    def can_decide(self) -> bool:
        """Whether kernels know enough: as for clients alone, and not too many flows."""
        state = self.state.router.state
        if state.active is None or not self.tick.compiled.can_decide:
            return False
        epoch = state.epochs[state.active]
        if len(epoch.steered):
            self._know(epoch.steered.ids.tolist())
        return len(epoch.table.flows) <= MOST_FLOWS

    def _know(self, brokers: Iterable[int]) -> None:
        """Gives slots to brokers that have none yet."""
        for broker in brokers:
            if broker not in self._slot_of:
                self._slot_of[broker] = self.state.slots.take(broker, cast(Any, None))
                self._broker_of = self._broker_of[:0]  # to be made again

    # Events that go to neighbours

    def take(
        self,
        decision: Decision,
        data: NDArray[np.uint8],
        frames: Rows,
        chunks: Rows,
        origin: int,
        came: Came | None,
        first: int,
    ) -> tuple[list[int], dict[int, Promise]]:
        """Sends neighbours what a decision has for them. Returns the pairs of events and slots that are left, and the
        promises of events that are not safe yet."""
        pairs = np.array(decision.specials, np.int64).reshape(-1, 2)
        brokers = self._brokers(pairs[:, 1])
        mine = brokers != NONE
        left: list[int] = pairs[~mine].ravel().tolist()
        promises: dict[int, Promise] = {}
        if not mine.any():
            return left, promises
        copies = Copies(pairs[mine, 0], brokers[mine], self._masks(decision, *pairs[mine].T))
        departing = Departing(copies, list(decision.flows), decision.steered)
        for peer in departing.peers:
            if peer == origin or peer not in self.fabric.neighbours:
                continue
            sent = departing.to(peer)
            events = self._events(data, frames, chunks, sent, came, first)
            self.fabric.send(peer, events, self._promised(sent.events, events, promises))
        return left, promises

    def _brokers(self, slots: Ints) -> Ints:
        """The broker of each slot, NONE if it is a client's or a group's."""
        if len(self._broker_of) < len(self.state.slots.rows):
            self._broker_of = np.full(len(self.state.slots.rows), NONE)
            for broker, slot in self._slot_of.items():
                self._broker_of[slot] = broker
        found: Ints = self._broker_of[slots]
        return found

    def _masks(self, decision: Decision, events: Ints, slots: Ints) -> Ints:
        """The flows of events that go to brokers, as bits."""
        if len(decision.flows) == 1:
            return np.ones(len(events), np.int64)
        kinds, offsets, numbers = decision.matching
        kind = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        slot, place = decision.ways_of(numbers)
        width = len(self.state.slots.rows)
        keys, at = np.unique(kind * width + slot, return_inverse=True)
        masks = np.zeros(len(keys), np.int64)
        np.bitwise_or.at(masks, at, np.int64(1) << place)
        found: Ints = masks[np.searchsorted(keys, kinds[events] * width + slots)]
        return found

    def _events(
        self,
        data: NDArray[np.uint8],
        frames: Rows,
        chunks: Rows,
        sent: Sent,
        came: Came | None,
        first: int,
    ) -> Events:
        """The events of one frame."""
        rows, flows, steering = sent
        packets, sizes = link_packets(data, frames, chunks, rows)
        nothing = np.zeros(len(rows), np.int64)
        if came is not None:
            ids, publishers, entries = came.ids[rows], came.publishers[rows], came.entries[rows]
        else:
            ids, publishers = first + rows, chunks["client"][frames["chunk"][rows]]
            entries = np.full(len(rows), self.state.config.number)
        marks = frames["qos"][rows].astype(np.int64) | np.where(frames["marks"][rows] & RETAIN, 4, 0)
        epoch = self.fabric.place.share.epoch
        statistics = nothing + NONE, nothing, nothing
        return Events(epoch, packets.tobytes(), sizes, marks, ids, publishers, entries, flows, statistics, steering)

    def _promised(self, rows: Ints, sent: Events, promises: dict[int, Promise]) -> list[Promise | None]:
        """A promise for each event of QoS 1 or 2, the same one for all its copies."""
        if not sent.marks.any():
            return []
        return [
            promises.setdefault(row, Promise()) if mark & 3 else None
            for row, mark in zip(rows.tolist(), sent.marks.tolist(), strict=True)
        ]

    # Events that come from neighbours

    def arrived(self, origin: int, events: Events) -> bool:
        """Decides about events of a neighbour. False if kernels cannot; nothing has happened then."""
        compiled, active = self.tick.compiled, self.state.router.state.active
        if events.steering is not None or events.marks.any() or events.epoch != active or not self.can_decide:
            return False
        data = np.frombuffer(events.publishes, np.uint8)
        chunks = np.zeros(1, CHUNK)
        chunks[0] = (0, len(data), NONE, MQTT_5, NONE, 0, 0, 0)
        frames = frame(data, chunks, self.state.slots.rows, len(data))
        if len(frames) != len(events) or (frames["end"] - frames["start"] != events.sizes).any():
            return False
        if (frames["marks"] & JSON).any():
            return False
        served, entries = events.flows, events.entries.tolist()
        if not compiled.asks_broker:
            entries = [entries[0]] * len(events)  # who published it makes no difference
        changes: list[int] = []
        if not are_alike(served) or entries.count(entries[0]) != len(entries):
            places = range(1, len(events))
            changes = [at for at in places if served[at] is not served[at - 1] or entries[at] != entries[at - 1]]
        starts, decisions = [0, *changes, len(events)], []
        for begin, end in pairwise(starts):
            part = frames[begin:end]
            decision = compiled.decide(data, part, chunks, self.tick.slots, served[begin], entries[begin])
            if decision is None or decision.decided != len(part):
                return False
            decisions.append((begin, end, decision))
        return self._act(origin, events, data, frames, chunks, decisions)

    def _act(
        self,
        origin: int,
        events: Events,
        data: NDArray[np.uint8],
        frames: Rows,
        chunks: Rows,
        decisions: list[tuple[int, int, Decision]],
    ) -> bool:
        """Sends on and hands out what was decided."""
        for begin, end, decision in decisions:
            part, rows = frames[begin:end], slice(begin, end)
            mine = Came(events.publishers[rows], events.ids[rows], events.entries[rows])
            left, _ = self.take(decision, data, part, chunks, origin, mine, 0)
            self.tick.hand_out(decision, left, data, part, chunks, mine)
        return True
