"""The forwarding table of one epoch at one broker: every filter that decides whether an event goes to a peer.

An entry is a subscription of a neighbour, a subscription of a client here, or a row of the plan for a link. All flows
share one index, so that a batch of events is matched once. Then arrays say which way each match leads: to which peer,
in which flow.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.kernels.nothing import NONE as NONE
from overstory.matching import FilterIndex, Matches
from overstory.routing.filed import Filed
from overstory.routing.frames import Flows, Frames, Header, Ints, Routed
from overstory.routing.ways import Way, Ways

Bools = NDArray[np.bool_]
Number = TypeVar("Number", int, Ints)


class Hits(NamedTuple):
    """Pairs of a frame and a table entry that matches it."""

    frame: Ints
    number: Ints  # of the entry

    def where(self, kept: Bools) -> "Hits":
        """The pairs for which ``kept`` is true."""
        return Hits(self.frame[kept], self.number[kept])


class Table:
    """The filters of one epoch at one broker, and the way that each leads.

    Entries have the numbers of ``filed``; those of the index are others.
    """

    def __init__(self) -> None:
        self._filed = Filed()
        self.size = 0  # entries
        self.on_change: Callable[[Filter], None] | None = None  # told of each filter that comes or goes
        self._ways = Ways()
        # Of each entry: its way; its subscription, if a client here has it, else NONE; whether a match sends a copy;
        # whether it wants no event that its own client published.
        self._way = np.zeros(64, np.int64)
        self._subscription = np.zeros(64, np.int64)
        self._crosses = np.zeros(64, np.bool_)
        self._no_local = np.zeros(64, np.bool_)
        self._serial = np.zeros(64, np.int64)  # unlike a number, never given to a second entry
        self._added = 0
        self._silent = self._no_local_entries = 0  # how many entries send no copy, and how many have no_local

    def __len__(self) -> int:
        """The number of entries."""
        return self.size

    def add(
        self, way: Way, wanted: Filter, subscription: int = NONE, crosses: bool = True, no_local: bool = False
    ) -> int:
        """Adds an entry and returns its number. ``crosses`` is false if a row of the plan decides on copies instead."""
        number = self._filed.add(wanted)
        if number >= len(self._way):
            self._grow()
        self._way[number] = self._ways.take(way)
        self._subscription[number] = subscription
        self._crosses[number], self._no_local[number] = crosses, no_local
        self._serial[number] = self._added
        self._added += 1
        self._silent += not crosses
        self._no_local_entries += no_local
        self.size += 1
        if self.on_change is not None:
            self.on_change(wanted)
        return number

    def remove(self, number: int, wanted: Filter) -> None:
        """Removes the entry of this number. Its number may be given to another entry."""
        self._filed.remove(number)
        self._ways.release(int(self._way[number]))
        self._silent -= not self._crosses[number]
        self._no_local_entries -= int(self._no_local[number])
        self.size -= 1
        if self.on_change is not None:
            self.on_change(wanted)

    def serial(self, number: int) -> int:
        """The serial of an entry, which no other entry ever gets."""
        return int(self._serial[number])

    @property
    def index(self) -> FilterIndex:
        """The index of all entries. It is brought up to date when it is asked for."""
        return self._filed.index

    def entries(self, places: Ints) -> Ints:
        """The numbers of entries, by their numbers in the index."""
        return self._filed.numbers(places)

    def file(self, most: int) -> None:
        """Brings the index up to date if more than so many entries wait for that, so that no event waits for them."""
        if self._filed.waiting > most:
            _ = self._filed.index

    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The table as kernels read it: by place in the index the entry; of each entry its way and its serial; of each
        way the place of its flow, and its peer. To be asked for again after each change."""
        return self._filed.by_place, self._way, self._serial, self._ways.flow, self._ways.peer

    def subscription(self, number: int) -> int:
        """The subscription of an entry, NONE if no client here has it."""
        return int(self._subscription[number])

    @property
    def flows(self) -> Sequence[int]:
        """The flows that entries are in. A place in this never changes."""
        return self._ways.flows

    @property
    def is_silent(self) -> bool:
        """Whether some entries send no copy, since rows of the plan decide on that."""
        return self._silent > 0

    def match(self, frames: Frames) -> Matches:
        """The entries that match each frame, in whatever flow."""
        return self.index.match_batch(frames.asked())

    def route(self, frames: Frames, matches: Matches, broker: int) -> Routed:
        """Where each frame goes: to the peers of the entries that match it and, in steered flows, along its route."""
        hits = self._hits(frames, matches)
        crossing = hits.where(self._crosses[hits.number]) if self._silent else hits
        here = hits.where(self._subscription[hits.number] != NONE)
        if self._silent:  # rows of the plan decide which copies some clients get
            here = here.where(np.isin(self._steps(here), self._steps(crossing)))
        frame, way = np.divmod(np.unique(self._steps(crossing)), max(1, len(self._ways)))
        steered = list(_steered(frames, broker))
        copied, peers, flows = self._copies(frame, way, steered)
        neighbours = [*self._ways.neighbours, *{peer for _, peer, _ in steered}]
        interests = np.bincount(here.frame, minlength=len(frames))
        interests += np.bincount(copied[np.isin(peers, neighbours)], minlength=len(frames))
        subscriptions = self._subscription[here.number]
        return Routed(
            copied,
            peers,
            flows,
            _onward(frames, interests),
            here.frame,
            subscriptions,
            self._serial[here.number],
            interests,
        )

    def _hits(self, frames: Frames, matches: Matches) -> Hits:
        """The matches that count: a frame does not go back to its origin, and goes only where its flows go."""
        numbers = self._filed.numbers(matches.filters)
        hits = Hits(np.repeat(np.arange(len(frames)), np.diff(matches.offsets)), numbers)
        way = self._way[hits.number]
        peer = self._ways.peer[way]
        kept = peer != frames.origins[hits.frame]
        if self._no_local_entries:
            kept &= ~(self._no_local[hits.number] & (peer == frames.publishers[hits.frame]))
        kept &= _served(frames.flows, hits.frame, self._ways.flows, self._ways.flow[way])
        return hits.where(kept)

    def _steps(self, hits: Hits) -> Ints:
        """One number for each frame and way."""
        return hits.frame * len(self._ways) + self._way[hits.number]

    def _copies(
        self, frame: Ints, way: Ints, steered: Sequence[tuple[int, int, int]]
    ) -> tuple[Ints, Ints, list[Flows]]:
        """One copy for each frame and peer, with the flows that share the copy."""
        flows, flow, peer = self._ways.flows, self._ways.flow[way], self._ways.peer[way]
        if not steered and len(flows) <= 1:
            return frame, peer, [frozenset(flows)] * len(way)
        together: dict[tuple[int, int], set[int]] = defaultdict(set)
        for row, to, place in zip(frame.tolist(), peer.tolist(), flow.tolist(), strict=True):
            together[row, to].add(flows[place])
        for row, to, number in steered:
            together[row, to].add(number)
        pairs = np.array(sorted(together), np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], [frozenset(together[row, to]) for row, to in pairs.tolist()]

    def _grow(self) -> None:
        """Doubles the room for entries."""
        size = len(self._way)
        self._way = np.concatenate([self._way, np.zeros(size, np.int64)])
        self._subscription = np.concatenate([self._subscription, np.zeros(size, np.int64)])
        self._crosses = np.concatenate([self._crosses, np.zeros(size, np.bool_)])
        self._no_local = np.concatenate([self._no_local, np.zeros(size, np.bool_)])
        self._serial = np.concatenate([self._serial, np.zeros(size, np.int64)])


