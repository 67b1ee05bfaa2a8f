"""Planners that do not look at what subscribers want: ``closest``, ``closest-unbalanced`` and ``balance``.

Filters are fitted afterwards to whatever each broker got.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.model.access import access_of
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.balancing import max_flow
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import CLIENTS_AT_ONCE, Problem, problem_of
from overstory.planners.steps import Steps


def last_hops(scenario: Scenario, problem: Problem) -> Floats:
    """By subscriber and leaf: milliseconds of the access link."""
    links, ids = access_of(scenario), problem.brokers.network.ids[problem.brokers.leaves]
    found = np.empty((len(problem.clients), len(ids)))
    for start in range(0, len(problem.clients), CLIENTS_AT_ONCE):
        some = problem.clients[start : start + CLIENTS_AT_ONCE]
        found[start : start + len(some)] = links.down(some[:, None], ids).delays
    return found


def closest(far: Floats, capacity: Ints | None) -> Ints:
    """Each subscriber to its closest leaf; with a capacity, a full one is dropped for those who come after, and -1 is
    for whom there is none left (``far`` is infinite where a leaf is out of reach). A round assigns, in the order of the
    table, all up to the first that a broker becomes full with."""
    if capacity is None:
        return np.asarray(far.argmin(axis=1))
    found, far = np.full(len(far), -1), far.copy()
    load, start = np.zeros(far.shape[1], np.int64), 0
    while start < len(far):
        best = far[start:].argmin(axis=1)
        best = np.where(np.isinf(far[start:][np.arange(len(best)), best]), -1, best)
        end = _first_beyond(best, capacity - load)
        found[start : start + end] = best[:end]
        load += np.bincount(best[:end][best[:end] >= 0], minlength=len(load))
        start += end
        far[start:, load >= capacity] = np.inf
    return found


def _first_beyond(best: Ints, room: Ints) -> int:
    """How many come before somebody finds the leaf full."""
    end = len(best)
    for leaf in np.unique(best[best >= 0]).tolist():
        mine = np.flatnonzero(best[:end] == leaf)
        if len(mine) > room[leaf]:
            end = int(mine[room[leaf]])
    return end


def balanced(problem: Problem) -> Ints:
    """An assignment in time with the least load factor of all."""
    capacity = problem.capacity(problem.least)
    flow = max_flow(problem.mask, problem.counts, capacity)
    members = np.argsort(problem.which, kind="stable")
    found = np.empty(len(problem.clients), np.int64)
    order = np.argsort(flow.classes, kind="stable")
    found[members] = np.repeat(flow.brokers[order], flow.amounts[order])
    return found


def plan_closest(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    far = last_hops(scenario, problem)
    leaf = closest(far, problem.capacity(problem.most))
    leaf = np.where(leaf < 0, far.argmin(axis=1), leaf)  # there is no room anywhere: loads no longer matter
    return decision_of(scenario, base, problem, leaf, fitted(problem, leaf))


def plan_closest_unbalanced(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    leaf = closest(last_hops(scenario, problem), None)
    return decision_of(scenario, base, problem, leaf, fitted(problem, leaf))


def plan_balance(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    leaf = balanced(problem)
    return decision_of(scenario, base, problem, leaf, fitted(problem, leaf))
