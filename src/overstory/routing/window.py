"""A host's window of statistics: the publications that its subscriptions got lately.

A row is (publication, advertisement, subscription, distance, count). ``count`` is the number of brokers on the way
where somebody else wanted the publication too. ``distance`` is how many hops before the host the last such broker was.
With a count of 0 there was no such broker, and the distance means nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NOBODY_ELSE = 1 << 30  # further away than any broker
MOST_APART = 4096  # pieces that wait to be put together; old rows go when that happens
MOST_ROWS = 1 << 18  # in all; on a busy host the window is shorter for that
MOST_WAITING = 1 << 16  # rows of those pieces


class Sightings(NamedTuple):
    """The rows of one subscription: one for each publication that it got."""

    advertisements: Ints
    distances: Ints  # NOBODY_ELSE where nobody else wanted the publication
    counts: Ints


class Window:
    """The rows of the last seconds at one host."""

    def __init__(self, length: float) -> None:
        self.length = length  # in seconds
        self._rows = np.zeros((5, 0), np.int64)
        self._times = np.zeros(0)
        self._fresh: list[tuple[float, Ints]] = []
        self._single: list[tuple[float, int, int, Ints, int, int]] = []
        self._waiting = 0  # rows in ``_fresh`` and ``_single``

    def record(
        self, now: float, publications: Ints, advertisements: Ints, subscriptions: Ints, distances: Ints, counts: Ints
    ) -> None:
        """Adds a row for each delivery. Subscriptions are named by the serials of their entries in the table."""
        if self._single or len(self._fresh) >= MOST_APART or self._waiting >= MOST_WAITING:
            self._gather(now)
        if len(subscriptions):
            self._waiting += len(subscriptions)
            rows = np.stack([publications, advertisements, subscriptions, distances, counts])
            self._fresh.append((now, rows.astype(np.int64, copy=False)))

    def record_one(
        self, now: float, publication: int, advertisement: int, subscriptions: Ints, distance: int, count: int
    ) -> None:
        """Adds the rows of one publication, as ``record`` does, without the cost of making arrays."""
        if self._fresh or len(self._single) >= MOST_APART or self._waiting >= MOST_WAITING:
            self._gather(now)
        self._waiting += len(subscriptions)
        self._single.append((now, publication, advertisement, subscriptions, distance, count))

    def take(self, subscription: int, now: float) -> Sightings:
        """The rows of a subscription that is leaving, which is named by its serial.

        They are purged, as the paper has it, so this can be asked once.
        """
        self._gather(now)
        leaves = self._rows[2] == subscription
        _, advertisements, _, distances, counts = self._rows[:, leaves]
        if len(counts):
            self._rows, self._times = self._rows[:, ~leaves], self._times[~leaves]
        return Sightings(advertisements, np.where(counts > 0, distances, NOBODY_ELSE), counts)

    def __len__(self) -> int:
        """The number of rows, with those that are too old and have not been removed yet."""
        return len(self._times) + self._waiting

    def rows(self, now: float) -> Ints:
        """All rows, as five arrays: publications, advertisements, subscriptions, distances and counts."""
        self._gather(now)
        return self._rows

    def _gather(self, now: float) -> None:
        """Puts the waiting pieces together, and removes rows that are too old or too many."""
        self._waiting = 0
        if self._single:
            sizes = np.array([len(piece[3]) for piece in self._single])
            times, publications, advertisements, subscriptions, distances, counts = zip(*self._single, strict=True)
            scalars = np.repeat(np.array([publications, advertisements, distances, counts], np.int64), sizes, axis=1)
            rows = np.insert(scalars, 2, np.concatenate(subscriptions), axis=0)
            self._rows = np.concatenate([self._rows, rows], axis=1)
            self._times = np.concatenate([self._times, np.repeat(np.array(times), sizes)])
            self._single.clear()
        if self._fresh:
            self._rows = np.concatenate([self._rows, *[rows for _, rows in self._fresh]], axis=1)
            self._times = np.concatenate([self._times, *[np.full(len(rows[0]), at) for at, rows in self._fresh]])
            self._fresh.clear()
        first = max(int(np.searchsorted(self._times, now - self.length)), len(self._times) - MOST_ROWS)
        if first:
            self._rows, self._times = self._rows[:, first:], self._times[first:]
