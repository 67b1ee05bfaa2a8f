"""``assignment-search``: large-neighbourhood search from a start that never paints itself into a corner.

1. The start is Gr* with a flow ahead: every assignment leaves a place for all who come after, so that there is a start
   within the load factor whenever a maximum flow proves that there is any assignment.
2. ``kernels.ruining`` improves it, in rounds, on ``lumps`` of subscribers who are alike: few and coarse ones at first,
   finer ones later, at last none.
3. Filters are drawn tight, and the cheaper of the result and the start is the plan.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.kernels import ruining
from overstory.kernels.enlarging import Filters, grown_for
from overstory.kernels.greedy import Ground, State
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.greedy import gr_star, ground_of
from overstory.planners.assignment.lumps import Groups, lumped, unlumped
from overstory.planners.assignment.outcome import bandwidth, decision_of
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.decision import relative_costs
from overstory.planners.steps import Steps
from overstory.planners.trees.parameters import count_of

CELLS = (24, 24, 24, 24, 24, 24, 40, 40, 60, 60, 90, 150, 200, 0)  # of each round's lumps; 0: no lumps
SLACK = 0.02  # how much dearer than the best an assignment may be, at first
EFFORT = 150  # the usual one: some ten seconds of one core for 100,000 subscribers
WORK = 1 << 21  # for each unit of effort
USUAL = 100_000  # subscribers; more of them get more work
GROWTH = 0.55  # a hundred times as many of them get thirteen times the work


class Found(NamedTuple):
    leaf: Ints  # by subscriber
    filters: Filters
    costs: dict[str, float]  # by name, what was compared


def search(problem: Problem, effort: int, seed: int) -> Found:
    start = gr_star(problem, problem.least <= problem.most, [problem.factor])
    begun = fitted(problem, start.leaf, start.filters)
    if problem.least > problem.most:
        return Found(start.leaf, begun, {"gr-star": bandwidth(problem, begun)})
    ground, work = ground_of(problem, problem.factor), work_of(effort, len(problem.clients))
    leaf, filters = improved(problem, ground, start.leaf, begun, work, seed)
    costs = {"gr-star": bandwidth(problem, begun), "search": bandwidth(problem, filters)}
    if costs["gr-star"] <= costs["search"]:
        return Found(start.leaf, begun, costs)
    return Found(leaf, filters, costs)


def work_of(effort: int, subscribers: int = USUAL) -> int:
    """Counted as ``kernels.ruining`` does."""
    return int(effort * WORK * max(subscribers / USUAL, 1.0) ** GROWTH)


def improved(
    problem: Problem, ground: Ground, leaf: Ints, filters: Filters, work: int, seed: int
) -> tuple[Ints, Filters]:
    """Improves an assignment, round by round. ``filters`` hold what everybody wants at his leaf."""
    grown = grown_for(problem.boxes)
    for number, cells in enumerate(CELLS):
        if cells:
            ground_now, reach, groups = lumped(problem, ground, leaf, filters, cells)
        else:
            ground_now, reach, groups = unlumped(problem, ground, leaf)
        state = state_of(ground_now, groups, filters)
        slack = SLACK * (1 - number / len(CELLS))
        ruining.improve(ground_now, reach, groups.items, state, grown, work // len(CELLS), slack, seed + number)
        leaf = state.leaf[groups.of_subscriber]
        filters = fitted(problem, leaf, state.filters)
    return leaf, filters


def state_of(ground: Ground, groups: Groups, filters: Filters) -> State:
    """Filters are copied, as the search changes them, and it finds out by itself what they cover."""
    kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
    load = np.bincount(groups.leaf, groups.items.size, len(ground.capacity)).astype(np.int64)
    covered = np.zeros((len(ground.rectangles), ground.words.shape[1]), np.uint64)
    return State(kept, covered, load, groups.leaf.copy())


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    effort = count_of(parameters, "effort")
    problem = problem_of(scenario, pipeline, base, parameters)
    found = search(problem, effort, seed)
    return decision_of(scenario, base, problem, found.leaf, found.filters, relative_costs(found.costs))
