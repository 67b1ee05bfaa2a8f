"""Memory that grows in place: an index of a million filters must not stop to copy itself."""

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.store import COUNTERS, SHARDS, TYPES, Store

PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


class Grown:
    """An array of zeros over pages of its own. Growing moves the pages, not their contents.

    Whoever holds on to ``array`` when it grows is left with the old pages.
    """

    def __init__(self, dtype: np.dtype[Any], rows: int) -> None:
        self.dtype = dtype
        self._pages = mmap.mmap(-1, max(1, rows) * dtype.itemsize, **PRIVATE)
        self.array = self._view()

    def grow(self, rows: int) -> None:
        size = rows * self.dtype.itemsize
        del self.array
        try:
            self._pages.resize(size)
        except (BufferError, OSError, SystemError):  # somebody does look at it, or the system cannot: copy after all
            pages = mmap.mmap(-1, size, **PRIVATE)
            pages[: len(self._pages)] = self._pages[:]
            self._pages = pages
        self.array = self._view()

    def _view(self) -> NDArray[Any]:
        return np.frombuffer(self._pages, self.dtype)


class Memory:
    """The tables of a ``Store``, each with room to spare."""

    def __init__(self) -> None:
        fixed = {"shards": 2 * SHARDS, "counts": COUNTERS}
        self._tables = {name: Grown(dtype, fixed.get(name, 1024)) for name, dtype in TYPES.items()}
        self.store = self._as_store()

    def reserve(self, rows: Mapping[str, int]) -> None:
        """Gives the tables at least so many rows. Nobody may hold on to ``store``."""
        del self.store
        for name, wanted in rows.items():
            if len(self._tables[name].array) < wanted:
                self._tables[name].grow(wanted)
        self.store = self._as_store()

    def _as_store(self) -> Store:
        return Store(*[table.array for table in self._tables.values()])
