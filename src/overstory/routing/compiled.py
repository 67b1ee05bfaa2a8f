"""The router's decision about messages that clients publish here, in kernels, from their bytes to the bytes to be sent.

It says what ``Router.enter`` and ``Router.decide`` say of the same messages, which hypothesis holds it to. It works on
the tables of the router itself and keeps nothing that the router knows, apart from what it was told about peers and
entries, each under a name that is never used twice. Where it cannot decide (``can_decide``, ``Decision.decided``), the
router's plain way does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.events import (
    BOOLEAN_TYPE,
    BROKER,
    BROKER_KEY,
    FIRST_LEVEL,
    FREE_TYPE,
    LEVEL_COUNT,
    LEVELS,
    LIST_TYPE,
    NUMBER_TYPE,
    STRING_TYPE,
    TOPIC,
    WITH_PROPERTIES,
    serve,
)
from overstory.kernels.gather import (
    ACKS,
    COPIES,
    DECIDED,
    ENTRIES,
    ENTRY,
    HEADER,
    KINDS,
    MATCHES,
    SLOTS,
    SPECIALS,
    WAYS,
    decide,
)
from overstory.kernels.keys import key_of_number
from overstory.kernels.nothing import NONE
from overstory.matching import FilterIndex
from overstory.model import topics
from overstory.routing.epoch import Epoch
from overstory.routing.law import PUBLISHING_BROKER
from overstory.routing.router import Router
from overstory.routing.steered_flows import SteeredFlows
from overstory.routing.table import Table

Ints = NDArray[np.int64]
Rows = NDArray[Any]
TYPES = {"string": STRING_TYPE, "number": NUMBER_TYPE, "boolean": BOOLEAN_TYPE, "list": LIST_TYPE}
MOST_ROWS = 1024  # sets of flows that are known
MOST_AT_ONCE = 64  # integers of a report that are read in one go
NOT_SERVED = np.zeros((0, 0), np.uint8)  # stands for: all flows are served


class Decision:
    """What becomes of a batch of messages."""

    __slots__ = ("_compiled", "_epoch", "_found", "_header", "_kinds", "_report", "_size", "out", "spans")

    def __init__(self, compiled: "Compiled", epoch: Epoch, size: int, report: Ints, out: NDArray[np.uint8]) -> None:
        self._compiled, self._epoch, self._size, self._report = compiled, epoch, size, report
        self._header = header = report[:MOST_AT_ONCE].tolist()
        self._kinds: list[int] | None = None  # of the messages, once somebody asks
        self.out = out
        end = HEADER + 3 * header[SLOTS]
        # Of each slot that gets bytes its number, and their begin and end
        self.spans: list[int] = header[HEADER:end] if end <= len(header) else report[HEADER:end].tolist()

    @property
    def has_specials(self) -> bool:
        """Whether there are messages that a kernel cannot give to a slot."""
        return bool(self._header[SPECIALS])

    @property
    def pairs(self) -> Ints:
        """Of each message that a kernel cannot give to a slot a row: its number, and the slot."""
        at = HEADER + 3 * self._header[SLOTS]
        return self._report[at : at + 2 * self._header[SPECIALS]].reshape(-1, 2)

    @property
    def specials(self) -> list[int]:
        """These rows, one behind the other."""
        found: list[int] = self.pairs.ravel().tolist() if self.has_specials else []
        return found

    @property
    def decided(self) -> int:
        """How many of the first messages are decided. What follows is for the plain way."""
        return int(self._header[DECIDED])

    @property
    def copies(self) -> int:
        """How many copies stand in the bytes to be sent."""
        return int(self._header[COPIES])

    @property
    def acknowledgements(self) -> int:
        """Where the acknowledgements begin in the bytes: four bytes each, in the order of the messages."""
        return int(self._header[ACKS])

    @property
    def is_known(self) -> bool:
        """Whether kernels knew all ways and entries that they came upon."""
        return not self._header[WAYS] and not self._header[ENTRIES]

    @property
    def unknown_ways(self) -> list[int]:
        """The ways that kernels have to be told about."""
        found: list[int] = self._report[HEADER : HEADER + self._header[WAYS]].tolist()
        return found

    @property
    def unknown_entries(self) -> list[int]:
        """The entries that kernels have to be told about."""
        found: list[int] = self._report[HEADER + self._header[WAYS] :].tolist()
        return found

    @property
    def flows(self) -> Sequence[int]:
        """The flows of the table, by their places."""
        return self._epoch.table.flows

    @property
    def steered(self) -> SteeredFlows:
        """The steered flows of the epoch."""
        return self._epoch.steered

    @property
    def matching(self) -> tuple[Ints, Ints, Ints]:
        """The kind of each message; and of each kind, between offsets, the table entries that match. Only if some
        message is special."""
        header, report = self._header, self._report
        at = HEADER + 3 * header[SLOTS] + 2 * header[SPECIALS]
        middle = at + self._size
        return report[at:middle], report[middle : middle + header[KINDS] + 1], report[len(report) - header[MATCHES] :]

    def ways_of(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The slot and the place of the flow of table entries."""
        return self._compiled.ways_of(self._epoch, numbers)

    def matches(self, event: int, slot: int) -> list[int]:
        """The subscriptions of a slot that match a message, if one of the two is special."""
        header, report = self._header, self._report
        at = HEADER + 3 * header[SLOTS] + 2 * header[SPECIALS]
        if self._kinds is None:
            self._kinds = report[at : at + self._size].tolist()
            self._found: dict[tuple[int, int], list[int]] = {}  # what was said of a kind and a slot
        kind = self._kinds[event]
        found = self._found.get((kind, slot))
        if found is None:
            offsets = report[at + self._size : at + self._size + header[KINDS] + 1]
            numbers = report[len(report) - header[MATCHES] :][offsets[kind] : offsets[kind + 1]]
            found = self._found[kind, slot] = self._compiled.subscriptions(self._epoch, numbers, slot)
        return found


