"""SLP of Yu, Agarwal and Yang: filters by linear programming on a sample, subscribers by maximum flow.

``slp1`` is for one level, ``slp`` goes down a tree. ``slp1`` on several levels is what they compare it with: it works
on all leaves, and the filters of the other brokers are fitted to those below.

Where the paper is silent: whoever no filter serves in the end, as rounding leaves no room, is assigned to filters that
are enlarged as little as it takes. In ``slp`` a child may take a subscriber if at least γ̄ of the capacity below it is
in time for it (or any, if no child has as much), and its capacity is that of its leaves; the last level is repaired in
the same way.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.kernels.enlarging import Filters, no_filters
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.completing import assign_all
from overstory.planners.assignment.filter_assign import USUAL, Knobs, Relaxed, covering, filter_assign
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.flowing import flow_to
from overstory.planners.assignment.greedy import ground_of
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import Problem, Truths, as_words, problem_of
from overstory.planners.assignment.relaxation import Task
from overstory.planners.steps import Steps


class Planned(NamedTuple):
    """The leaf of each subscriber, the filters, and what the linear programmes had to do with it."""

    leaf: Ints
    filters: Filters
    fractional: float  # the value of the programmes, NaN where there was none: no bound
    relaxed: Relaxed | None = None  # of one level


def assign_subscribers(task: Task, covers: Truths, capacities: list[Ints]) -> Ints:
    """The second step: a maximum flow over classes of subscribers with equal brokers; -1 for those who are left. Of
    several capacities the first with which nobody is left, else the last."""
    words = as_words(covers)[task.rectangle] & as_words(task.mask)[task.which]
    return flow_to(words, len(task.fair), capacities)


def task_of(problem: Problem) -> Task:
    leaves = len(problem.fair)
    space = problem.space
    return Task(
        space.sums,
        problem.brokers.prices[:leaves],
        space.rectangles,
        problem.rectangle,
        problem.which,
        problem.mask,
        problem.fair,
        problem.boxes,
        problem.wanted,
        problem.most,
    )


def factors_of(problem: Problem) -> list[Ints]:
    return [problem.capacity(factor) for factor in np.unique(np.linspace(problem.wanted, problem.most, 4))]


def slp1(problem: Problem, seed: int, knobs: Knobs = USUAL) -> Planned:
    """Assigns all subscribers to leaves at once, as SLP1 of the paper does."""
    task = task_of(problem)
    found = filter_assign(task, seed, knobs)
    leaves = len(problem.fair)
    had = no_filters(len(problem.brokers.nodes), problem.boxes)
    if found is None:
        leaf, filters = assign_all(problem, ground_of(problem, problem.factor), had)
        return Planned(leaf, filters, np.nan)
    leaf = assign_subscribers(task, covering(task, found), factors_of(problem))
    if (leaf < 0).any():
        served = leaf >= 0
        part = fitted_part(problem, leaf, served)
        had.boxes[:leaves], had.counts[:leaves] = part.boxes[:leaves], part.counts[:leaves]
        had.weights[:leaves] = part.weights[:leaves]
        leaf, filters = assign_all(problem, ground_of(problem, problem.factor), part)
        return Planned(leaf, filters, found.fractional, found)
    return Planned(leaf, fitted(problem, leaf), found.fractional, found)


def fitted_part(problem: Problem, leaf: Ints, served: Truths) -> Filters:
    """The filters of those who are assigned."""
    part = replace(
        problem, rectangle=problem.rectangle[served], which=problem.which[served], clients=problem.clients[served]
    )
    return fitted(part, leaf[served])


def slp(problem: Problem, seed: int, knobs: Knobs = USUAL) -> Planned:
    """Top down: at each broker its subscribers are divided among its children."""
    parent, leaves = problem.brokers.parent, len(problem.fair)
    below = _leaves_below(parent, leaves)
    leaf = np.full(len(problem.clients), -1)
    waiting, value = [(-1, np.arange(len(problem.clients)))], 0.0
    while waiting:
        node, mine = waiting.pop()
        if not len(mine):
            continue
        children = np.flatnonzero(parent == node)
        part, fractional = _divided(problem, children, below, mine, seed, knobs)
        value += 0.0 if np.isnan(fractional) else fractional
        for number, child in enumerate(children.tolist()):
            ours = mine[part == number]
            if child < leaves:
                leaf[ours] = child
            else:
                waiting.append((child, ours))
    late = ~problem.mask[problem.which, np.maximum(leaf, 0)] | (leaf < 0)
    over = np.bincount(leaf[~late], minlength=leaves) > problem.capacity(problem.factor)
    if late.any() or over.any():
        part_filters = fitted_part(problem, leaf, ~late)
        return Planned(*assign_all(problem, ground_of(problem, problem.factor), part_filters), value)
    return Planned(leaf, fitted(problem, leaf), value)


def _leaves_below(parent: Ints, leaves: int) -> Truths:
    """Whether a leaf is below a node, by node and leaf."""
    found = np.zeros((len(parent), leaves), bool)
    found[np.arange(leaves), np.arange(leaves)] = True
    for node in range(len(parent)):
        if parent[node] >= 0:
            found[parent[node]] |= found[node]
    return found


def _divided(
    problem: Problem, children: Ints, below: Truths, mine: Ints, seed: int, knobs: Knobs
) -> tuple[Ints, float]:
    """The child of each subscriber of a broker, and the value of the programme."""
    fair = below[children] @ problem.fair
    share = (problem.mask.astype(float) * problem.fair) @ below[children].T / np.maximum(fair, 1e-300)
    mask = share >= knobs.in_time
    mask |= (share > 0) & ~mask.any(axis=1, keepdims=True)
    task = task_of(problem)._replace(
        prices=problem.brokers.prices[children],
        rectangle=problem.rectangle[mine],
        which=problem.which[mine],
        mask=mask,
        fair=fair,
    )
    rooms = [np.floor(fair * factor).astype(np.int64) for factor in np.unique([problem.wanted, problem.most])]
    reachable = mask[task.which].any(axis=1)
    found = filter_assign(task, seed, knobs) if reachable.all() and len(children) > 1 else None
    covers = np.ones((len(task.rectangles), len(children)), bool) if found is None else covering(task, found)
    part = assign_subscribers(task, covers, rooms)
    if (part < 0).any():
        part = assign_subscribers(task, np.ones_like(covers), [*rooms, np.full(len(children), len(mine))])
    return part, np.nan if found is None else found.fractional


def knobs_of(parameters: Mapping[str, Value]) -> Knobs:
    """The knobs that parameters name; the usual ones for all others."""
    given: dict[str, Any] = {name: parameters[name] for name in Knobs._fields if name in parameters}
    for name, value in given.items():
        if name != "super_subscriptions" and (isinstance(value, bool | str) or value is None or float(value) <= 0):
            raise UsageError(f"{name}={value}: it is a number above 0")
    return USUAL._replace(**given)


def plan_slp1(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    found = slp1(problem, seed, knobs_of(parameters))
    return decision_of(scenario, base, problem, found.leaf, found.filters)


def plan_slp(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    found = slp(problem, seed, knobs_of(parameters))
    return decision_of(scenario, base, problem, found.leaf, found.filters)
