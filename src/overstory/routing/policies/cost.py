"""Cost-based pruning: an unsubscription goes on as long as that saves more messages than it takes.

Going one hop further saves, on that link, the publications that nobody else within reach wants. The host has counted
these for every distance, and expects as many again in the time to come. Going further takes one message for the
unsubscription, and one for each subscription that it leaves uncovered; each broker knows these for itself. Towards the
publisher the saving can only fall and the number of messages can only grow (Property 3). So the first broker where
going on does not pay is where the total is least, and no threshold is needed.

Expectations may be wrong. Every broker that keeps a left-over counts the events that came in vain for it. The broker
lets the left-over go once these events have cost as much as letting it go will. At worst that is twice what foresight
would have paid. A left-over that no longer quenches any subscription is not renewed, and runs out by itself.

As with lazy covering, no covered subscription is withdrawn: that would take a message and save none.
"""

from collections.abc import Sequence

import numpy as np

from overstory.model.values import Attributes
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policies.lazy import Policy as Lazy
from overstory.routing.policy import replaced
from overstory.routing.window import NOBODY_ELSE, Sightings

NAME = "cost"
SUMMARY = (
    "an unsubscription goes on while that saves more messages than it takes, and left-overs go once they cost more"
)
HORIZON = 1.0  # windows that a left-over is expected to stay
FAR = 64  # hops that are told apart


class Policy(Lazy):
    """Cost-based pruning: an unsubscription goes on as long as that saves more messages than it takes."""

    statistics = True

    def __init__(self, horizon: float = HORIZON) -> None:
        self.horizon = horizon

    def prunes(self, seen: Sightings, advertisements: Sequence[int]) -> tuple[Prune, ...] | None:
        """For each advertisement, how many publications nobody else within each distance wants."""
        found = []
        for advertisement in advertisements:
            distances = seen.distances[seen.advertisements == advertisement]
            alone = int((distances >= NOBODY_ELSE).sum())
            within = np.cumsum(np.bincount(np.minimum(distances[distances < NOBODY_ELSE], FAR), minlength=1))
            beyond = (len(distances) - within).tolist()
            found.append(Prune(advertisement, NOBODY_ELSE, (*beyond, *[alone] * (FAR - len(beyond)))))
        return tuple(found)

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        """Passes the unsubscription on if that saves more than it takes, and else keeps a left-over."""
        if not outlet.leave(key):
            return []
        if prunes is None:
            return replaced(outlet, key)
        saved = self.horizon * sum(prune.beyond[0] for prune in prunes if prune.beyond)
        if key not in outlet.sent or saved > len(outlet.exposed_by(key)) + 1:
            return replaced(outlet, key, tuple(Prune(prune.advertisement, 0, prune.beyond[1:]) for prune in prunes))
        outlet.keep(key)
        return []

    def wasted(self, outlet: Outlet, events: Sequence[Attributes]) -> list[Order]:
        """Counts the events against the left-overs that they match, and lets go of left-overs that cost too much."""
        orders: list[Order] = []
        for event in events:
            for key in list(outlet.left_over):
                if outlet.filters[key].matches(event):
                    outlet.left_over[key] += 1
                    if outlet.left_over[key] > len(outlet.exposed_by(key)) + 1:
                        orders += replaced(outlet, key, ())
        return orders
