"""Every client at a random broker within its reach, as the overlay paper compares with. Capacities are ignored."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core = check_core(parameters["core"])
    instance = Instance(scenario, pipeline, parameters["channels"], traffic=parameters["traffic"])
    brokers = instance.reach.brokers
    count = (brokers >= 0).sum(axis=1)
    drawn = (np.random.default_rng(seed).random(len(brokers)) * count).astype(np.int64)
    return plan_tables(instance, brokers[np.arange(len(brokers)), drawn].astype(np.int64), core)
