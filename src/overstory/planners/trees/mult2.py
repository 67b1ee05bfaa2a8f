"""Algorithm 2 of Majumder et al.: clusters merged by the relative reduction of their cost, as long as one is reduced.

Clusters that share no event gain nothing from one tree, so only pairs that share one are looked at. A merged cluster
is a new one, and what two clusters cost together does not change while both live: each pair is computed once, and the
heap only forgets.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.clusters import Cluster, Ground, clusters_of, ground_of, join
from overstory.planners.trees.compute_tree import compute_tree
from overstory.planners.trees.configuration import with_trees
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.parameters import count_of, seeds_of
from overstory.planners.trees.spanning import as_tables

SMALLEST = 1e-9  # gain, so that rounding is none


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    """Items with equal filters are clusters from the start: they share all their events."""
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    ground, seeds = ground_of(demand, demand.fit), seeds_of(parameters, seed)
    _, start = np.unique(demand.item_predicate, return_inverse=True)
    least = 1 if parameters["trees"] == "auto" else count_of(parameters, "trees")
    cluster = compute_multiple_trees_1(ground, demand, start, seeds[:1], least)
    return as_tables(scenario, demand, *with_trees(ground, demand, cluster, seeds))


def compute_multiple_trees_1(ground: Ground, demand: Demand, start: Ints, seeds: Sequence[int], least: int = 1) -> Ints:
    """The cluster of each item, from those that it starts with, numbered from 0; at least so many."""
    count = int(start.max(initial=-1)) + 1
    pairs = _Pairs(ground, clusters_of(ground, demand, start, count), seeds)
    within = np.arange(2 * count)  # by cluster: the one that it has become part of
    while len(pairs.clusters) > least and (best := pairs.best()) is not None:
        within[list(best)] = pairs.merge(*best)
    while not np.array_equal(within, within[within]):
        within = within[within]
    return within[start]


class _Pairs:
    def __init__(self, ground: Ground, clusters: list[Cluster], seeds: Sequence[int]) -> None:
        self.ground, self.seeds = ground, seeds
        self.clusters = dict(enumerate(clusters))
        self.costs = {number: compute_tree(ground, cluster, seeds).cost for number, cluster in self.clusters.items()}
        self.sharing: dict[int, set[int]] = {number: set() for number in self.clusters}
        self.made = len(clusters)
        self.heap: list[tuple[float, int, int]] = []
        for row in _clusters_by_row(clusters):
            for one in row:
                self.sharing[one] |= row - {one}
        for one, others in self.sharing.items():
            self._look_at(one, (other for other in others if other > one))

    def _look_at(self, one: int, others: Iterable[int]) -> None:
        for other in sorted(others):
            apart = self.costs[one] + self.costs[other]
            together = join(self.ground, self.clusters[min(one, other)], self.clusters[max(one, other)])
            gain = (apart - compute_tree(self.ground, together, self.seeds).cost) / apart if apart else 0.0
            if gain > SMALLEST:
                heapq.heappush(self.heap, (-gain, min(one, other), max(one, other)))

    def best(self) -> tuple[int, int] | None:
        """The pair that gains most, of equal ones that with the lowest numbers; None if none gains."""
        while self.heap:
            _, one, other = heapq.heappop(self.heap)
            if one in self.clusters and other in self.clusters:
                return one, other
        return None

    def merge(self, one: int, other: int) -> int:
        new, self.made = self.made, self.made + 1
        self.clusters[new] = join(self.ground, self.clusters.pop(one), self.clusters.pop(other))
        self.costs[new] = compute_tree(self.ground, self.clusters[new], self.seeds).cost
        self.sharing[new] = (self.sharing.pop(one) | self.sharing.pop(other)) - {one, other}
        for each in self.sharing[new]:
            self.sharing[each] = self.sharing[each] - {one, other} | {new}
        self._look_at(new, self.sharing[new])
        return new


def _clusters_by_row(clusters: list[Cluster]) -> Iterable[set[int]]:
    found: dict[int, set[int]] = {}
    for number, cluster in enumerate(clusters):
        for row in cluster.rows.tolist():
            found.setdefault(row, set()).add(number)
    return found.values()
