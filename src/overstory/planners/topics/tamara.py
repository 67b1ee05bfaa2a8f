"""Tamara, replayed: the history of a scenario's interests, change by change, as the paper's algorithm meets it.

A scenario without a history has one drawn: users come in some order, and declare their interests one by one. With
``seeded`` it begins with the clusters of topic-search, which also corrects it; see ``seeding``.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand, asked_in
from overstory.planners.topics.history import changes_in
from overstory.planners.topics.planning import planned
from overstory.planners.topics.replaying import (
    ADD,
    EVERYONE,
    LITERAL,
    RECOVERING,
    Changes,
    Rules,
    clustering_of,
    empty_state,
    replayed,
)
from overstory.planners.topics.seeding import Search, at_the_beginning, seeded
from overstory.planners.topics.topic_search import PARTNERS, searched

Tables = dict[str, pa.Table]


def plan_literal(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> Tables:
    return _plan(scenario, pipeline, base, dict(parameters) | {"seeded": False}, seed, LITERAL)


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> Tables:
    return _plan(scenario, pipeline, base, parameters, seed, RECOVERING)


def _plan(
    scenario: Scenario,
    pipeline: Steps,
    base: Mapping[str, pa.Table],
    parameters: Mapping[str, Value],
    seed: int,
    mode: int,
) -> Tables:
    asked = asked_in(scenario, pipeline)
    sampled = EVERYONE if parameters["surveys"] == "everyone" else float(str(parameters["surveys"]))
    rules = Rules(mode, sampled=sampled, seed=seed)
    changes = changes_in(scenario, asked) or joins(asked.demand, seed)
    if parameters["seeded"]:
        before, later = at_the_beginning(changes, asked.demand.users, asked.demand.rates)
        done = seeded(before, later, asked.costs, rules, _search(scenario, pipeline, asked.costs, seed))
    else:
        done = replayed(empty_state(asked.demand.users, asked.demand.rates, asked.costs, rules), changes)
    return planned(scenario, pipeline, base, asked, clustering_of(done.state), "tamara")


def _search(scenario: Scenario, pipeline: Steps, costs: Costs, seed: int) -> Search:
    def found(demand: Demand) -> Clustering:
        return searched(demand, costs, pipeline.partners(scenario, demand.both_ways(), PARTNERS), seed)

    return found


def joins(demand: Demand, seed: int) -> Changes:
    """Users come in some order, and declare their interests one by one, in some order."""
    draw = np.random.default_rng(seed)
    user, topic = demand.user_of, demand.topics.astype(np.int64)
    order = np.lexsort((draw.random(len(user)), draw.permutation(demand.users)[user]))
    count = len(order)
    return Changes(np.arange(count, dtype=float), np.full(count, ADD), user[order], topic[order], np.zeros(count))


def online(demand: Demand, costs: Costs, changes: Changes, rules: Rules) -> NDArray[np.float64]:
    """MC and DC after all changes, from nothing."""
    done = replayed(empty_state(demand.users, demand.rates, costs, rules), changes)
    return np.array(done.timeline.costs[-1])
