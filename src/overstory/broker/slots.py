"""The slots of all sessions and groups: one table that kernels read, and who stands behind each row."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.kernels.slots import SLOT

Holder = TypeVar("Holder")
Write = Callable[[bytes | memoryview], None]
FIRST = 64


class Slots(Generic[Holder]):
    """Rows of ``SLOT``, each with its holder. The row of a holder that has gone is given to another."""

    def __init__(self) -> None:
        self.rows: NDArray[Any] = np.zeros(FIRST, SLOT)
        self.rows["client"] = NONE
        self.holders: list[Holder | None] = []
        # The shell's way to send to each holder at once, if it has one and the slot is open. It stands here for speed:
        # to go through a thousand sessions and links takes longer than to write to them.
        self.writes: list[Write | None] = []
        self.by_client: dict[int, int] = {}
        self.changes = 0  # so often it has changed which clients may be written to, and how
        self._free: list[int] = []

    def take(self, client: int, holder: Holder) -> int:
        """A row for a client: closed, until its session says otherwise."""
        if self._free:
            slot = self._free.pop()
            self.holders[slot] = holder
        else:
            slot = len(self.holders)
            self.holders.append(holder)
            self.writes.append(None)
            if slot >= len(self.rows):
                more = np.zeros_like(self.rows)
                more["client"] = NONE
                self.rows = np.concatenate([self.rows, more])
        self.changes += 1
        self.rows[slot] = np.zeros((), SLOT)
        self.rows[slot]["client"] = client
        self.by_client[client] = slot
        return slot

    def give(self, slot: int) -> None:
        """The holder has gone."""
        del self.by_client[int(self.rows[slot]["client"])]
        self.rows[slot]["client"], self.rows[slot]["flags"] = NONE, 0
        self.holders[slot] = self.writes[slot] = None
        self.changes += 1
        self._free.append(slot)
