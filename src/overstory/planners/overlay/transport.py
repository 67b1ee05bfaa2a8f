"""The cheapest access under capacities: a minimum-cost flow of everybody's bytes to brokers.

Where core is free and all clients have the same traffic, no attachment is cheaper. Else some clients are split between
brokers, at most one for each full broker; they go where most of them is, and capacities are repaired.
"""

import numpy as np
from numpy.typing import NDArray

from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.mixing import repaired

Ints = NDArray[np.int64]
NEAR = 32  # brokers of each client that the flow knows, the cheapest ones
UNITS = 10**6  # that the largest traffic of a client, and the dearest byte, are cut into


def transported(instance: Instance) -> Ints | None:
    """By client its broker's position; None where the nearest brokers do not have room for all."""
    from ortools.graph.python import min_cost_flow

    demand, reach = instance.traffic.demand, instance.reach
    near, costs = reach.brokers[:, :NEAR], reach.costs[:, :NEAR]
    user, place = np.nonzero((near >= 0) & (demand[:, None] > 0))
    broker, size = near[user, place].astype(np.int64), len(instance.network)
    amount = np.maximum(np.rint(demand / max(demand.max(initial=0.0), 1e-300) * UNITS), 1).astype(np.int64)
    scale = UNITS / max(demand.max(initial=0.0), 1e-300)
    room = np.minimum(np.floor(np.minimum(instance.capacity, demand.sum() + 1) * scale), 2.0**50).astype(np.int64)
    byte = costs[user, place] / demand[user]
    price = np.rint(byte / max(byte.max(initial=0.0), 1e-300) * UNITS).astype(np.int64)
    flow = min_cost_flow.SimpleMinCostFlow()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(user, len(near) + broker, amount[user], price)
    end = len(near) + size
    flow.add_arcs_with_capacity_and_unit_cost(
        len(near) + np.arange(size), np.full(size, end), room, np.zeros(size, int)
    )
    moving = np.flatnonzero(demand > 0)
    flow.set_nodes_supplies(moving, amount[moving])
    flow.set_nodes_supplies(np.array([end]), np.array([-int(amount[moving].sum())]))
    if flow.solve() != flow.OPTIMAL:
        return None
    carried = np.zeros(near.shape, np.int64)
    carried[user, place] = flow.flows(arcs)
    return repaired(instance, near[np.arange(len(near)), carried.argmax(axis=1)].astype(np.int64))
