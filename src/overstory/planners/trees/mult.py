"""Algorithm 3 of Majumder et al.: clusters merged by the Jaccard similarity of their events, down to one; of all
configurations on the way the cheapest."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.clusters import Ground, clusters_of, ground_of, join
from overstory.planners.trees.compute_tree import compute_tree
from overstory.planners.trees.configuration import with_trees
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.dendrogram import dendrogram
from overstory.planners.trees.parameters import count_of, seeds_of
from overstory.planners.trees.spanning import as_tables


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    ground, seeds = ground_of(demand, demand.fit), seeds_of(parameters, seed)
    wanted = parameters["trees"]
    cluster = compute_multiple_trees_2(ground, demand, seeds) if wanted == "auto" else _cut(demand, parameters)
    return as_tables(scenario, demand, *with_trees(ground, demand, cluster, seeds))


def _cut(demand: Demand, parameters: Mapping[str, Value]) -> Ints:
    """The configuration on the way that has so many clusters, or as many as there are filters."""
    tree = dendrogram(demand)
    return tree.clusters_after(max(tree.leaves - count_of(parameters, "trees"), 0))[tree.leaf_of]


def compute_multiple_trees_2(ground: Ground, demand: Demand, seeds: Sequence[int]) -> Ints:
    """MinCostClusters: the cluster of each item. Of equally cheap configurations it is the one with fewest clusters."""
    tree = dendrogram(demand)
    clusters = dict(enumerate(clusters_of(ground, demand, tree.leaf_of, tree.leaves)))
    costs = {number: compute_tree(ground, cluster, seeds).cost for number, cluster in clusters.items()}
    cost = min_cost = sum(costs.values())
    merged = 0
    for number, (one, other) in enumerate(tree.merges.tolist()):
        new = tree.leaves + number
        clusters[new] = join(ground, clusters.pop(one), clusters.pop(other))
        costs[new] = compute_tree(ground, clusters[new], seeds).cost
        cost += costs[new] - costs[one] - costs[other]
        if cost <= min_cost:
            merged, min_cost = number + 1, cost
    return tree.clusters_after(merged)[tree.leaf_of]
