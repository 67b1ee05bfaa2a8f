"""What it takes to take over the clusters of a search: nothing if they are the same, else every change once; and what
the search itself has to be told."""

import numpy as np

from overstory.kernels.tamara_state import KINDS, NOTICE
from overstory.lab.topics import Topics, draw_workload
from overstory.planners.topics.clustering import Clustering, alone
from overstory.planners.topics.costs import linear
from overstory.planners.topics.demand import Demand
from overstory.planners.topics.replaying import Rules, replayed
from overstory.planners.topics.seeding import CORRECTIONS, seeded, settled, takeover

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


def test_the_search_is_told_of_everyone_and_of_every_change() -> None:
    """With clusters that are never cheaper nothing is taken over: beside Tamara's own messages there are these."""
    work = draw_workload(Topics(users=40, topics=12, natural_clusters=2, interests=5, shift="interests"), 1)
    assert work.before is not None
    costs, rules, looks = linear(40, 12), Rules(seed=3), 5
    done = seeded(work.before, work.changes, costs, rules, alone, looks)
    plain = replayed(settled(work.before, costs, alone(work.before), rules), work.changes)
    told = np.count_nonzero(np.diff(work.before.offsets)) + len(work.changes.times)
    extra = done.state.messages - plain.state.messages
    assert extra.tolist() == [told if kind == NOTICE else 0 for kind in range(len(KINDS))]
    timeline = done.timeline
    assert len(timeline.times) == looks * (CORRECTIONS + 1)
    assert (np.diff(timeline.times) > 0).all()
    assert (np.diff(timeline.messages) >= 0).all()
    assert timeline.messages[-1] == done.state.messages.sum()
    assert timeline.times[-1] == work.changes.times[-1]
