"""``assignment-search``: large-neighbourhood search from a start that never paints itself into a corner.

1. The start is Gr* with a flow ahead: every assignment leaves a place for all who come after, so that there is a start
   within the load factor whenever a maximum flow proves that there is any assignment.
2. ``kernels.ruining`` improves it: as a whole, and before that, where there are many items (subscribers with the same
   rectangle, class and leaf), on a *coreset* of fewer (``coreset``), drawn anew in each round.
3. After each round all subscribers are assigned to the filters that were found, enlarged as little as it takes: a
   maximum flow over classes, and its least cut where somebody is left (``repairing``).
4. Filters are drawn tight, and the cheaper of the result and the start is the plan.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.kernels import ruining
from overstory.kernels.enlarging import Filters, grown_for
from overstory.kernels.greedy import Ground, State, fewest_first
from overstory.kernels.recreating import Reach
from overstory.kernels.served import Items
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.coreset import coreset, decisive_pairs, grouped
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.flowing import flow_of
from overstory.planners.assignment.greedy import ahead_of, by_class, empty_state, gr_star, ground_of, nobody_ahead
from overstory.planners.assignment.outcome import bandwidth, decision_of
from overstory.planners.assignment.problem import Problem, distinct_rows, problem_of
from overstory.planners.assignment.repairing import repaired
from overstory.planners.decision import relative_costs
from overstory.planners.steps import Steps
from overstory.planners.trees.parameters import count_of

FEW = 120_000  # items; with more there is a coreset
DRAWN = 30_000  # items drawn by chance for it
ROUNDS = 3
ASTRAY = 1.03  # times the cost of the sample, or of the best, beyond which a result is not worth going on from
ON_CORESET = 0.6  # of the work
SLACK = 0.008  # how much dearer than the best an assignment may be, at first
EFFORT = 150  # the usual one: some ten seconds of one core for 100,000 subscribers
WORK = 1 << 21  # for each unit of effort
USUAL = 100_000  # subscribers; more of them get more work
GROWTH = 0.5  # a hundred times as many of them get ten times the work


class Found(NamedTuple):
    leaf: Ints  # by subscriber
    filters: Filters
    costs: dict[str, float]  # by name, what was compared


def search(problem: Problem, effort: int, seed: int) -> Found:
    start = gr_star(problem, problem.least <= problem.most, [problem.factor])
    begun = fitted(problem, start.leaf, start.filters)
    if problem.least > problem.most:
        return Found(start.leaf, begun, {"gr-star": bandwidth(problem, begun)})
    ground, reach = ground_of(problem, problem.factor), reach_of(problem)
    leaf, filters, budget = start.leaf, begun, work_of(effort, len(problem.clients))
    if len(grouped(problem, leaf).leaf) > FEW:
        leaf, filters = on_coreset(problem, ground, reach, leaf, filters, budget, seed)
        budget = int((1 - ON_CORESET) * budget)
    leaf, filters = improved(problem, ground, reach, leaf, filters, budget, seed)
    ended = fitted(problem, leaf, filters)
    costs = {"gr-star": bandwidth(problem, begun), "search": bandwidth(problem, ended)}
    if costs["gr-star"] <= costs["search"]:
        return Found(start.leaf, begun, costs)
    return Found(leaf, ended, costs)


def work_of(effort: int, subscribers: int = USUAL) -> int:
    """Counted as ``kernels.ruining`` does."""
    return int(effort * WORK * max(subscribers / USUAL, 1.0) ** GROWTH)


def reach_of(problem: Problem) -> Reach:
    classes, leaves = np.nonzero(problem.mask)
    offsets = np.searchsorted(classes, np.arange(len(problem.words) + 1))
    parent = problem.brokers.parent
    children = np.argsort(parent, kind="stable")
    child_offsets = np.searchsorted(parent[children], np.arange(len(parent) + 1))
    return Reach(offsets, leaves, child_offsets, children)


def state_of(problem: Problem, items: Items, leaf: Ints, filters: Filters) -> State:
    """Filters are copied, as the search changes them."""
    state = empty_state(problem)
    state.filters.boxes[:], state.filters.counts[:] = filters.boxes, filters.counts
    state.filters.weights[:] = filters.weights
    load = np.bincount(leaf, items.size, len(problem.fair)).astype(np.int64)
    return State(state.filters, covered_by(problem, filters), load, leaf.copy())


def improved(
    problem: Problem, ground: Ground, reach: Reach, leaf: Ints, filters: Filters, budget: int, seed: int
) -> tuple[Ints, Filters]:
    """Improves an assignment as a whole."""
    groups = grouped(problem, leaf)
    state = state_of(problem, groups.items, groups.leaf, filters)
    ruining.improve(ground, reach, groups.items, state, grown_for(problem.boxes), budget, SLACK, seed)
    return state.leaf[groups.of_subscriber], state.filters


def on_coreset(
    problem: Problem, ground: Ground, reach: Reach, leaf: Ints, filters: Filters, work: int, seed: int
) -> tuple[Ints, Filters]:
    """Improves a coreset and assigns everybody to its filters, several times; the cheapest for everybody is the
    result."""
    draw = np.random.default_rng(seed)
    best, least = (leaf, filters), bandwidth(problem, filters)
    decisive = decisive_pairs(problem)
    for number in range(ROUNDS):
        groups = grouped(problem, leaf)
        items, mine, roomy = coreset(ground, groups, decisive, DRAWN, draw)
        state = state_of(problem, items, groups.leaf[mine], filters)
        budget = int(ON_CORESET * work) // ROUNDS
        ruining.improve(roomy, reach, items, state, grown_for(problem.boxes), budget, SLACK, seed + number)
        leaf, filters = assign_all(problem, ground, state.filters)
        cost = bandwidth(problem, filters)
        if cost < least:
            best, least = (leaf, filters), cost
        elif cost > ASTRAY * least:
            leaf, filters = best
    return best


def assign_all(problem: Problem, ground: Ground, filters: Filters) -> tuple[Ints, Filters]:
    """Everybody to filters that are enlarged as little as it takes, by a maximum flow. Whoever is left even so enlarges
    the filter of a broker that has room; if there is none, all are assigned one by one with a flow ahead."""
    filters, covered = repaired(problem, ground, filters)
    pairs = problem.pairs  # several subscribers each, and so fewer rows to compare
    distinct, kind = distinct_rows(problem.words[pairs.which] & covered[pairs.rectangle])
    leaf = flow_of(distinct, kind[pairs.of_subscriber], len(problem.fair), [ground.capacity])
    left = np.flatnonzero(leaf < 0)
    if not len(left):
        return leaf, fitted(problem, leaf, filters)
    load = np.bincount(leaf[leaf >= 0], minlength=len(problem.fair)).astype(np.int64)
    kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
    state = State(kept, covered, load, leaf)
    order = np.argsort(problem.which[left], kind="stable")
    offsets = np.searchsorted(problem.which[left[order]], np.arange(len(problem.words) + 1))
    grown, nobody = grown_for(problem.boxes), nobody_ahead(ground)
    if fewest_first(ground, state, problem.rectangle, offsets, left[order], grown, nobody):
        return _one_by_one(problem, ground, filters)
    return state.leaf, fitted(problem, state.leaf, state.filters)


def _one_by_one(problem: Problem, ground: Ground, filters: Filters) -> tuple[Ints, Filters]:
    """Everybody to filters as they are, enlarged where that is not enough, with a flow ahead."""
    ahead = ahead_of(problem, ground)
    if ahead is None:
        raise AssertionError("there is no assignment within the load factor, though the problem says so")
    state = state_of(problem, Items(*np.zeros((3, 0), np.int64)), np.zeros(0, np.int64), filters)
    state = State(state.filters, state.covered, state.load, np.full(len(problem.clients), -1))
    offsets, members = by_class(problem)
    fewest_first(ground, state, problem.rectangle, offsets, members, grown_for(problem.boxes), ahead)
    return state.leaf, fitted(problem, state.leaf, state.filters)


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    effort = count_of(parameters, "effort")
    problem = problem_of(scenario, pipeline, base, parameters)
    found = search(problem, effort, seed)
    return decision_of(scenario, base, problem, found.leaf, found.filters, relative_costs(found.costs))
