"""The slots of all sessions and groups: one table that kernels read, and who stands behind each row."""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.kernels.slots import SLOT

Holder = TypeVar("Holder")
FIRST = 64


class Slots(Generic[Holder]):
    """Rows of ``SLOT``, each with its holder. The row of a holder that has gone is given to another."""

    def __init__(self) -> None:
        self.rows: NDArray[Any] = np.zeros(FIRST, SLOT)
        self.rows["client"] = NONE
        self.holders: list[Holder | None] = []
        self.by_client: dict[int, int] = {}
        self._free: list[int] = []

    def take(self, client: int, holder: Holder) -> int:
        """A row for a client: closed, until its session says otherwise."""
        if self._free:
            slot = self._free.pop()
            self.holders[slot] = holder
        else:
            slot = len(self.holders)
            self.holders.append(holder)
            if slot >= len(self.rows):
                more = np.zeros_like(self.rows)
                more["client"] = NONE
                self.rows = np.concatenate([self.rows, more])
        self.rows[slot] = np.zeros((), SLOT)
        self.rows[slot]["client"] = client
        self.by_client[client] = slot
        return slot

    def give(self, slot: int) -> None:
        """The holder has gone."""
        del self.by_client[int(self.rows[slot]["client"])]
        self.rows[slot]["client"], self.rows[slot]["flags"] = NONE, 0
        self.holders[slot] = None
        self._free.append(slot)
