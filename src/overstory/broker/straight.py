"""Messages of QoS 0 that are like some before: whoever got those gets these, and nobody has to be asked.

What was decided about messages of each kind is looked up by a kernel (``kinds``). If one of them is unknown, all that
came with it goes to the kernels that decide. Most turns have few messages, so what is done for each turn counts: all
room is there before. What goes to neighbours leaves with the turn.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from overstory.broker import faults
from overstory.broker.kinds import CLIENTS, Bytes, Hops, Kinds, kind_at
from overstory.broker.link import Link
from overstory.broker.sampling import Ends
from overstory.broker.state import State
from overstory.kernels.straight import HEADER, LISTED, ONWARD, PUBLISH, READ, WIDTH
from overstory.routing.compiled import Compiled
from overstory.wire.packets import MQTT_5

FEW = 64  # messages that are for clients with different lists; of more than that other kernels make less work
SOURCES = {version: np.array((number,)) for version, number in CLIENTS.items()}  # of each, as kernels are told of it
ONE_GROUP = HEADER + WIDTH  # the size of a report of what one group gets
COPIED = 4096  # bytes for each client that gets them: up to that, to copy takes less time than to share a view
SMALL = 1 << 14  # bytes: of what is not more, pieces are rather copied out of a room that is there than shared


class Straight:
    """Sends messages the way that those like them have gone."""

    def __init__(self, state: State, compiled: Compiled) -> None:
        self._state = state
        self.kinds = Kinds(state, compiled)
        self.onward: Any = None  # the ``Onward`` way to neighbours, if there are any
        self.writes = 0  # to clients, for what was sent last
        self._room = np.empty(SMALL, np.uint8)  # for the bytes of all groups
        self._written = self._room.data
        self._refused = b""  # the last bytes that could not be sent
        self._unknown: list[int] = []  # where in these there are messages of unknown kinds

    def send(self, link: Link, data: bytes, in_turn: bool = True) -> int:
        """Sends what has come from a client on, if all of it is messages that are like some before. Else it does
        nothing. Returns how many bytes it has handled: the last message may not have all come yet. Neighbours get
        something only in a turn, which sees to it that it leaves."""
        if data is self._refused:
            return 0
        self._refused = b""
        if not data or data[0] != PUBLISH:
            return 0
        state, kinds = self._state, self.kinds
        kinds.refresh()
        out = self._room if len(data) <= SMALL else self.room(len(data))
        report = kinds.look_up(data, SOURCES[link.version], state.limits.packet, out)
        if report is None:
            self._refused, self._unknown = data, kinds.listed["start"].tolist()
            return 0
        read = report[READ]
        if not read or state.dirty or (report[ONWARD] and not in_turn):  # something else is to be sent before
            return 0
        if len(report) > ONE_GROUP and not self.can_hand_out(report):
            self._refused, self._unknown = data, []
            return 0
        if report[ONWARD]:
            self.onward.publish(np.frombuffer(data, np.uint8), kinds.listed, link.session.number)
        if self._count(report[LISTED]):
            self._sample(link, data, kinds.listed["end"])
        self.hand_out(report, data, out)
        return read

    def send_one(self, link: Link, data: bytes) -> bool:
        """Sends one message on that has come alone, if it is like some before and goes to clients only; else it does
        nothing. For one message this takes less than kernels do."""
        if self._state.dirty:
            return False
        found = self.kinds.look_up_one(data, link.version)
        if found is None:
            return False
        if self._count(1):
            self._sample(link, data, (len(data),))
        self.writes = 0
        if found:
            self._write(found, data, 1)
        return True

    def room(self, size: int) -> Bytes:
        """Room for so many bytes."""
        return self._room if size <= SMALL else np.empty(size, np.uint8)

    def can_hand_out(self, report: list[int]) -> bool:
        """Whether clients can get what was looked up: not if they get different lists of many messages."""
        return len(report) <= ONE_GROUP or self.kinds.are_apart or report[LISTED] <= FEW

    def hand_out(self, report: list[int], data: bytes | memoryview, out: Bytes) -> None:
        """Gives clients what was looked up."""
        self.writes = 0
        if len(report) > ONE_GROUP and not self.kinds.are_apart:
            self._hand_out_mixed(data)
            return
        read = report[READ]
        for row in range(HEADER, len(report), WIDTH):
            group, begin, end, count = report[row : row + WIDTH]
            links = self.kinds.links[group]
            if end - begin == read:
                piece = data if read == len(data) else data[:read]
            elif out is self._room:
                piece = self._written[begin:end].tobytes()
            else:
                piece = out.data[begin:end]
                piece = piece.tobytes() if end - begin <= COPIED * len(links) else piece
            self._write(links, piece, count)

    def _hand_out_mixed(self, data: bytes | memoryview) -> None:
        """Gives a few messages to clients that do not all get the same of them."""
        mine: dict[Link, list[bytes | memoryview]] = {}
        for start, end, group, _ in self.kinds.listed.tolist():
            for to in self.kinds.links[group]:
                mine.setdefault(to, []).append(data[start:end])
        for to, pieces in mine.items():
            self._write((to,), b"".join(pieces), len(pieces))

    def _count(self, count: int) -> bool:
        """Counts messages that are about to be sent. Returns whether some of them are for the sample."""
        state = self._state
        counts, sampling = state.counts, state.sampling
        counts.messages_in += count
        counts.straight += count
        counts.ticks += 1
        state.events += count
        sampling.left -= count
        return sampling.left < 0

    def _sample(self, link: Link, data: bytes, ends: Ends) -> None:
        """Takes some of these messages, which end at these places, for the sample."""
        self._state.sampling.packets(data, ends, link.session.number, link.version, self._state.now)

    def _write(self, links: tuple[Link, ...], piece: bytes | memoryview, count: int) -> None:
        """Writes bytes to clients, which are so many messages: at once, unless something else is to be sent before."""
        state = self._state
        at_once = not state.dirty
        for to in links:
            write = to.write
            try:
                if write is None or not at_once:
                    to.outgoing.append(piece)
                    state.dirty[to] = None
                else:
                    write(piece)
            except Exception as error:
                faults.end(state, to, error)
        number, counts = len(links), state.counts
        self.writes += number
        counts.bytes_out += number * len(piece) if at_once else 0
        counts.messages_out += number * count

    def to_learn(self, link: Link) -> list[int]:
        """Where in the last bytes that could not be sent messages begin whose kinds are unknown and came before, one of
        each kind."""
        data, self._refused = self._refused, b""
        if not data or not self.kinds.pays(len(self._unknown)):
            return []
        source, found = CLIENTS[link.version], []
        for at in self._unknown:
            kind, _, _ = kind_at(data, at, link.version)
            if kind is not None:
                found.append((at, (source, kind)))
        return [found[place][0] for place in self.kinds.to_learn([kind for _, kind in found])]

    def learn(self, link: Link, data: bytes, spans: Sequence[int] | None, out: bytes, hops: Hops | None = ()) -> None:
        """Kernels have decided about this message: these slots get these bytes, and neighbours their copies. None says
        that they could not."""
        kind, _, end = kind_at(data, 0, link.version)
        if kind is None or end != len(data):
            return
        links = None if spans is None or hops is None else self.kinds.links_of(data, spans, out)
        if hops and link.version != MQTT_5:
            links = None  # neighbours get another packet than the one that came
        self.kinds.learn(CLIENTS[link.version], kind, links, hops or ())
