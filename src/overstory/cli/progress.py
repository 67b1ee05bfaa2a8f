"""Progress on standard error: the step, and how much of Spark's work on it is done. Nothing where nobody looks."""

import sys
import threading
import time

from overstory.pipeline.pipeline import Pipeline

WIDTH = 24  # of the bar
PERIOD = 0.2  # seconds
PATIENCE = 1.0  # seconds before anything is shown


class Progress:
    """A line that is written over, while ``with`` lasts."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._step = ""
        self._since = time.monotonic()
        self._over = threading.Event()
        self._pipeline: Pipeline | None = None
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def tell(self, step: str) -> None:
        self._step, self._since = step, time.monotonic()
        if not self.shown:
            print(f"{step} …", file=sys.stderr, flush=True)

    def watch(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __enter__(self) -> "Progress":
        if self.shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.shown:
            self._thread.join()
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        while not self._over.wait(PERIOD):
            taken = time.monotonic() - self._since
            if self._step and taken > PATIENCE:
                print(f"\r\033[K{self._step} {self._bar()}{taken:.0f} s", end="", file=sys.stderr, flush=True)

    def _bar(self) -> str:
        done, every = self._pipeline.tasks() if self._pipeline is not None else (0, 0)
        if not every:
            return ""
        filled = WIDTH * done // every
        return f"[{'█' * filled}{'·' * (WIDTH - filled)}] {done}/{every} tasks, "
