"""What a broker does for a plan that is not in use yet: little at a time, so that events are not held up.

1. The router's long work, and then the filing of the plan's entries, go on in slices, as the pace allows.
2. A broker holds a plan only once its entries are filed. Else all brokers would file theirs in the moment in which it
   is activated, before the first event.
3. Once somebody uses the plan, nothing waits for the pace, nor for entries to be filed.
"""

from typing import Any

from overstory.broker.pacing import Pace
from overstory.routing.router import Router
from overstory.routing.table import Table

ITEMS = 32  # of the router's work in one slice, and entries to be filed, while a plan is being prepared


class Preparing:
    """The preparation of plans at one broker. ``fabric`` is what the broker does with its neighbours."""

    def __init__(self, fabric: Any) -> None:
        self._fabric = fabric
        self._router: Router = fabric.state.router
        self.pace = Pace(0.0)  # which the shell sets
        self._complete: set[int] = set()  # epochs that are held once all their entries are filed
        self._is_left = False  # anything to be done, now or later

    def run(self) -> None:
        """Does a slice of work, if there is any and the pace allows it."""
        is_preparing = self._fabric.epochs.is_preparing
        self.pace.look(is_preparing)
        if self._has_work and self.pace.may_work:
            self.pace.begin()
            if self._router.has_work:
                self._fabric.act(self._router.work(ITEMS) if is_preparing else self._router.work())
            elif is_preparing:
                self._table.file_some(ITEMS)
            self.pace.end()
        if self._complete:
            self._go_on()

    @property
    def has_more(self) -> bool:
        """Whether more can be done at once."""
        self._is_left = self._has_work
        return self._is_left and self.pace.may_work

    @property
    def pause(self) -> float:
        """The seconds until more may be done, if ``has_more`` has found anything to be done; else 0."""
        return self.pace.pause if self._is_left else 0.0

    @property
    def _has_work(self) -> bool:
        if self._router.has_work:
            return True
        return self._table.unfiled > 0 if self._fabric.epochs.is_preparing else bool(self._complete)

    @property
    def _table(self) -> Table:
        """The table of the plan that is being prepared."""
        state = self._router.state
        if state.coming:
            return next(reversed(state.coming.values())).epoch.table
        return state.epochs[max(state.epochs)].table

    def holds(self, epoch: int) -> None:
        """The forwarding table of an epoch is complete."""
        self._complete.add(epoch)
        self._go_on()

    def _go_on(self) -> None:
        """Says which epochs are held now."""
        epochs, state = self._fabric.epochs, self._router.state
        for epoch in sorted(self._complete):
            known = state.epochs.get(epoch)
            if known is None or not epochs.is_preparing or not known.table.unfiled:
                self._complete.discard(epoch)
                if known is not None:
                    epochs.holds(epoch)
