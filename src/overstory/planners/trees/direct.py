"""A copy along the cheapest path to each broker that has a subscriber: one steered flow for each."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.plan import EVERYTHING, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import FLOWS, MEMBERS, PATHS, TREES
from overstory.planners.steps import Steps


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(attached)
    clients = scenario.subscriptions["client"].to_numpy()
    hosts, flow = np.unique(brokers[order][np.searchsorted(attached, clients, sorter=order)], return_inverse=True)
    by_flow = np.argsort(flow, kind="stable")
    flows = {
        "flow": np.arange(len(hosts)),
        "kind": [PATHS] * len(hosts),
        "events": [EVERYTHING] * len(hosts),
        "associations": np.zeros(len(hosts), np.int64),
    }
    members = {
        "flow": flow[by_flow],
        "subscription": scenario.subscriptions["id"].to_numpy()[by_flow],
        "part": pa.nulls(len(flow), pa.string()),
    }
    return {
        "flows": pa.table(flows, schema=FLOWS.schema),
        "members": pa.table(members, schema=MEMBERS.schema),
        "trees": TREES.schema.empty_table(),
    }
