"""The core of a tree, and everything else attached to it by cheapest ways."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.paths import pop, push

NONE = -1


@kernel
def core_of(parent: Array, brokers: Array) -> Array:
    """Which brokers are in the least subtree that holds all of these."""
    count = len(parent)
    below = np.zeros(count, np.int64)  # how many of them are at or below a broker
    wanted = np.zeros(count, np.bool_)
    total = 0
    for broker in brokers:
        if not wanted[broker]:
            wanted[broker] = True
            total += 1
            node = broker
            while node != NONE:
                below[node] += 1
                node = parent[node]
    inside = np.zeros(count, np.bool_)
    for node in range(count):
        over = parent[node]
        if 0 < below[node] < total:  # the link to its parent is between some and others of them
            inside[node] = True
            inside[over] = True
        if wanted[node]:
            inside[node] = True
    return inside


@kernel
def attach(offsets: Array, targets: Array, inward: Array, parent: Array, inside: Array) -> None:
    """Gives every broker outside of the core the parent that is next on its cheapest way to the core. ``inward`` is the
    price of each link from its target to its source. The core keeps its links; its top becomes that of the tree."""
    count = len(parent)
    for node in range(count):
        if inside[node] and parent[node] != NONE and not inside[parent[node]]:
            parent[node] = NONE
    distance, settled = np.full(count, np.inf), np.zeros(count, np.bool_)
    heap = np.empty((2, len(targets) + count))
    size = 0
    for node in range(count):
        if inside[node]:
            distance[node] = 0.0
            size = push(heap, size, 0.0, node)
    while size:
        here = int(heap[1, 0])
        size = pop(heap, size)
        if settled[here]:
            continue
        settled[here] = True
        for link in range(offsets[here], offsets[here + 1]):
            there, price = targets[link], distance[here] + inward[link]
            if not inside[there] and not settled[there] and price < distance[there]:
                distance[there], parent[there] = price, here
                size = push(heap, size, price, there)
