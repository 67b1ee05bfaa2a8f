"""Re-covering: which clusters a user takes for its interests, from what the channels of these tell it."""

from collections.abc import Mapping, Sequence

from overstory.planners.topics.core.entities import Cluster, Topic, User
from overstory.planners.topics.core.formulas import Tables, step


def worth_of(costs: Tables, one: User, topic: Topic) -> float:
    """What a direct subscription of the user to the topic costs."""
    fans = len(topic.members) - (topic.number in one.direct)
    return step(costs.maintain, fans) + topic.rate * step(costs.deliver, fans)


def price_of(costs: Tables, one: User, cluster: Cluster) -> float:
    """What a subscription of the user to the cluster costs."""
    size = len(cluster.members) - (cluster.number in one.clusters)
    return step(costs.maintain, size) + cluster.load * step(costs.deliver, size)


def chosen_clusters(
    costs: Tables, one: User, topics: Sequence[Topic], clusters: Mapping[int, Cluster]
) -> tuple[list[int], float]:
    """Greedily by what each saves, then without those that no longer pay; and what it then costs."""
    interests = sorted(one.wants)
    worth = {topic: worth_of(costs, one, topics[topic]) for topic in interests}
    saved: dict[int, float] = {}
    for topic in interests:
        for number in topics[topic].clusters:
            if number not in saved:
                saved[number] = -price_of(costs, one, clusters[number])
            saved[number] += worth[topic]
    times, chosen = dict.fromkeys(interests, 0), []
    while saved:
        best = min(saved, key=lambda number: (-saved[number], number))
        if saved[best] <= 1e-9:
            break
        chosen.append(best)
        for topic in interests:
            if topic in clusters[best].topics:
                if times[topic] == 0:
                    for number in topics[topic].clusters:
                        saved[number] -= worth[topic]
                times[topic] += 1
    return _pruned(costs, one, clusters, worth, times, chosen)


def _pruned(
    costs: Tables,
    one: User,
    clusters: Mapping[int, Cluster],
    worth: dict[int, float],
    times: dict[int, int],
    chosen: list[int],
) -> tuple[list[int], float]:
    kept, cost = [], 0.0
    for number in chosen:
        price, inside = price_of(costs, one, clusters[number]), clusters[number].topics
        lost = -price
        for topic in times:
            if times[topic] == 1 and topic in inside:
                lost += worth[topic]
        if lost < -1e-9:
            for topic in times:
                times[topic] -= topic in inside
        else:
            cost += price
            kept.append(number)
    for topic, count in times.items():
        cost += worth[topic] if count == 0 else 0.0
    return kept, cost
