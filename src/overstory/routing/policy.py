"""What a policy decides: which subscriptions a neighbour is told of, and how far an unsubscription goes.

1. What uncovers others sends those first, then unsubscribes: links keep the order, so no event is lost in between.
2. A policy keeps nothing of its own. Its state is in outlets and in the window of statistics, so that one policy object
   can serve all outlets of all brokers.
3. ``added``, ``removed``, ``wasted`` and ``tick`` return what to tell the neighbour, and ``sent`` says it at once.

The plainest policies are ``policies.none`` and ``policies.active``; the others say only in what they differ.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter
from overstory.model.values import Attributes
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.window import Sightings

Ints = NDArray[np.int64]


class Policy:
    covering = True  # whether subscriptions are quenched at all
    packs = False  # whether what one change leads to on a link is one message
    statistics = False  # whether hosts keep a window of what their subscriptions got
    waits = 0.0  # seconds until ``tick`` has to be called again while something is leaving; 0: it never has to be

    def added(self, outlet: Outlet, key: Key, wanted: Filter) -> list[Order]:
        """A subscription came from a last hop and goes towards the outlet's neighbour."""
        if not outlet.join(key, wanted):
            return []
        return [say(outlet, key), *self.tidied(outlet, key)]

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        """It went again; ``prunes`` are those for advertisements that the neighbour has sent."""
        return replaced(outlet, key) if outlet.leave(key) else []

    def tidied(self, outlet: Outlet, key: Key) -> list[Order]:
        """Withdraws what a subscription that was just sent makes superfluous."""
        return []

    def prunes(self, seen: Sightings, advertisements: Sequence[int]) -> tuple[Prune, ...] | None:
        """At its host: how far an unsubscription is to go towards the advertisements that it meets.

        None: all the way.
        """
        return None

    def wasted(self, outlet: Outlet, events: Sequence[Attributes]) -> list[Order]:
        """Events came from the outlet's neighbour, and nobody here wants them."""
        return []

    def tick(self, outlet: Outlet, now: float) -> list[Order]:
        return []

    def is_due(self, outlet: Outlet) -> bool:
        return self.waits > 0 and bool(outlet.leaving)


def say(outlet: Outlet, key: Key, triggered: bool = False) -> Order:
    outlet.sent.add(key)
    return Order(key, outlet.filters[key], triggered=triggered)


def unsay(outlet: Outlet, key: Key, prunes: tuple[Prune, ...] | None = None, withdrawn: bool = False) -> Order:
    outlet.sent.discard(key)
    return Order(key, None, prunes, withdrawn)


def replaced(outlet: Outlet, key: Key, prunes: tuple[Prune, ...] | None = None) -> list[Order]:
    """Sends what it leaves uncovered, and unsubscribes it if it was sent."""
    orders = [say(outlet, each, triggered=True) for each in outlet.drop(key)]
    if key in outlet.sent:
        orders.append(unsay(outlet, key, prunes))
    return orders
