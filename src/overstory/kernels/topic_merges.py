"""Disjoint clusters of topics, grown by merging on the true cost: for very many users and topics, without a table.

A cluster is a list of the users who want any of its topics, ascending, each with its *weight*: what being directly
subscribed to those topics would cost it. A user takes the cluster if its weight is above the cluster's price. So what a
cluster saves is a sum over its list, and what two save together one pass over both lists.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Pools(NamedTuple):
    """Lists of users, cluster after cluster, in a row that grows; a cluster's list is never changed in place."""

    users: Array
    weights: Array
    start: Array  # by cluster
    end: Array
    width: Array  # topics; 0: it has been merged away
    load: Array  # the sum of its topics' rates


@kernel
def value_of(pools: Pools, cluster: int, each: float, associate: float, notify: float) -> float:
    """What the cluster saves; nothing if it has one topic."""
    if pools.width[cluster] < 2:
        return 0.0
    price, found = each + pools.load[cluster], -associate * pools.width[cluster] - notify * pools.load[cluster]
    for i in range(pools.start[cluster], pools.end[cluster]):
        if pools.weights[i] > price:
            found += pools.weights[i] - price
    return found


@kernel
def value_together(pools: Pools, one: int, other: int, each: float, associate: float, notify: float) -> float:
    """What the two would save as one."""
    load = pools.load[one] + pools.load[other]
    price = each + load
    found = -associate * (pools.width[one] + pools.width[other]) - notify * load
    i, j = pools.start[one], pools.start[other]
    last, other_last = pools.end[one], pools.end[other]
    while i < last and j < other_last:
        weight = 0.0
        if pools.users[i] < pools.users[j]:
            weight = pools.weights[i]
            i += 1
        elif pools.users[i] > pools.users[j]:
            weight = pools.weights[j]
            j += 1
        else:
            weight = pools.weights[i] + pools.weights[j]
            i += 1
            j += 1
        if weight > price:
            found += weight - price
    for k in range(i, last):
        found += max(pools.weights[k] - price, 0.0)
    for k in range(j, other_last):
        found += max(pools.weights[k] - price, 0.0)
    return found


@kernel
def unite(pools: Pools, one: int, other: int, at: int) -> int:
    """Writes both lists as one from ``at`` on, as the list of the first. Returns where it ends."""
    i, j = pools.start[one], pools.start[other]
    last, other_last = pools.end[one], pools.end[other]
    end = at
    while i < last or j < other_last:
        here = i < last and (j == other_last or pools.users[i] <= pools.users[j])
        there = j < other_last and (i == last or pools.users[j] <= pools.users[i])
        pools.users[end] = pools.users[i] if here else pools.users[j]
        pools.weights[end] = (pools.weights[i] if here else 0.0) + (pools.weights[j] if there else 0.0)
        i, j, end = i + here, j + there, end + 1
    pools.start[one], pools.end[one] = at, end
    pools.width[one] += pools.width[other]
    pools.load[one] += pools.load[other]
    pools.start[other] = pools.end[other] = pools.width[other] = 0
    pools.load[other] = 0.0
    return end


@kernel
def compact(pools: Pools) -> int:
    """Moves all lists to the beginning of the row, in their order there. Returns where they end."""
    order = np.argsort(pools.start)
    end = 0
    for k in range(len(order)):
        cluster = order[k]
        size = pools.end[cluster] - pools.start[cluster]
        for i in range(size):
            pools.users[end + i] = pools.users[pools.start[cluster] + i]
            pools.weights[end + i] = pools.weights[pools.start[cluster] + i]
        pools.start[cluster], pools.end[cluster] = end, end + size
        end += size
    return end


