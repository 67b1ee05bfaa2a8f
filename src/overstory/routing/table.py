"""The routing table of one epoch at one broker: every filter that decides whether an event goes to a peer.

An entry is a subscription that a neighbour has sent, one of a client here, or a row of the plan for a link. All flows
share one index, so that a batch of events is matched once; then arrays say which way each match leads.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.kernels.nothing import NONE as NONE
from overstory.matching import FilterIndex, Matches
from overstory.routing.frames import Flows, Frames, Header, Ints, Routed
from overstory.routing.ways import Way, Ways

Bools = NDArray[np.bool_]


class Hits(NamedTuple):
    """Pairs of a frame and an entry that matches it."""

    frame: Ints
    number: Ints

    def where(self, kept: Bools) -> "Hits":
        return Hits(self.frame[kept], self.number[kept])


class Table:
    """Entries are numbered as in the index."""

    def __init__(self) -> None:
        self.index = FilterIndex()
        self.size = 0  # entries
        self.on_change: Callable[[Filter], None] = _nobody_cares  # told of each filter that comes or goes
        self._ways = Ways()
        # Of each entry: its way; its subscription, if a client here has it; whether a match sends a copy; whether it
        # wants nothing that its own client published.
        self._way = np.zeros(64, np.int64)
        self._subscription = np.zeros(64, np.int64)
        self._crosses = np.zeros(64, np.bool_)
        self._shy = np.zeros(64, np.bool_)
        self._serial = np.zeros(64, np.int64)  # never given twice, unlike numbers
        self._added = 0
        self._silent = self._shy_ones = 0  # entries that do not cross, and shy ones

    def __len__(self) -> int:
        return self.size

    def add(self, way: Way, wanted: Filter, subscription: int = NONE, crosses: bool = True, shy: bool = False) -> int:
        number = self.index.add(wanted)
        if number >= len(self._way):
            self._grow()
        self._way[number] = self._ways.take(way)
        self._subscription[number] = subscription
        self._crosses[number], self._shy[number] = crosses, shy
        self._serial[number] = self._added
        self._added += 1
        self._silent += not crosses
        self._shy_ones += shy
        self.size += 1
        self.on_change(wanted)
        return number

    def remove(self, number: int, wanted: Filter) -> None:
        self.index.remove(number)
        self._ways.release(int(self._way[number]))
        self._silent -= not self._crosses[number]
        self._shy_ones -= int(self._shy[number])
        self.size -= 1
        self.on_change(wanted)

    def serial(self, number: int) -> int:
        return int(self._serial[number])

    def match(self, frames: Frames) -> Matches:
        return self.index.match_batch(frames.asked())

    def route(self, frames: Frames, matches: Matches, broker: int) -> Routed:
        """Where each frame goes, by what matches it and, in steered flows, by its route."""
        hits = self._hits(frames, matches)
        crossing = hits.where(self._crosses[hits.number]) if self._silent else hits
        here = hits.where(self._subscription[hits.number] != NONE)
        if self._silent:  # the plan's rows decide what some clients get
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
        """Not back to where a frame came from, and only in its flows."""
        hits = Hits(np.repeat(np.arange(len(frames)), np.diff(matches.offsets)), matches.filters)
        way = self._way[hits.number]
        peer = self._ways.peer[way]
        kept = peer != frames.origins[hits.frame]
        if self._shy_ones:
            kept &= ~(self._shy[hits.number] & (peer == frames.publishers[hits.frame]))
        kept &= _served(frames.flows, hits.frame, self._ways.flows, self._ways.flow[way])
        return hits.where(kept)

    def _steps(self, hits: Hits) -> Ints:
        return hits.frame * len(self._ways) + self._way[hits.number]

    def _copies(
        self, frame: Ints, way: Ints, steered: Sequence[tuple[int, int, int]]
    ) -> tuple[Ints, Ints, list[Flows]]:
        """One for each frame and peer, with the flows that share it."""
        flows, flow, peer = self._ways.flows, self._ways.flow[way], self._ways.peer[way]
        if not steered and len(flows) <= 1:
            return frame, peer, [frozenset(flows)] * len(way)
        together: dict[tuple[int, int], set[int]] = defaultdict(set)
        for each, to, place in zip(frame.tolist(), peer.tolist(), flow.tolist(), strict=True):
            together[each, to].add(flows[place])
        for each, to, number in steered:
            together[each, to].add(number)
        pairs = np.array(sorted(together), np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], [frozenset(together[each, to]) for each, to in pairs.tolist()]

    def _grow(self) -> None:
        size = len(self._way)
        self._way = np.concatenate([self._way, np.zeros(size, np.int64)])
        self._subscription = np.concatenate([self._subscription, np.zeros(size, np.int64)])
        self._crosses = np.concatenate([self._crosses, np.zeros(size, np.bool_)])
        self._shy = np.concatenate([self._shy, np.zeros(size, np.bool_)])
        self._serial = np.concatenate([self._serial, np.zeros(size, np.int64)])


def _nobody_cares(wanted: Filter) -> None:
    pass


def _served(served: Sequence[Flows], frame: Ints, flows: Sequence[int], flow: Ints) -> Bools:
    """Whether each frame serves the flow, which is a place in ``flows``."""
    distinct: dict[Flows, int] = {}
    which = np.fromiter((distinct.setdefault(each, len(distinct)) for each in served), np.int64, len(served))
    allowed = np.array([[each in some for each in flows] for some in distinct], np.bool_)
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
    """Where a publication comes from a client the header begins; else it says whether somebody else wants it here."""
    begins, shared = frames.origins == NONE, interests > 1
    distances = np.where(begins | shared, 0, frames.header.distances + 1)
    counts = np.where(begins, 0, frames.header.counts + shared)
    return Header(frames.header.advertisements, distances, counts)
