"""Selective pruning, the paper's algorithm: an unsubscription stops at the critical broker of each advertisement.

Beyond that broker the subscription stays as a left-over in place of the many that it covers, because at least a share
``threshold`` of the publications that it lets through is wanted there anyway. The share never falls on the way to the
publisher (Property 3), so one distance for each advertisement is enough.

A host that saw few others on the way (a count of at most ``small``) expects no burst, and unsubscribes all the way. The
critical broker is the nearest one, h hops away, for which the share of publications with distance <= h reaches the
threshold. The paper's text asks for a distance less than h, which is one hop further than its own definitions;
``paper_strict`` follows the text. For an advertisement of which no publication was seen, the publications of the others
are the best guess.
"""

from collections.abc import Sequence

import numpy as np

from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policies.active import Policy as Active
from overstory.routing.policy import Ints, replaced
from overstory.routing.window import NOBODY_ELSE, Sightings

NAME = "selective"
SUMMARY = "active covering, but an unsubscription stops where most of what it let through is wanted anyway"
THRESHOLD = 0.9
SMALL = 0


class Policy(Active):
    """Selective pruning: an unsubscription stops at the critical broker of each advertisement."""

    statistics = True

    def __init__(self, threshold: float = THRESHOLD, small: int = SMALL, paper_strict: bool = False) -> None:
        self.threshold, self.small, self.paper_strict = threshold, small, paper_strict

    def prunes(self, seen: Sightings, advertisements: Sequence[int]) -> tuple[Prune, ...] | None:
        """The distance to the critical broker of each advertisement; None if no burst is expected."""
        if not len(seen.counts) or seen.counts.max() <= self.small:
            return None
        found = []
        for advertisement in advertisements:
            own = seen.distances[seen.advertisements == advertisement]
            found.append(Prune(advertisement, self.critical_distance(own if len(own) else seen.distances)))
        return tuple(found)

    def critical_distance(self, distances: Ints) -> int:
        """The number of hops to the critical broker; NOBODY_ELSE if there is none."""
        ordered = np.sort(distances)
        shares = np.arange(1, len(ordered) + 1) / len(ordered)  # of publications with at most this distance
        enough = np.flatnonzero(shares > self.threshold if self.paper_strict else shares >= self.threshold)
        if not len(enough) or ordered[enough[0]] >= NOBODY_ELSE:
            return NOBODY_ELSE
        return int(ordered[enough[0]]) + self.paper_strict

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        """The paper's Algorithm 1, for one neighbour: goes on towards the critical brokers, or keeps a left-over."""
        if not outlet.leave(key):
            return []
        if prunes is None:
            return replaced(outlet, key)
        onward = tuple(Prune(prune.advertisement, prune.distance - 1) for prune in prunes if prune.distance > 0)
        if onward:
            return replaced(outlet, key, onward)
        outlet.keep(key)
        return []
