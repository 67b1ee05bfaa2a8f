"""The mark of a publishing broker: below it, all events of QoS 1 and 2 that were published here are acknowledged.

1. An event is *open* until it is safe with all next hops. One of QoS 2 whose publisher has a session on disk stays open
   until the publisher releases it: after a crash it would be sent again, under the same number.
2. Frames carry, for each publishing broker, the numbers from which its epoch (and its incarnation) has been in use up
   to the mark. No event of these comes again in the flows of such a frame, so that hosts may forget them.
3. Where events wait on disk for a neighbour, they count as acknowledged and still come. So whoever keeps them there
   lowers the mark in its frames to that neighbour (``Neighbour``). All events that a broker publishes into the tree of
   a flow come to a host over the same links, in order: that is why it suffices.
4. In steered flows other links may lead to a host. There frames carry no mark, and hosts forget by age.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from overstory.broker.promises import Promise
from overstory.wire.frames import NOTHING, Acknowledged

IsOpen = Callable[[], bool]


class Marks:
    """The events that were published at one broker and are open, and what the frame in hand acknowledges."""

    def __init__(self, broker: int, following: Callable[[], int]) -> None:
        """``following`` gives the number of the next event."""
        self._broker, self._following = broker, following
        self._open: deque[tuple[int, IsOpen]] = deque()  # the first number of some events, ascending
        self._since = following()
        self.came: Acknowledged | None = None  # of the frame of a neighbour that is being handled

    def __len__(self) -> int:
        """How many events, or groups of them, are open or have not been looked at."""
        return len(self._open)

    def enter(self, first: int, promise: Promise) -> None:
        """Events from this number on are published. They are acknowledged once the promise is kept."""
        if promise.waits:
            self.hold(first, lambda: promise.waits > 0)

    def hold(self, event: int, is_open: IsOpen) -> None:
        """An event is open for as long as a function says so."""
        later = []
        while self._open and self._open[-1][0] > event:  # most often there is none
            later.append(self._open.pop())
        self._open.append((event, is_open))
        self._open.extend(reversed(later))

    def begin(self) -> None:
        """Another epoch is in use. What was published before is on other trees."""
        self._since = self._following()

    @property
    def mark(self) -> int:
        """The number below which every event is acknowledged."""
        while self._open and not self._open[0][1]():
            self._open.popleft()
        return self._open[0][0] if self._open else self._following()

    @contextmanager
    def publishing(self, events: Sequence[tuple[int, Promise | None]]) -> Iterator[None]:
        """These events are being published. They are open meanwhile, and then until their promises are kept."""
        is_done = False
        if events:
            self.hold(events[0][0], lambda: not is_done)
        try:
            yield
        finally:
            is_done = True
            for event, promise in events:
                if promise is not None:
                    self.enter(event, promise)

    def carried(self, entries: Collection[int] = ()) -> Acknowledged:
        """What a frame carries that is made now, with events of these publishing brokers."""
        if self.came is not None:
            return {entry: self.came[entry] for entry in entries if entry in self.came}
        since, mark = self._since, self.mark
        return {self._broker: (since, mark)} if since < mark else NOTHING


def lowered(acknowledged: Acknowledged, waiting: dict[int, int]) -> Acknowledged:
    """The same marks, where events from these numbers on wait for the neighbour on disk."""
    found = {entry: (since, min(mark, waiting.get(entry, mark))) for entry, (since, mark) in acknowledged.items()}
    return {entry: (since, mark) for entry, (since, mark) in found.items() if since < mark}
