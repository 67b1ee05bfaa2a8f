"""The routing table of one epoch at one broker: every filter that decides whether an event goes to a peer.

An entry is a subscription that a neighbour has sent, one of a client here, or a row of the plan for a link. All flows
share one index, so that a batch of events is matched once; then arrays say which way each match leads. A *way* is a
peer in a flow.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.matching import FilterIndex, Matches
from overstory.routing.frames import Flows, Frames, Header, Ints, Routed

NONE = -1
Bools = NDArray[np.bool_]


class Way(NamedTuple):
    flow: int
    peer: int
    is_client: bool


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
        self.changes = 0  # that entries have seen
        self._way_of: dict[Way, int] = {}
        self._ways = np.zeros((3, 0), np.int64)  # flows, peers, whether they are clients
        # Of each entry: its way; its subscription, if a client here has it; whether a match sends a copy; whether it
        # wants nothing that its own client published.
        self._way = np.zeros(64, np.int64)
        self._subscription = np.zeros(64, np.int64)
        self._crosses = np.zeros(64, np.bool_)
        self._shy = np.zeros(64, np.bool_)
        self._silent = self._shy_ones = 0  # entries that do not cross, and shy ones

    def __len__(self) -> int:
        return self.size

    def add(self, way: Way, wanted: Filter, subscription: int = NONE, crosses: bool = True, shy: bool = False) -> int:
        number = self.index.add(wanted)
        if number >= len(self._way):
            self._grow()
        self._way[number] = self._number_of(way)
        self._subscription[number] = subscription
        self._crosses[number], self._shy[number] = crosses, shy
        self._silent += not crosses
        self._shy_ones += shy
        self.size += 1
        self.changes += 1
        return number

    def remove(self, number: int) -> None:
        self.index.remove(number)
        self._silent -= not self._crosses[number]
        self._shy_ones -= int(self._shy[number])
        self.size -= 1
        self.changes += 1

    def match(self, frames: Frames) -> Matches:
        return self.index.match_batch(frames.asked())

    def route(self, frames: Frames, matches: Matches, broker: int) -> Routed:
        """Where each frame goes, by what matches it and, in steered flows, by its route."""
        hits = self._hits(frames, matches)
        crossing = hits.where(self._crosses[hits.number]) if self._silent else hits
        here = hits.where(self._subscription[hits.number] != NONE)
        if self._silent:  # the plan's rows decide what some clients get
            here = here.where(np.isin(self._steps(here), self._steps(crossing)))
        frame, way = np.divmod(np.unique(self._steps(crossing)), max(1, self._ways.shape[1]))
        steered = list(_steered(frames, broker))
        copied, peers, flows = self._copies(frames, frame, way, steered)
        interests = np.bincount(here.frame, minlength=len(frames))
        interests += np.bincount(copied[~self._are_clients(peers)], minlength=len(frames))
        subscriptions = self._subscription[here.number]
        return Routed(
            copied, peers, flows, _onward(frames, interests), here.frame, subscriptions, here.number, interests
        )

    def _hits(self, frames: Frames, matches: Matches) -> Hits:
        """Not back to where a frame came from, and only in its flows."""
        hits = Hits(np.repeat(np.arange(len(frames)), np.diff(matches.offsets)), matches.filters)
        way = self._way[hits.number]
        peer = self._ways[1][way]
        kept = peer != frames.origins[hits.frame]
        if self._shy_ones:
            kept &= ~(self._shy[hits.number] & (peer == frames.publishers[hits.frame]))
        kept &= _served(frames.flows, hits.frame, self._ways[0], way)
        return hits.where(kept)

    def _steps(self, hits: Hits) -> Ints:
        return hits.frame * self._ways.shape[1] + self._way[hits.number]

    def _copies(
        self, frames: Frames, frame: Ints, way: Ints, steered: Sequence[tuple[int, int, int]]
    ) -> tuple[Ints, Ints, list[Flows]]:
        """One for each frame and peer, with the flows that share it."""
        if not steered and len(np.unique(self._ways[0])) <= 1:
            return frame, self._ways[1][way], [frozenset({flow}) for flow in self._ways[0][way[:1]].tolist()] * len(way)
        together: dict[tuple[int, int], set[int]] = defaultdict(set)
        steps: Iterable[tuple[int, int, int]] = zip(
            frame.tolist(), self._ways[1][way].tolist(), self._ways[0][way].tolist(), strict=True
        )
        for each, peer, flow in [*steps, *steered]:
            together[each, peer].add(flow)
        pairs = np.array(sorted(together), np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], [frozenset(together[each, peer]) for each, peer in pairs.tolist()]

    def _are_clients(self, peers: Ints) -> Bools:
        return np.isin(peers, self._ways[1][self._ways[2] == 1])

    def _number_of(self, way: Way) -> int:
        number = self._way_of.get(way)
        if number is None:
            number = self._way_of[way] = len(self._way_of)
            self._ways = np.concatenate([self._ways, np.array([way], np.int64).T], axis=1)
        return number

    def _grow(self) -> None:
        size = len(self._way)
        self._way = np.concatenate([self._way, np.zeros(size, np.int64)])
        self._subscription = np.concatenate([self._subscription, np.zeros(size, np.int64)])
        self._crosses = np.concatenate([self._crosses, np.zeros(size, np.bool_)])
        self._shy = np.concatenate([self._shy, np.zeros(size, np.bool_)])


def _served(flows: Sequence[Flows], frame: Ints, way_flows: Ints, way: Ints) -> Bools:
    """Whether each frame serves the flow of the way."""
    distinct: dict[Flows, int] = {}
    which = np.fromiter((distinct.setdefault(each, len(distinct)) for each in flows), np.int64, len(flows))
    if len(distinct) == 1:
        (only,) = distinct
        if only.issuperset(way_flows.tolist()):
            return np.ones(len(frame), np.bool_)
    allowed = np.array([[flow in each for flow in way_flows.tolist()] for each in distinct], np.bool_)
    found: Bools = allowed.reshape(len(distinct), len(way_flows))[which[frame], way]
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
