"""Topic search: clusters on the true cost, from how many users want topics together.

1. Topics are merged into disjoint clusters, the two that save most first, and users choose: this works for a million
   users, who are only ever read in lists.
2. Where a table of users and topics fits into memory, clusters are improved one by one, overlapping where that saves,
   and users cover themselves anew, until nothing saves any more. Several beginnings are tried, and the best is taken:
   the merged clusters, no clusters, and the communities of topics.
3. Where there are very few users and topics, whole clusters are exchanged as well.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels import topic_merges
from overstory.kernels import topic_search as kernel
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Partners, Steps
from overstory.planners.topics import exchange
from overstory.planners.topics.clustering import Clustering, alone, covered, overall
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand, asked_in
from overstory.planners.topics.k_means import disjoint, labellings
from overstory.planners.topics.planning import planned
from overstory.planners.topics.replaying import EVERYONE, Rules, clustering_of, empty_state, settle

Ints = NDArray[np.int64]
PARTNERS = 24  # of a topic, with which it may be merged
MOST_CELLS = 60_000_000  # users times topics, for improving clusters one by one
ROUNDS = 40
BEGINNINGS = (8, 15)  # clusters of k-means from which the search begins as well


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    asked = asked_in(scenario, pipeline)
    partners = pipeline.partners(scenario, asked.demand.both_ways(), int(str(parameters["partners"])))
    found = searched(asked.demand, asked.costs, partners, seed)
    return planned(scenario, pipeline, base, asked, found, "topic-search")


def searched(demand: Demand, costs: Costs, partners: Partners, seed: int = 0) -> Clustering:
    first = merged(demand, costs, partners)
    best = cheaper(demand, costs, first, alone(demand))
    if demand.users * len(demand.rates) > MOST_CELLS or not len(demand.topics):
        return best
    starts = [first, alone(demand)]
    starts += [covered(demand, costs, disjoint(labels)) for labels in labellings(demand, BEGINNINGS, seed)]
    for start in starts:
        best = cheaper(demand, costs, best, improved(demand, costs, start))
    if demand.users * len(demand.rates) > exchange.MOST_CELLS:
        return best
    return cheaper(demand, costs, best, improved(demand, costs, exchange.exchanged(demand, costs, best)))


def cheaper(demand: Demand, costs: Costs, one: Clustering, other: Clustering) -> Clustering:
    return min((one, other), key=lambda each: overall(demand, costs, each).cost)


def merged(demand: Demand, costs: Costs, partners: Partners) -> Clustering:
    """Disjoint clusters, and users who chose among them."""
    each = float(costs.maintain[-1] - costs.maintain[0]) / (len(costs.maintain) - 1)
    event = float(costs.deliver[-1] - costs.deliver[0]) / (len(costs.deliver) - 1)
    loads = demand.rates * event
    _, _, fan_offsets, fans = demand.both_ways()
    room = 2 * len(fans) + 1024
    users, weights = np.empty(room, np.int32), np.empty(room)
    users[: len(fans)] = fans
    weights[: len(fans)] = np.repeat(each + loads, np.diff(fan_offsets))
    pools = topic_merges.Pools(
        users,
        weights,
        fan_offsets[:-1].astype(np.int64).copy(),
        fan_offsets[1:].astype(np.int64).copy(),
        np.ones(len(loads), np.int64),
        loads.copy(),
    )
    associate = float(costs.associate[-1] - costs.associate[0]) / (len(costs.associate) - 1)
    ratio = costs.notify / event if event else 0.0
    label = topic_merges.merged(pools, len(fans), partners.topics, partners.shared, each, associate, ratio)
    return covered(demand, costs, _groups(label))


def _groups(label: Ints) -> list[list[int]]:
    """The clusters of two topics or more."""
    order = np.argsort(label, kind="stable")
    ends = np.flatnonzero(np.diff(label[order])) + 1
    return [group.tolist() for group in np.split(order, ends) if len(group) > 1]


def improved(demand: Demand, costs: Costs, start: Clustering, rounds: int = ROUNDS) -> Clustering:
    """The clusters after as many steps as save anything."""
    room = max(4 * len(demand.rates) + 64, 2 * start.clusters + 64)
    state = empty_state(demand.users, demand.rates, costs, Rules(sampled=EVERYONE), room)
    settle(state, demand, start)
    kernel.search(state, rounds)
    return clustering_of(state)
