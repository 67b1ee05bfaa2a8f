"""Events through the router's plain way, as objects, one by one: what ``fast`` does by kernels, and its oracle.

What clients here publish, and what neighbours send, enters the router as a batch. What the router decides becomes
copies for neighbours, and messages for clients.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.broker import publishing
from overstory.broker.links import Neighbour
from overstory.broker.message import Message, Origin, message_of
from overstory.broker.promises import Promise
from overstory.errors import LinkError
from overstory.filters import parse_filter
from overstory.matching import Batch
from overstory.matching.batch import Values
from overstory.model.plan import EVERYTHING
from overstory.routing.frames import Frames, Header, Routed, Steered
from overstory.routing.messages import Released
from overstory.wire.attributes import attributes_of
from overstory.wire.decode import decode
from overstory.wire.encode import encode
from overstory.wire.frames import QOS, RETAIN, Events, Steering, distinct, no_statistics
from overstory.wire.packets import MQTT_5, Publish

CARRIED = "$carried"  # a column of events that no filter can ask for: the event itself


class Carried:
    """An event in this broker: its packet of QoS 0, the message, and who is to be told when it is safe."""

    __slots__ = ("mark", "message", "promise", "raw")

    def __init__(self, raw: bytes, mark: int, message: Message, promise: Promise | None) -> None:
        self.raw, self.mark, self.message, self.promise = raw, mark, message, promise


class Carrying:
    """The plain way of events at one broker."""

    def __init__(self, fabric: Any) -> None:
        self._fabric, self.state = fabric, fabric.state

    def publish(self, published: Sequence[Message], first: int | None = None) -> list[Promise | None]:
        """Events of clients here. Returns a promise for each that is not safe yet. ``first`` is the number of the
        first event, if they have numbers already."""
        state = self.state
        carried = []
        for message in published:
            raw = encode(message.to_publish(state.now, 0, False), MQTT_5)
            mark = message.qos | (RETAIN if message.retain else 0)
            carried.append(Carried(raw, mark, message, Promise() if message.qos else None))
        batch = self._batch(carried)
        if first is None:
            first, state.events = state.events, state.events + len(published)
        ids = np.arange(first, first + len(published))
        publishers = np.array([message.publisher for message in published], np.int64)
        frames = state.router.enter(batch, ids, publishers, self._advertisement(len(published)))
        if len(frames):
            with self._fabric.marks.publishing(
                [(event, one.promise) for event, one in zip(ids.tolist(), carried, strict=True)]
            ):
                self._route(frames)
        self._fabric.forget_acknowledged(frames.epoch, self._fabric.marks.carried(), frames.flows)
        return [one.promise if one.promise is not None and one.promise.waits else None for one in carried]

    def _advertisement(self, count: int) -> NDArray[np.int64] | None:
        """The advertisement of events that are published here, where the policy of pruning counts events by it. A
        broker advertises everything when somebody publishes there first: so others know from where its events come."""
        router, number = self.state.router, self.state.config.number
        if not router.state.policy.statistics:
            return None
        if number not in router.state.announced:
            self._fabric.act(router.advertise(number, number, self._fabric.place.incarnation, parse_filter(EVERYTHING)))
        return np.full(count, number)

    def _batch(self, carried: list[Carried]) -> Batch:
        types = self.state.config.types
        batch = Batch.of([attributes_of(one.message, types) for one in carried])
        return Batch({**batch.columns, CARRIED: Values(carried)}, len(carried))

    def arrived(self, neighbour: Neighbour, number: int, events: Events) -> int:
        """Events that a neighbour sent go on, and to clients here. Returns how much work it was."""
        incarnation = neighbour.incarnation
        carried = self.read(events)
        steering, count = events.steering, len(events)
        steered = Steered.none(count)
        if steering is not None:
            offsets = np.concatenate([[0], np.cumsum(steering.counts)])
            steered = Steered(offsets, steering.flows, np.concatenate([[0], np.cumsum(steering.sizes)]), steering.data)
        frames = Frames(
            events.epoch,
            self._batch(carried),
            np.ascontiguousarray(events.ids),
            np.ascontiguousarray(events.publishers),
            np.ascontiguousarray(events.entries),
            np.full(count, neighbour.peer),
            events.flows,
            steered,
            Header(*map(np.ascontiguousarray, events.statistics or no_statistics(count))),
        )
        self._route(frames)
        for place, one in enumerate(carried):
            if one.promise is not None:
                one.promise.then(lambda at=place: neighbour.is_safe(incarnation, number, at))  # type: ignore[misc]
        return count

    def read(self, events: Events) -> list[Carried]:
        """The events of a frame, as messages."""
        at, found = 0, []
        publishes = bytes(events.publishes)
        columns = zip(events.sizes.tolist(), events.marks.tolist(), events.publishers.tolist(), strict=True)
        for size, mark, publisher in columns:
            raw = publishes[at : at + size]
            at += size
            packet = decode(raw, MQTT_5)
            if not isinstance(packet, Publish) or not packet.topic or mark & QOS > 2:
                raise LinkError("a frame of events has something else in it")
            message = message_of(packet, packet.topic, publisher, self.state.now)
            message = msgspec.structs.replace(message, qos=mark & QOS, retain=bool(mark & RETAIN))
            found.append(Carried(raw, mark, message, Promise() if mark & QOS else None))
        return found

    def _route(self, frames: Frames) -> None:
        routed, outputs = self.state.router.publish(frames)
        self._carry(frames, routed)
        self._fabric.act(outputs)

    def released(self, output: Released) -> None:
        """Events that the router has held back are on their way now."""
        self._carry(output.frames, output.routed)
        for one in _carried_in(output.frames):
            if one.promise is not None:
                one.promise.kept()

    def _carry(self, frames: Frames, routed: Routed) -> None:
        """Gives neighbours and clients their copies of events."""
        carried = _carried_in(frames)
        for row in routed.early.tolist():
            if (promise := carried[row].promise) is not None:
                promise.wait()  # until the event is released: if this broker died before, nobody would have it
        number = self.state.config.number
        for peer in np.unique(routed.peers).tolist():
            if peer in self._fabric.neighbours:
                places = routed.to(peer)
                mine = [carried[row] for row in routed.frames[places].tolist()]
                has_promises = any(one.promise is not None for one in mine)
                sent = self._carried_on(_events_of(frames.sent(routed, places, number), mine))
                self._fabric.send(peer, sent, [one.promise for one in mine] if has_promises else [])
        if len(routed.stranded.frames):
            self._strand(frames, routed, carried)
        for row, one in enumerate(carried):
            if one.mark & QOS == 2:
                self._fabric.traces.note(one.message, frames, row, routed, self._fabric.neighbours)
        self._hand_out(frames, routed, carried)

    def _carried_on(self, events: Events) -> Events:
        """Events with the marks that they came with, or with the one of this broker. Steered ones carry none."""
        if events.steering is not None:
            return events
        return events.carrying(self._fabric.marks.carried(distinct(events.entries)))

    def _strand(self, frames: Frames, routed: Routed, carried: list[Carried]) -> None:
        """Keeps the events that no way leads on for."""
        ids = self.state.router.state.epochs[frames.epoch].steered.ids

        def row(frame: int, flow: int) -> tuple[Events, Promise | None]:
            at = np.array([frame])
            copy = replace(
                frames.take(at, [frozenset({flow})], self.state.config.number), header=routed.header.take(at)
            )
            return _events_of(copy, [carried[frame]]), carried[frame].promise

        self._fabric.stranding.hold(routed.stranded, ids, row)

    def _hand_out(self, frames: Frames, routed: Routed, carried: list[Carried]) -> None:
        """Gives clients here what is for them."""
        state = self.state
        found: dict[int, dict[int, list[int]]] = {}
        for frame, number in zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True):
            subscription = state.subscriptions.get(number)
            if subscription is not None:  # else the plan knows it, and its client has not come
                found.setdefault(frame, {}).setdefault(subscription.holder.number, []).append(number)
        for frame in sorted(found):
            one = carried[frame]
            entry, event = int(frames.entries[frame]), int(frames.ids[frame])
            if one.mark & QOS and not self._fabric.seen.is_new(entry, event, frames.flows[frame], one.mark & QOS == 2):
                continue
            for numbers in found[frame].values():
                promise = publishing.hand_out(state, one.message, Origin(entry, event), numbers)
                if one.promise is not None and promise is not None:
                    one.promise.wait()
                    promise.then(one.promise.kept)
            if one.promise is not None and state.journal.keeps:
                one.promise.wait()
                state.journal.call(one.promise.kept)
        if state.takers:
            self._hand_rest(frames, routed, carried, found)

    def _hand_rest(
        self, frames: Frames, routed: Routed, carried: list[Carried], found: dict[int, dict[int, list[int]]]
    ) -> None:
        """Gives clients that take all events of their clusters those that none of their subscriptions is for."""
        state, homes = self.state, self.state.router.state.homes
        for place in np.flatnonzero(np.isin(routed.peers, list(state.takers))).tolist():
            frame, session = int(routed.frames[place]), state.takers[int(routed.peers[place])]
            if session.number in found.get(frame, ()):
                continue
            served = {(frames.epoch, flow) for flow in routed.flows[place]}
            mine = (homes.get(subscription.number) for subscription in session.subscriptions.values())
            if any(home is not None and not served.isdisjoint(home.joined) for home in mine):
                publishing.hand_rest(state, session, carried[frame].message)


def _carried_in(frames: Frames) -> list[Carried]:
    """The events of frames."""
    return frames.batch.columns[CARRIED].values  # type: ignore[union-attr, return-value]


def _events_of(frames: Frames, carried: list[Carried]) -> Events:
    """Copies of frames, as they travel."""
    headers = frames.steered
    steering = None
    if len(headers.flows):
        steering = Steering(np.diff(headers.offsets), headers.flows, np.diff(headers.byte_offsets), headers.data)
    return Events(
        frames.epoch,
        b"".join(one.raw for one in carried),
        np.array([len(one.raw) for one in carried], np.int64),
        np.array([one.mark for one in carried], np.int64),
        frames.ids,
        frames.publishers,
        frames.entries,
        list(frames.flows),
        (frames.header.advertisements, frames.header.distances, frames.header.counts),
        steering,
    )
