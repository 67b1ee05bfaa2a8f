"""A sample of what this broker's own clients publish: section VI of Majumder et al., where each broker samples with a
small probability.

1. Each message is taken with the same probability, whatever was taken before. The broker draws how many messages to
   pass over until the next one, so that those in between cost a subtraction for each turn, and nothing each.
2. What is taken is the packet as it came. Whoever asks for the sample reads it; the broker does not.
3. The sample is bounded: the oldest packets go first. Every packet has a number, so that whoever asks gets each once,
   and sees when some were missed.
"""

import math
import random
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

MOST = 8192  # packets that are kept
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
        self._draw = random.Random(seed)
        self._kept: deque[Taken] = deque(maxlen=most)
        self._count = 0  # packets that were taken so far
        self.rate = self._logarithm = 0.0
        self.left = NEVER  # messages to pass over until the next one is taken
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        """Takes each message with this probability from now on."""
        if rate != self.rate:
            self.rate = rate
            self._logarithm = math.log1p(-rate) if rate < 1 else 0.0
            self.left = self._gap()

    def frames(self, data: Any, frames: Any, chunks: Any, now: float) -> None:
        """Some of these messages, which kernels have framed, are to be taken: ``left`` is below zero."""
        first = len(frames) + self.left  # where the next one is
        while first < len(frames):
            frame = frames[first]
            chunk = chunks[frame["chunk"]]
            packet = data[frame["start"] : frame["end"]].tobytes()
            first = self._take(first, now, int(chunk["client"]), int(chunk["version"]), packet)
        self.left = first - len(frames)

    def packets(self, data: bytes, ends: Sequence[int], publisher: int, version: int, now: float) -> None:
        """The same of packets of one client, which end at these places."""
        first = len(ends) + self.left
        while first < len(ends):
            packet = data[ends[first - 1] if first else 0 : ends[first]]
            first = self._take(first, now, publisher, version, packet)
        self.left = first - len(ends)

    def since(self, number: int) -> tuple[int, list[Taken]]:
        """How many of the packets behind a number are gone, and the others."""
        first = self._kept[0].number if self._kept else self._count + 1
        return max(0, first - number - 1), list(islice(self._kept, max(0, number + 1 - first), None))

    def _take(self, at: int, now: float, publisher: int, version: int, packet: bytes) -> int:
        """Takes one packet. Returns the place of the next one."""
        self._count += 1
        self._kept.append(Taken(self._count, now, publisher, version, packet))
        return at + 1 + self._gap()

    def _gap(self) -> int:
        """How many messages to pass over: as many as fail before one succeeds."""
        if self.rate <= 0:
            return NEVER
        if self.rate >= 1:
            return 0
        return int(math.log(1.0 - self._draw.random()) / self._logarithm)
