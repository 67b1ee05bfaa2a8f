"""A policy decides which subscriptions a neighbour is told of, and how far an unsubscription goes.

1. When an unsubscription uncovers others, these are sent first and the unsubscription after them. Links keep the order,
   so no event is lost in between.
2. A policy has no state of its own. Its state is in outlets and in the window of statistics, so that one policy object
   can serve all outlets of all brokers.
3. ``added``, ``removed``, ``wasted`` and ``tick`` return the orders for the neighbour. The outlet's ``sent`` includes
   these orders at once.

The plainest policies are ``policies.none`` and ``policies.active``. The others define only in what they differ.
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
    """Forwards each subscription that no other one covers, and withdraws none: what all policies build on."""

    covering = True  # whether a covered subscription is quenched, that is, not forwarded
    packs = False  # whether all messages that one change leads to on a link are packed into one
    statistics = False  # whether hosts keep a window of the publications that their subscriptions got
    waits = 0.0  # seconds between two calls of ``tick`` while left-overs are leaving; 0: it need not be called

    def added(self, outlet: Outlet, key: Key, wanted: Filter) -> list[Order]:
        """A subscription came from a last hop and goes towards the outlet's neighbour."""
        if outlet.join(key, wanted):
            return [say(outlet, key), *self.tidied(outlet, key)]
        other = outlet.yields_to(key)
        return [] if other is None else [say(outlet, key), unsay(outlet, other, withdrawn=True)]

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        """A last hop of a subscription has left. ``prunes`` are those for the neighbour's advertisements."""
        return replaced(outlet, key) if outlet.leave(key) else []

    def tidied(self, outlet: Outlet, key: Key) -> list[Order]:
        """Withdraws the subscriptions that one that was just sent makes superfluous."""
        return []

    def prunes(self, seen: Sightings, advertisements: Sequence[int]) -> tuple[Prune, ...] | None:
        """How far an unsubscription is to go towards each advertisement that it meets; None means all the way.

        The subscription's host asks this, with the publications that the subscription got in the window.
        """
        return None

    def wasted(self, outlet: Outlet, events: Sequence[Attributes]) -> list[Order]:
        """Events came from the outlet's neighbour, and no neighbour or client of this broker wants them."""
        return []

    def tick(self, outlet: Outlet, now: float) -> list[Order]:
        """Sends orders that have waited for this time."""
        return []

    def is_due(self, outlet: Outlet) -> bool:
        """Whether the outlet needs a tick."""
        return self.waits > 0 and bool(outlet.leaving)


def say(outlet: Outlet, key: Key, triggered: bool = False) -> Order:
    """Sends a subscription to the outlet's neighbour."""
    outlet.sent.add(key)
    return Order(key, outlet.filters[key], triggered=triggered)


def unsay(outlet: Outlet, key: Key, prunes: tuple[Prune, ...] | None = None, withdrawn: bool = False) -> Order:
    """Sends an unsubscription to the outlet's neighbour."""
    outlet.sent.discard(key)
    return Order(key, None, prunes, withdrawn)


def replaced(outlet: Outlet, key: Key, prunes: tuple[Prune, ...] | None = None) -> list[Order]:
    """Drops a subscription: sends those that this leaves uncovered, then unsubscribes it if it was sent."""
    orders = [say(outlet, exposed, triggered=True) for exposed in outlet.drop(key)]
    if key in outlet.sent:
        orders.append(unsay(outlet, key, prunes))
    return orders
