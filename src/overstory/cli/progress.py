"""Progress on standard error: the step, how much of Spark's work on it is done, and how long the rest takes, about.
Where it is no terminal, only the names of the steps."""

import sys
import threading
import time
from contextlib import suppress

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from overstory.pipeline.pipeline import Pipeline

PERIOD = 0.2  # seconds
PATIENCE = 1.0  # seconds before anything is shown
WIDTH = 24  # of the bar


class Progress:
    """A line that is written over, while ``with`` lasts."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._step = ""
        self._since = time.monotonic()
        self._over = threading.Event()
        self._pipeline: Pipeline | None = None
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(WIDTH),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks, left"),
            TimeRemainingColumn(),
            TextColumn("so far"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            auto_refresh=False,  # we do that, in a thread whose errors nobody has to see
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._line = self._bars.add_task("", total=None, visible=False)
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def tell(self, step: str) -> None:
        self._step, self._since = step, time.monotonic()
        if not self.shown:
            print(f"{step} …", file=sys.stderr, flush=True)

    def note(self, line: str) -> None:
        """Something that stays to be read."""
        if self.shown:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def watch(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __enter__(self) -> "Progress":
        if self.shown:
            self._bars.start()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.shown:
            self._thread.join()
            self._bars.stop()

    def _draw(self) -> None:
        while not self._over.wait(PERIOD):
            self.draw()

    def draw(self) -> None:
        """The line as it is now. Spark may be closing meanwhile: a picture of it is not worth an error."""
        with suppress(Exception):
            self._look()

    def _look(self) -> None:
        """Spark works at one stage after the other: where a stage ends, the next is measured from its beginning."""
        done, every = self._pipeline.tasks() if self._pipeline is not None else (0, 0)
        (line,) = self._bars.tasks
        if line.description != self._step:
            self._bars.reset(self._line, description=self._step, total=None)
        if every and (every != line.total or done < line.completed):
            self._bars.reset(self._line, total=every, completed=done)
        visible = time.monotonic() - self._since > PATIENCE
        self._bars.update(self._line, completed=done if every else line.completed, visible=visible)
        self._bars.refresh()
