"""The ways of steered flows: from some brokers the cheapest paths to all others, with ties as in ``kernels.paths``.

For each broker only the last link on the way to it is kept: 4 bytes for each pair of brokers.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.metering import Ways
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import cheapest_paths

AT_ONCE = 64  # searches, of which each needs 16 bytes a broker


def ways_from(offsets: Array, targets: Array, prices: Array, entries: Array) -> Ways:
    """The links that leave broker v are between ``offsets`` v and v + 1, by target; ``entries`` are brokers, each once.
    Where there is no way, there is no last link either."""
    brokers = len(offsets) - 1
    row, link = np.full(brokers, NONE, np.int64), np.empty((len(entries), brokers), np.int32)
    row[entries] = np.arange(len(entries))
    if len(prices) and prices.min() == prices.max() > 0:
        _by_links(offsets, targets, entries, link)
        return Ways(row, link)
    distances, before = np.empty((AT_ONCE, brokers)), np.empty((AT_ONCE, brokers), np.int64)
    for start in range(0, len(entries), AT_ONCE):
        some = entries[start : start + AT_ONCE]
        cheapest_paths(offsets, targets, prices, some, distances, before)
        _last_links(offsets, targets, before, link[start : start + AT_ONCE])
    return Ways(row, link)


@kernel
def _by_links(offsets: Array, targets: Array, entries: Array, link: Array) -> None:
    """Where all links cost the same, brokers are met in the order of their distance without a heap."""
    brokers = len(offsets) - 1
    depth, before, queue = np.empty(brokers, np.int64), np.empty(brokers, np.int64), np.empty(brokers, np.int64)
    for row in range(len(entries)):
        depth[:], link[row, :] = NONE, NONE
        depth[entries[row]], queue[0], link[row, entries[row]] = 0, entries[row], NONE
        first, last = 0, 1
        while first < last:
            here = queue[first]
            first += 1
            for each in range(offsets[here], offsets[here + 1]):
                there = targets[each]
                if depth[there] == NONE:
                    depth[there], queue[last] = depth[here] + 1, there
                    before[there], link[row, there] = here, each
                    last += 1
                elif depth[there] == depth[here] + 1 and here < before[there]:
                    before[there], link[row, there] = here, each


@kernel
def _last_links(offsets: Array, targets: Array, before: Array, link: Array) -> None:
    for row in range(len(link)):
        for there in range(link.shape[1]):
            here = before[row, there]
            link[row, there] = NONE
            if here != NONE:
                leaving = targets[offsets[here] : offsets[here + 1]]
                link[row, there] = offsets[here] + np.searchsorted(leaving, there)