def _served(served: Sequence[Flows], frame: Ints, flows: Sequence[int], flow: Ints) -> Bools:
    """Whether the frame of each pair serves the flow of the pair, which is given as a place in ``flows``."""
    distinct: dict[Flows, int] = {}
    which = np.fromiter((distinct.setdefault(together, len(distinct)) for together in served), np.int64, len(served))
    allowed = np.array([[number in together for number in flows] for together in distinct], np.bool_)
    if allowed.all():
        return np.ones(len(frame), np.bool_)
    found: Bools = allowed[which[frame], flow]
    return found


def _steered(frames: Frames, broker: int) -> Iterable[tuple[int, int, int]]:
    """The frame, the peer and the flow of each step that a route asks for."""
    for frame, routes in enumerate(frames.routes):
        for flow, route in routes.items():
            for peer in route.get(broker, ()):
                yield frame, peer, flow


def _onward(frames: Frames, interests: Ints) -> Header:
    """The header of each frame as it leaves this broker."""
    distances, counts = onward(frames.origins, interests, frames.header.distances, frames.header.counts)
    return Header(frames.header.advertisements, distances, counts)


def onward(origin: Number, interests: Number, distance: Number, count: Number) -> tuple[Number, Number]:
    """The distance and the count of a publication as it leaves a broker, from those with which it came; also of many.

    The header begins where a client publishes. At every other broker it also records whether more than one neighbour or
    subscription wants the publication there.
    """
    begins, shared = origin == NONE, interests > 1
    return (distance + 1) * (1 - (begins | shared)), (count + shared) * (1 - begins)
