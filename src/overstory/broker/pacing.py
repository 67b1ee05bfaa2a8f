"""How much of a broker's time a plan may take that is being prepared: little, so that events are not held up.

On a machine with more brokers than cores preparing takes all of them, unless each broker goes on only while it has
spent less than a share of the time that has passed. What it has not spent it cannot save up, apart from a moment: it
would have to be paid at once, by all who publish then. And where it has to wait for a processor itself, it goes on
with a sixth of its share: all that it does then holds up events. Preparing takes longer so, which nobody waits for:
what has to be quick is to activate the plan, once all hold it.
"""

from pathlib import Path
from time import perf_counter, thread_time

BURST = 0.002  # seconds of work that may be done at once
CROWDED, LESS = 0.1, 1 / 6  # the share of time in which a broker waits for a processor; what is left of its pace then
LOOK = 0.1  # seconds between two looks at that
WAITED = Path("/proc/self/schedstat")  # of the main thread, in nanoseconds: run, waited; and how often


class Pace:
    """The time that one broker spends on a plan that is being prepared. With a share of 0 nothing is paced."""

    def __init__(self, share: float) -> None:
        self._full = self._share = share
        self._looked = self._waited = 0.0  # when it looked whether processors are free; the seconds that it had waited
        self._left = self._at = self._began = 0.0  # seconds that may be spent; when that was so; when work began
        self.is_on = False

    def look(self, is_preparing: bool) -> None:
        """Begins to count when a plan is being prepared, and ends when none is."""
        if is_preparing and not self.is_on:
            self._left, self._at = BURST, perf_counter()
            self._share, self._looked, self._waited = self._full * LESS, self._at, waited()
        self.is_on = is_preparing and bool(self._full)

    @property
    def may_work(self) -> bool:
        """Whether more may be done now."""
        return not self.is_on or self.pause <= 0

    @property
    def pause(self) -> float:
        """The seconds until more may be done."""
        now = perf_counter()
        self._left, self._at = min(BURST, self._left + self._share * (now - self._at)), now
        return -self._left / self._share if self.is_on else 0.0

    def begin(self) -> None:
        """Work on the plan begins."""
        self._began = thread_time()

    def end(self) -> None:
        """Work on the plan has ended: its time is taken off what may be spent."""
        self._left -= thread_time() - self._began
        now = perf_counter()
        if now - self._looked > LOOK:
            before, self._waited = self._waited, waited()
            is_crowded = self._waited - before > CROWDED * (now - self._looked)
            self._share, self._looked = self._full * (LESS if is_crowded else 1.0), now


def waited() -> float:
    """The seconds that this process has waited for a processor; 0 where the system does not say."""
    try:
        return int(WAITED.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
