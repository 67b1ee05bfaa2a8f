"""Events of QoS 0 that are like some before, on to neighbours: looked up by a kernel, each copied once into a frame.

What clients here publish comes from ``straight``. What comes from a neighbour is looked up here, by the flows that it
serves, and goes on to other neighbours and to clients. Where a kind is unknown, ``Fast`` decides about the whole frame,
and what it decides about kinds that came before is learned.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.broker.fabric import Fabric
from overstory.broker.kinds import Bytes, Ints, Kinds, kind_at
from overstory.broker.tick import Came, Tick
from overstory.kernels.nothing import NONE
from overstory.kernels.straight import ONWARD, READ, sent_on
from overstory.routing.compiled import Decision
from overstory.wire.frames import Events, Flows, Same, are_alike, constant, distinct, repeated, some_of
from overstory.wire.packets import MQTT_5

Rows = NDArray[Any]
NO_MARKS = np.zeros(1, np.int64)  # of events of QoS 0 that are not retained


class Unknown(NamedTuple):
    """Messages of a frame whose kinds are unknown: where they begin, and the sources of all messages, or of any."""

    starts: list[int]
    sources: Ints


NOTHING_UNKNOWN = Unknown([], np.zeros(1, np.int64))


class Onward:
    """The way of known kinds at one broker with neighbours."""

    def __init__(self, fabric: Fabric, tick: Tick, kinds: Kinds) -> None:
        self._fabric, self._tick, self._kinds, self._state = fabric, tick, kinds, fabric.state
        self._unknown = NOTHING_UNKNOWN  # in the last frame that could not be looked up
        self.events = 0  # of neighbours, that were looked up

    def publish(self, data: Bytes, messages: Rows, publisher: int) -> None:
        """Sends neighbours what is for them of the messages that a client here has published."""
        first, here = self._state.events, self._state.config.number
        self._send(data, messages, lambda rows: _published(publisher, first + rows, here))

    def arrived(self, origin: int, events: Events) -> bool:
        """Sends events of a neighbour on, and hands them to clients, if all are of QoS 0 and like some before. Else it
        does nothing."""
        kinds, straight = self._kinds, self._tick.straight
        kinds.refresh()
        if not kinds.is_of_use(len(events)):
            self._unknown = NOTHING_UNKNOWN
            return False
        data = np.frombuffer(events.publishes, np.uint8)
        sources, out = self._sources(origin, events), straight.room(len(data))
        report = kinds.look_up(data, sources, len(data), out)
        messages = kinds.listed
        self._unknown = Unknown(messages["start"].tolist() if report is None else [], sources)
        if report is None or report[READ] != len(data) or len(messages) != len(events):
            return False
        if (messages["end"] - messages["start"] != events.sizes).any() or not straight.can_hand_out(report):
            return False
        if report[ONWARD]:
            came = events.publishers, events.ids, events.entries
            self._send(data, messages, lambda rows: Came(*[some_of(column, rows) for column in came]))
        straight.hand_out(report, memoryview(events.publishes), out)
        self._tick.writes += straight.writes
        self.events += len(events)
        return True

    def _sources(self, origin: int, events: Events) -> Ints:
        """The source of each event, or one for all."""
        asks_broker = self._tick.compiled.asks_broker  # else it makes no difference who published it
        entries = distinct(events.entries) if asks_broker else [NONE]
        if len(entries) == 1 and are_alike(events.flows):
            return np.array((self._kinds.source((origin, events.flows[0], entries[0])),))
        each = events.entries.tolist() if asks_broker else [NONE] * len(events)
        names = zip(events.flows, each, strict=True)
        return np.array([self._kinds.source((origin, flows, entry)) for flows, entry in names])

    def _send(self, data: Bytes, messages: Rows, known: Callable[[Ints], Came]) -> None:
        """Sends each neighbour its copies. ``known`` says what is known of some of the messages."""
        kinds, fabric = self._kinds, self._fabric
        for peer, sets in kinds.sets.items():
            packets, sizes, rows, which = sent_on(data, messages, sets)
            count = len(rows)
            if not count:
                continue
            publishers, ids, entries = known(rows)
            events = Events(
                fabric.epochs.active,
                (packets if len(packets) else data).data,
                repeated(sizes, count) if len(sizes) == 1 else sizes,
                repeated(NO_MARKS, count),
                ids,
                publishers,
                entries,
                self._flows(which),
                None,
                None,
                fabric.marks.carried(distinct(entries)),
            )
            fabric.send(peer, events, [])

    def _flows(self, which: Ints) -> Sequence[Flows]:
        """The flows of copies, by the numbers of their sets."""
        sets = self._kinds.flow_sets
        first = int(which[0])
        if len(sets) == 1 or (which == first).all():
            return Same(sets[first], len(which))
        return [sets[number] for number in which.tolist()]

    def learn(self, origin: int, events: Events, data: Bytes, frames: Rows, chunks: Rows) -> None:
        """Remembers who gets events like those of the last frame whose kinds were unknown and came before."""
        starts, sources = self._unknown
        if not starts or not self._kinds.pays(len(starts)):
            return
        rows = np.searchsorted(frames["start"], starts).tolist()
        found = []
        for row, start in zip(rows, starts, strict=True):
            kind, _, _ = kind_at(memoryview(events.publishes), start, MQTT_5)
            if kind is not None:
                found.append((row, (int(sources[row if len(sources) > 1 else 0]), kind)))
        for place in self._kinds.to_learn([kind for _, kind in found]):
            row, (source, kind) = found[place]
            one, flows, entry = frames[row : row + 1], events.flows[row], int(events.entries[row])
            decision = self._tick.compiled.decide(data, one, chunks, self._tick.slots, flows, entry)
            if decision is not None:
                message = data[int(one["start"][0]) : int(one["end"][0])].tobytes()
                self._learn(origin, source, kind, message, decision)

    def _learn(self, origin: int, source: int, kind: bytes, message: bytes, decision: Decision) -> None:
        """Remembers what was decided about one message, if that can be looked up."""
        hops = self._tick.fast.hops_of(decision, origin) if decision.decided else None
        links = None if hops is None else self._kinds.links_of(message, decision.spans, decision.out.tobytes())
        self._kinds.learn(source, kind, links, hops or ())


def _published(publisher: int, ids: Ints, here: int) -> Came:
    """What is known of messages that a client here has published, under these numbers."""
    return Came(constant(publisher, len(ids)), ids, constant(here, len(ids)))
