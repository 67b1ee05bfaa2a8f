"""The forwarding table of one epoch at one broker: every filter that decides whether an event goes to a peer.

An entry is a subscription of a neighbour, a subscription of a client here, or a row of the plan for a link. All flows
share one index, so that a batch of events is matched once. Then arrays say which way each match leads: to which peer,
in which flow.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.kernels.nothing import NONE as NONE
from overstory.matching import Batch, FilterIndex, Matches, Numbers
from overstory.routing.filed import Filed
from overstory.routing.frames import (
    NOTHING_ENTERS,
    NOTHING_WRONG,
    Entering,
    Flows,
    Frames,
    Header,
    Ints,
    Routed,
    Steered,
    taken,
)
from overstory.routing.law import PUBLISHING_BROKER
from overstory.routing.steered_flows import NO_STEPS, Here, SteeredFlows, Steps
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
        self._to_clients = 0  # how many lead to clients

    def __len__(self) -> int:
        """The number of entries."""
        return self.size

    def add(
        self, way: Way, wanted: Filter, subscription: int = NONE, crosses: bool = True, no_local: bool = False
    ) -> int:
        """Adds an entry and returns its number. ``crosses`` is false if a row of the plan decides on copies instead."""
        number = self._filed.add(wanted)
        self._make_room(number)
        self._way[number] = self._ways.take(way)
        self._subscription[number] = subscription
        self._crosses[number], self._no_local[number] = crosses, no_local
        self._serial[number] = self._added
        self._added += 1
        self._silent += not crosses
        self._no_local_entries += no_local
        self._to_clients += way.is_client
        self.size += 1
        if self.on_change is not None:
            self.on_change(wanted)
        return number

    def add_all(self, way: Way, filters: Sequence[Filter]) -> list[int]:
        """Adds entries for one neighbour, or for one end of events, and returns their numbers."""
        numbers, count = self._filed.add_all(filters), len(filters)
        self._make_room(max(numbers, default=0))
        self._way[numbers] = self._ways.take(way, count)
        self._subscription[numbers] = NONE
        self._crosses[numbers], self._no_local[numbers] = True, False
        self._serial[numbers] = range(self._added, self._added + count)
        self._added += count
        self.size += count
        if self.on_change is not None:
            for wanted in filters:
                self.on_change(wanted)
        return numbers

    def remove(self, number: int, wanted: Filter) -> None:
        """Removes the entry of this number. Its number may be given to another entry."""
        self._filed.remove(number)
        self._to_clients -= self._ways.is_client(int(self._way[number]))
        self._ways.release(int(self._way[number]))
        self._silent -= not self._crosses[number]
        self._no_local_entries -= int(self._no_local[number])
        self.size -= 1
        if self.on_change is not None:
            self.on_change(wanted)

    @property
    def entries_core(self) -> int:
        """The entries for other brokers."""
        return self.size - self._to_clients

    @property
    def entries_access(self) -> int:
        """The entries for clients: rows of the plan, and subscriptions that no row stands for. (By a subscription that
        a row stands for, the broker knows which of the row's events a client has asked for. It decides on no copy.)"""
        return self._to_clients - self._silent

    @property
    def stamp(self) -> tuple[int, int]:
        """Another one after each entry that comes or goes, and never the same again."""
        return self._added, self.size

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

    def file(self, waiting: int, most: int) -> None:
        """Files the oldest entries if more than so many wait, ``most`` of them: so no event has to wait for many."""
        self._filed.file(min(self._filed.waiting - waiting, most))

    def file_some(self, most: int) -> bool:
        """Files so many of the entries that wait for that. Returns whether others are left."""
        self._filed.file(most)
        return self._filed.waiting > 0

    @property
    def unfiled(self) -> int:
        """How many entries wait to be filed."""
        return self._filed.waiting

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

    def match(self, frames: Frames, asked: Bools | None = None) -> Matches:
        """The entries that match each frame, in whatever flow; nothing for frames that are not ``asked`` for."""
        if asked is None or asked.all():
            return self.index.match_batch(frames.asked())
        rows = np.flatnonzero(asked)
        batch = Batch({PUBLISHING_BROKER: Numbers(frames.entries[rows])}, len(rows))
        found = self.index.match_batch(Batch({**taken(frames.batch, rows).columns, **batch.columns}, len(rows)))
        counts = np.zeros(len(frames) + 1, np.int64)
        counts[rows + 1] = np.diff(found.offsets)
        return Matches(np.cumsum(counts), found.filters)

    def route(self, frames: Frames, matches: Matches, steered: SteeredFlows, met: Here | None) -> Routed:
        """Where each frame goes: to the peers of the entries that match it and, in steered flows, along its tree."""
        hits = self._hits(frames, matches, steered, met)
        entering = self._entering(hits, steered)
        if len(entering.frames):
            hits = hits.where(~self._ways.is_end[self._way[hits.number]])
        crossing = hits.where(self._crosses[hits.number]) if self._silent else hits
        here = hits.where(self._subscription[hits.number] != NONE)
        if self._silent:  # rows of the plan decide which copies some clients get
            here = here.where(np.isin(self._steps(here), self._steps(crossing)))
        frame, way = np.divmod(np.unique(self._steps(crossing)), max(1, len(self._ways)))
        steps = NO_STEPS if met is None and not len(entering.frames) else steered.steps(met, entering)
        copied, peers, flows, headers = self._copies(frame, way, steps)
        neighbours = [*self._ways.neighbours, *np.unique(steps.peers).tolist()]
        interests = np.bincount(here.frame, minlength=len(frames))
        interests += np.bincount(copied[np.isin(peers, neighbours)], minlength=len(frames))
        subscriptions = self._subscription[here.number]
        return Routed(
            copied,
            peers,
            flows,
            headers,
            _onward(frames, interests),
            here.frame,
            subscriptions,
            self._serial[here.number],
            interests,
            entering,
            NOTHING_WRONG if met is None else met.wrong,
            steps.stranded,
        )

    def _entering(self, hits: Hits, steered: SteeredFlows) -> Entering:
        """The ends of events that enter here, in steered flows."""
        way = self._way[hits.number]
        ends = np.flatnonzero(self._ways.is_end[way]) if len(steered) else way[:0]
        if not len(ends):
            return NOTHING_ENTERS
        place = steered.places(np.array(self._ways.flows, np.int64)[self._ways.flow[way[ends]]])
        brokers = len(steered.ids)
        position = np.searchsorted(steered.ids, self._ways.peer[way[ends]])
        keys = np.unique((hits.frame[ends] * len(steered) + place) * brokers + position)
        rest, end = np.divmod(keys, brokers)
        return Entering(*np.divmod(rest, len(steered)), end)

    def _hits(self, frames: Frames, matches: Matches, steered: SteeredFlows, met: Here | None) -> Hits:
        """The matches that count: a frame does not go back to its origin, and goes only where its flows go.

        In a steered flow it goes to ends only where it enters, or is sent on by a gateway, and to clients only where it
        stays.
        """
        numbers = self._filed.numbers(matches.filters)
        hits = Hits(np.repeat(np.arange(len(frames)), np.diff(matches.offsets)), numbers)
        way = self._way[hits.number]
        peer = self._ways.peer[way]
        kept = peer != frames.origins[hits.frame]
        if self._no_local_entries:
            kept &= ~(self._no_local[hits.number] & (peer == frames.publishers[hits.frame]))
        served = _served(frames.flows, hits.frame, self._ways.flows, self._ways.flow[way])
        kept &= served
        if len(steered):
            place = steered.places(np.array(self._ways.flows, np.int64))[self._ways.flow[way]]
            stays = np.zeros((len(frames), len(steered) + 1), np.bool_)  # the last column is for flows with trees
            stays[:, -1] = True
            if met is not None:
                stays[met.frames[met.stays], met.flows[met.stays]] = True
            enters = frames.origins[hits.frame] == NONE
            kept &= np.where(self._ways.is_end[way], enters, enters | stays[hits.frame, place])
            if met is not None and steered.turns:
                turned, inside = steered.turned(frames, met)
                ends = np.flatnonzero(self._ways.is_end[way] & served)
                end = np.searchsorted(steered.ids, peer[ends])
                kept[ends] |= turned[hits.frame[ends], place[ends]] & inside[place[ends], end]
        return hits.where(kept)

    def _steps(self, hits: Hits) -> Ints:
        """One number for each frame and way."""
        return hits.frame * len(self._ways) + self._way[hits.number]

    def _copies(self, frame: Ints, way: Ints, steps: Steps) -> tuple[Ints, Ints, list[Flows], Steered]:
        """One copy for each frame and peer, with the flows that share the copy, and their headers."""
        flows, flow, peer = self._ways.flows, self._ways.flow[way], self._ways.peer[way]
        if not len(steps.frames) and len(flows) <= 1:
            return frame, peer, [frozenset(flows)] * len(way), Steered.none(len(way))
        frames, peers = np.concatenate([frame, steps.frames]), np.concatenate([peer, steps.peers])
        served = np.concatenate([np.array(flows, np.int64)[flow] if len(flow) else flow, steps.flows])
        order = np.lexsort((served, peers, frames))
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(frames[order]) != 0) | (np.diff(peers[order]) != 0)
        starts = np.flatnonzero(first)
        together = _together(served[order], starts)
        return frames[order[starts]], peers[order[starts]], together, _headers(steps, order, first, len(frame))

    def _make_room(self, number: int) -> None:
        """Doubles the room for entries until there is some for this one."""
        while number >= len(self._way):
            self._grow(len(self._way))

    def _grow(self, size: int) -> None:
        """Makes room for so many entries more."""
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


