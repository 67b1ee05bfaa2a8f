"""Flooding, for comparison: every event goes to every broker, along a cheapest spanning tree."""

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.paths import root_forest
from overstory.model.network import Network
from overstory.model.spanning import minimum_spanning_tree

Ints = NDArray[np.int64]


def flood_cost(network: Network, brokers: Ints, sizes: Ints) -> float:
    """Of as many bytes as are given, published at each of these brokers."""
    prices = flood_prices(network)
    return float(sum((prices[brokers] * sizes).tolist()))


def flood_prices(network: Network) -> NDArray[np.float64]:
    """Of one byte that goes from a broker to all others: each link of the tree is crossed away from it."""
    count = len(network)
    one, other = minimum_spanning_tree(network)
    source, target = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.argsort(source, kind="stable")
    offsets = np.searchsorted(source[order], np.arange(count + 1))
    parent, depth = np.empty(count, np.int64), np.empty(count, np.int64)
    root_forest(offsets, target[order], parent, depth)
    below = np.flatnonzero(parent >= 0)
    down, up = np.zeros(count), np.zeros(count)
    down[below] = network.prices[network.link_between(parent[below], below)]
    up[below] = network.prices[network.link_between(below, parent[below])]
    found = np.full(count, down.sum())
    for broker in np.argsort(depth, kind="stable")[1:].tolist():  # to start one link further down turns that link round
        found[broker] = found[parent[broker]] - down[broker] + up[broker]
    return found
