"""Two-stage greedy packing (Zhao and Wu, Algorithm 1): each client at the cheapest broker that still has room.

The printed algorithm never adds to a broker's load, and says nothing of a client that fits nowhere. Here loads are
added up. Clients go by descending demand (``order=input``: as they stand in the table). One that fits nowhere goes to
the broker that is least full, and the plan says so.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_paper import pack
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ORDERS = BY_DEMAND, AS_GIVEN = "demand", "input"


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core = check_core(parameters["core"])
    if parameters["order"] not in ORDERS:
        raise UsageError(f"order={parameters['order']}: it is one of {', '.join(ORDERS)}")
    instance = Instance(scenario, pipeline, parameters["channels"], traffic=parameters["traffic"])
    at = packed(instance, parameters["order"] == BY_DEMAND)
    return Decision(plan_tables(instance, at, core), {}, room_for(instance, at))


def packed(instance: Instance, by_demand: bool = True) -> Ints:
    """By user its broker's position: first among the few nearest, then among all within reach."""
    demand = instance.traffic.demand
    order = np.argsort(-demand, kind="stable") if by_demand else np.arange(len(demand))
    load = np.zeros(len(instance.network))
    if np.isinf(instance.capacity).all() or "reach" not in instance.__dict__:
        found = pack(order, instance.nearest.brokers, demand, instance.capacity, load)
        if (found != NONE).all():
            return found
        load[:] = 0.0
    found = pack(order, instance.reach.brokers, demand, instance.capacity, load)
    return placed_anyhow(instance, found, load)


def placed_anyhow(instance: Instance, at: Ints, load: Floats) -> Ints:
    """The same with everybody attached: whoever fits nowhere goes where most room is left."""
    for user in np.flatnonzero(at == NONE).tolist():
        near = instance.reach.brokers[user]
        near = near[near >= 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            filled = (load[near] + instance.traffic.demand[user]) / instance.capacity[near]
        at[user] = near[np.nan_to_num(filled).argmin()]
        load[at[user]] += instance.traffic.demand[user]
    return at
