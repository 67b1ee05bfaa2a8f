"""Trees of channels: what enters one floods it, so that a publisher's place alone says what an event costs."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


class Links(NamedTuple):
    """Those that leave broker v are between offsets v and v + 1. ``back`` is the link that leads back, NONE if there is
    none: then no tree has the link."""

    offsets: Array
    targets: Array
    prices: Array
    back: Array


class Lists(NamedTuple):
    """The values of list i are between offsets i and i + 1."""

    offsets: Array
    values: Array


@kernel
def channel_tree(links: Links, members: Array, parent: Array, total: Array) -> None:
    """A tree from the first member takes in the nearest one that it lacks, by the cheapest path there and back, until
    it has all; then each other broker, by its cheapest path to the tree. Sets each broker's ``parent``, NONE at the
    first member, and in ``total`` what it costs to reach all members from there."""
    count, prices, back = len(links.offsets) - 1, links.prices, links.back
    by, inner = np.full(count, NONE, np.int64), np.zeros(count, np.bool_)
    _join_members(links, members, parent, by, inner)
    _attach_others(links, inner, parent, by)
    flood = 0.0
    for node in range(count):
        total[node] = np.nan
        if inner[node] and parent[node] != NONE:
            flood += prices[by[node]]
    total[members[0]] = flood
    way = np.empty(count, np.int64)
    for node in range(count):
        length, here = 0, node
        while np.isnan(total[here]) and parent[here] != NONE:
            way[length] = here
            length, here = length + 1, parent[here]
        for at in range(length - 1, -1, -1):
            here = way[at]
            total[here] = total[parent[here]] + prices[back[by[here]]] - (prices[by[here]] if inner[here] else 0.0)


@kernel
def _join_members(links: Links, members: Array, parent: Array, by: Array, inner: Array) -> None:
    """One search that goes on from the whole tree each time that it has grown."""
    offsets, targets, prices, back = links
    count = len(offsets) - 1
    distance, before, over = np.full(count, np.inf), np.full(count, NONE, np.int64), np.full(count, NONE, np.int64)
    wanted = np.zeros(count, np.bool_)
    wanted[members] = True
    missing = wanted.sum() - 1
    parent[:] = NONE
    start = members[0]
    distance[start], inner[start] = 0.0, True
    heap = np.empty((2, 64))
    size = push(heap, 0, 0.0, start)
    while missing and size:
        price, here = heap[0, 0], int(heap[1, 0])
        size = pop(heap, size)
        if price > distance[here]:
            continue
        if wanted[here] and not inner[here]:
            missing -= 1
            while not inner[here]:
                inner[here], distance[here] = True, 0.0
                parent[here], by[here] = before[here], over[here]
                heap = _with_room(heap, size)
                size = push(heap, size, 0.0, here)
                here = before[here]
            continue
        for link in range(offsets[here], offsets[here + 1]):
            there = targets[link]
            if back[link] == NONE or inner[there]:
                continue
            price = distance[here] + (prices[link] + prices[back[link]]) / 2
            if price < distance[there]:
                distance[there], before[there], over[there] = price, here, link
                heap = _with_room(heap, size)
                size = push(heap, size, price, there)


@kernel
def _attach_others(links: Links, inner: Array, parent: Array, by: Array) -> None:
    offsets, targets, prices, back = links
    distance = np.where(inner, 0.0, np.inf)
    heap, size = np.empty((2, len(inner))), 0
    for node in np.flatnonzero(inner):
        size = push(heap, size, 0.0, node)
    while size:
        price, here = heap[0, 0], int(heap[1, 0])
        size = pop(heap, size)
        if price > distance[here]:
            continue
        for link in range(offsets[here], offsets[here + 1]):
            there = targets[link]
            if back[link] == NONE:
                continue
            price = distance[here] + prices[back[link]]
            if price < distance[there]:
                distance[there], parent[there], by[there] = price, here, link
                heap = _with_room(heap, size)
                size = push(heap, size, price, there)


@kernel
def _with_room(heap: Array, size: int) -> Array:
    if size < heap.shape[1]:
        return heap
    larger = np.empty((2, 2 * size))
    larger[:, :size] = heap
    return larger


@kernel
def flood_costs(links: Links, members: Lists, roots: Lists, out: Array) -> None:
    """For each list of members, what an event costs from each of its roots."""
    count = len(links.offsets) - 1
    parent, total = np.empty(count, np.int64), np.empty(count)
    for i in range(len(members.offsets) - 1):
        channel_tree(links, members.values[members.offsets[i] : members.offsets[i + 1]], parent, total)
        for at in range(roots.offsets[i], roots.offsets[i + 1]):
            out[at] = total[roots.values[at]]


@kernel
def counts_below(parent: Array, marked: Array) -> Array:
    """How many of the marked brokers stand at each broker, or below it."""
    counts = np.zeros(len(parent), np.int64)
    for node in marked:
        while node != NONE:
            counts[node] += 1
            node = parent[node]
    return counts
