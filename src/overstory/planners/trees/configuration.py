"""A configuration of clusters made ready for a plan: a group and a spanning tree for each."""

from collections.abc import Sequence

import numpy as np

from overstory.model.network import Ints
from overstory.planners.trees.clusters import Ground, clusters_of
from overstory.planners.trees.compute_tree import compute_tree, spanning
from overstory.planners.trees.demand import Demand
from overstory.planners.trees.spanning import Tree


def with_trees(ground: Ground, demand: Demand, item_cluster: Ints, seeds: Sequence[int]) -> tuple[Ints, list[Tree]]:
    """The group of each item, and the groups' trees. Clusters that no event of the sample is for are one group: what
    comes for them is unknown, and goes along the tree that is best for everything."""
    busy = np.unique(item_cluster[_wanted(ground, demand)])
    group = np.searchsorted(busy, item_cluster)
    group[~np.isin(item_cluster, busy)] = len(busy)
    clusters = clusters_of(ground, demand, group, len(busy) + 1)[: len(busy)]
    if (group == len(busy)).any():
        clusters += clusters_of(ground, demand, np.zeros_like(group), 1)
    return group, [spanning(ground, compute_tree(ground, cluster, seeds).edges) for cluster in clusters]


def _wanted(ground: Ground, demand: Demand) -> Ints:
    """Items that events must be brought to."""
    rows = ground.rows
    return np.unique(rows.items[np.repeat(rows.roots, np.diff(rows.offsets)) != demand.item_broker[rows.items]])
