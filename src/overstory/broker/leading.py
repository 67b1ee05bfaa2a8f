"""Which coordinator a broker follows: the one with the highest fencing number that it has heard.

A coordinator that takes the lead gives a number that is higher than any that brokers know. From then on they refuse
whoever comes with a lower one, so that of two coordinators only one gets through. The number survives restarts where
there is a disk. A coordinator that is at work is not to be pushed aside, unless by force: it counts as at work for
``LEASE`` seconds after it was heard.
"""

from overstory.broker.journal import Journal
from overstory.errors import OverstoryError

LEASE = 10.0  # seconds


class RefusedError(OverstoryError):
    """A coordinator may not do this now."""


class Lead:
    """What one broker knows of coordinators. Time is that of whoever calls."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.fence = 0
        self.leader = ""  # the name of the coordinator that leads; empty if nobody does
        self.paused = False
        self.heard = float("-inf")

    def recall(self, fence: int, paused: bool) -> None:
        """What the disk has kept."""
        self.fence, self.paused = fence, paused

    def take(self, fence: int, name: str, now: float, force: bool = False) -> None:
        """A coordinator wants to lead. Raises a ``RefusedError`` if another one is at work."""
        is_other = bool(self.leader) and name != self.leader and now - self.heard < LEASE
        if is_other and not force:
            raise RefusedError(f"{self.leader} is at work; wait until it is done, or end it with 'overstory abort'")
        self.follow(fence, name, now)

    def follow(self, fence: int, name: str, now: float, works: bool = True) -> None:
        """A coordinator asks for something. Raises a ``RefusedError`` if its number is too low. ``works``: it is the
        coordinator itself, and not an operator who uses its number to stop it or to let it go on."""
        if fence < self.fence or (fence == self.fence and self.leader and name != self.leader):
            raise RefusedError(
                f"{self.leader or 'another coordinator'} leads with number {self.fence}, and {name} has {fence}; "
                "wait until it is done, or take over with 'overstory resume' or 'overstory abort'"
            )
        if fence > self.fence:
            self._journal.note("fence", fence)
        self.fence, self.leader = fence, name
        if works:
            self.heard = now

    def release(self) -> None:
        """Nobody leads any more."""
        self.leader = ""

    def pause(self, paused: bool) -> None:
        """Stops coordinators, or lets them go on."""
        self.paused = paused
        self._journal.note("paused", int(paused))
