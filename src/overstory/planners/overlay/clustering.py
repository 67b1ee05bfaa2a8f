"""Two-stage clustering (Zhao and Wu, Algorithm 2): clients with much traffic between them at the same broker.

First each broker takes the two clients with the largest ratio of traffic to price (BCR); then each client joins the
broker with the largest ratio to the clients there (``reading=printed``: the smallest, as the pseudocode says, which
the text contradicts). Corrections: the price of a pair is that of both links, both stages heed capacities, and a client
without traffic takes the cheapest broker.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_paper import join_clusters, seed_clusters
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.greedy_packing import placed_anyhow
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
READINGS = LARGEST, PRINTED = "largest", "printed"


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core = check_core(parameters["core"])
    if parameters["reading"] not in READINGS:
        raise UsageError(f"reading={parameters['reading']}: it is one of {', '.join(READINGS)}")
    instance = Instance(scenario, pipeline, parameters["channels"], traffic=parameters["traffic"])
    at = clustered(instance, parameters["reading"] == PRINTED)
    return Decision(plan_tables(instance, at, core), {}, room_for(instance, at))


def clustered(instance: Instance, printed: bool = False) -> Ints:
    prices, wants, rates = instance.prices, instance.wants_matrix(), instance.rates_matrix()
    demand, capacity = instance.traffic.demand, instance.capacity
    load, at = np.zeros(len(capacity)), np.full(len(prices), NONE, np.int64)
    seed_clusters(prices, rates.sum(axis=1), wants, rates, demand, capacity, load, at)
    if join_clusters(prices, wants, rates, demand, capacity, load, at, printed):
        at = placed_anyhow(instance, at, load)
    return at
