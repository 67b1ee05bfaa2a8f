"""What it takes to take over the clusters of a search: nothing if they are the same, else every change once."""

import numpy as np

from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.costs import linear
from overstory.planners.topics.demand import Demand
from overstory.planners.topics.replaying import Rules
from overstory.planners.topics.seeding import settled, takeover

DEMAND = Demand(np.array([0, 3, 6, 8]), np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32), np.ones(3))


def clustered(sets: list[list[int]], held: list[list[int]]) -> Clustering:
    def rows(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        return np.cumsum([0, *map(len, lists)]), np.array([one for each in lists for one in each], np.int32)

    return Clustering(*rows(sets), *rows(held))


def messages(old: Clustering, new: Clustering) -> int:
    costs = linear(DEMAND.users, len(DEMAND.rates))
    return takeover(*(settled(DEMAND, costs, each, Rules()) for each in (old, new)))


def test_the_same_clusters_in_another_order_take_nothing() -> None:
    one = clustered([[0, 1], [1, 2]], [[0], [1], [0, 1]])
    other = clustered([[1, 2], [0, 1]], [[1], [0], [1, 0]])
    assert messages(one, one) == messages(one, other) == 0


def test_everyone_who_stays_hears_of_a_topic_that_is_new() -> None:
    pair, three = clustered([[0, 1]], [[0], [0], [0]]), clustered([[0, 1, 2]], [[0], [0], [0]])
    # the topic enters; three subscribers are told of it; two of them no longer want it directly
    assert messages(pair, three) == 1 + 3 + 2


def test_a_cluster_that_begins_or_ends_is_told_to_its_topics_and_subscribers() -> None:
    none, pair = clustered([], [[], [], []]), clustered([[0, 1]], [[0], [0], [0]])
    assert messages(none, pair) == messages(pair, none) == 3 + 2 + 6
