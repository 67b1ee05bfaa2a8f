"""What has to be on disk before others may be told: changes in order, and the bytes that wait for them.

Changes gather until the shell takes them, writes them in one transaction and says so. What is to be sent only after
that waits here, in order; whoever sends behind something that waits, waits too. So commits are shared by all messages
that came in the meantime, and no promise is made that a crash could break.
"""

from collections.abc import Callable
from typing import NamedTuple

from overstory.broker.link import Link

Change = tuple[str, tuple[object, ...]]  # a statement of ``identities``, and its values


class Batch(NamedTuple):
    """Changes of one transaction, and what may be sent after it."""

    changes: list[Change]
    waiting: list[tuple[Link, bytes, int, int]]  # with how many events of QoS 1 and of QoS 2 the bytes acknowledge
    calls: list[Callable[[], None]]


class Journal:
    """The changes that are not on disk yet. Without a disk there are none, and nothing waits."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.busy = False  # a batch is being written
        self._batch = Batch([], [], [])

    def __len__(self) -> int:
        """How many changes and packets wait to be taken."""
        return len(self._batch.changes) + len(self._batch.waiting) + len(self._batch.calls)

    def note(self, statement: str, *values: object) -> None:
        """Adds a change to those that the next commit writes."""
        if self.keeps:
            self._batch.changes.append((statement, values))

    def send(self, link: Link, data: bytes, events: int = 0, once: int = 0) -> None:
        """Sends bytes once all changes up to now are on disk: at once if there are none. They acknowledge so many
        events of the client, of QoS 1 and of QoS 2."""
        if link.closed:
            link.window.answer(events, once)
            return
        if not self.busy and not self._batch.changes:
            link.outgoing.append(data)
            link.window.answer(events, once)
            return
        link.held += 1
        self._batch.waiting.append((link, data, events, once))

    def call(self, action: Callable[[], None]) -> None:
        """Calls a function once all changes up to now are on disk: at once if there are none."""
        if not self.busy and not self._batch.changes:
            action()
        else:
            self._batch.calls.append(action)

    def take(self) -> Batch | None:
        """The changes to be written next, or None if there are none or others are being written."""
        if self.busy or not len(self):
            return None
        batch, self._batch = self._batch, Batch([], [], [])
        self.busy = True
        return batch

    def written(self, batch: Batch) -> list[Link]:
        """The changes are on disk. Returns the links that now have something to send."""
        self.busy = False
        for action in batch.calls:
            action()
        links = {}
        for link, data, events, once in batch.waiting:
            link.held -= 1
            link.window.answer(events, once)
            if not link.closed:
                link.outgoing.append(data)
                links[id(link)] = link
        return list(links.values())
