"""SLP of Yu, Agarwal and Yang: filters by linear programming on a sample, subscribers by maximum flow.

``slp1`` is for one level, ``slp`` goes down a tree. ``slp1`` on several levels is what they compare it with: it works
on all leaves, and the filters of the other brokers are fitted to those below.

Where the paper is silent:

* Whoever no filter serves in the end, as rounding leaves no room, is assigned to filters that are enlarged as little as
  it takes.
* In ``slp`` a child may take a subscriber if at least γ̄ of the capacity below it is in time for it (or any, if no child
  has as much), and its capacity is that of its leaves.
* In ``slp`` the maximum flow goes on to the leaves: whoever is covered by a child may go to any leaf below it that is
  in time, within the load of that leaf. So what a broker passes to its child can be served below it, and if there is
  any assignment, there is one for each broker on the way down. Those whom no flow serves are assigned as in ``slp1``.
* In ``slp`` the flow takes the least of some load factors with which it serves everybody: a child that is not full has
  a choice when it divides in turn.
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

SPARING = 8  # load factors that are tried where subscribers are divided


class Planned(NamedTuple):
    """The leaf of each subscriber, the filters, and what the linear programmes had to do with it."""

    leaf: Ints
    filters: Filters
    fractional: float  # the value of the programmes, NaN where there was none: no bound
    relaxed: Relaxed | None = None  # of one level


def assign_subscribers(task: Task, covers: Truths, below: Truths, capacities: list[Ints]) -> Ints:
    """The second step: a maximum flow over classes of subscribers with equal leaves; -1 for those who are left. What
    brokers cover is by rectangle, and ``below`` says which leaves are below them. Of several capacities the first with
    which nobody is left, else the last."""
    through = as_words(covers.astype(np.float32) @ below.astype(np.float32) > 0)
    words = through[task.rectangle] & as_words(task.mask)[task.which]
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
    task, leaves = task_of(problem), len(problem.fair)
    found = filter_assign(task, seed, knobs)
    if found is None:
        nothing = no_filters(len(problem.brokers.nodes), problem.boxes)
        return Planned(*assign_all(problem, ground_of(problem, problem.factor), nothing), np.nan)
    leaf = assign_subscribers(task, covering(task, found), np.eye(leaves, dtype=bool), factors_of(problem))
    return Planned(*_completed(problem, leaf), found.fractional, found)


def _completed(problem: Problem, leaf: Ints) -> tuple[Ints, Filters]:
    """Assigns those who are left, -1, to filters that serve the others and are enlarged as little as it takes."""
    if (leaf >= 0).all():
        return leaf, fitted(problem, leaf)
    return assign_all(problem, ground_of(problem, problem.factor), fitted_part(problem, leaf, leaf >= 0))


def fitted_part(problem: Problem, leaf: Ints, served: Truths) -> Filters:
    """The filters of those who are assigned."""
    return fitted(part_of(problem, np.flatnonzero(served)), leaf[served])


def part_of(problem: Problem, mine: Ints) -> Problem:
    """The same with some subscribers only."""
    return replace(problem, rectangle=problem.rectangle[mine], which=problem.which[mine], clients=problem.clients[mine])


def slp(problem: Problem, seed: int, knobs: Knobs = USUAL) -> Planned:
    """Top down: at each broker its subscribers are divided among its children."""
    parent, leaves = problem.brokers.parent, len(problem.fair)
    below = leaves_below(parent, leaves)
    leaf = np.full(len(problem.clients), -1)
    waiting, value = [(-1, np.arange(len(problem.clients)))], 0.0
    while waiting:
        node, mine = waiting.pop()
        if not len(mine):
            continue
        children = np.flatnonzero(parent == node)
        leaf[mine], fractional = _divided(part_of(problem, mine), children, below, seed, knobs)
        value += 0.0 if np.isnan(fractional) else fractional
        inner = children[children >= leaves].tolist()
        waiting += [(child, mine[below[child, leaf[mine]]]) for child in inner]
    return Planned(leaf, fitted(problem, leaf), value)


def leaves_below(parent: Ints, leaves: int) -> Truths:
    """Whether a leaf is below a node, by node and leaf."""
    found = np.zeros((len(parent), leaves), bool)
    found[np.arange(leaves), np.arange(leaves)] = True
    for node in range(len(parent)):
        if parent[node] >= 0:
            found[parent[node]] |= found[node]
    return found


def _divided(problem: Problem, children: Ints, below: Truths, seed: int, knobs: Knobs) -> tuple[Ints, float]:
    """A leaf below some child for each subscriber of a broker, and the value of the programme."""
    under = np.flatnonzero(below[children].any(axis=0))
    small = subtree(problem, children, below)
    if len(children) == 1 and len(under) == 1:
        return np.full(len(problem.clients), under[0]), np.nan
    task = _task_of_children(problem, children, below, knobs)
    found = filter_assign(task, seed, knobs) if len(children) > 1 else None
    covers = np.ones((len(task.rectangles), len(children)), bool) if found is None else covering(task, found)
    in_time = task._replace(mask=small.mask, fair=small.fair)
    leaf = assign_subscribers(in_time, covers, below[children][:, under], _sparing(small))
    if (leaf < 0).any():
        had = _as_above(small, fitted_part(small, leaf, leaf >= 0))
        leaf, _ = assign_all(small, ground_of(small, small.factor), had)
    return under[leaf], np.nan if found is None else found.fractional


def _sparing(small: Problem) -> list[Ints]:
    """Capacities from the least possible ones on: a child that is not full has a choice when it divides in turn."""
    factors = np.linspace(min(small.least, small.factor), small.factor, SPARING)
    return [small.capacity(factor) for factor in np.unique(factors)]


def _as_above(small: Problem, filters: Filters) -> Filters:
    """Leaves have the filters of the children that they are below."""
    inner = np.flatnonzero(small.brokers.parent >= 0)
    for had in filters:
        had[inner] = had[small.brokers.parent[inner]]
    return filters


def _task_of_children(problem: Problem, children: Ints, below: Truths, knobs: Knobs) -> Task:
    fair = below[children] @ problem.fair
    share = (problem.mask.astype(float) * problem.fair) @ below[children].T / np.maximum(fair, 1e-300)
    mask = share >= knobs.in_time
    mask |= (share > 0) & ~mask.any(axis=1, keepdims=True)
    return task_of(problem)._replace(prices=problem.brokers.prices[children], mask=mask, fair=fair)


def subtree(problem: Problem, children: Ints, below: Truths) -> Problem:
    """The same for the leaves below some children of a broker, which stand below these children, or where they are
    children themselves, below the root. What happens between a child and its leaves costs nothing."""
    leaves, brokers = len(problem.fair), problem.brokers
    under = np.flatnonzero(below[children].any(axis=0))
    inner = children[children >= leaves]
    parent = np.full(len(under) + len(inner), -1)
    prices = np.concatenate([np.zeros(len(under)), brokers.prices[inner]])
    for number, child in enumerate(inner.tolist()):
        parent[np.flatnonzero(below[child, under])] = len(under) + number
    alone = np.flatnonzero(parent[: len(under)] < 0)
    prices[alone] = brokers.prices[under[alone]]
    nodes = np.concatenate([brokers.nodes[under], brokers.nodes[inner]])
    return replace(
        problem,
        brokers=brokers._replace(nodes=nodes, parent=parent, prices=prices, leaves=brokers.leaves[under]),
        words=as_words(problem.mask[:, under]),
        fair=problem.fair[under],
        others=problem.others[under],
    )


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
