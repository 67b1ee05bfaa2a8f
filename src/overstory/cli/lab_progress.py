"""How far an experiment is, on standard error: cells done, cells there are, and the time that is left, about."""

import sys
import threading
import time

from overstory.lab.running import Advance
from overstory.lab.store import Stored

PERIOD = 0.5  # seconds between looks
SELDOM = 15.0  # seconds between lines, where they are not written over


class LabProgress:
    def __init__(self, name: str) -> None:
        self.name, self.live = name, sys.stderr.isatty()
        self.failed = 0
        self._advance: Advance | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def watch(self, advance: Advance) -> None:
        self._advance = advance

    def tell(self, stored: Stored) -> None:
        self.failed += stored.failure is not None

    def __enter__(self) -> "LabProgress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        told = time.monotonic()
        while not self._over.wait(PERIOD):
            advance = self._advance
            if advance is None or not advance.every:
                continue
            if self.live:
                print(f"\r\033[K{self._line(advance)}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() - told > SELDOM:
                told = time.monotonic()
                print(self._line(advance), file=sys.stderr, flush=True)

    def _line(self, advance: Advance) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = f", about {_spoken(advance.left)} left" if advance.left is not None else ""
        return f"{self.name}: {advance.done} of {advance.every} cells{failed}{left}"


def _spoken(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
