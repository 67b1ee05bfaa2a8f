"""Where an event that one subscription wants is first wanted by another, on its way to the first one.

A tree is given from the broker of the subscription: parents and depths, 0 there. The event comes down from its
publishing broker; a broker where somebody else's way leaves that path has depth h, its *hop*. Below the lowest such hop
the event is on the links for that subscription alone. (Selective pruning calls the hop a distance.)
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Candidates(NamedTuple):
    """Subscriptions, each with the tree as it is seen from its broker."""

    of_predicate: Array  # NONE where a predicate is none
    parents: Array  # by candidate and broker
    depths: Array


class Rows(NamedTuple):
    """Events: where each is published, and between offsets i and i + 1 the predicates that row i matches."""

    roots: Array
    offsets: Array
    predicates: Array


class Places(NamedTuple):
    """Who wants what: between two offsets the brokers of a predicate."""

    offsets: Array
    brokers: Array


@kernel
def lowest_hops(candidates: Candidates, rows: Rows, places: Places) -> Array:
    """In three lines, for every row and every candidate among its predicates: the candidate, the row, and the lowest
    hop; NONE if nobody else wants it."""
    candidate_of, parents, depths = candidates.of_predicate, candidates.parents, candidates.depths
    roots, offsets, predicates = rows.roots, rows.offsets, rows.predicates
    broker_offsets, brokers = places.offsets, places.brokers
    marked = np.full(parents.shape[1], NONE, np.int64)  # by broker: the last pair on whose path it is
    pairs = np.empty((3, len(predicates)), np.int64)
    found = 0
    for i in range(len(roots)):
        for at in range(offsets[i], offsets[i + 1]):
            candidate = candidate_of[predicates[at]]
            if candidate == NONE:
                continue
            parent, depth = parents[candidate], depths[candidate]
            node = roots[i]
            while node != NONE:
                marked[node] = found
                node = parent[node]
            lowest = NONE
            for other in range(offsets[i], offsets[i + 1]):
                if other == at:
                    continue
                for place in range(broker_offsets[predicates[other]], broker_offsets[predicates[other] + 1]):
                    node = brokers[place]
                    while marked[node] != found:
                        node = parent[node]
                    if lowest == NONE or depth[node] < lowest:
                        lowest = depth[node]
            pairs[0, found], pairs[1, found], pairs[2, found] = candidate, i, lowest
            found += 1
    return pairs[:, :found]
