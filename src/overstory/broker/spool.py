"""Events for neighbours that are down, on disk: there they count as safe, and publishers need not wait.

A frame is forgotten once the neighbour has said that all its events are safe. A spool that is full takes no more, and
then acknowledgements wait, as they do without a disk; no event is ever dropped for that.
"""

from collections.abc import Callable

from overstory.broker.journal import Journal


class Spool:
    """The frames that a broker keeps on disk for neighbours."""

    def __init__(self, journal: Journal, most: int) -> None:
        self._journal, self._most = journal, most
        self._sizes: dict[int, int] = {}  # of frames, by their keys
        self._next = 1
        self.bytes = 0

    def keep(self, peer: int, body: bytes, then: Callable[[], None]) -> int:
        """Writes a frame, and calls a function when it is on disk. Returns its key, or 0 if there is no room."""
        if not self._journal.keeps or self.bytes + len(body) > self._most:
            return 0
        key, self._next = self._next, self._next + 1
        self._hold(key, len(body))
        self._journal.note("spool", key, peer, body)
        self._journal.call(then)
        return key

    def recall(self, key: int, size: int) -> None:
        """A frame is on disk since before the broker restarted."""
        self._next = max(self._next, key + 1)
        self._hold(key, size)

    def forget(self, key: int) -> None:
        """The neighbour has all events of a frame."""
        self.bytes -= self._sizes.pop(key, 0)
        self._journal.note("unspool", key)

    def _hold(self, key: int, size: int) -> None:
        self._sizes[key] = size
        self.bytes += size
