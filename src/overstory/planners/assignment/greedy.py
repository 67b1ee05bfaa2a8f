"""The planners ``gr``, ``gr-star`` and ``gr-no-latency`` of Yu, Agarwal and Yang: see ``kernels.greedy``.

They try the load factor that is wanted, then larger ones up to the largest. If nobody finds a place within that, the
rest is assigned regardless of loads: a best effort, whose plan exceeds its limits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.kernels import greedy as kernels
from overstory.kernels.enlarging import grown_for, no_filters
from overstory.kernels.greedy import Ground, State
from overstory.kernels.reserving import Ahead
from overstory.kernels.volumes import coarse_of
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.balancing import max_flow
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import Problem, as_words, problem_of
from overstory.planners.steps import Steps
from overstory.planners.trees.parameters import truth_of

EVICTIONS = {"none": kernels.NO_EVICTION, "next": kernels.NEXT, "later": kernels.LATER}
STEPS = 3  # load factors from the wanted one to the largest


def ground_of(problem: Problem, factor: float) -> Ground:
    brokers, space = problem.brokers, problem.space
    return Ground(
        space.sums,
        coarse_of(space.sums),
        brokers.prices,
        brokers.parent,
        space.rectangles,
        problem.words,
        problem.fair,
        problem.capacity(factor),
    )


def empty_state(problem: Problem) -> State:
    leaves = len(problem.brokers.leaves)
    return State(
        no_filters(len(problem.brokers.nodes), problem.boxes),
        np.zeros((len(problem.space.rectangles), problem.words.shape[1]), np.uint64),
        np.zeros(leaves, np.int64),
        np.full(len(problem.clients), -1),
    )


def factors(problem: Problem) -> list[float]:
    return [float(each) for each in np.unique(np.linspace(problem.wanted, problem.most, STEPS))]


def gr(problem: Problem, seed: int, evict: str = "none") -> State:
    """Subscribers come in an order that the seed gives."""
    order = np.random.default_rng(seed).permutation(len(problem.clients))

    def assign(ground: Ground, state: State) -> int:
        grown, how = grown_for(problem.boxes), EVICTIONS[evict]
        return kernels.in_order(ground, state, problem.rectangle, problem.which, order, grown, how, seed)

    return _tried(problem, assign)


def gr_star(problem: Problem, residual: bool = False, tries: Sequence[float] = ()) -> State:
    """With ``residual`` every assignment leaves a flow for all who come after, so that none is left over if there is
    any assignment within the largest load factor. ``tries`` are other load factors than the usual ones."""
    offsets, members = by_class(problem)

    def assign(ground: Ground, state: State) -> int:
        ahead = ahead_of(problem, ground) if residual else nobody_ahead(ground)
        if ahead is None:
            return len(problem.clients)
        return kernels.fewest_first(ground, state, problem.rectangle, offsets, members, grown_for(problem.boxes), ahead)

    return _tried(problem, assign, tries)


def by_class(problem: Problem) -> tuple[Ints, Ints]:
    members = np.argsort(problem.which, kind="stable")
    return np.searchsorted(problem.which[members], np.arange(len(problem.words) + 1)), members


def nobody_ahead(ground: Ground) -> Ahead:
    return Ahead(np.zeros((0, 0), np.int32), ground.capacity, ground.capacity, ground.words)


def ahead_of(problem: Problem, ground: Ground) -> Ahead | None:
    """A flow that assigns everybody, None if there is none."""
    found = max_flow(problem.mask, problem.counts, ground.capacity)
    if found.value < len(problem.clients):
        return None
    flow = np.zeros(problem.mask.shape, np.int32)
    flow[found.classes, found.brokers] = found.amounts
    return Ahead(flow, flow.sum(axis=0).astype(np.int64), ground.capacity, ground.words)


def _tried(problem: Problem, assign: Callable[[Ground, State], int], tries: Sequence[float] = ()) -> State:
    for factor in tries or factors(problem):
        ground, state = ground_of(problem, factor), empty_state(problem)
        if assign(ground, state) == 0:
            return state
    kernels.regardless(ground, state, problem.rectangle, problem.which, grown_for(problem.boxes))
    return state


def without_latency(problem: Problem) -> Problem:
    everywhere = np.ones((1, len(problem.fair)), bool)
    return replace(problem, words=as_words(everywhere), which=np.zeros(len(problem.clients), np.int64))


def plan_gr(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    evict = str(parameters["evict"])
    if evict not in EVICTIONS:
        raise UsageError(f"evict={evict}: it is {', '.join(EVICTIONS)}")
    problem = problem_of(scenario, pipeline, base, parameters)
    state = gr(problem, seed, evict)
    return decision_of(scenario, base, problem, state.leaf, state.filters)


def plan_gr_star(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    residual = truth_of(parameters, "residual")
    problem = problem_of(scenario, pipeline, base, parameters)
    state = gr_star(problem, residual)
    return decision_of(scenario, base, problem, state.leaf, state.filters)


def plan_gr_no_latency(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = without_latency(problem_of(scenario, pipeline, base, parameters))
    state = gr(problem, seed)
    return decision_of(scenario, base, problem, state.leaf, state.filters)
