"""What has been taken back stays taken back, though an older message about it may still come.

A tombstone is kept for two leases, and at most ``MOST`` are kept: beyond that the oldest are forgotten first, so that
memory stays bounded where leases never run out. A subscription that comes to life again for that reason is an entry
like any other, and goes when it is unsubscribed or no longer renewed.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

MOST = 100_000

Name = TypeVar("Name", bound=Hashable)


class Tombstones(Generic[Name]):
    """By name: the last version that was taken back, and when."""

    def __init__(self) -> None:
        self._known: dict[Name, tuple[int, float]] = {}  # in the order in which they were taken back

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._known)

    def add(self, name: Name, version: int, now: float) -> None:
        """This version and all before it are taken back."""
        before, _ = self._known.pop(name, (-1, now))
        self._known[name] = (max(before, version), now)
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def holds(self, name: Name, version: int) -> bool:
        """Whether this version, or a later one, was taken back."""
        known = self._known.get(name)
        return known is not None and known[0] >= version

    def expire(self, old: float) -> None:
        """Forgets what was taken back before then."""
        self._known = {name: known for name, known in self._known.items() if known[1] >= old}

    def forget(self, condition: Callable[[Name], bool]) -> None:
        """Forgets those whose names meet the condition."""
        self._known = {name: known for name, known in self._known.items() if not condition(name)}