@kernel
def push(keys: Array, pairs: Array, size: int, key: float, one: int, other: int) -> None:
    """Onto a heap with the largest key on top."""
    at = size
    while at > 0 and keys[(at - 1) // 2] < key:
        keys[at] = keys[(at - 1) // 2]
        pairs[at] = pairs[(at - 1) // 2]
        at = (at - 1) // 2
    keys[at] = key
    pairs[at, 0], pairs[at, 1] = one, other


@kernel
def pop(keys: Array, pairs: Array, size: int) -> None:
    """Takes the top off a heap of so many; the last one then has no place."""
    key, one, other = keys[size - 1], pairs[size - 1, 0], pairs[size - 1, 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size - 1:
            break
        if below + 1 < size - 1 and keys[below + 1] > keys[below]:
            below += 1
        if keys[below] <= key:
            break
        keys[at] = keys[below]
        pairs[at] = pairs[below]
        at = below
    keys[at] = key
    pairs[at, 0], pairs[at, 1] = one, other


@kernel
def merged(
    pools: Pools, used: int, partners: Array, shared: Array, each: float, associate: float, notify: float
) -> Array:
    """Merges the two clusters that save most together, until none do. Returns the cluster of each topic, by the number
    of one of its topics. ``partners`` are candidates by topic, with how many users they share."""
    topics, most = partners.shape
    label = np.arange(topics)
    value = np.zeros(topics)
    room = topics * most * 4 + 64
    keys, pairs, size = np.empty(room), np.empty((room, 2), np.int64), 0
    for topic in range(topics):
        for k in range(most):
            other = partners[topic, k]
            if other > topic or (other != NONE and not _has(partners[other], topic)):
                gain = shared[topic, k] * each - 2 * associate - notify * (pools.load[topic] + pools.load[other])
                if gain > 0:
                    push(keys, pairs, size, gain, topic, other)
                    size += 1
    heads = np.arange(topics)
    follows = np.full(topics, NONE)  # the topics of a cluster, one after the other
    last = np.arange(topics)
    near, seen = np.zeros(topics), np.empty(topics, np.int64)
    while size > 0:
        one, other = pairs[0, 0], pairs[0, 1]
        pop(keys, pairs, size)
        size -= 1
        one, other = label[one], label[other]
        if one == other:
            continue
        gain = value_together(pools, one, other, each, associate, notify) - value[one] - value[other]
        if gain <= 1e-9:
            continue
        if size > 0 and gain < keys[0] - 1e-9:
            push(keys, pairs, size, gain, one, other)
            size += 1
            continue
        needed = pools.end[one] - pools.start[one] + pools.end[other] - pools.start[other]
        if used + needed > len(pools.users):
            used = compact(pools)
        value[one] += value[other] + gain
        used = unite(pools, one, other, used)
        value[other] = 0.0
        topic = heads[other]
        while topic != NONE:
            label[topic] = one
            topic = follows[topic]
        follows[last[one]] = heads[other]
        last[one] = last[other]
        grown = (label, heads, follows)
        size = _candidates(one, grown, partners, shared, (keys, pairs), size, (near, seen))
    return label


@kernel
def _has(row: Array, topic: int) -> bool:
    for i in range(len(row)):
        if row[i] == topic:
            return True
    return False


@kernel
def _candidates(
    one: int,
    grown: tuple[Array, Array, Array],
    partners: Array,
    shared: Array,
    heap: tuple[Array, Array],
    size: int,
    room: tuple[Array, Array],
) -> int:
    """Puts the clusters that share most with a new one onto the heap, on trust: they are looked at when they
    come up."""
    label, heads, follows = grown
    keys, pairs = heap
    near, seen = room
    count, topic = 0, heads[one]
    while topic != NONE:
        for k in range(partners.shape[1]):
            if partners[topic, k] != NONE and label[partners[topic, k]] != one:
                other = label[partners[topic, k]]
                if near[other] == 0.0:
                    seen[count] = other
                    count += 1
                near[other] += shared[topic, k]
        topic = follows[topic]
    for _ in range(min(8, count)):
        best = 0
        for i in range(count):
            if near[seen[i]] > near[seen[best]]:
                best = i
        if near[seen[best]] <= 0 or size >= len(keys) - 1:
            break
        push(keys, pairs, size, near[seen[best]], one, seen[best])
        size += 1
        near[seen[best]] = -1.0
    for i in range(count):
        near[seen[i]] = 0.0
    return size
