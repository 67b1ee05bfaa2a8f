"""Covers of users: which clusters of topics each takes, so that its interests cost least, by a greedy cover."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


@kernel
def covers_of_users(
    offsets: Array, interests: Array, cluster_offsets: Array, topics: Array, worth: Array, each: float, rate: Array
) -> tuple[Array, Array]:
    """By user, ascending, the clusters that it takes. ``worth`` is what a direct subscription to a topic costs,
    ``each`` what any subscription costs, and ``rate`` what a topic's events cost a subscriber."""
    clusters, count = len(cluster_offsets) - 1, len(worth)
    price = np.full(clusters, each)
    about_offsets = np.zeros(count + 1, np.int64)
    for cluster in range(clusters):
        for i in range(cluster_offsets[cluster], cluster_offsets[cluster + 1]):
            price[cluster] += rate[topics[i]]
            about_offsets[topics[i] + 1] += 1
    about_offsets = np.cumsum(about_offsets)
    about, fill = np.empty(len(topics), np.int64), about_offsets[:-1].copy()
    for cluster in range(clusters):
        for i in range(cluster_offsets[cluster], cluster_offsets[cluster + 1]):
            about[fill[topics[i]]] = cluster
            fill[topics[i]] += 1
    saved, _times = np.zeros(clusters), np.zeros(clusters, np.int64)
    held_offsets = np.zeros(len(offsets), np.int64)
    held = np.empty(max(len(interests), 1), np.int32)  # a cluster that is taken brings at least one topic alone
    total = 0
    for user in range(len(offsets) - 1):
        mine = interests[offsets[user] : offsets[user + 1]]
        taken = cover(mine, about_offsets, about, worth, price, saved)
        for i in range(len(taken)):
            held[total] = taken[i]
            total += 1
        held_offsets[user + 1] = total
    return held_offsets, held[:total].copy()


@kernel
def cover(mine: Array, about_offsets: Array, about: Array, worth: Array, price: Array, saved: Array) -> Array:
    """The clusters that a user with these interests takes, ascending. ``saved`` is room to reckon in, 0 before and
    after."""
    seen = _near(mine, about_offsets, about, worth, saved)
    times = np.zeros(len(mine), np.int64)
    taken = np.empty(len(mine), np.int64)
    size = 0
    while True:
        best = _best(seen, saved, price)
        if best == NONE:
            break
        taken[size] = best
        size += 1
        for i in range(len(mine)):
            if holds(about_offsets, about, mine[i], best):
                if times[i] == 0:
                    for k in range(about_offsets[mine[i]], about_offsets[mine[i] + 1]):
                        saved[about[k]] -= worth[mine[i]]
                times[i] += 1
    for i in range(len(seen)):
        saved[seen[i]] = 0.0
    return _pruned(mine, times, taken[:size], about_offsets, about, worth, price)


@kernel
def _near(mine: Array, about_offsets: Array, about: Array, worth: Array, saved: Array) -> Array:
    """The clusters that hold an interest; ``saved`` is what their interests are worth."""
    count = 0
    for i in range(len(mine)):
        count += about_offsets[mine[i] + 1] - about_offsets[mine[i]]
    seen, near = np.empty(count, np.int64), 0
    for i in range(len(mine)):
        for k in range(about_offsets[mine[i]], about_offsets[mine[i] + 1]):
            if saved[about[k]] == 0.0:
                seen[near] = about[k]
                near += 1
            saved[about[k]] += worth[mine[i]]
    return seen[:near]


@kernel
def _best(seen: Array, saved: Array, price: Array) -> int:
    """The cluster that saves most, of equals the lowest; NONE if none does."""
    best, most = NONE, 1e-9
    for i in range(len(seen)):
        gain = saved[seen[i]] - price[seen[i]]
        if gain > most or (gain == most and best != NONE and seen[i] < best):
            best, most = seen[i], gain
    return best


@kernel
def holds(about_offsets: Array, about: Array, topic: int, cluster: int) -> bool:
    for k in range(about_offsets[topic], about_offsets[topic + 1]):
        if about[k] == cluster:
            return True
    return False


@kernel
def _pruned(
    mine: Array, times: Array, taken: Array, about_offsets: Array, about: Array, worth: Array, price: Array
) -> Array:
    """Without clusters that cost more than what only they bring."""
    kept = 0
    for at in range(len(taken)):
        lost = 0.0
        for i in range(len(mine)):
            if times[i] == 1 and holds(about_offsets, about, mine[i], taken[at]):
                lost += worth[mine[i]]
        if lost < price[taken[at]]:
            for i in range(len(mine)):
                times[i] -= holds(about_offsets, about, mine[i], taken[at])
        else:
            taken[kept] = taken[at]
            kept += 1
    return np.sort(taken[:kept])


@kernel
def serving_clusters(
    offsets: Array,
    interests: Array,
    held_offsets: Array,
    held: Array,
    cluster_offsets: Array,
    topics: Array,
    count: int,
) -> Array:
    """By interest the first of its user's clusters that brings it, in the order of the user's list; NONE: it is
    directly subscribed."""
    found = np.full(len(interests), NONE, np.int32)
    by = np.full(count, NONE, np.int32)
    for user in range(len(offsets) - 1):
        for k in range(held_offsets[user + 1] - 1, held_offsets[user] - 1, -1):
            for i in range(cluster_offsets[held[k]], cluster_offsets[held[k] + 1]):
                by[topics[i]] = held[k]
        for i in range(offsets[user], offsets[user + 1]):
            found[i] = by[interests[i]]
        for k in range(held_offsets[user], held_offsets[user + 1]):
            for i in range(cluster_offsets[held[k]], cluster_offsets[held[k] + 1]):
                by[topics[i]] = NONE
    return found
