"""What was decided about messages of QoS 0, to be looked up for those that are alike.

Two messages are alike if they have the same source and all but their payloads is the same, byte by byte: the topic and
the properties. What kernels decided about the first one then holds for the second, as long as nothing has changed that
they went by: the forwarding table, the options of subscriptions, and which clients may be written to. Each of these has
a stamp, and what is known under other stamps is thrown away. To learn takes longer than to decide. So where all that
was learned was thrown away again and again before it was of use, nothing is learned until it is calm: until many
messages have come under one stamp.

A *source* is where messages come from, as far as that matters: clients here, by the version of MQTT that they speak; or
a neighbour with events that serve some flows, and where some filter asks for it the broker where they were published.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.broker.link import Link
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.kernels.nothing import NONE
from overstory.kernels.straight import (
    GROUP,
    HEADER,
    KIND,
    LISTED,
    MESSAGE,
    NOBODY,
    PUBLISH,
    WIDTH,
    WITH_PROPERTIES,
    remember,
    sent_on,
    sort_out,
)
from overstory.routing.compiled import Compiled
from overstory.wire.frames import Flows
from overstory.wire.packets import MQTT_3_1_1, MQTT_5

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Hops = tuple[tuple[int, Flows], ...]  # the neighbours that get a copy, each with the flows of its copy
MOST = 4096  # kinds of messages that are remembered, and of those that came only once
MOST_BYTES = 1 << 18  # of all kinds that are remembered
MOST_MESSAGES = 1 << 16  # at once
MOST_SOURCES = 1024
LARGE = 16384  # bytes that three bytes of header can tell of
TO_LEARN = 16  # kinds in one turn
MOST_VAIN, CALM = 4, 64  # times that all was learned in vain; messages of unknown kinds under one stamp
WORTH = 4  # times that what was learned has to be of use for each kind, or it was in vain
# The numbers of clients as sources, by their versions of MQTT
CLIENTS: dict[Hashable, int] = {MQTT_3_1_1: 0, MQTT_5: 2 | WITH_PROPERTIES}
UNKNOWN: tuple[tuple[Link, ...], int] = ((), 0)  # whom a message of an unknown kind goes to, and its largest size


class Kinds:
    """All kinds that are known at one broker."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state, self._compiled = state, compiled
        self._known: set[tuple[int, bytes]] = set()  # sources and kinds, of which the kernel knows the rest
        self._once: set[tuple[int, bytes]] = set()  # kinds that came once, and may never come again
        self._stamp: object = None
        self._latest: object = None  # the stamp of the last messages, whether or not something was learned under it
        self._unknown = 0  # messages of unknown kinds under it
        self._uses, self._vain = 0, 0  # of what is known now; how often in a row these were in vain
        self._sources: dict[Hashable, int] = dict(CLIENTS)
        self._groups: dict[tuple[Link, ...], int] = {(): NOBODY}
        self.links: list[tuple[Link, ...]] = [()]  # of each group
        self._members: set[Link] = set()  # of all groups
        self.are_apart = True  # whether no client is in two groups
        self._ways: dict[Hops, int] = {(): NOBODY}
        self.flow_sets: list[Flows] = []  # of copies for neighbours
        self.sets: dict[int, Ints] = {}  # of each neighbour: by way, which of these sets its copies have
        # What the kernel reads: the kinds, where each is found by its hash, their bytes, and room for all groups
        self._kinds, self._table = np.zeros(MOST, KIND), np.zeros(2 * MOST, np.int64)
        self._texts, self._areas = np.zeros(MOST_BYTES, np.uint8), np.zeros(MOST + 1, GROUP)
        self._messages, self._report = np.empty(MOST_MESSAGES, MESSAGE), np.empty(HEADER + WIDTH * (MOST + 1), np.int64)
        self._told = self._report.data
        self._desk = self._kinds, self._table, self._texts, self._areas, self._messages, self._report
        self._used = 0  # bytes of kinds
        # By version, the kinds of messages of clients that go to clients alone: to which, and how large they may be
        self._direct: dict[Hashable, dict[bytes | None, tuple[tuple[Link, ...], int]]] = {each: {} for each in CLIENTS}

    def refresh(self) -> None:
        """Forgets what was decided before something has changed. To be called before anything is looked up."""
        stamp = self._state.slots.changes, self._compiled.stamp
        if self._latest != stamp:
            self._latest, self._unknown = stamp, 0
        if self._stamp != stamp:
            self._forget()
        if len(self._sources) > MOST_SOURCES:
            self._forget()
            self._sources = dict(CLIENTS)
            self._once.clear()

    def source(self, name: Hashable) -> int:
        """The number of a neighbour as a source, which lasts until the next ``refresh``. Its messages are of MQTT 5."""
        found = self._sources.get(name)
        if found is None:
            found = self._sources[name] = 2 * len(self._sources) | WITH_PROPERTIES
        return found

    def look_up(self, data: bytes | Bytes, sources: Ints, largest: int, out: Bytes) -> list[int] | None:
        """Looks all messages in these bytes up, and writes what clients get into ``out``. Returns the kernel's report;
        None if something is unknown."""
        some = sort_out(data, sources, largest, *self._desk, out)
        if some == NONE:
            return None
        self._uses += 1
        report: list[int] = self._told[: HEADER + WIDTH * some].tolist()
        return report

    def look_up_one(self, data: bytes, version: int) -> tuple[Link, ...] | None:
        """The clients that get the message of a client, if these bytes are just one, of a known kind that goes to no
        neighbour; else None."""
        kind, _, end = kind_at(data, 0, version)
        if end != len(data):
            return None
        self.refresh()
        links, largest = self._direct[version].get(kind, UNKNOWN)
        if end > largest:
            return None
        self._uses += 1
        return links

    @property
    def listed(self) -> NDArray[Any]:
        """The messages that were looked up last; where some were unknown, the first of these."""
        return self._messages[: self._told[LISTED]]

    def is_of_use(self, count: int) -> bool:
        """Whether so many messages should be looked up: not if nothing is known, and nothing would be learned."""
        if self._known or self._vain < MOST_VAIN or self._unknown + count > CALM:
            return True
        self._unknown += count
        return False

    def pays(self, count: int) -> bool:
        """Whether anything should be learned of so many more messages of unknown kinds."""
        self._unknown += count
        return self._vain < MOST_VAIN or self._unknown > CALM

    def to_learn(self, kinds: Sequence[tuple[int, bytes]]) -> list[int]:
        """The places of those of these unknown kinds that came before, one of each. What comes for the first time is
        only noted."""
        found: dict[tuple[int, bytes], int] = {}
        for place, kind in enumerate(kinds):
            if kind in found or kind in self._known:
                continue
            if kind in self._once:
                found[kind] = place
                if len(found) == TO_LEARN:
                    break
                continue
            if len(self._once) >= MOST:
                self._once.clear()
            self._once.add(kind)
        return list(found.values())

    def learn(self, source: int, kind: bytes, links: tuple[Link, ...] | None, hops: Hops = ()) -> None:
        """Kernels have decided who gets messages of a kind. None says that it cannot be looked up."""
        stamp = (self._state.slots.changes, self._compiled.stamp)
        is_full = len(self._known) >= MOST or self._used + len(kind) > MOST_BYTES
        if stamp != self._stamp or is_full:
            self._forget()
            self._stamp = stamp
        if self._used + len(kind) > MOST_BYTES:
            return
        largest = min(min((to.largest for to in links or ()), default=LARGE), LARGE)
        group = NONE if links is None else self._group(links)
        number, start = len(self._known), self._used
        self._used = start + len(kind)
        self._texts[start : self._used] = np.frombuffer(kind, np.uint8)
        self._kinds[number] = start, self._used, source, group, self._way(hops), largest
        remember(number, self._kinds, self._table, self._texts)
        self._known.add((source, kind))
        version = next((each for each, client in CLIENTS.items() if client == source), None)
        if version is not None and links is not None and not hops:
            self._direct[version][kind] = links, min(largest, self._state.limits.packet)

    def links_of(self, data: bytes, spans: Sequence[int], out: bytes) -> tuple[Link, ...] | None:
        """The links of slots that get bytes, if each gets the message as it came."""
        if any(out[begin:stop] != data for begin, stop in zip(spans[1::3], spans[2::3], strict=True)):
            return None
        holders = [self._state.slots.holders[slot] for slot in spans[::3]]
        links = tuple(one.link for one in holders if isinstance(one, Session) and one.link is not None)
        return links if len(links) == len(holders) else None

    def _group(self, links: tuple[Link, ...]) -> int:
        """The number of the group of these clients."""
        if links not in self._groups:
            self.are_apart = self.are_apart and self._members.isdisjoint(links)
            self._members.update(links)
            self._groups[links] = len(self.links)
            self.links.append(links)
        return self._groups[links]

    def _way(self, hops: Hops) -> int:
        """The number of the way to these neighbours."""
        way = self._ways.get(hops)
        if way is None:
            way = self._ways[hops] = len(self._ways)
            for peer, flows in hops:
                if flows not in self.flow_sets:
                    self.flow_sets.append(flows)
                if peer not in self.sets:
                    self.sets[peer] = np.full(MOST + 1, NONE)
                self.sets[peer][way] = self.flow_sets.index(flows)
        return way

    def warm_up(self) -> None:
        """Makes sure that no client has to wait for kernels to be loaded."""
        remember(0, self._kinds, self._table, self._texts)
        self._table[:] = 0
        packet, source, out = bytes((PUBLISH,)), np.ones(1, np.int64), np.empty(1, np.uint8)
        self.look_up(packet, source, self._state.limits.packet, out)
        if not self._state.is_alone:
            self.look_up(np.frombuffer(packet, np.uint8), source, self._state.limits.packet, out)
            sent_on(np.frombuffer(packet, np.uint8), self._messages[:0], source)

    def _forget(self) -> None:
        if self._known:
            self._vain = self._vain + 1 if self._uses < WORTH * len(self._known) else 0
            self._uses = 0
            self._known.clear()
            for kinds in self._direct.values():
                kinds.clear()
            self._table[:] = 0
            self._used, self.are_apart = 0, True
            self._groups, self.links = {(): NOBODY}, [()]
            self._members.clear()
            self._ways, self.flow_sets = {(): NOBODY}, []
            self.sets.clear()


def kind_at(data: bytes | memoryview, at: int, version: int) -> tuple[bytes | None, int, int]:
    """All of a PUBLISH of QoS 0 between its length and its payload, where the payload begins, and where the packet
    ends; None if there is no whole packet of that kind, or it looks unusual. Whether those bytes are well-formed is not
    said: a kernel has to have found that of equal ones."""
    size = len(data)
    if size < at + 7 or data[at] != PUBLISH:
        return None, size, size
    start, told = at + 2, data[at + 1]
    if told >= 128:
        start, told = at + 3, told + (data[at + 2] << 7) - 128
        if not 0 < data[at + 2] < 128:
            return None, size, size
    stop = start + told
    if stop > size or told < 2:
        return None, size, size
    end = start + 2 + (data[start] << 8) + data[start + 1]
    if version == MQTT_5:
        if end >= stop or data[end] >= 128:
            return None, size, size
        end += 1 + data[end]
    return (bytes(data[start:end]) if end <= stop else None), end, stop
