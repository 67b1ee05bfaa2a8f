"""The dendrogram of filters, cut where it is cheapest: of each cluster either the whole as one group, or its two parts,
cut in turn. Costs are those of one copy per flow, which add up, so the best cut of all is found."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.clusters import unite
from overstory.kernels.nothing import NONE
from overstory.kernels.tree_cost import tree_costs
from overstory.model.network import Ints
from overstory.planners.trees.clusters import Ground
from overstory.planners.trees.cores import core_trees
from overstory.planners.trees.demand import Demand
from overstory.planners.trees.dendrogram import Dendrogram, dendrogram
from overstory.planners.trees.spanning import priced

MOST_BROKERS = 256  # of a cluster that may become a group: more is what one tree is for


class Part(NamedTuple):
    """A cluster that may become a group: its brokers, and its instances."""

    brokers: Ints
    rows: Ints
    offsets: Ints
    terminals: Ints


def best_cut(ground: Ground, demand: Demand) -> Ints:
    """The group of each filter, numbered from 0."""
    tree = dendrogram(demand)
    parts: list[Part | None] = [*_leaves(demand, tree)]
    for one, other in tree.merges.tolist():
        parts.append(_both(parts[one], parts[other]))
    costs = _costs(ground, parts)
    whole = [True] * tree.leaves
    for number, (one, other) in enumerate(tree.merges.tolist(), tree.leaves):
        apart = costs[one] + costs[other]
        whole.append(costs[number] <= apart)
        costs[number] = min(costs[number], apart)
    return _groups(demand, tree, whole)


def _leaves(demand: Demand, tree: Dendrogram) -> list[Part]:
    found = demand.instances(demand.fit, tree.leaf_of, tree.leaves)
    instance = np.repeat(np.arange(len(found.rows)), np.diff(found.terminal_offsets))
    terminals = found.terminals[np.lexsort((found.terminals, instance))]
    brokers = np.split(demand.item_broker, np.searchsorted(tree.leaf_of, np.arange(1, tree.leaves)))
    parts = []
    for leaf, (first, last) in enumerate(zip(found.group_offsets[:-1], found.group_offsets[1:], strict=True)):
        ends = found.terminal_offsets[first : last + 1]
        parts.append(Part(brokers[leaf], found.rows[first:last], ends - ends[0], terminals[ends[0] : ends[-1]]))
    return parts


def _both(one: Part | None, other: Part | None) -> Part | None:
    if one is None or other is None:
        return None
    brokers = np.union1d(one.brokers, other.brokers)
    return None if len(brokers) > MOST_BROKERS else Part(brokers, *unite(*one[1:], *other[1:])[:3])


def _costs(ground: Ground, parts: list[Part | None]) -> list[float]:
    """On a tree around the cluster's core; infinite if it is too large."""
    small = [part for part in parts if part is not None]
    offsets = np.concatenate([[0], np.cumsum([len(part.brokers) for part in small])])
    parents = iter(core_trees(ground, offsets, np.concatenate([part.brokers for part in small])))
    costs = []
    for part in parts:
        if part is None:
            costs.append(np.inf)
            continue
        each = np.empty(len(part.rows))
        tree = priced(ground.network, next(parents))
        tree_costs(*tree, ground.rows.roots[part.rows], part.offsets, part.terminals, each)
        costs.append(float((each * ground.rows.bytes[part.rows]).sum()))
    return costs


def _groups(demand: Demand, tree: Dendrogram, whole: list[bool]) -> Ints:
    """From the top down: a cluster that is taken whole gives its number to all that is in it."""
    group = np.full(len(whole), NONE)
    for number in range(len(whole) - 1, -1, -1):
        if group[number] < 0 and whole[number]:
            group[number] = number
        if group[number] >= 0 and number >= tree.leaves:
            group[tree.merges[number - tree.leaves]] = group[number]
    groups = np.zeros(int(demand.item_predicate.max()) + 1, np.int64)
    groups[demand.item_predicate] = group[tree.leaf_of]
    return np.unique(groups, return_inverse=True)[1]
