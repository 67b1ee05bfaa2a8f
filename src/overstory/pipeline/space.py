"""The space of events: what each attribute of a log can be, as a line of integers, and filters as boxes in it.

An attribute that is a column of the log is absent or of the column's type, one that is not is absent, and ``$broker``
is a broker where somebody publishes (see ``possible``, which says the same of filters one by one). The least code of an
attribute stands for its absence; numbers and truths follow by their keys, strings by the texts that filters compare
them with, in order. A box that asks for what cannot be is left out.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.holding import Domains, Pool
from overstory.kernels.keys import FALSE, TOP, TRUE, key_of_number
from overstory.pipeline.boxes import ABSENT, ENDLESS, KEYS, PRESENT, TEXTS, Boxes
from overstory.pipeline.match import BROKER

Ints = NDArray[np.int64]
NUMBERS, STRINGS, BROKERS, OTHERS = 0, 1, 2, 3  # what values of an attribute are coded by


class Space:
    """Of the attributes that some boxes speak of."""

    def __init__(self, boxes: Boxes, types: Mapping[str, pa.DataType], brokers: Sequence[int]) -> None:
        self.boxes = boxes
        self.brokers: Ints = np.sort(np.array([key_of_number(broker) for broker in brokers], np.int64))
        about = [self._attribute(name, types.get(name)) for name in boxes.names]
        # By attribute: how it is coded, the codes of its values, and that of its absence, above all if it is never so
        self.coding, self.first, self.last, self.absent = np.array(about, np.int64).reshape(-1, 4).T
        self.domains = Domains(np.minimum(self.absent, self.first), self.last.copy())

    def _attribute(self, name: str, type_: pa.DataType | None) -> tuple[int, int, int, int]:
        if name == BROKER:
            return BROKERS, 0, len(self.brokers) - 1, len(self.brokers)
        if type_ is None:
            return OTHERS, 1, 0, 0
        if pa.types.is_string(type_):
            texts = self.boxes.texts
            first = 1 if texts and texts[0] == "" else 0  # else there are strings before the first text
            return STRINGS, first, len(texts), first - 1
        if pa.types.is_boolean(type_):
            return NUMBERS, FALSE, TRUE, FALSE - 1
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return NUMBERS, -TOP, TOP, -TOP - 1
        return OTHERS, 1, 1, 0

    def pool(self) -> Pool:
        """The boxes, without those that hold no event."""
        boxes = self.boxes
        low, high = self._coded()
        count = len(boxes.exact)
        owner = np.repeat(np.arange(count), np.diff(boxes.range_offsets))
        kept = np.full(count, len(self.brokers) > 0)  # where nobody publishes, there is no event
        kept[owner[low > high]] = False
        kept_before = np.concatenate([[0], np.cumsum(kept)])
        there = kept[owner]
        ranges_before = np.concatenate([[0], np.cumsum(np.diff(boxes.range_offsets)[kept])])
        return Pool(
            kept_before[boxes.offsets],
            boxes.exact[kept],
            ranges_before,
            boxes.attribute[there],
            low[there],
            high[there],
        )

    def _coded(self) -> tuple[Ints, Ints]:
        """Of all ranges, the first and the last code; a range that holds nothing ends before it begins."""
        boxes, at = self.boxes, self.boxes.attribute
        coding, first, last = self.coding[at], self.first[at], self.last[at]
        low, high = np.ones(len(at), np.int64), np.zeros(len(at), np.int64)
        absent = (boxes.kind == ABSENT) & (self.absent[at] < first)
        low[absent] = high[absent] = self.absent[at][absent]
        there = boxes.kind == PRESENT
        low[there], high[there] = first[there], last[there]
        numbers = (boxes.kind == KEYS) & (coding == NUMBERS)
        low[numbers] = np.maximum(boxes.low, first)[numbers]
        high[numbers] = np.minimum(boxes.high, last)[numbers]
        broker = (boxes.kind == KEYS) & (coding == BROKERS)
        low[broker] = np.searchsorted(self.brokers, boxes.low[broker])
        high[broker] = np.searchsorted(self.brokers, boxes.high[broker], "right") - 1
        texts = (boxes.kind == TEXTS) & (coding == STRINGS)
        low[texts] = boxes.low[texts] + 1
        high[texts] = np.where(boxes.high == ENDLESS, len(boxes.texts), boxes.high)[texts]
        return low, high
