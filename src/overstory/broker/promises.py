"""What has to happen before somebody may be told that an event is safe, and the answers that wait for it.

An event of QoS 1 or 2 is safe at a broker once all its next hops have said that it is safe with them, and once its own
sessions hold it. Answers to one client leave in the order of its messages, as MQTT asks for.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from overstory.broker.journal import Journal
from overstory.broker.link import Link


class HasDirty(Protocol):
    """Whoever knows the links that have something to send."""

    dirty: dict[Link, None]


class Promise:
    """An event that is not safe yet: it waits for so many others to say so."""

    __slots__ = ("_then", "waits")

    def __init__(self) -> None:
        self.waits = 0
        self._then: list[Callable[[], None]] = []

    def wait(self, count: int = 1) -> None:
        """So many more have to say that the event is safe."""
        self.waits += count

    def kept(self, count: int = 1) -> None:
        """So many of those that were waited for say so."""
        self.waits -= count
        if not self.waits:
            actions, self._then = self._then, []
            for action in actions:
                action()

    def then(self, action: Callable[[], None]) -> None:
        """Calls a function once the event is safe: at once if it is."""
        if self.waits:
            self._then.append(action)
        else:
            action()


class Runs:
    """Promises of events in a row, as kernels have them: one promise for so many events, or None for as many."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[tuple[Promise | None, int]]) -> None:
        self.runs = runs

    def one_by_one(self) -> list[Promise | None]:
        """The promise of each event."""
        return [promise for promise, count in self.runs for _ in range(count)]


Promises = Sequence[Promise | None] | Runs  # of the events of a frame; an empty one: none of them has any


def runs_of(promises: Promises) -> Iterable[tuple[Promise, int]]:
    """The promises of events, each with how often it is to be kept."""
    if not isinstance(promises, Runs) and not promises:  # most often
        return ()
    runs = promises.runs if isinstance(promises, Runs) else ((promise, 1) for promise in promises)
    return ((promise, count) for promise, count in runs if promise is not None)


def joined(parts: Sequence[tuple[Promises, int]]) -> Promises:
    """The promises of several frames that become one, with how many events each has."""
    if all(not isinstance(promises, Runs) and not promises for promises, _ in parts):
        return []
    runs: list[tuple[Promise | None, int]] = []
    for promises, count in parts:
        if isinstance(promises, Runs):
            runs += promises.runs
        else:
            runs += [(promise, 1) for promise in promises] or [(None, count)]
    return Runs(runs)


def both(one: Promise | None, other: Promise | None) -> Promise | None:
    """A promise that is kept once both are."""
    if one is None or other is None:
        return one or other
    found = Promise()
    for waited in (one, other):
        found.wait()
        waited.then(found.kept)
    return found


def kept_elsewhere() -> Promise:
    """A promise that nobody waits for, since the event is on disk."""
    promise = Promise()
    promise.wait()
    return promise


class Answers:
    """The acknowledgements that clients will get, in order."""

    def __init__(self, journal: Journal, broker: HasDirty) -> None:
        self._journal, self._broker = journal, broker
        self._queues: dict[Link, deque[tuple[Promise, bytes, int, int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def send(self, link: Link, data: bytes, promise: Promise | None, events: int = 0, once: int = 0) -> None:
        """Sends an answer once its event is safe, and behind all answers to this client before it. It acknowledges so
        many events of QoS 1 and of QoS 2."""
        queue = self._queues.get(link)
        if queue is None and (promise is None or not promise.waits):
            self._journal.send(link, data, events, once)
            return
        if queue is None:
            queue = self._queues[link] = deque()
        promise = promise or Promise()
        queue.append((promise, data, events, once))
        if promise.waits:
            promise.then(lambda: self._release(link))

    def forget(self, link: Link) -> None:
        """The client has gone."""
        self._queues.pop(link, None)

    def _release(self, link: Link) -> None:
        queue = self._queues.get(link)
        if queue is None:
            return
        while queue and not queue[0][0].waits:
            self._journal.send(link, *queue.popleft()[1:])
            self._broker.dirty[link] = None
        if not queue:
            del self._queues[link]
