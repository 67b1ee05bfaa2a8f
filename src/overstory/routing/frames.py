"""Publications in batches, as arrays: the frames that enter a router, and its decisions about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.matching import Batch, Lists, Numbers, Texts, Values
from overstory.routing.law import PUBLISHING_BROKER

Ints = NDArray[np.int64]
Flows = frozenset[int]
NOWHERE = NONE  # the origin of a frame that a client of this broker published
COLUMN = Numbers | Texts | Lists | Values


class Header(NamedTuple):
    """The statistics that frames carry, and the advertisement that each belongs to."""

    advertisements: Ints  # -1: none
    distances: Ints  # as in ``window``
    counts: Ints

    @classmethod
    def fresh(cls, size: int, advertisement: int = -1) -> "Header":
        """The header of frames that have not passed any broker yet."""
        return cls(np.full(size, advertisement), np.zeros(size, np.int64), np.zeros(size, np.int64))

    def take(self, rows: Ints) -> "Header":
        """The header of these frames alone."""
        return Header(*[column[rows] for column in self])


class Steered(NamedTuple):
    """The headers of frames in steered flows (``wire.steering``): those of frame i are between offsets i and i + 1."""

    offsets: Ints
    flows: Ints  # of each header
    byte_offsets: Ints  # of each header
    data: NDArray[np.uint8]

    @classmethod
    def none(cls, frames: int) -> "Steered":
        """The headers of frames of which none is steered."""
        nothing = np.empty(0, np.int64)
        return cls(np.zeros(frames + 1, np.int64), nothing, np.zeros(1, np.int64), np.empty(0, np.uint8))

    @property
    def frames(self) -> Ints:
        """The frame of each header."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def take(self, rows: Ints) -> "Steered":
        """The headers of these frames alone."""
        if not len(self.flows):
            return Steered.none(len(rows))
        chosen, offsets = _gathered(self.offsets, rows)
        places, byte_offsets = _gathered(self.byte_offsets, chosen)
        return Steered(offsets, self.flows[chosen], byte_offsets, self.data[places])


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames of one epoch. Frame i carries event i of the batch, for a set of flows."""

    epoch: int
    batch: Batch
    ids: Ints  # of events
    publishers: Ints  # clients
    entries: Ints  # publishing brokers
    origins: Ints  # brokers that the frames came from, or NOWHERE
    flows: Sequence[Flows]
    steered: Steered
    header: Header

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Ints, flows: Sequence[Flows], origin: int, steered: Steered | None = None) -> "Frames":
        """Copies of these frames, each for fewer flows and with other headers, as they come from ``origin``."""
        return Frames(
            self.epoch,
            taken(self.batch, rows),
            self.ids[rows],
            self.publishers[rows],
            self.entries[rows],
            np.full(len(rows), origin),
            flows,
            Steered.none(len(rows)) if steered is None else steered,
            self.header.take(rows),
        )

    def sent(self, routed: "Routed", places: Ints, origin: int) -> "Frames":
        """The copies at these places of a router's decision, as they leave the broker ``origin``."""
        rows = routed.frames[places]
        copies = self.take(
            rows, [routed.flows[place] for place in places.tolist()], origin, routed.steered.take(places)
        )
        return replace(copies, header=routed.header.take(rows))

    def asked(self) -> Batch:
        """The batch with the publishing broker as a further attribute, for the plan's predicates."""
        return Batch({**self.batch.columns, PUBLISHING_BROKER: Numbers(self.entries)}, len(self))


class Entering(NamedTuple):
    """The ends of events that enter here, each once: by frame, then flow, then end."""

    frames: Ints
    flows: Ints  # places among the steered flows
    ends: Ints  # positions of brokers


NOTHING_ENTERS = Entering(*[np.empty(0, np.int64)] * 3)


class Stranded(NamedTuple):
    """Ends that no way leads to now, each of a frame in a steered flow. The shell keeps the frame until one does."""

    frames: Ints
    flows: Ints  # numbers of flows
    ends: Ints  # positions of brokers
    numbers: Ints  # of the events at these ends, in ordered flows; else 0


NOBODY_STRANDED = Stranded(*[np.empty(0, np.int64)] * 4)
NOTHING_WRONG: Ints = np.empty(0, np.int64)
NOBODY_EARLY: Ints = np.empty(0, np.int64)


class Routed(NamedTuple):
    """A router's decision: the copies, each of a frame to a peer, and the subscriptions here that get each frame."""

    frames: Ints  # of each copy, ascending
    peers: Ints  # brokers and clients
    flows: list[Flows]
    steered: Steered  # of each copy
    header: Header  # of all frames, as they leave this broker
    delivered_frames: Ints
    delivered: Ints  # subscriptions; a client that gets a copy for none of its own discards the copy
    delivered_serials: Ints  # of the entries of these subscriptions in the table
    interests: Ints  # of each frame: neighbours that it goes to and subscriptions here that want it
    entering: Entering  # in steered flows
    wrong: Ints = NOTHING_WRONG  # of each header that could not be followed: why (``wire.steering.FAULTS``)
    stranded: Stranded = NOBODY_STRANDED
    early: Ints = NOBODY_EARLY  # frames that wait here for others, each as often as it will be ``Released``

    def to(self, peer: int) -> Ints:
        """The places of the copies that go to a peer."""
        return np.flatnonzero(self.peers == peer)


def taken(batch: Batch, rows: Ints) -> Batch:
    """A batch of these events alone."""
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
    """The places of all items of these rows, and the rows' offsets once the items are laid out one after the other."""
    starts, sizes = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1]), ends
