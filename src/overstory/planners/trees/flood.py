"""Every event to every broker, along a minimum spanning tree; clients still get only what they want."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.plan import EVERYTHING, Value
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import FILTERS
from overstory.planners.defaults import one_flow
from overstory.planners.steps import Steps


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    tables = one_flow(scenario, *minimum_spanning_tree(scenario.network))
    one, other = (tables["trees"][name].to_numpy() for name in ("source", "target"))
    rows = {
        "flow": np.zeros(2 * len(one), np.int64),
        "source": np.concatenate([one, other]),
        "target": np.concatenate([other, one]),
        "filter": [EVERYTHING] * (2 * len(one)),
    }
    return {**tables, "filters": pa.table(rows, schema=FILTERS.schema)}
