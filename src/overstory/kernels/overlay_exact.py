"""The overlay problem on few brokers, exactly: sets of brokers are bits, and what a tree of each set costs is a table.

``cost`` is what everybody at some brokers costs. ``branch`` finds the least of all, user by user: what is attached
already never becomes cheaper, as trees only grow, and the others pay at least their cheapest access. ``polish`` moves
one or two users while that saves something.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Small(NamedTuple):
    """An instance with few brokers."""

    trees: Array  # by set of brokers and broker: the cheapest tree of both
    access: Array  # by user and broker; infinite out of reach
    wants: Array  # by user and channel: whether it wants it
    rates: Array  # by user and channel
    demand: Array
    capacity: Array


@kernel
def cost(small: Small, at: Array) -> float:
    """Of everybody at these brokers; infinite where capacities do not hold."""
    users, channels = small.rates.shape
    load = np.zeros(len(small.capacity))
    total = 0.0
    for user in range(users):
        total += small.access[user, at[user]]
        load[at[user]] += small.demand[user]
    for broker in range(len(load)):
        if load[broker] > small.capacity[broker]:
            return np.inf
    for channel in range(channels):
        mask = 0
        for user in range(users):
            if small.wants[user, channel]:
                mask |= 1 << at[user]
        if mask:
            for user in range(users):
                if small.rates[user, channel] > 0:
                    total += small.rates[user, channel] * small.trees[mask, at[user]]
    return total


@kernel
def _bound(small: Small, order: Array, at: Array, depth: int, masks: Array, rest: Array) -> float:
    """At least what any solution costs in which the first users are where they are."""
    total = rest[depth]
    for place in range(depth):
        user = order[place]
        total += small.access[user, at[user]]
    for channel in range(small.rates.shape[1]):
        mask = masks[depth, channel]
        if not mask:
            continue
        least = np.inf
        for broker in range(small.trees.shape[1]):
            least = min(least, small.trees[mask, broker])
        for place in range(len(order)):
            user = order[place]
            if small.rates[user, channel] > 0:
                total += small.rates[user, channel] * (small.trees[mask, at[user]] if place < depth else least)
    return total


@kernel
def branch(small: Small, order: Array, best: Array, least: float) -> float:
    """The least cost, and into ``best`` where everybody is then; it begins with a solution there that costs ``least``.
    Users go in this order."""
    users, brokers = small.access.shape
    channels = small.rates.shape[1]
    rest = np.zeros(users + 1)
    for place in range(users - 1, -1, -1):
        rest[place] = rest[place + 1] + small.access[order[place]].min()
    masks = np.zeros((users + 1, channels), np.int64)
    load, at, following = np.zeros(brokers), np.full(users, NONE, np.int64), np.zeros(users + 1, np.int64)
    depth = 0
    while depth >= 0:
        if depth == users:
            found = cost(small, at)
            if found < least:
                least = found
                best[:] = at
            depth -= 1
            continue
        user = order[depth]
        if at[user] != NONE:
            load[at[user]] -= small.demand[user]
            at[user] = NONE
        if following[depth] == brokers:
            following[depth] = 0
            depth -= 1
            continue
        broker = following[depth]
        following[depth] += 1
        fits = load[broker] + small.demand[user] <= small.capacity[broker]
        if not fits or not np.isfinite(small.access[user, broker]):
            continue
        at[user] = broker
        load[broker] += small.demand[user]
        for channel in range(channels):
            masks[depth + 1, channel] = masks[depth, channel] | (small.wants[user, channel] << broker)
        if _bound(small, order, at, depth + 1, masks, rest) < least - 1e-12 * abs(least):
            depth += 1
    return least


@kernel
def polish(small: Small, at: Array) -> float:
    """Moves one user, or two at once, while that saves something. Returns the cost."""
    users, brokers = small.access.shape
    least = cost(small, at)
    improved = True
    while improved:
        improved = False
        for one in range(users):
            for other in range(one, users):
                here, there = at[one], at[other]
                for first in range(brokers):
                    for second in range(brokers):
                        if other == one and first != second:
                            continue
                        old_one, old_other = at[one], at[other]
                        at[one], at[other] = first, second
                        found = cost(small, at)
                        if found < least - 1e-12 * abs(least):
                            least, here, there, improved = found, first, second, True
                        else:
                            at[one], at[other] = old_one, old_other
                at[one], at[other] = here, there
    return least
