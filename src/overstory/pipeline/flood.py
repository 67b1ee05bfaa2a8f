"""Flooding, for comparison: every event goes to every broker, along a cheapest spanning tree."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.paths import root_forest
from overstory.model.network import Network
from overstory.model.spanning import minimum_spanning_tree

Ints = NDArray[np.int64]


def flood_cost(network: Network, brokers: Ints, sizes: Ints) -> Fraction:
    """Of as many bytes as are given, published at each of these brokers."""
    published: Ints = np.zeros(len(network), np.int64)
    np.add.at(published, brokers, sizes)
    return sum(
        (price * size for price, size in zip(flood_prices(network), published.tolist(), strict=True)), Fraction(0)
    )


def flood_prices(network: Network) -> list[Fraction]:
    """Of one byte that goes from each broker to all others: each link of the tree is crossed away from it."""
    count = len(network)
    one, other = minimum_spanning_tree(network)
    source, target = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.argsort(source, kind="stable")
    offsets = np.searchsorted(source[order], np.arange(count + 1))
    parent, depth = np.empty(count, np.int64), np.empty(count, np.int64)
    root_forest(offsets, target[order], parent, depth)
    below = np.argsort(depth, kind="stable")[1:]
    down = network.prices[network.link_between(parent[below], below)].tolist()
    up = network.prices[network.link_between(below, parent[below])].tolist()
    found = [sum(map(Fraction, down), Fraction(0))] * count
    for broker, above, there, back in zip(below.tolist(), parent[below].tolist(), down, up, strict=True):
        found[broker] = found[above] - Fraction(there) + Fraction(back)  # the one link in between is turned round
    return found
