"""Events between neighbours by kernels: from the bytes that come to the bytes of link frames, without an object each.

A neighbour has a slot, as a client has. Kernels name the events that are for it (they are *special* to them), and here
these become one frame for each neighbour. What comes from a neighbour is decided by the same kernels, for the flows
that its frames serve. Where kernels cannot decide, ``Fabric`` has its plain way, which is the oracle of this one.

Events of QoS 1 that come together have one promise: those of clients that one turn handles, and those of one frame of a
neighbour. So an acknowledgement may wait for others that came with it; it never waits in a circle, because a frame only
waits for frames that were sent after it came.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from overstory.broker.departing import Copies, Departing, Sent
from overstory.broker.fabric import Fabric
from overstory.broker.following import Followed, Following
from overstory.broker.kinds import Hops
from overstory.broker.onward import Onward
from overstory.broker.promises import Promise, Runs
from overstory.broker.tick import Came, Tick
from overstory.kernels.link_packets import link_packets
from overstory.kernels.mqtt import CHUNK, JSON, REBUILT, frame
from overstory.kernels.nothing import NONE
from overstory.routing.compiled import Decision
from overstory.routing.epoch import Epoch
from overstory.wire.frames import NOTHING, QOS, Events, Flows, are_alike, are_same, constant, distinct, some_of
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
        self._epoch: Epoch | None = None  # whose ends are known
        self._know(fabric.neighbours)
        tick.fast = self
        tick.compiled.steers = True
        self.following = Following(fabric, tick)
        self.onward = tick.straight.onward = Onward(fabric, tick, tick.straight.kinds)
        fabric.fast = self

    @property
    def can_decide(self) -> bool:
        """Whether kernels know enough: as for clients alone, and not too many flows."""
        state = self.state.router.state
        if state.active is None or not self.tick.compiled.can_decide:
            return False
        epoch = state.epochs[state.active]
        if epoch is not self._epoch:
            self._epoch = epoch
            self._know(epoch.steered.ids.tolist() if len(epoch.steered) else ())
        return len(epoch.table.flows) <= MOST_FLOWS

    @property
    def follows(self) -> bool:
        """Whether steered events may come that kernels send on."""
        state = self.state.router.state
        if state.active is None or not state.epochs[state.active].steered.is_plain:
            return False
        return self.can_decide and not self.state.takers

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
        promise: Promise,
    ) -> list[int]:
        """Sends neighbours what a decision has for them. Returns the pairs of events and slots that are left. The
        promise is kept once all events of QoS 1 or 2 are safe."""
        pairs = decision.pairs
        brokers = self._brokers(pairs[:, 1])
        mine = brokers != NONE
        left: list[int] = pairs[~mine].ravel().tolist()
        if not mine.any():
            return left
        copies = Copies(pairs[mine, 0], brokers[mine], self._masks(decision, *pairs[mine].T))
        departing = Departing(copies, list(decision.flows), decision.steered)
        for peer in departing.peers:
            if peer == origin or peer not in self.fabric.neighbours:
                continue
            sent = departing.to(peer)
            events = self._events(data, frames, chunks, sent, came, first)
            self.fabric.send(peer, events, _promised(events, promise))
        if len(departing.stranded.frames):

            def row(event: int, flow: int) -> tuple[Events, Promise | None]:
                sent = Sent(np.array([event]), [frozenset({flow})], None)
                events = self._events(data, frames, chunks, sent, came, first)
                return events, promise if events.marks[0] & QOS else None

            self.fabric.stranding.hold(departing.stranded, decision.steered.ids, row)
        return left

    def for_clients(self, decision: Decision) -> list[int]:
        """The pairs of events and slots of a decision that are no broker's."""
        if not decision.has_specials:
            return []
        pairs = decision.pairs
        left: list[int] = pairs[self._brokers(pairs[:, 1]) == NONE].ravel().tolist()
        return left

    def hops_of(self, decision: Decision, origin: int = NONE) -> Hops | None:
        """The neighbours that get the only message of a decision, each with the flows of its copy; ``origin`` is the
        one that it came from. None if it is special to a client, too, or goes on in a steered flow."""
        if not decision.has_specials:
            return ()
        pairs = decision.pairs
        brokers, masks = self._brokers(pairs[:, 1]), self._masks(decision, *pairs.T)
        hops = []
        for broker, mask in zip(brokers.tolist(), masks.tolist(), strict=True):
            flows = frozenset(flow for place, flow in enumerate(decision.flows) if mask >> place & 1)
            if broker == NONE or not flows.isdisjoint(decision.steered.place_of):
                return None
            if broker != origin and broker in self.fabric.neighbours:
                hops.append((broker, flows))
        return tuple(hops)

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
            return constant(1, len(events)) if len(events) else events
        kinds, offsets, numbers = decision.matching
        slot, place = decision.ways_of(numbers)
        if len(place) and are_same(place):  # most often: one flow has all who want them
            return constant(1 << place.item(0), len(events))
        kind = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
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
        packets, sizes, marks = link_packets(data, frames, chunks, rows)
        if came is not None:
            publishers, ids, entries = (some_of(column, rows) for column in came)
        else:
            ids, entries = first + rows, constant(self.state.config.number, len(rows))
            is_one = len(chunks) == 1
            publishers = constant(chunks["client"][0], len(rows)) if is_one else chunks["client"][frames["chunk"][rows]]
        epoch = self.fabric.epochs.active
        acknowledged = self.fabric.marks.carried(distinct(entries)) if steering is None else NOTHING
        return Events(epoch, packets.data, sizes, marks, ids, publishers, entries, flows, None, steering, acknowledged)

    # Events that come from neighbours

    def arrived(self, origin: int, events: Events, safe: Callable[[], None]) -> bool:
        """Decides about events of a neighbour, and calls ``safe`` once those of QoS 1 are. False if kernels cannot;
        nothing has happened then."""
        compiled, active = self.tick.compiled, self.state.router.state.active
        if events.epoch != active or not self.can_decide:
            return False
        if events.steering is not None:
            return False
        is_safe = not events.marks.any()
        if is_safe and self.onward.arrived(origin, events):
            return True
        if not is_safe and (events.marks.max() > 1 or not self._are_new(events)):
            return False
        framed = self._framed(events)
        if framed is None:
            return False
        data, frames, chunks = framed
        if not is_safe:
            frames["qos"] = events.marks
            frames["marks"] |= REBUILT
        served, entries = events.flows, events.entries
        differs = np.zeros(len(events), np.bool_)
        if compiled.asks_broker:  # else it makes no difference who published it
            differs[1:] = np.diff(entries) != 0
        if not are_alike(served):
            differs[1:] |= [one is not other for one, other in pairwise(served)]
        starts, decisions = [0, *np.flatnonzero(differs).tolist(), len(events)], []
        for begin, end in pairwise(starts):
            part = frames[begin:end]
            decision = compiled.decide(data, part, chunks, self.tick.slots, served[begin], int(entries[begin]))
            if decision is None or decision.decided != len(part):
                return False
            decisions.append((begin, end, decision))
        promise = Promise()
        self._act(origin, events, data, frames, chunks, decisions, promise)
        if not is_safe:
            promise.then(safe)
        else:
            self.onward.learn(origin, events, data, frames, chunks)
        return True

    def _framed(self, events: Events) -> tuple[NDArray[np.uint8], Rows, Rows] | None:
        """The packets of events, framed as those of a client are; None if that is not for kernels."""
        data = np.frombuffer(events.publishes, np.uint8)
        chunks = np.zeros(1, CHUNK)
        chunks[0] = (0, len(data), NONE, MQTT_5, NONE, 0, 0, 0)
        frames = frame(data, chunks, self.state.slots.rows, len(data))
        if len(frames) != len(events) or (frames["end"] - frames["start"] != events.sizes).any():
            return None
        return None if (frames["marks"] & JSON).any() else (data, frames, chunks)

    def followed(self, bodies: Sequence[memoryview], most: int, faster: int) -> Followed:
        """Handles the first of some frames with steered events of the plan in use, if ``follows`` allows it: see
        ``Following.follow``."""
        state = self.state.router.state
        return self.following.follow(state.epochs[state.active], bodies, most, faster)  # type: ignore[index]

    def _are_new(self, events: Events) -> bool:
        """Whether none of the events of QoS 1 in a frame can have come before."""
        return all(self.fabric.seen.are_new(*some) for some in _by_source(events, slice(0, len(events))))

    def _act(
        self,
        origin: int,
        events: Events,
        data: NDArray[np.uint8],
        frames: Rows,
        chunks: Rows,
        decisions: list[tuple[int, int, Decision]],
        promise: Promise,
    ) -> None:
        """Sends on and hands out what was decided."""
        for begin, end, decision in decisions:
            part, rows = frames[begin:end], slice(begin, end)
            mine = Came(events.publishers[rows], events.ids[rows], events.entries[rows])
            left = self.take(decision, data, part, chunks, origin, mine, 0, promise)
            if left or decision.spans:
                for some in _by_source(events, rows):
                    self.fabric.seen.note(*some)
            for _, handed in self.tick.hand_out(decision, left, data, part, chunks, mine):
                promise.wait()
                handed.then(promise.kept)
        if self.state.journal.keeps and events.marks.any():
            promise.wait()
            self.state.journal.call(promise.kept)


def _promised(events: Events, promise: Promise) -> Runs | list[Promise | None]:
    """One promise for all events of QoS 1 or 2."""
    promised = (events.marks & QOS) > 0
    count = int(np.count_nonzero(promised))
    if not count:
        return []
    if count == len(promised):
        return Runs([(promise, count)])
    starts = np.flatnonzero(np.diff(promised, prepend=~promised[:1]))
    counts = np.diff(starts, append=len(promised)).tolist()
    return Runs([(promise if has else None, n) for has, n in zip(promised[starts].tolist(), counts, strict=True)])


def _by_source(events: Events, rows: slice) -> Iterator[tuple[int, Ints, Flows]]:
    """The numbers of those of some events that are of QoS 1, by their publishing broker and flows."""
    flows, counted = events.flows[rows], events.marks[rows] > 0
    entries, ids = events.entries[rows], events.ids[rows]
    distinct = flows[:1] if are_alike(flows) else list(dict.fromkeys(flows))
    for together in distinct:
        of_flows = counted if len(distinct) == 1 else counted & np.array([one == together for one in flows])
        for entry in np.unique(entries[of_flows]).tolist():
            yield entry, ids[of_flows & (entries == entry)], together
