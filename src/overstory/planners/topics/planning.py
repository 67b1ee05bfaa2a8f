"""What all planners of topics share: a scenario in, clusters by some way of finding them, a plan out.

Each tells what it would cost without clusters, and the least that anything could cost, as its alternatives.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision, relative_costs
from overstory.planners.steps import Steps
from overstory.planners.topics.clustering import Clustering, alone, overall
from overstory.planners.topics.demand import Asked, asked_in, lower_bound
from overstory.planners.topics.tables import as_tables

Parameters = Mapping[str, Value]
Tables = Mapping[str, pa.Table]
Found = Callable[[Asked, Parameters, int], Clustering]
WITHOUT, BOUND = "a tree for each topic", "no less is possible"


def planned(
    scenario: Scenario, pipeline: Steps, base: Tables, asked: Asked, found: Clustering, name: str
) -> dict[str, pa.Table]:
    """The plan of a clustering, with what it is compared with."""
    demand, costs = asked.demand, asked.costs
    told = {
        name: overall(demand, costs, found).cost,
        WITHOUT: overall(demand, costs, alone(demand)).cost,
        BOUND: lower_bound(demand, costs),
    }
    own = told[name] or 1.0
    relative = {each: float(f"{cost / own:.6g}") for each, cost in told.items()} if told[name] else relative_costs({})
    return Decision(as_tables(scenario, pipeline, base, asked, found), relative)


def planner_by(
    find: Found, name: str
) -> Callable[[Scenario, Steps, dict[str, pa.Table], Parameters, int], dict[str, pa.Table]]:
    """A planner that finds clusters from interests alone."""

    def plan(
        scenario: Scenario, pipeline: Steps, base: dict[str, pa.Table], parameters: Parameters, seed: int
    ) -> dict[str, pa.Table]:
        asked = asked_in(scenario, pipeline)
        return planned(scenario, pipeline, base, asked, find(asked, parameters, seed), name)

    return plan