class Wanted:
    """What an index knows of attributes, as kernels read it."""

    def __init__(self, index: FilterIndex, types: Mapping[str, str], broker: int) -> None:
        self._index, self._types, self._broker, self._published_at = index, types, broker, broker
        self._known = -1
        self.row, self.names = np.zeros(0, np.int64), np.zeros(1, np.uint8)
        self.properties = False  # whether some filter asks for more than topics and brokers

    def published_at(self, broker: int | None) -> None:
        """The next messages were published at this broker; None stands for the one that asks."""
        broker = self._broker if broker is None else broker
        if broker != self._published_at:
            self._published_at = broker
            self.row[BROKER_KEY] = key_of_number(broker)

    def refresh(self) -> None:
        """Reads the names of attributes again, if there are new ones."""
        numbers = self._index.numbers
        if len(numbers) == self._known:
            return
        self._known = len(numbers)
        levels: dict[int, int] = {}
        named: list[tuple[bytes, int, int]] = []
        for name, number in numbers.items():
            place = topics.level_place(name)
            if place is not None and place <= topics.MOST_LEVELS:
                levels[place] = number
            elif place is None and name not in (topics.TOPIC, topics.LEVELS, PUBLISHING_BROKER):
                named.append((name.encode(), number, TYPES.get(self._types.get(name, ""), FREE_TYPE)))
        row = [NONE] * FIRST_LEVEL
        row[TOPIC], row[LEVELS] = numbers.get(topics.TOPIC, NONE), numbers.get(topics.LEVELS, NONE)
        row[BROKER], row[BROKER_KEY] = numbers.get(PUBLISHING_BROKER, NONE), key_of_number(self._published_at)
        row[LEVEL_COUNT] = max(levels, default=0)
        row += [levels.get(place, NONE) for place in range(1, row[LEVEL_COUNT] + 1)]
        row.append(len(named))
        at = 0
        for text, number, type_ in named:
            row += (number, type_, at, at + len(text))
            at += len(text)
        self.row = np.array(row, np.int64)
        self.names = np.frombuffer(b"".join(text for text, _, _ in named) or b"\0", np.uint8)
        self.properties = bool(named)


