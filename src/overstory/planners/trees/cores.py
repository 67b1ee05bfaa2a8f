"""Trees around cores: a Steiner tree of the brokers that want something, and every other broker on its cheapest way to
it.

An event for these brokers can be published anywhere. It takes the cheapest way to the core, and there what it needs of
a tree that is close to the least: so such a tree need not know where events come from.
"""

import numpy as np

from overstory.kernels.attach import hang_on_cores
from overstory.kernels.steiner import steiner_trees
from overstory.model.network import Ints
from overstory.planners.trees.clusters import Ground

STARTS = 16  # trees tried for a core: it serves many events, so it may take longer than the tree of one


def core_trees(ground: Ground, offsets: Ints, brokers: Ints) -> Ints:
    """By core, the parent of each broker. The brokers of core i are between offsets i and i + 1, at least one."""
    graph = ground.graph
    tops = brokers[offsets[:-1]]
    trees = steiner_trees(graph, ground.distances, tops, offsets, brokers, STARTS)
    parents = np.empty((len(tops), len(ground.network)), np.int64)
    hang_on_cores(graph.offsets, graph.targets, _inward(ground), tops, trees.offsets, trees.links, parents)
    return parents


def _inward(ground: Ground) -> Ints:
    """By link of the graph, the price of the one that leads back."""
    graph, size = ground.graph, len(ground.network)
    sources = np.repeat(np.arange(size), np.diff(graph.offsets))
    return graph.prices[np.searchsorted(sources * size + graph.targets, graph.targets * size + sources)]
