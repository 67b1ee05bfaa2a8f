"""Publications in batches, as arrays: what enters a router, and what it decides about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.matching import Batch, Lists, Numbers, Texts, Values
from overstory.routing.law import PUBLISHING_BROKER

Ints = NDArray[np.int64]
Flows = frozenset[int]
Route = Mapping[int, frozenset[int]]  # of a steered flow: the next hops of each broker
NOWHERE = NONE  # the origin of what a client of this broker published
COLUMN = Numbers | Texts | Lists | Values


class Header(NamedTuple):
    """The statistics that publications carry, and the advertisement that they belong to (-1: none)."""

    advertisements: Ints
    distances: Ints
    counts: Ints

    @classmethod
    def fresh(cls, size: int, advertisement: int = -1) -> "Header":
        return cls(np.full(size, advertisement), np.zeros(size, np.int64), np.zeros(size, np.int64))

    def take(self, rows: Ints) -> "Header":
        return Header(*[each[rows] for each in self])


@dataclass(frozen=True, eq=False)
class Frames:
    """Of one epoch. Frame i is event i of the batch, for some flows."""

    epoch: int
    batch: Batch
    ids: Ints  # of events
    publishers: Ints  # clients
    entries: Ints  # publishing brokers
    origins: Ints  # brokers that they came from, or NOWHERE
    flows: Sequence[Flows]
    routes: Sequence[Mapping[int, Route]]  # of steered flows
    header: Header

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Ints, flows: Sequence[Flows], origin: int) -> "Frames":
        """Copies of some frames, as a neighbour gets them from here."""
        return Frames(
            self.epoch,
            taken(self.batch, rows),
            self.ids[rows],
            self.publishers[rows],
            self.entries[rows],
            np.full(len(rows), origin),
            flows,
            [
                {flow: route for flow, route in self.routes[row].items() if flow in kept}
                for row, kept in zip(rows.tolist(), flows, strict=True)
            ],
            self.header.take(rows),
        )

    def asked(self) -> Batch:
        """With the publishing broker as an attribute, for predicates that may use it."""
        return Batch({**self.batch.columns, PUBLISHING_BROKER: Numbers(self.entries)}, len(self))


class Routed(NamedTuple):
    """What a router decided: copies, each a frame to a peer, and what of it goes to whom at this broker."""

    frames: Ints  # of each copy, ascending
    peers: Ints  # brokers and clients
    flows: list[Flows]
    header: Header  # of all frames, as they leave this broker
    delivered_frames: Ints
    delivered: Ints  # subscriptions; a client that gets a copy and is not here discards it
    delivered_serials: Ints  # of their entries in the table
    interests: Ints  # of each frame: neighbours that it goes to and subscriptions here that want it

    def to(self, peer: int) -> tuple[Ints, list[Flows]]:
        """The frames of which the peer gets a copy, and the flows of each copy."""
        at = np.flatnonzero(self.peers == peer)
        return self.frames[at], [self.flows[each] for each in at.tolist()]


def taken(batch: Batch, rows: Ints) -> Batch:
    return Batch({name: _taken(column, rows) for name, column in batch.columns.items()}, len(rows))


def _taken(column: COLUMN, rows: Ints) -> COLUMN:
    present = None if column.present is None else column.present[rows]
    if isinstance(column, Numbers):
        return Numbers(column.values[rows], present)
    if isinstance(column, Values):
        return Values([column.values[row] for row in rows.tolist()])
    places, offsets = _gathered(column.offsets, rows)
    if isinstance(column, Texts):
        return Texts(column.data[places], offsets, present, column.untyped)
    words, word_offsets = _gathered(column.words.offsets, places)
    return Lists(offsets, Texts(column.words.data[words], word_offsets, untyped=column.words.untyped), present)


def _gathered(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Of rows laid out one after the other: the places of all their items, and the offsets among these."""
    starts, sizes = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1]), ends
