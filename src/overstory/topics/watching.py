"""What clusters of topics would save on a platform as it is: from its subscriptions and sampled rates."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from overstory.planners.topics.clustering import Clustering, alone, direct_of, overall
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand, lower_bound
from overstory.planners.topics.topic_search import cheaper, improved, merged
from overstory.topics.monitoring import Sample
from overstory.topics.prices import Prices

MOST_CELLS = 20_000_000  # users times topics, for improving clusters one by one
ROUNDS = 4


class Would(NamedTuple):
    """A platform as it is, and as it would be. Costs are those of an interval, at the prices given."""

    servers: tuple[str, ...]
    clients: int
    topics: int
    subscriptions: int
    served_plainly: int  # subscriptions with wildcards or queue groups
    events: float  # a second
    deliveries: float  # a second
    cost: float
    subscriptions_then: int
    deliveries_then: float
    cost_then: float
    bound: float
    clusters: tuple[tuple[str, ...], ...]  # the largest first
    sizes: tuple[int, ...]  # subscribers of each


def demand_in(sample: Sample, rates: Mapping[str, float], interval: float) -> tuple[Demand, list[str]]:
    """Which client wants which topic, as a ``Demand``, and the names of topics.

    A rate is that of an interval of so many seconds.
    """
    mine = [each for each in sample.subscriptions if each.is_topic]
    names = sorted({each.subject for each in mine})
    number = {name: at for at, name in enumerate(names)}
    client = {name: at for at, name in enumerate(sorted({each.client for each in mine}))}
    keys = np.unique(np.array([client[each.client] * len(names) + number[each.subject] for each in mine], np.int64))
    user, topic = np.divmod(keys, max(len(names), 1))
    offsets = np.searchsorted(user, np.arange(len(client) + 1))
    return Demand(offsets, topic.astype(np.int32), np.array([rates.get(name, 0.0) * interval for name in names])), names


def costs_of(prices: Prices, demand: Demand) -> Costs:
    sizes, topics = np.arange(demand.users + 3.0), np.arange(len(demand.rates) + 3.0)
    return Costs(sizes * prices.subscription, sizes * prices.event, topics * prices.association, prices.event)


def found_for(demand: Demand, costs: Costs) -> Clustering:
    """The clusters of topic-search, with one beginning and few rounds: an estimate within seconds."""
    from overstory.pipeline.interests import partners_here
    from overstory.planners.topics.topic_search import PARTNERS

    first = cheaper(demand, costs, merged(demand, costs, partners_here(demand.both_ways(), PARTNERS)), alone(demand))
    if demand.users * len(demand.rates) > MOST_CELLS or not len(demand.topics):
        return first
    return cheaper(demand, costs, first, improved(demand, costs, first, ROUNDS))


def would(sample: Sample, rates: Mapping[str, float], prices: Prices) -> Would:
    """What it is now, and what clusters would make of it."""
    demand, names = demand_in(sample, rates, prices.interval)
    costs = costs_of(prices, demand)
    found = found_for(demand, costs) if len(names) else alone(demand)
    a_second = demand.rates / prices.interval
    loads = found.has(len(names)) @ a_second if found.clusters else np.zeros(0)
    direct = int(np.sum(direct_of(demand, found)))
    arriving = float(np.sum(a_second[demand.topics][direct_of(demand, found)])) + float(np.sum(loads * found.sizes))
    order = np.argsort(-found.sizes, kind="stable").tolist()
    sets = list(found.sets())
    plain = [each for each in sample.subscriptions if not each.is_topic and not each.subject.startswith(("_", "$"))]
    return Would(
        sample.servers,
        demand.users,
        len(names),
        len(demand.topics),
        len(plain),
        float(a_second.sum()),
        float(np.sum(a_second * demand.popularity)),
        overall(demand, costs, alone(demand)).cost,
        direct + len(found.held),
        arriving,
        overall(demand, costs, found).cost,
        lower_bound(demand, costs),
        tuple(tuple(names[topic] for topic in sets[at]) for at in order),
        tuple(int(found.sizes[at]) for at in order),
    )
