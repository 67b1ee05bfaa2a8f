"""Many filters from their texts at once: those that a kernel can read, and the others by the parser."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from overstory.filters.operators import RESERVED
from overstory.kernels.reading import UNREAD, Tests, read_texts
from overstory.matching.batch import Texts

Ints = NDArray[np.int64]


class Reading:
    """What the kernel has read of texts: see ``kernels.reading``."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.tests: Tests = read_texts(np.ascontiguousarray(texts.data), np.ascontiguousarray(texts.offsets, np.int64))
        counts = np.maximum(self.tests.count, 0)
        self.starts: Ints = np.cumsum(counts) - counts
        self.names = [
            texts.data[start:stop].tobytes().decode()
            for start, stop in zip(self.tests.name_start, self.tests.name_stop, strict=True)
        ]

    @cached_property
    def read(self) -> NDArray[np.bool_]:
        """Whether the kernel could read each text. A keyword that stands where a name is expected is left to the
        parser."""
        read: NDArray[np.bool_] = self.tests.count != UNREAD
        wrong = np.array([name.upper() in RESERVED for name in self.names], bool)
        if wrong.any():
            read[np.repeat(np.arange(len(read)), np.maximum(self.tests.count, 0))[wrong[self.tests.name]]] = False
            for i in np.flatnonzero(self.tests.count < UNREAD).tolist():  # their names are not kept
                read[i] = False
        return read

    def text(self, number: int) -> str:
        found = self.texts.value(number)
        assert isinstance(found, str)
        return found
