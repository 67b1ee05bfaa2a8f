"""What there is to tell of clusters of topics: of each cluster, of each client, of costs, and of what changed when."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.tamara_state import UPDATES
from overstory.pipeline.topic_windows import Rates
from overstory.planners.topics.clustering import Clustering, alone, direct_of, overall
from overstory.planners.topics.demand import Asked, Demand, lower_bound
from overstory.planners.topics.overlay import MOST_USERS, overlay_cost
from overstory.planners.topics.replaying import Timeline

MOST_TOPICS = 6  # that a row names
DAY = 86400.0
Row = dict[str, Any]


def cluster_rows(asked: Asked, found: Clustering) -> list[Row]:
    """The clusters with most clients first: what each client gets in an interval, and throws away of it."""
    demand, names = asked.demand, asked.interests.names
    has = found.has(len(names))
    loads = has @ demand.rates
    cluster, _, wanted = wanted_of(demand, found, has)
    sums = np.bincount(cluster, wanted, minlength=found.clusters)
    rows: list[Row] = []
    for number in np.argsort(-found.sizes, kind="stable").tolist():
        size = int(found.sizes[number])
        thrown = 1 - sums[number] / max(size * loads[number], 1e-12)
        topics = [names[topic] for topic in np.flatnonzero(has[number]).tolist()]
        more = f" and {len(topics) - MOST_TOPICS} more" if len(topics) > MOST_TOPICS else ""
        rows.append(
            {
                "cluster": number,
                "clients": size,
                "topics": len(topics),
                "events": round(float(loads[number]), 3),
                "thrown away": f"{100 * max(thrown, 0.0):.0f}%",
                "which": ", ".join(topics[:MOST_TOPICS]) + more,
            }
        )
    return rows


def wanted_of(
    demand: Demand, found: Clustering, has: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """By subscription to a cluster: the cluster, the user, and the events of it that the user wants."""
    user: NDArray[np.int64] = np.repeat(np.arange(demand.users), np.diff(found.held_offsets))
    counts = np.diff(demand.offsets)[user]
    at = np.repeat(demand.offsets[user] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    of = np.repeat(np.arange(len(user)), counts)
    topic = demand.topics[at]
    inside = has[found.held[of], topic]
    wanted: NDArray[np.float64] = np.bincount(of[inside], demand.rates[topic[inside]], minlength=len(user)).astype(
        float
    )
    return found.held.astype(np.int64), user, wanted


def client_rows(asked: Asked, found: Clustering, clients: NDArray[np.int64]) -> list[Row]:
    """Those who throw most away first: what each is subscribed to, gets in an interval, and throws away of it. A copy
    that it wants but has already counts as thrown away."""
    demand = asked.demand
    loads = found.has(len(demand.rates)) @ demand.rates
    user = np.repeat(np.arange(demand.users), np.diff(found.held_offsets))
    direct = direct_of(demand, found)
    owner, rates = demand.user_of, demand.rates[demand.topics]
    got = np.bincount(user, loads[found.held], minlength=demand.users)
    got += np.bincount(owner[direct], rates[direct], minlength=demand.users)
    thrown = np.maximum(got - np.bincount(owner, rates, minlength=demand.users), 0.0)
    single = np.bincount(owner[direct], minlength=demand.users)
    return [
        {
            "client": int(clients[each]),
            "interests": int(demand.offsets[each + 1] - demand.offsets[each]),
            "clusters": int(found.held_offsets[each + 1] - found.held_offsets[each]),
            "topics alone": int(single[each]),
            "events": round(float(got[each]), 3),
            "thrown away": round(float(thrown[each]), 3),
        }
        for each in np.argsort(-thrown, kind="stable").tolist()
    ]


def costs_of(asked: Asked, found: Clustering) -> dict[str, float]:
    """In an interval: of the clusters, without any, by links among the users themselves, and at the very least."""
    demand, costs = asked.demand, asked.costs
    now, without = overall(demand, costs, found).cost, overall(demand, costs, alone(demand)).cost
    saved = 1 - now / without if without else 0.0
    told = {"cost": now, "without": without, "saved": saved, "bound": lower_bound(demand, costs)}
    return told | ({"tco-gm": overlay_cost(demand, costs).cost} if demand.users <= MOST_USERS else {})


def costs_in_words(costs: dict[str, float]) -> str:
    difference = f"{100 * abs(costs['saved']):.1f}% {'less' if costs['saved'] >= 0 else 'more'}"
    links = f"; links among the users themselves would cost {costs['tco-gm']:,.0f}" if "tco-gm" in costs else ""
    return (
        f"  an interval costs {costs['cost']:,.0f}, {difference} than without clusters ({costs['without']:,.0f}); "
        f"no plan costs less than {costs['bound']:,.0f}{links}"
    )


def timeline_rows(timeline: Timeline) -> list[Row]:
    """How the clusters came about, if Tamara had followed every change: what was done between two looks."""
    done = np.diff(timeline.updates, axis=0, prepend=np.zeros((1, len(UPDATES)), np.int64))
    return [
        {
            "day": round(time / DAY, 2),
            "clusters": int(timeline.clusters[at]),
            **dict(zip(UPDATES, done[at].tolist(), strict=True)),
            "cost": round(timeline.costs[at].cost),
            "without": round(float(timeline.scribe[at])),
            "messages": int(timeline.messages[at]),
        }
        for at, time in enumerate(timeline.times.tolist())
    ]


def rate_rows(rates: Rates) -> list[Row]:
    """Topics with most events in an interval first: how long theirs is, what it holds, and how many hold none."""
    mean = rates.events / rates.windows
    return [
        {
            "topic": rates.topics[each],
            "interval (s)": float(rates.seconds[each]),
            "events": round(float(mean[each]), 4),
            "most": int(rates.most[each]),
            "without any": f"{100 * (1 - rates.busy[each] / rates.windows[each]):.0f}%",
        }
        for each in np.argsort(-mean, kind="stable").tolist()
    ]


def saved_by_riding(asked: Asked, found: Clustering, shares: NDArray[np.float64]) -> float:
    """Keep-alives of an interval that are not needed where they ride on events: of topics, then of clusters."""
    demand, maintain = asked.demand, asked.costs.maintain
    fans = np.bincount(demand.topics[direct_of(demand, found)], minlength=len(demand.rates))
    return float(np.sum(np.concatenate([maintain[fans], maintain[found.sizes]]) * shares))
