"""Every client at the broker with the cheapest access: of several the one that it has, else the one with the lowest id.

Brokers whose share of the clients is 0 take none. A client that no link and no metric leads to another broker stays.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS
from overstory.planners.defaults import cheapest_brokers
from overstory.planners.steps import Steps


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    clients, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    found = cheapest_brokers(scenario, clients, brokers)
    attached = {"client": clients, "broker": np.where(found < 0, brokers, found)}
    return {"attachments": pa.table(attached, schema=ATTACHMENTS.schema)}