class Compiled:
    """The kernels' view of one router. ``slot_of`` gives the slot of a client, ``options_of`` those of a subscription;
    either gives None for what kernels do not serve."""

    def __init__(
        self,
        router: Router,
        types: Mapping[str, str],
        slot_of: Callable[[int], int | None],
        options_of: Callable[[int], int],
    ) -> None:
        self._router, self._types = router, types
        self._slot_of, self._options_of = slot_of, options_of
        self._epoch: Epoch | None = None
        self._slot_of_way = np.full(16, NONE, np.int64)
        self._entries = np.zeros(64, ENTRY)
        self._entries["serial"] = NONE
        self._numbers: dict[int, int] = {}  # of entries, by subscription
        self._floats, self._counter = np.empty(1), np.zeros(1, np.int64)
        self._arrays: tuple[Any, ...] = ()  # what kernels read of the table beside its index, under this stamp
        self._stamp: object = None
        self._rows: dict[tuple[frozenset[int], int], NDArray[np.uint8]] = {}  # by flows, and how many the table has
        self._changes = 0  # of options
        self.steers = False  # whether the caller knows what to do with the ends of steered flows
        self.wanted: Wanted | None = None
        self._entering: Wanted | None = None

    @property
    def can_decide(self) -> bool:
        """Whether kernels know enough at all: one plan, no regions of steered flows, no move under way, no statistics.
        Whoever asks them about steered flows has to know what to do with ends (``steers``)."""
        state = self._router.state
        if state.active is None or self._router.is_moving or state.policy.statistics:
            return False
        epoch = state.epochs[state.active]
        if len(epoch.steered) and (not self.steers or epoch.steered.gateways):
            return False
        return epoch.share.coalesce and not epoch.table.is_silent

    @property
    def stamp(self) -> tuple[object, ...]:
        """Another one whenever a decision about the same message may be another one: as the options of subscriptions,
        the table or the plan change, or as a move begins."""
        state = self._router.state
        if state.active is None or self._router.is_moving:
            return ()
        table = state.epochs[state.active].table
        return self._changes, table, table.stamp

    @property
    def asks_properties(self) -> bool:
        """Whether some filter asks for more than the topic."""
        return self.wanted is not None and self.wanted.properties

    @property
    def asks_broker(self) -> bool:
        """Whether some filter of the table asks for the publishing broker."""
        epoch = self._refreshed()
        if self._stamp != (epoch.table, epoch.table.stamp, epoch.table.index.growth):  # the index is up to date then
            self._ask()
        return self.wanted is not None and self.wanted.row[BROKER] != NONE

    def changed(self, subscription: int) -> None:
        """The options of a subscription are others now."""
        self._changes += 1
        number = self._numbers.pop(subscription, None)
        if number is not None:
            self._entries["serial"][number] = NONE

    def decide(
        self,
        data: NDArray[np.uint8],
        frames: Rows,
        chunks: Rows,
        slots: Callable[[], Rows],
        flows: frozenset[int] | None = None,
        entry: int | None = None,
    ) -> Decision | None:
        """Decides about framed messages; None if there is a peer that kernels do not serve.

        Of messages that came from a neighbour, ``flows`` are those that they serve, and ``entry`` is the broker where
        they were published. Others are published here, and each enters the flows that are for it.
        """
        epoch = self._refreshed()
        assert self.wanted is not None
        table = epoch.table
        while True:
            arrays = self._arrays_of(table)
            self.wanted.published_at(entry)
            served = (
                self._served(epoch, data, frames)
                if flows is None
                else _all_serve(len(frames), self._row_of(epoch, flows))
            )
            if served is None:
                return None
            report, out = decide(*arrays, slots(), served, data, frames, chunks)
            decision = Decision(self, epoch, len(frames), report, out)
            if decision.is_known:
                return decision
            if not self._tell(epoch, decision):
                return None

    def _arrays_of(self, table: Table) -> tuple[Any, ...]:
        """What kernels read of a table. Arrays of the index are asked for each time: whoever held on to them would keep
        them from growing in place, and filing would copy all of them."""
        index = table.index
        stamp = table, table.stamp, index.growth
        if stamp != self._stamp:
            self._stamp = stamp
            self._ask()
            assert self.wanted is not None
            columns = table.columns()
            self._grow(len(columns[4]), len(columns[1]))
            known = self._slot_of_way, self._entries, self.wanted.row, self.wanted.names, self._floats, self._counter
            self._arrays = *columns, *known
        return *index.store, *index.scratch, *self._arrays

    def _refreshed(self) -> Epoch:
        """Returns the active epoch. What is known of another one is forgotten."""
        state = self._router.state
        assert state.active is not None
        epoch = state.epochs[state.active]
        if epoch is not self._epoch:
            self._epoch, self._stamp, self._arrays, self._rows = epoch, None, (), {}
            self._slot_of_way[:] = NONE
            self._entries["serial"] = NONE
            self._numbers.clear()
            self.wanted = Wanted(epoch.table.index, self._types, state.broker)
            entrances = epoch.entrances
            self._entering = None if entrances is None else Wanted(entrances[0], self._types, state.broker)
            if self._entering is not None:
                self._entering.refresh()
        return epoch

    def _ask(self) -> None:
        """Says which attributes filters ask for now."""
        assert self.wanted is not None
        self.wanted.refresh()
        entering = self._entering is not None and self._entering.properties
        self.wanted.row[WITH_PROPERTIES] = self.wanted.properties or entering

    def _row_of(self, epoch: Epoch, flows: frozenset[int]) -> NDArray[np.uint8]:
        """Which flows of the table these are, by place; nothing, if they are all."""
        known = epoch.table.flows
        row = self._rows.get((flows, len(known)))
        if row is None:
            row = np.array([flow in flows for flow in known], np.uint8)
            if row.all():
                row = row[:0]
            if len(self._rows) > MOST_ROWS:
                self._rows.clear()
            self._rows[flows, len(known)] = row
        return row

    def _served(self, epoch: Epoch, data: NDArray[np.uint8], frames: Rows) -> NDArray[np.uint8] | None:
        """Which flows each kind of message enters, by their places in the table. None if kernels cannot say."""
        if epoch.entrances is None or self._entering is None or self.wanted is None:
            return NOT_SERVED
        index, numbers = epoch.entrances
        self._entering.row[WITH_PROPERTIES] = self.wanted.row[WITH_PROPERTIES]
        found, read = serve(
            *index.store, *index.scratch, self._entering.row, self._entering.names, data, frames, self._floats
        )
        if read < len(found) or not read:
            return None
        places = [numbers.index(flow) for flow in epoch.table.flows]
        served: NDArray[np.uint8] = np.ascontiguousarray(found[:, places])
        return served

    def _grow(self, ways: int, entries: int) -> None:
        if len(self._slot_of_way) < ways:
            larger = np.full(ways, NONE, np.int64)
            larger[: len(self._slot_of_way)] = self._slot_of_way
            self._slot_of_way = larger
        if len(self._entries) < entries:
            more = np.zeros(entries, ENTRY)
            more["serial"] = NONE
            more[: len(self._entries)] = self._entries
            self._entries = more

    def _tell(self, epoch: Epoch, decision: Decision) -> bool:
        """Tells kernels about ways and entries that are new to them. False if they do not serve one of the peers."""
        _, _, serials, _, peers = epoch.table.columns()
        for way in decision.unknown_ways:
            slot = self._slot_of(int(peers[way]))
            if slot is None:
                return False
            self._slot_of_way[way] = slot
        for number in decision.unknown_entries:
            subscription = epoch.table.subscription(number)
            self._entries[number] = (serials[number], self._options_of(subscription))
            self._numbers[subscription] = number
        return True

    def ways_of(self, epoch: Epoch, numbers: Ints) -> tuple[Ints, Ints]:
        """The slot and the place of the flow of table entries."""
        _, ways, _, flows, _ = epoch.table.columns()
        return self._slot_of_way[ways[numbers]], flows[ways[numbers]]

    def subscriptions(self, epoch: Epoch, numbers: Ints, slot: int) -> list[int]:
        """Those subscriptions of table entries that are of one slot."""
        ways = epoch.table.columns()[1][numbers]
        mine = numbers[self._slot_of_way[ways] == slot]
        return [epoch.table.subscription(number) for number in mine.tolist()]


def _all_serve(size: int, row: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """That all messages serve the same flows."""
    if not len(row):
        return NOT_SERVED
    served = np.empty((size, len(row)), np.uint8)
    served[:] = row
    return served
