"""The ways that events can take from a broker: a peer in a flow, numbered. A number that was freed is given again."""

from collections import Counter
from typing import NamedTuple

import numpy as np


class Way(NamedTuple):
    flow: int
    peer: int
    is_client: bool


class Ways:
    """Arrays by the number of a way; ``flow`` is a place in ``flows``."""

    def __init__(self) -> None:
        self.flows: list[int] = []
        self.flow = np.zeros(16, np.int64)
        self.peer = np.zeros(16, np.int64)
        self.neighbours: Counter[int] = Counter()  # brokers that ways lead to
        self._flow_places: dict[int, int] = {}
        self._numbers: dict[Way, int] = {}
        self._ways: list[Way] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """All numbers are below this."""
        return len(self._ways)

    def take(self, way: Way) -> int:
        number = self._numbers.get(way)
        if number is None:
            number = self._numbers[way] = self._new(way)
            if not way.is_client:
                self.neighbours[way.peer] += 1
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        self._uses[number] -= 1
        if self._uses[number] == 0:
            way = self._ways[number]
            del self._numbers[way]
            self._free.append(number)
            if not way.is_client:
                self.neighbours[way.peer] -= 1
                self.neighbours += Counter()  # without those that count nothing

    def _new(self, way: Way) -> int:
        if self._free:
            number = self._free.pop()
            self._ways[number] = way
        else:
            number = len(self._ways)
            self._ways.append(way)
            self._uses.append(0)
            if number >= len(self.peer):
                self.flow, self.peer = (np.concatenate([each, np.zeros_like(each)]) for each in (self.flow, self.peer))
        if way.flow not in self._flow_places:
            self._flow_places[way.flow] = len(self.flows)
            self.flows.append(way.flow)
        self.flow[number], self.peer[number] = self._flow_places[way.flow], way.peer
        return number
