"""Small instances of topics, and their cost by the paper's formulas, over sets."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from overstory.lab.topics import network_tables, subscription_tables, topic_names
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Prices, Settings
from overstory.pipeline.validate import problems_of_plan
from overstory.planners import defaults
from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.costs import Costs, linear
from overstory.planners.topics.demand import Demand, asked_in
from overstory.planners.topics.tables import as_tables

from ...pipeline.meter import meter
from ...tables import events_table, scenario_of
from ..steps import Steps


def random_demand(draw: np.random.Generator, users: int, topics: int) -> tuple[Demand, np.ndarray]:
    """Rates are numbers of events, so that the log has just these."""
    wants = draw.random((users, topics)) < draw.uniform(0.2, 0.8)
    counts = draw.integers(0, 4, topics)
    user, topic = np.nonzero(wants)
    offsets = np.searchsorted(user, np.arange(users + 1))
    return Demand(offsets, topic.astype(np.int32), counts.astype(float)), counts


def overall_by_sets(demand: Demand, costs: Costs, found: Clustering) -> tuple[float, float]:
    """MC and DC as the paper writes them."""
    clusters = [set(each) for each in found.sets()]
    topics = range(len(demand.rates))
    size_of_topic, size_of_cluster = dict.fromkeys(topics, 0), [0] * len(clusters)
    for user in range(demand.users):
        wanted = set(demand.topics[demand.offsets[user] : demand.offsets[user + 1]].tolist())
        held = found.held[found.held_offsets[user] : found.held_offsets[user + 1]].tolist()
        for each in held:
            size_of_cluster[each] += 1
        for topic in wanted - set().union(*(clusters[each] for each in held)):
            size_of_topic[topic] += 1
    m, d, a, n = costs.maintain, costs.deliver, costs.associate, costs.notify
    mc = sum(m[size_of_topic[t]] for t in topics)
    mc += sum(m[size] + a[len(c)] for c, size in zip(clusters, size_of_cluster, strict=True))
    dc = 0.0
    for t in topics:
        told = [d[size] for c, size in zip(clusters, size_of_cluster, strict=True) if t in c]
        dc += demand.rates[t] * (n + d[size_of_topic[t]] + sum(n + each for each in told))
    return float(mc), float(dc)


def scenario_for(folder: Path, demand: Demand, counts: np.ndarray) -> Scenario:
    """One interval, in which each topic has its events."""
    names = topic_names(len(counts))
    tables = network_tables(demand.users) | subscription_tables(demand, names)
    settings = Settings(
        coalesce=False,
        prices=Prices(core=1.0, access=1.0, upkeep_access=1.0, upkeep_association=1.0),
        access=Access("euclidean"),
    )
    rows = [(2, 1, names[topic]) for topic in range(len(counts)) for _ in range(counts[topic])]
    return scenario_of(folder, settings, tables, events_table(rows, {"topic": pa.string()}))


def metered(scenario: Scenario, found: Clustering) -> float:
    """By the one meter, of a plan that is lawful. Topics that nobody wants and that have no event are not there."""
    asked = asked_in(scenario, Steps())
    tables = defaults.tables(scenario)
    tables |= as_tables(scenario, Steps(), tables, asked, found)
    plan = Plan.of(Header("test", scenario.fingerprint), tables)
    assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
    return meter(scenario, plan)[0].cost


def costs_for(demand: Demand) -> Costs:
    return linear(demand.users, len(demand.rates))
