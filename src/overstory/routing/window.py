"""A host's window of what its subscriptions got: (publication, advertisement, subscription, distance, count).

``distance`` is how many hops before the host somebody else wanted the publication too; ``count`` is at how many brokers
on the way that was so. With a count of 0 it was so nowhere, and the distance says nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NOBODY_ELSE = 1 << 30  # further away than any broker


class Sightings(NamedTuple):
    """Of one subscription: a row for each publication."""

    advertisements: Ints
    distances: Ints  # NOBODY_ELSE where nobody else wanted it
    counts: Ints


class Window:
    def __init__(self, length: float) -> None:
        self.length = length  # in seconds
        self._rows = np.zeros((5, 0), np.int64)
        self._times = np.zeros(0)
        self._fresh: list[tuple[float, Ints]] = []

    def record(
        self, now: float, publications: Ints, advertisements: Ints, subscriptions: Ints, distances: Ints, counts: Ints
    ) -> None:
        """Subscriptions by their numbers in the table."""
        if len(subscriptions):
            rows = np.stack([publications, advertisements, subscriptions, distances, counts])
            self._fresh.append((now, rows.astype(np.int64, copy=False)))

    def of(self, subscription: int, now: float) -> Sightings:
        self._gather(now)
        _, advertisements, _, distances, counts = self._rows[:, self._rows[2] == subscription]
        return Sightings(advertisements, np.where(counts > 0, distances, NOBODY_ELSE), counts)

    def forget(self, subscription: int, now: float) -> None:
        """Its number will be given to another."""
        self._gather(now)
        kept = self._rows[2] != subscription
        if not kept.all():
            self._rows, self._times = self._rows[:, kept], self._times[kept]

    def __len__(self) -> int:
        return len(self._times) + sum(len(rows[0]) for _, rows in self._fresh)

    def rows(self, now: float) -> Ints:
        """All of it: publications, advertisements, subscriptions, distances and counts."""
        self._gather(now)
        return self._rows

    def _gather(self, now: float) -> None:
        if self._fresh:
            self._rows = np.concatenate([self._rows, *[rows for _, rows in self._fresh]], axis=1)
            times = [np.full(rows.shape[1], at) for at, rows in self._fresh]
            self._times = np.concatenate([self._times, *times])
            self._fresh.clear()
        first = int(np.searchsorted(self._times, now - self.length))
        if first:
            self._rows, self._times = self._rows[:, first:], self._times[first:]
