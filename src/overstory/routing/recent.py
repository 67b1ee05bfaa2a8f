"""The events that have come lately, of which kernels and the router's plain way have to know the same."""

import numpy as np

from overstory.kernels import recent
from overstory.kernels.recent import COUNT, nothing_recent

SMALLEST = 1024  # events that there is room for at first


class RecentEvents:
    """Events by flow, publishing broker and number, in the order in which they came. There is room for so many, a power
    of two, and for more as it is asked for."""

    def __init__(self, size: int = SMALLEST) -> None:
        self.arrays = nothing_recent(size)

    def __len__(self) -> int:
        return int(self.arrays.span[COUNT])

    def make_room(self, count: int) -> None:
        """Sees to it that there is room for so many more events."""
        size = len(self.arrays.times)
        while size < len(self) + count:
            size *= 2
        if size > len(self.arrays.times):
            larger = nothing_recent(size)
            recent.move(self.arrays, larger)
            self.arrays = larger

    def add(self, flow: int, entry: int, number: int, now: float) -> bool:
        """Adds an event. False if it is there already."""
        self.make_room(1)
        return recent.add_one(self.arrays, flow, entry, number, now)

    def forget(self, most: int, old: float = -np.inf) -> None:
        """Keeps the latest ``most`` events, and of these only those that have not come before the time ``old``."""
        recent.forget(self.arrays, most, old)
