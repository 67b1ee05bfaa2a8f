"""``assignment-search``: large-neighbourhood search from a start that never paints itself into a corner.

1. The start is Gr* with a flow ahead: every assignment leaves a place for all who come after, so that there is a start
   within the load factor whenever a maximum flow proves that there is any assignment.
2. ``kernels.ruining`` improves it on a *coreset* where there are many subscribers: some drawn by chance, which stand
   for the loads, and of each rectangle an extreme one, whose brokers are fewest. Whoever the filters of the
   coreset do not serve (a *violator*) joins it for the next round. Small coresets are soon searched through, and the
   violators make up for what they miss; where everybody costs much more than the coreset, more are drawn.
3. After each round all subscribers are assigned to the filters that were found, enlarged as little as it takes: a
   maximum flow over classes, and its least cut where somebody is left (``repairing``). In the end they are improved as
   a whole.
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
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.flowing import flow_of
from overstory.planners.assignment.greedy import ahead_of, by_class, empty_state, gr_star, ground_of, nobody_ahead
from overstory.planners.assignment.outcome import bandwidth, decision_of
from overstory.planners.assignment.problem import Problem, Truths, distinct_rows, problem_of
from overstory.planners.assignment.repairing import repaired
from overstory.planners.decision import relative_costs
from overstory.planners.steps import Steps
from overstory.planners.trees.parameters import count_of

CORESET, LARGEST = 8_000, 12_000  # items drawn by chance: at first, and at most
ROUNDS = 12
ASTRAY = 1.03  # times the cost of the sample, or of the best, beyond which a result is not worth going on from
ON_CORESET = 0.85  # of the work
TIGHTER = 0.97  # loads of the coreset, as it stands for others by chance
SLACK = 0.0015  # how much dearer than the best an assignment may be, at first
EFFORT = 150  # the usual one: about half a minute of one core for 100,000 subscribers
UNITS = 16  # of a subscriber
WORK = 1 << 21  # for each unit of effort


class Found(NamedTuple):
    leaf: Ints  # by subscriber
    filters: Filters
    costs: dict[str, float]  # by name, what was compared


class Groups(NamedTuple):
    """Subscribers with the same rectangle, class and leaf, as items."""

    items: Items
    leaf: Ints  # by item
    of_subscriber: Ints


def search(problem: Problem, effort: int, seed: int) -> Found:
    start = gr_star(problem, problem.least <= problem.most, [problem.factor])
    begun = fitted(problem, start.leaf, start.filters)
    if problem.least > problem.most:
        return Found(start.leaf, begun, {"gr-star": bandwidth(problem, begun)})
    ground, reach = ground_of(problem, problem.factor), reach_of(problem)
    leaf, filters, budget = start.leaf, begun, work_of(effort)
    if len(grouped(problem, leaf).leaf) > 4 * CORESET:
        leaf, filters = on_coreset(problem, ground, reach, leaf, filters, budget, seed)
        budget = int((1 - ON_CORESET) * budget)
    leaf, filters = improved(problem, ground, reach, leaf, filters, budget, seed)
    ended = fitted(problem, leaf, filters)
    costs = {"gr-star": bandwidth(problem, begun), "search": bandwidth(problem, ended)}
    if costs["gr-star"] <= costs["search"]:
        return Found(start.leaf, begun, costs)
    return Found(leaf, ended, costs)


def work_of(effort: int) -> int:
    """Counted as ``kernels.ruining`` does."""
    return effort * WORK


def reach_of(problem: Problem) -> Reach:
    classes, leaves = np.nonzero(problem.mask)
    offsets = np.searchsorted(classes, np.arange(len(problem.words) + 1))
    parent = problem.brokers.parent
    children = np.argsort(parent, kind="stable")
    child_offsets = np.searchsorted(parent[children], np.arange(len(parent) + 1))
    return Reach(offsets, leaves, child_offsets, children)


def grouped(problem: Problem, leaf: Ints) -> Groups:
    leaves, classes = len(problem.fair), len(problem.words)
    keys = (problem.rectangle * classes + problem.which) * leaves + leaf
    distinct, which, size = np.unique(keys, return_inverse=True, return_counts=True)
    pair, at = np.divmod(distinct, leaves)
    return Groups(Items(*np.divmod(pair, classes), size), at, which.reshape(-1))


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
    """Improves a sample of the items and assigns everybody to its filters, several times; the cheapest for everybody
    is the result."""
    draw = np.random.default_rng(seed)
    best, least = (leaf, filters), bandwidth(problem, filters)
    chosen = np.zeros((len(problem.space.rectangles), len(problem.words)), bool)
    drawn = CORESET
    for number in range(ROUNDS):
        groups = grouped(problem, leaf)
        items, mine, roomy = _coreset(problem, ground, groups, chosen, drawn, draw)
        state = state_of(problem, items, groups.leaf[mine], filters)
        budget = int(ON_CORESET * work) // ROUNDS
        ruining.improve(roomy, reach, items, state, grown_for(problem.boxes), budget, SLACK, seed + number)
        covered = covered_by(problem, state.filters)
        served = (problem.words[groups.items.which] & covered[groups.items.rectangle]).any(axis=1)
        chosen[groups.items.rectangle[~served], groups.items.which[~served]] = True
        leaf, filters = assign_all(problem, ground, state.filters)
        cost = bandwidth(problem, filters)
        if cost > ASTRAY * bandwidth(problem, state.filters):  # the sample was too small to stand for all
            drawn = min(3 * drawn // 2, LARGEST)
        if cost < least:
            best, least = (leaf, filters), cost
        elif cost > ASTRAY * least:
            leaf, filters = best
    return best


def _coreset(
    problem: Problem, ground: Ground, groups: Groups, chosen: Truths, drawn: int, draw: np.random.Generator
) -> tuple[Items, Ints, Ground]:
    """Items drawn by chance, the larger the more probably (Efraimidis and Spirakis), the extreme ones, and those of
    earlier rounds, of which ``chosen`` keeps rectangles and classes. Returns them with their weights, their numbers
    among all items, and the ground that they are searched on."""
    rectangle, which, size = groups.items
    taken = extremes(problem, groups)
    lucky = np.argsort(-np.log(draw.random(len(size))) / size, kind="stable")
    taken[lucky[: max(drawn - int(chosen.sum()), 0)]] = True
    chosen[rectangle[taken], which[taken]] = True
    mine = np.flatnonzero(chosen[rectangle, which])
    items, roomy = _weighted(ground, groups, mine)
    return items, mine, roomy


def extremes(problem: Problem, groups: Groups) -> Truths:
    """Of each rectangle an item with the fewest leaves, and of each class the largest item."""
    choices = problem.mask.sum(axis=1)[groups.items.which]
    order = np.lexsort((choices, groups.items.rectangle))
    found = np.zeros(len(order), bool)
    found[order[np.unique(groups.items.rectangle[order], return_index=True)[1]]] = True
    largest = np.lexsort((-groups.items.size, groups.items.which))
    found[largest[np.unique(groups.items.which[largest], return_index=True)[1]]] = True
    return found


def _weighted(ground: Ground, groups: Groups, mine: Ints) -> tuple[Items, Ground]:
    """The items of a sample, each standing for others at its leaf, so that loads are as they are; finer units make up
    for rounding."""
    leaves = len(ground.capacity)
    load = np.bincount(groups.leaf, groups.items.size, leaves)
    shown = np.bincount(groups.leaf[mine], groups.items.size[mine], leaves)
    scale = UNITS * load / np.maximum(shown, 1)
    size = np.maximum(np.floor(groups.items.size[mine] * scale[groups.leaf[mine]]), 1).astype(np.int64)
    items = Items(groups.items.rectangle[mine], groups.items.which[mine], size)
    present = np.bincount(groups.leaf[mine], size, leaves).astype(np.int64)
    room = np.maximum((TIGHTER * UNITS * ground.capacity).astype(np.int64), present)
    return items, ground._replace(capacity=room)


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
