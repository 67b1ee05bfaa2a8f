"""Where an event that one subscription wants is first wanted by another, on its way to the first one.

A tree is given from the broker of the subscription: parents and depths, 0 there. The event comes down from its
publishing broker; a broker where somebody else's way leaves that path has depth h, its *hop*. Below the lowest such hop
the event is on the links for that subscription alone. (Selective pruning calls the hop a distance.)
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


@kernel
def lowest_hops(
    candidate_of: Array,
    parents: Array,
    depths: Array,
    roots: Array,
    offsets: Array,
    predicates: Array,
    broker_offsets: Array,
    brokers: Array,
    which: Array,
    rows: Array,
    hops: Array,
) -> int:
    """For every row and every candidate among its predicates: the candidate, the row, and the lowest hop; NONE if
    nobody else wants it. Returns how many there are.

    ``candidate_of`` is by predicate, NONE if it is none; ``parents`` and ``depths`` are by candidate and broker. The
    predicates of row i are between ``offsets`` i and i + 1, the brokers of a predicate between its two offsets.
    """
    marked = np.full(parents.shape[1], NONE, np.int64)  # by broker: the last pair on whose path it is
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
            which[found], rows[found], hops[found] = candidate, i, lowest
            found += 1
    return found
