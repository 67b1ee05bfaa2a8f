"""The peer of the index: NumPy over all boxes at once, one event after the other.

It does what a good NumPy programmer would: ranges as dense arrays, one attribute after the other, each only for the
boxes that are left; then the tokens of those few. Residuals and the way from boxes to filters are spared it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.cells import encode
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.match import Events
from overstory.kernels.store import BOXES, TOKENS_USED
from overstory.matching.batch import Batch
from overstory.matching.index import FilterIndex


class NumpyScan:
    def __init__(self, index: FilterIndex) -> None:
        """Of an index to which filters were only added."""
        store = index.store
        words, starts = store.words, store.boxes["record"][: store.counts[BOXES]].copy()
        headers = words[starts]
        assert not ((headers >> 16) & 0xFFFF).any(), "the scan knows no lists of intervals"
        count = len(starts)
        self.index = index
        self.lows = np.full((len(index.numbers), count), LEAST, np.int64)
        self.highs = np.full((len(index.numbers), count), MOST, np.int64)
        ranges = headers & 0xFFFF
        for i in range(ranges.max(initial=0)):
            boxes = np.flatnonzero(ranges > i)
            at = starts[boxes] + 1 + 3 * i
            self.lows[words[at], boxes], self.highs[words[at], boxes] = words[at + 1], words[at + 2]
        nothing = int(store.counts[TOKENS_USED])  # a token that no event has
        self.has = np.zeros(nothing + 1, np.bool_)
        self.clauses: list[tuple[NDArray[Any], NDArray[Any]]] = []  # by box: tokens, and whether one must be there
        at, left = starts + 1 + 3 * ranges, (headers >> 32) & 0xFFFF
        while (left > 0).any():
            sizes = np.where(left > 0, words[at] >> 1, 0)
            tokens = np.full((count, sizes.max()), nothing, np.int64)
            for j in range(sizes.max()):
                boxes = np.flatnonzero(sizes > j)
                tokens[boxes, j] = words[at[boxes] + 1 + j]
            self.clauses.append((tokens, (left > 0) & (words[at] & 1 == 0)))
            at, left = np.where(left > 0, at + 1 + sizes, at), left - 1
        # The attribute that most boxes constrain comes first.
        self.order = np.argsort(np.count_nonzero(self.lows != LEAST, axis=1))[::-1]

    def match(self, batch: Batch) -> list[NDArray[np.int64]]:
        events: Events = encode(self.index.store, batch.cells(self.index.numbers))
        return [self._match(events, i) for i in range(len(batch))]

    def _match(self, events: Events, event: int) -> NDArray[np.int64]:
        values = np.full(len(self.lows), LEAST, np.int64)
        keys = slice(events.key_offsets[event], events.key_offsets[event + 1])
        values[events.attributes[keys]] = events.keys[keys]
        tokens = events.tokens[events.token_offsets[event] : events.token_offsets[event + 1]]
        first = self.order[0]
        left = np.flatnonzero((self.lows[first] <= values[first]) & (values[first] <= self.highs[first]))
        for attribute in self.order[1:]:
            value = values[attribute]
            left = left[(self.lows[attribute][left] <= value) & (value <= self.highs[attribute][left])]
        self.has[tokens] = True
        for named, wanted in self.clauses:
            left = left[self.has[named[left]].any(axis=1) == wanted[left]]
        self.has[tokens] = False
        return left
