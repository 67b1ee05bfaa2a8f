"""One flow on a minimum spanning tree."""

from collections.abc import Mapping

import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.planners.defaults import one_flow
from overstory.planners.steps import Steps


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    return one_flow(scenario, *minimum_spanning_tree(scenario.network))
