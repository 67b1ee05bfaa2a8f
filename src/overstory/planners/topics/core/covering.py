"""Re-covering: which clusters a user takes for her interests, from what the channels of these tell her."""

from collections.abc import Sequence, Set
from typing import NamedTuple

from overstory.planners.topics.core.figures import ClusterFigures, TopicFigures
from overstory.planners.topics.core.formulas import Tables, step
from overstory.planners.topics.core.messages import About


class Known(NamedTuple):
    """What a user knows when she chooses."""

    interests: Sequence[About]  # in the order of their topics
    direct: Set[int]  # topics to which she is directly subscribed
    clusters: Set[int]  # hers


def worth_of(costs: Tables, topic: TopicFigures, subscribed: bool) -> float:
    """What a direct subscription to the topic costs, which she may have already."""
    fans = topic.size - subscribed
    return step(costs.maintain, fans) + topic.rate * step(costs.deliver, fans)


def price_of(costs: Tables, cluster: ClusterFigures, subscribed: bool) -> float:
    """What a subscription to the cluster costs, which she may have already."""
    size = cluster.size - subscribed
    return step(costs.maintain, size) + cluster.load * step(costs.deliver, size)


def chosen_clusters(costs: Tables, known: Known) -> tuple[list[ClusterFigures], float]:
    """Greedily by what each saves, then without those that no longer pay; and what it then costs."""
    worth = [worth_of(costs, about.figures, about.figures.number in known.direct) for about in known.interests]
    saved, near = _savings(costs, known, worth)
    times, chosen = [0] * len(worth), []
    while saved:
        best = min(saved, key=lambda number: (-saved[number], number))
        if saved[best] <= 1e-9:
            break
        chosen.append(near[best])
        for i, about in enumerate(known.interests):
            if about.figures.number in near[best].topics:
                if times[i] == 0:
                    for cluster in about.clusters:
                        saved[cluster.number] -= worth[i]
                times[i] += 1
    return _pruned(costs, known, worth, times, chosen)


def _savings(costs: Tables, known: Known, worth: Sequence[float]) -> tuple[dict[int, float], dict[int, ClusterFigures]]:
    """By cluster that holds an interest what it saves by itself."""
    saved: dict[int, float] = {}
    near: dict[int, ClusterFigures] = {}
    for i, about in enumerate(known.interests):
        for cluster in about.clusters:
            number = cluster.number
            if number not in saved:
                near[number] = cluster
                saved[number] = -price_of(costs, cluster, number in known.clusters)
            saved[number] += worth[i]
    return saved, near


def _pruned(
    costs: Tables, known: Known, worth: Sequence[float], times: list[int], chosen: list[ClusterFigures]
) -> tuple[list[ClusterFigures], float]:
    topics = [about.figures.number for about in known.interests]
    kept, cost = [], 0.0
    for cluster in chosen:
        price = price_of(costs, cluster, cluster.number in known.clusters)
        lost = -price
        for i, topic in enumerate(topics):
            if times[i] == 1 and topic in cluster.topics:
                lost += worth[i]
        if lost < -1e-9:
            for i, topic in enumerate(topics):
                times[i] -= topic in cluster.topics
        else:
            cost += price
            kept.append(cluster)
    for i, count in enumerate(times):
        cost += worth[i] if count == 0 else 0.0
    return kept, cost
