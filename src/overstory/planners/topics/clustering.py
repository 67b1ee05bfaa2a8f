"""Clusters of topics and who is subscribed to which: what a planner of topics decides, and what it costs."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.covering_users import covers_of_users, serving_clusters
from overstory.kernels.nothing import NONE
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Clustering(NamedTuple):
    """Of cluster c the topics between ``offsets`` c and c + 1, ascending; of user i the clusters that it is subscribed
    to between ``held_offsets`` i and i + 1. What these do not bring, a user is directly subscribed to."""

    offsets: Ints
    topics: NDArray[np.int32]
    held_offsets: Ints
    held: NDArray[np.int32]

    @property
    def clusters(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """By cluster, how many are subscribed to it."""
        return np.bincount(self.held, minlength=self.clusters)

    @property
    def widths(self) -> Ints:
        """By cluster, how many topics it has."""
        return np.diff(self.offsets)

    def sets(self) -> list[list[int]]:
        return [self.topics[a:b].tolist() for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def has(self, topics: int) -> NDArray[np.bool_]:
        """Whether a cluster has a topic, by cluster and topic."""
        found = np.zeros((self.clusters, topics), bool)
        found[np.repeat(np.arange(self.clusters), self.widths), self.topics] = True
        return found


class Overall(NamedTuple):
    maintenance: float
    dissemination: float

    @property
    def cost(self) -> float:
        return self.maintenance + self.dissemination


def of_sets(clusters: Iterable[Iterable[int]], held: Sequence[Iterable[int]]) -> Clustering:
    rows = [sorted(each) for each in clusters]
    held_rows = [sorted(each) for each in held]
    return Clustering(*_packed(rows), *_packed(held_rows))


def _packed(rows: Sequence[Sequence[int]]) -> tuple[Ints, NDArray[np.int32]]:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return offsets, np.array([each for row in rows for each in row], np.int32)


def alone(demand: Demand) -> Clustering:
    """No clusters: a channel for each topic, as in Scribe."""
    nobody = np.empty(0, np.int32)
    return Clustering(np.zeros(1, np.int64), nobody, np.zeros(demand.users + 1, np.int64), nobody)


def covered(demand: Demand, costs: Costs, clusters: Iterable[Iterable[int]]) -> Clustering:
    """These clusters, with every user subscribed as cheaply as a greedy cover finds."""
    offsets, topics = _packed([sorted(each) for each in clusters])
    return covered_by(demand, costs, offsets, topics)


def covered_by(demand: Demand, costs: Costs, offsets: Ints, topics: NDArray[np.int32]) -> Clustering:
    """The same of clusters as arrays; clusters that nobody takes are left out. A subscriber costs what one costs on
    average, where the cost of a channel is no straight line."""
    each = (costs.maintain[-1] - costs.maintain[0]) / (len(costs.maintain) - 1)
    event = (costs.deliver[-1] - costs.deliver[0]) / (len(costs.deliver) - 1)
    held_offsets, held = covers_of_users(
        demand.offsets, demand.topics, offsets, topics, each + demand.rates * event, each, demand.rates * event
    )
    return without_empty(Clustering(offsets, topics, held_offsets, held))


def without_empty(found: Clustering) -> Clustering:
    """Without clusters that have no subscriber."""
    kept = found.sizes > 0
    fewer = (np.cumsum(kept) - 1).astype(np.int32)
    inside = np.repeat(kept, found.widths)
    offsets = np.concatenate([[0], np.cumsum(found.widths[kept])])
    return Clustering(offsets, found.topics[inside], found.held_offsets, fewer[found.held])


def serving(demand: Demand, found: Clustering) -> NDArray[np.int32]:
    """By interest the first of its user's clusters that brings it; -1 where the user is directly subscribed to it."""
    held = found.held_offsets, found.held, found.offsets, found.topics
    served: NDArray[np.int32] = serving_clusters(demand.offsets, demand.topics, *held, len(demand.rates))
    return served


def direct_of(demand: Demand, found: Clustering) -> NDArray[np.bool_]:
    """By interest, whether its user is directly subscribed to it."""
    direct: NDArray[np.bool_] = serving(demand, found) == NONE
    return direct


def overall(demand: Demand, costs: Costs, found: Clustering) -> Overall:
    """MC and DC, by the paper's formulas, from the sizes of all channels."""
    fans = np.bincount(demand.topics[direct_of(demand, found)], minlength=len(demand.rates))
    sizes = found.sizes
    loads = np.bincount(
        np.repeat(np.arange(found.clusters), found.widths), demand.rates[found.topics], minlength=found.clusters
    )
    maintenance = costs.maintain[fans].sum() + costs.maintain[sizes].sum() + costs.associate[found.widths].sum()
    dissemination = np.sum(demand.rates * (costs.notify + costs.deliver[fans]))
    dissemination += np.sum(loads * (costs.notify + costs.deliver[sizes]))
    return Overall(float(maintenance), float(dissemination))
