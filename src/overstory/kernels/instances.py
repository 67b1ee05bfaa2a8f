"""Who must be reached, group by group: what planners of trees ask about every configuration that they try.

An *item* is a filter at a broker; items are in groups, and each group has a tree of its own. An *instance* is a row of
the log in a group that some of its items are in: from the row's root to the *terminals*, the brokers of these items.
The root is no terminal of its own, and an instance without terminals is none.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


@kernel
def instances_of(
    roots: Array, offsets: Array, items: Array, item_broker: Array, item_group: Array, groups: int
) -> tuple[Array, Array, Array, Array]:
    """The instances of group g are between ``group_offsets`` g and g + 1, by row; their terminals, in the order of the
    row's items, between ``terminal_offsets`` i and i + 1. Returns both offsets, the rows and the terminals."""
    sizes = np.zeros(groups + 1, np.int64)
    seen = np.full(groups, NONE, np.int64)
    rows = len(roots)
    for row in range(rows):
        for at in range(offsets[row], offsets[row + 1]):
            group = item_group[items[at]]
            if seen[group] != row and item_broker[items[at]] != roots[row]:
                seen[group] = row
                sizes[group + 1] += 1
    group_offsets = np.cumsum(sizes)
    instance_row = np.empty(group_offsets[-1], np.int64)
    # First how many items each instance has, then where they go; a broker that comes twice is dropped at the end.
    place, counts = group_offsets[:-1].copy(), np.zeros(group_offsets[-1] + 1, np.int64)
    seen[:] = NONE
    for row in range(rows):
        for at in range(offsets[row], offsets[row + 1]):
            group = item_group[items[at]]
            if item_broker[items[at]] == roots[row]:
                continue
            if seen[group] != row:
                seen[group] = row
                instance_row[place[group]] = row
                place[group] += 1
            counts[place[group]] += 1
    starts = np.cumsum(counts)
    brokers = np.empty(starts[-1], np.int64)
    fill = starts[:-1].copy()
    place[:] = group_offsets[:-1]
    seen[:] = NONE
    for row in range(rows):
        for at in range(offsets[row], offsets[row + 1]):
            group, broker = item_group[items[at]], item_broker[items[at]]
            if broker == roots[row]:
                continue
            if seen[group] != row:
                seen[group] = row
                place[group] += 1
            brokers[fill[place[group] - 1]] = broker
            fill[place[group] - 1] += 1
    return group_offsets, instance_row, *_once(starts, brokers)


@kernel
def _once(offsets: Array, values: Array) -> tuple[Array, Array]:
    """Lists without what comes twice in them."""
    last = np.full(values.max() + 1 if len(values) else 0, NONE, np.int64)
    found, kept = np.empty(len(offsets), np.int64), np.empty(len(values), np.int64)
    found[0], total = 0, 0
    for i in range(len(offsets) - 1):
        for at in range(offsets[i], offsets[i + 1]):
            if last[values[at]] != i:
                last[values[at]] = i
                kept[total] = values[at]
                total += 1
        found[i + 1] = total
    return found, kept[:total]
