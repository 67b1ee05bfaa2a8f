"""The ways that events can take from a broker. A *way* is a next hop in a flow: a neighbour or a client.

In a steered flow it is an *end*: a broker, perhaps far away, where events that enter here are to stay.

Ways are numbered. The number of a way that nobody uses any more is given to another way.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np


class Way(NamedTuple):
    """A next hop in a flow."""

    flow: int
    peer: int
    is_client: bool
    is_end: bool = False


class Ways:
    """The numbered ways of one broker in one epoch."""

    def __init__(self) -> None:
        self.flows: list[int] = []
        self.flow = np.zeros(16, np.int64)  # by the number of a way: the place of its flow in ``flows``
        self.peer = np.zeros(16, np.int64)  # by the number of a way
        self.is_end = np.zeros(16, np.bool_)  # by the number of a way
        self.neighbours: Counter[int] = Counter()  # brokers that ways lead to
        self._flow_places: dict[int, int] = {}
        self._numbers: dict[Way, int] = {}
        self._ways: list[Way] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """A bound: the numbers of all ways are below this."""
        return len(self._ways)

    def take(self, way: Way, users: int = 1) -> int:
        """The number of a way, for one more user of it, or for several."""
        number = self._numbers.get(way)
        if number is None:
            number = self._numbers[way] = self._new(way)
            if not way.is_client and not way.is_end:
                self.neighbours[way.peer] += 1
        self._uses[number] += users
        return number

    def is_client(self, number: int) -> bool:
        """Whether a way leads to a client."""
        return self._ways[number].is_client

    def release(self, number: int) -> None:
        """One user of a way has gone. A way without users gives its number free."""
        self._uses[number] -= 1
        if self._uses[number] == 0:
            way = self._ways[number]
            del self._numbers[way]
            self._free.append(number)
            if not way.is_client and not way.is_end:
                self.neighbours[way.peer] -= 1
                self.neighbours += Counter()  # this drops the neighbours with a count of zero

    def _new(self, way: Way) -> int:
        """Gives a number to a new way: a free one, or else the next."""
        if self._free:
            number = self._free.pop()
            self._ways[number] = way
        else:
            number = len(self._ways)
            self._ways.append(way)
            self._uses.append(0)
            if number >= len(self.peer):
                self.flow, self.peer = (
                    np.concatenate([array, np.zeros_like(array)]) for array in (self.flow, self.peer)
                )
                self.is_end = np.concatenate([self.is_end, np.zeros_like(self.is_end)])
        if way.flow not in self._flow_places:
            self._flow_places[way.flow] = len(self.flows)
            self.flows.append(way.flow)
        self.flow[number], self.peer[number] = self._flow_places[way.flow], way.peer
        self.is_end[number] = way.is_end
        return number
