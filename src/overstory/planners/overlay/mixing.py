"""Steiner-tree mixing (Zhao and Wu, section IV): a tree for each publisher and channel, then a broker for each client.

1. For each publisher and channel a tree grows to all clients that want it (Algorithm 3, as Prim's method on clients:
   the next one is the nearest over any broker; the printed code has names that it never defines). On the links of a
   client to brokers lies the traffic of all trees.
2. Each client draws one of its brokers, with the probability that its traffic has.
3. Brokers are joined: ``core=spanning`` by a spanning tree for each publishing broker and channel, ``core=tree`` by
   one.

A broker that is given more than its capacity passes clients on, the smallest first, to the cheapest broker with room.
Where prices of access obey the triangle inequality, every tree attaches all clients to the publisher's broker.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_paper import draw_brokers, pack, vote
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.greedy_packing import placed_anyhow
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    core = check_core(parameters["core"])
    instance = Instance(scenario, pipeline, parameters["channels"], traffic=parameters["traffic"])
    at = mixed(instance, seed)
    return Decision(plan_tables(instance, at, core), {}, room_for(instance, at))


def mixed(instance: Instance, seed: int) -> Ints:
    votes = votes_of(instance)
    drawn = draw_brokers(votes, np.random.default_rng(seed).random(len(votes)))
    at = np.where(drawn == NONE, instance.reach.brokers[:, 0], drawn)
    return repaired(instance, at)


def votes_of(instance: Instance) -> Floats:
    """Phase 1: by user and broker the traffic of all trees on the link between them."""
    prices, far, traffic = instance.prices, instance.ways.far, instance.traffic
    votes = np.zeros(prices.shape)
    wants, rates = instance.wants_matrix(), instance.rates_matrix()
    for channel in range(traffic.channels):
        users, publishers = np.flatnonzero(wants[:, channel]), np.flatnonzero(rates[:, channel])
        if len(users) and len(publishers):
            vote(prices, far, users, publishers, rates[publishers, channel], votes)
    return votes


def repaired(instance: Instance, at: Ints) -> Ints:
    """Capacities hold, as far as there is room: brokers keep their largest users, the others are packed again."""
    demand, capacity = instance.traffic.demand, instance.capacity
    order = np.lexsort((-demand, at))
    filled = np.cumsum(demand[order])
    starts = np.searchsorted(at[order], np.arange(len(capacity)))
    before = np.concatenate([[0.0], filled])[starts]
    stays = np.empty(len(at), bool)
    stays[order] = filled - before[at[order]] <= capacity[at[order]]
    if stays.all():
        return at
    found, load = np.where(stays, at, NONE), np.bincount(at[stays], demand[stays], len(capacity)).astype(np.float64)
    moving = np.flatnonzero(~stays)
    moving = moving[np.argsort(-demand[moving], kind="stable")]
    packed = pack(moving, instance.reach.brokers, demand, capacity, load)
    found[moving] = packed[moving]
    return placed_anyhow(instance, found, load)
