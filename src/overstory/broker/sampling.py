"""A sample of what this broker's own clients publish: section VI of Majumder et al., where each broker samples with a
small probability.

1. Each message is taken with the same probability, whatever was taken before. The broker draws how many messages to
   pass over until the next one, so that those in between cost a subtraction for each turn, and nothing each. Such
   numbers are drawn many at once.
2. What is taken is the packet as it came. Whoever asks for the sample reads it; the broker does not.
3. The sample is bounded: the oldest packets go first. Every packet has a number, so that whoever asks gets each once,
   and sees when some were missed.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Ends = Sequence[int] | NDArray[np.int32]  # of packets, one behind the other
MOST = 8192  # packets that are kept
AT_ONCE = 1024  # draws
NEVER = 1 << 62  # messages to pass over where nothing is sampled


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """A packet of the sample."""

    number: int  # from 1 on, in the order in which packets were taken
    time: float  # seconds since 1970
    publisher: int  # the number of the client
    version: int  # of MQTT
    packet: bytes


class Sample(msgspec.Struct, frozen=True):
    """The packets that were taken since somebody asked before."""

    broker: int
    incarnation: int  # numbers begin anew with each
    rate: float
    published: int  # messages that clients published since the broker started
    missed: int  # packets that were taken and are gone
    taken: list[Taken]


class Sampling:
    """The sample of one broker."""

    def __init__(self, rate: float, seed: int, most: int = MOST) -> None:
        self._random = np.random.default_rng(seed)
        self._drawn: list[int] = []  # messages to pass over, for those to be taken next
        self._kept: deque[tuple[int, float, int, int, bytes]] = deque(maxlen=most)  # what ``Taken`` has
        self._count = 0  # packets that were taken so far
        self.rate = 0.0
        self.left = NEVER  # messages to pass over until the next one is taken
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        """Takes each message with this probability from now on."""
        if rate != self.rate:
            self.rate = rate
            self._drawn.clear()
            self.left = self._gap()

    def frames(self, data: Any, frames: Any, chunks: Any, now: float) -> None:
        """Some of these messages, which kernels have framed, are to be taken: ``left`` is below zero."""
        chosen = frames[self._places(len(frames))]
        senders = chunks[chosen["chunk"]]
        view = data.data
        known = (senders["client"], senders["version"], chosen["start"], chosen["end"])
        for client, version, start, end in zip(*(column.tolist() for column in known), strict=True):
            self._keep(now, client, version, view[start:end].tobytes())

    def packets(self, data: bytes, ends: Ends, publisher: int, version: int, now: float) -> None:
        """The same of packets of one client, which end at these places."""
        for place in self._places(len(ends)):
            self._keep(now, publisher, version, data[ends[place - 1] if place else 0 : ends[place]])

    def since(self, number: int) -> tuple[int, list[Taken]]:
        """How many of the packets behind a number are gone, and the others."""
        first = self._kept[0][0] if self._kept else self._count + 1
        later = islice(self._kept, max(0, number + 1 - first), None)
        return max(0, first - number - 1), [Taken(*one) for one in later]

    def _places(self, count: int) -> list[int]:
        """The places among so many messages of those that are taken."""
        place = count + self.left
        places = []
        while place < count:
            places.append(place)
            place += 1 + self._gap()
        self.left = place - count
        return places

    def _keep(self, now: float, publisher: int, version: int, packet: bytes) -> None:
        self._count += 1
        self._kept.append((self._count, now, publisher, version, packet))

    def _gap(self) -> int:
        """How many messages to pass over: as many as fail before one succeeds."""
        if not self._drawn:
            if self.rate <= 0:
                return NEVER
            self._drawn = (self._random.geometric(self.rate, AT_ONCE) - 1).tolist()
        return self._drawn.pop()