def _together(flows: Ints, starts: Ints) -> list[Flows]:
    """The flows from each start to the next, as sets. Few of them are different, so equal ones are one object."""
    known: dict[tuple[int, ...], Flows] = {}
    listed, ends = flows.tolist(), np.append(starts, len(flows))[1:].tolist()
    found = []
    for start, end in zip(starts.tolist(), ends, strict=True):
        key = tuple(listed[start:end])
        together = known.get(key)
        if together is None:
            together = known[key] = frozenset(key)
        found.append(together)
    return found


def _headers(steps: Steps, order: Ints, first: Bools, ways: int) -> Steered:
    """The headers of copies. ``order`` sorts the ways, and the steps behind them, by copy; ``first`` begins each."""
    if not len(steps.frames):
        return Steered.none(int(first.sum()))
    copy = np.cumsum(first) - 1
    mine = order >= ways
    chosen = order[mine] - ways
    sizes = np.diff(steps.byte_offsets)[chosen]
    byte_offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(steps.byte_offsets[chosen] - byte_offsets[:-1], sizes) + np.arange(byte_offsets[-1])
    offsets = np.searchsorted(copy[mine], np.arange(int(first.sum()) + 1))
    return Steered(offsets, steps.flows[chosen], byte_offsets, steps.data[places])


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
