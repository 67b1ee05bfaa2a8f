"""Cost-based pruning: an unsubscription goes on as long as that saves more messages than it takes.

Going one hop further saves, on that link, the publications that nobody within reach wants; the host has counted them
for every distance, and expects as many again in the time to come. It takes the unsubscription and the subscriptions
that it leaves uncovered, which each broker knows for itself. Towards the publisher the first can only fall and the
second only grow (Property 3), so the first broker where it does not pay is where the total is least: no threshold.

Expectations may be wrong. Every broker that keeps a left-over counts the events that came for it in vain, and lets it
go once they have cost as much as letting it go will: at worst that is twice what foresight would have paid. What
quenches nobody any more is no longer renewed, and runs out by itself.

Nothing is withdrawn, as with lazy covering: it would take a message and save none.
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
    statistics = True

    def __init__(self, horizon: float = HORIZON) -> None:
        self.horizon = horizon

    def prunes(self, seen: Sightings, advertisements: Sequence[int]) -> tuple[Prune, ...] | None:
        found = []
        for advertisement in advertisements:
            distances = seen.distances[seen.advertisements == advertisement]
            alone = int((distances >= NOBODY_ELSE).sum())
            within = np.cumsum(np.bincount(np.minimum(distances[distances < NOBODY_ELSE], FAR), minlength=1))
            beyond = (len(distances) - within).tolist()
            found.append(Prune(advertisement, NOBODY_ELSE, (*beyond, *[alone] * (FAR - len(beyond)))))
        return tuple(found)

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        if not outlet.leave(key):
            return []
        if prunes is None:
            return replaced(outlet, key)
        saved = self.horizon * sum(each.beyond[0] for each in prunes if each.beyond)
        if key not in outlet.sent or saved > len(outlet.exposed_by(key)) + 1:
            return replaced(outlet, key, tuple(Prune(each.advertisement, 0, each.beyond[1:]) for each in prunes))
        outlet.keep(key)
        return []

    def wasted(self, outlet: Outlet, events: Sequence[Attributes]) -> list[Order]:
        orders: list[Order] = []
        for event in events:
            for key in list(outlet.left_over):
                if outlet.filters[key].matches(event):
                    outlet.left_over[key] += 1
                    if outlet.left_over[key] > len(outlet.exposed_by(key)) + 1:
                        orders += replaced(outlet, key, ())
        return orders
