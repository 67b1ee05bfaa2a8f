"""MEDYM: one flow for everything, in which each event takes the cheapest paths to all brokers that want it."""

from collections.abc import Mapping

import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.tables import PATHS
from overstory.planners.steps import Steps
from overstory.planners.trees.parameters import truth_of
from overstory.planners.trees.parts import Part, every_subscription, tables_of


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    return tables_of(scenario, [Part(PATHS, every_subscription(scenario), ordered=truth_of(parameters, "ordered"))])
