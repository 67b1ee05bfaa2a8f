"""A subscription or an advertisement that was taken back stays so, even if an older message about it still comes.

A *tombstone* remembers that. It is kept for two leases, and at most ``MOST`` are kept. Beyond that the oldest are
forgotten first, so that memory stays bounded where leases never run out. A subscription that comes to life again
because its tombstone was forgotten is an entry like any other. It goes when it is unsubscribed or no longer renewed.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

MOST = 100_000  # tombstones

Name = TypeVar("Name", bound=Hashable)


class Tombstones(Generic[Name]):
    """For each name the last version that was taken back, and when."""

    def __init__(self) -> None:
        self._known: dict[Name, tuple[int, float]] = {}  # in the order in which they were taken back

    def __len__(self) -> int:
        """The number of tombstones."""
        return len(self._known)

    def __iter__(self) -> Iterator[Name]:
        """The names that have a tombstone, oldest first."""
        return iter(self._known)

    def add(self, name: Name, version: int, now: float) -> None:
        """Remembers that this version and all before it are taken back."""
        before, _ = self._known.pop(name, (-1, now))
        self._known[name] = (max(before, version), now)
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def holds(self, name: Name, version: int) -> bool:
        """Whether this version, or a later one, was taken back."""
        known = self._known.get(name)
        return known is not None and known[0] >= version

    def expire(self, old: float) -> None:
        """Forgets the tombstones from before the time ``old``."""
        while self._known and self._known[oldest := next(iter(self._known))][1] < old:
            del self._known[oldest]

    def forget(self, condition: Callable[[Name], bool]) -> None:
        """Forgets the tombstones whose names meet the condition."""
        self._known = {name: known for name, known in self._known.items() if not condition(name)}
