"""Baselines that reviewers ask for: facility location by local search, a primal-dual, a linear programme, relocation.

All of them attach clients, and leave the core to Steiner trees. None looks at a channel's tree while it decides, as
``overlay-search`` does: a broker that opens for a channel is priced by the way to its nearest neighbour.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import InfeasibleError
from overstory.kernels import overlay_search as kernels
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_stars import Choice, cover_by_stars
from overstory.kernels.overlay_state import access_and_core, new_state
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision
from overstory.planners.overlay.greedy_packing import packed, placed_anyhow
from overstory.planners.overlay.instance import Instance, room_for
from overstory.planners.overlay.mixing import repaired
from overstory.planners.overlay.search import nearest_of, sampled
from overstory.planners.overlay.writing import check_core, plan_tables
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Attach = Callable[[Instance, int], Ints]
Plan = Callable[[Scenario, Steps, Mapping[str, pa.Table], Mapping[str, Value], int], dict[str, pa.Table]]
MOST_TRIES = 400  # open sets that facility location looks at
NEAR = 10  # brokers of each client in the linear programme
MOST_TERMS = 400_000  # constraints of the linear programme


def planner(attach: Attach) -> Plan:
    """The planner of a function that attaches clients."""

    def plan(
        scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
    ) -> dict[str, pa.Table]:
        core = check_core(parameters["core"])
        instance = Instance(scenario, pipeline, parameters["channels"], True, parameters["traffic"])
        at = attach(instance, seed)
        return Decision(plan_tables(instance, at, core), {}, room_for(instance, at))

    return plan


def facility_location(instance: Instance, seed: int) -> Ints:
    """Opens, closes or exchanges one broker at a time while that saves something; everybody goes to the nearest open
    one that has room. Begins with the best of some samples."""
    draw = np.random.default_rng(seed)
    size, tries = len(instance.network), 0
    begins = [packed(instance), *(sampled(instance, count, draw) for count in (1, 3, 10, 30) if count < size)]
    best_cost, at = min(
        ((_cost(instance, each), each) for each in begins if each is not None), key=lambda pair: pair[0]
    )
    is_open = np.bincount(at, minlength=size) > 0
    improved = True
    while improved and tries < MOST_TRIES:
        improved = False
        for broker in draw.permutation(size).tolist():
            tries += 1
            if tries > MOST_TRIES:
                break
            changed = is_open.copy()
            changed[broker] = not changed[broker]
            found = nearest_of(instance, changed) if changed.any() else None
            cost = np.inf if found is None else _cost(instance, found)
            if found is not None and cost < best_cost:
                best_cost, at, is_open, improved = cost, found, changed, True
    return at


def _cost(instance: Instance, at: Ints) -> float:
    return float(sum(access_and_core(new_state(instance.given, at, instance.access_at(at)))))


def publisher_relocation(instance: Instance, seed: int) -> Ints:
    """Cheung and Jacobsen: publishers move towards the brokers of those who want what they publish. Everybody else
    stays at the nearest broker."""
    at = packed(instance)
    state = new_state(instance.given, at, instance.access_at(at))
    publishing = np.flatnonzero(np.diff(instance.traffic.sends.offsets))
    kernels.relocate(state, np.random.default_rng(seed).permutation(publishing), 0.0)
    return state.at.copy()


def opening_prices(instance: Instance) -> Floats:
    """By channel and broker: what it costs at least to bring the channel there, by the way to the nearest broker."""
    far = instance.given.near + np.where(np.eye(len(instance.network), dtype=bool), np.inf, 0.0)
    nearest = np.where(len(far) > 1, far.min(axis=0), 0.0)
    return instance.traffic.total[:, None] * nearest


def primal_dual(instance: Instance, seed: int) -> Ints:
    """Jain, Mahdian and Saberi's greedy, whose analysis is by dual fitting: again and again the broker and the clients
    with the least price for each client, where a broker pays for each channel once."""
    given, demand = instance.given, instance.traffic.demand
    load = np.zeros(len(instance.network))
    choice = Choice(given.kind, given.want_offsets, given.wants, opening_prices(instance), demand, given.capacity)
    at = cover_by_stars(given.brokers, given.costs, choice, load)
    return placed_anyhow(instance, at, load)


def linear_programme(instance: Instance, seed: int) -> Ints:
    """The relaxation, and a draw for each client by its fractions. A broker pays for a channel what it costs at least
    to bring it there, as far as any of its clients who want it is there."""
    fractions = _solved(instance)
    draw = np.random.default_rng(seed)
    total = fractions.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(fractions / np.where(total > 0, total, 1.0), axis=1)
    place = (draw.random((len(fractions), 1)) > cumulated).sum(axis=1).clip(0, fractions.shape[1] - 1)
    at = instance.reach.brokers[np.arange(len(place)), place].astype(np.int64)
    return repaired(instance, np.where(at == NONE, instance.reach.brokers[:, 0], at))


def _solved(instance: Instance) -> Floats:
    """By user and place within its reach: which part of it the relaxation attaches there."""
    from ortools.linear_solver import pywraplp

    given, price = instance.given, opening_prices(instance)
    width = min(NEAR, given.brokers.shape[1])
    users = len(given.kind)
    many = int(np.diff(given.want_offsets)[given.kind].sum()) * width
    if many > MOST_TERMS:
        raise InfeasibleError(f"overlay-lp takes up to {MOST_TERMS:,} constraints, not {many:,}; take overlay-search")
    solver = pywraplp.Solver.CreateSolver("GLOP")
    x = [[solver.NumVar(0, 1, "") if given.brokers[u, k] >= 0 else None for k in range(width)] for u in range(users)]
    opened: dict[tuple[int, int], object] = {}
    objective = solver.Objective()
    objective.SetMinimization()
    room = {int(b): solver.Constraint(0, float(given.capacity[b])) for b in np.flatnonzero(np.isfinite(given.capacity))}
    for user in range(users):
        whole = solver.Constraint(1, 1)
        for place, part in enumerate(x[user]):
            if part is None:
                continue
            broker = int(given.brokers[user, place])
            whole.SetCoefficient(part, 1)
            objective.SetCoefficient(part, float(given.costs[user, place]))
            if broker in room:
                room[broker].SetCoefficient(part, float(given.demand[user]))
            kind = given.kind[user]
            for channel in given.wants[given.want_offsets[kind] : given.want_offsets[kind + 1]].tolist():
                if price[channel, broker] > 0:
                    key = channel, broker
                    if key not in opened:
                        opened[key] = solver.NumVar(0, 1, "")
                        objective.SetCoefficient(opened[key], float(price[channel, broker]))
                    solver.Add(part <= opened[key])
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InfeasibleError(f"capacity: the {width} brokers nearest to each client do not have room for all of them")
    return np.array([[0.0 if part is None else part.solution_value() for part in row] for row in x])
