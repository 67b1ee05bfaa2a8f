"""Which step runs, and how long each has taken.

Steps stand inside each other: checking events starts Spark, planning samples events. Time is charged to the innermost
step alone, and when a step ends, the one around it is told again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

START, CHECK, MATCH, BOUND = "starting Spark", "checking events", "matching events", "bounding the least traffic"
READ, KEEP = "reading what was matched before", "keeping what was matched"
SET_UP = (START, CHECK, READ, MATCH, KEEP, BOUND)  # kept, and so done once for all plans that share it


class Clock:
    """``tell`` hears the name of each step as it begins, and as it goes on."""

    def __init__(self, tell: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self.tell, self.now = tell, now
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = now()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._charge()
        self._running.append(name)
        self.tell(name)
        try:
            yield
        finally:
            self._charge()
            self._running.pop()
        if self._running:  # and nothing has failed
            self.tell(self._running[-1])

    def _charge(self) -> None:
        before, self._since = self._since, self.now()
        if self._running:
            name = self._running[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + self._since - before

    def set_up(self) -> dict[str, float]:
        """The seconds of the steps that plans share, as far as they have run."""
        return {name: self.seconds[name] for name in SET_UP if name in self.seconds}

    def watch(self) -> Callable[[], float]:
        """Asked later, says how many seconds have passed since, without those of the steps that plans share."""
        started, shared = self.now(), sum(self.set_up().values())
        return lambda: self.now() - started - (sum(self.set_up().values()) - shared)
