"""How much of a broker's time a plan may take that is being prepared: little, so that events are not held up.

Whoever prepares a plan tells its neighbours of all subscriptions, and these tell theirs. On a machine with more brokers
than cores that takes all of them, unless each broker goes on only while what it has spent on control messages is below
a share of the time that has passed. Preparing takes longer then, which nobody waits for: what has to be quick is to
activate the plan, once all hold it.
"""

from time import perf_counter

BURST = 0.02  # seconds of work that may be done at once


class Pace:
    """The time that one broker spends on a plan that is being prepared. With a share of 0 nothing is paced."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._since = self._spent = self._began = 0.0
        self.is_on = False

    def look(self, is_preparing: bool) -> None:
        """Begins to count when a plan is being prepared, and ends when none is."""
        if is_preparing and not self.is_on and self._share:
            self._since, self._spent = perf_counter(), 0.0
        self.is_on = is_preparing and bool(self._share)

    @property
    def may_work(self) -> bool:
        """Whether more may be done now."""
        return not self.is_on or self._spent <= self._share * (perf_counter() - self._since) + BURST

    def begin(self) -> None:
        """Control work begins."""
        self._began = perf_counter()

    def end(self) -> None:
        """It has ended."""
        self._spent += perf_counter() - self._began
