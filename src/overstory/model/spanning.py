"""A minimum spanning tree of the network, always the same one."""

import numpy as np

from overstory.model.network import Ints, Network


def minimum_spanning_tree(network: Network) -> tuple[Ints, Ints]:
    """Both ends of its links, by position: Kruskal's, by the mean price of both directions, then by the ends."""
    once = np.flatnonzero((network.sources < network.targets) & (network.back >= 0))
    mean = (network.prices[once] + network.prices[network.back[once]]) / 2
    root = list(range(len(network)))

    def find(broker: int) -> int:
        while root[broker] != broker:
            root[broker] = root[root[broker]]
            broker = root[broker]
        return broker

    kept = []
    for link in once[np.lexsort((network.targets[once], network.sources[once], mean))].tolist():
        one, other = find(int(network.sources[link])), find(int(network.targets[link]))
        if one != other:
            root[max(one, other)] = min(one, other)
            kept.append(link)
    return network.sources[kept], network.targets[kept]
