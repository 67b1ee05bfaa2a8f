"""SLP of Yu, Agarwal and Yang: filters by linear programming on a sample, subscribers by maximum flow.

``filter_assign`` is their Algorithm 1, ``lp_relax`` its linear programme with randomised rounding; ``slp1`` is for one
level, ``slp`` goes down a tree, and ``slp_bottom_up`` is what they compare it with: ``slp1`` on all leaves, and the
filters of the other brokers fitted to those below.

Where the paper is silent: ε is 0.1; an iteration is repeated at most 20 times until it is valid; if the programme has
no solution at the load factor that is wanted, the largest is tried; whoever no filter serves in the end, as rounding
leaves no room, is assigned as Gr* with a flow ahead does. In ``slp`` a child may take a subscriber if at least γ̄ of the
capacity below it is in time for it (or any, if no child has as much), and its capacity is that of its leaves; the last
level is repaired by the same flow.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from overstory.kernels.enlarging import Filters, no_filters
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.candidate_filters import PER_BROKER, candidates, super_subscriptions
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.flowing import flow_to
from overstory.planners.assignment.greedy import ground_of
from overstory.planners.assignment.linear import Solution, solved
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import Problem, Truths, as_words, problem_of
from overstory.planners.assignment.search import assign_all
from overstory.planners.steps import Steps

EXPANSION = 0.1  # ε
FOR_LOAD = 10  # subscribers for each broker whose loads the programme looks at
RETRIES = 20
ROUNDINGS = 20
SHARE_IN_TIME = 0.3  # γ̄
MOST_SAMPLED = 4000


class Task(NamedTuple):
    """One level: who is to be assigned to which brokers."""

    sums: Floats
    prices: Floats  # by broker
    rectangles: Ints
    rectangle: Ints  # by subscriber
    which: Ints  # by subscriber: its class
    mask: Truths  # by class and broker
    fair: Floats  # by broker: its subscribers under a load factor of one
    boxes: int
    wanted: float
    most: float


class Relaxed(NamedTuple):
    """A filter for each broker: ``chosen`` is by broker and candidate."""

    chosen: Truths
    boxes: Ints  # the candidates
    fractional: float  # the value of the programme: no bound, as it is of a sample and of these candidates alone
    sampled: int


def filter_assign(task: Task, supers: bool, seed: int, expansion: float = EXPANSION) -> Relaxed | None:
    """Algorithm 1: filters that cover everybody, by iterative reweighted sampling."""
    draw, count, group = np.random.default_rng(seed), len(task.rectangle), 4
    while group <= count:
        weights = np.ones(count)
        sample = min(ceil(10 * group * log(group)), count)
        for _ in range(max(ceil(4 * group * log(count / group)), 1)):
            for _ in range(RETRIES):
                chosen = _weighted_sample(weights, min(sample, MOST_SAMPLED), draw)
                found = _with_loads(task, chosen, supers, draw)
                if found is None:
                    return None
                wide = found._replace(boxes=expanded(found.boxes, expansion, task.sums.shape))
                if not violated(task, wide).any():
                    return wide
                uncovered = violated(task, found)
                if weights[uncovered].sum() <= expansion * weights.sum():
                    break
            weights[uncovered] *= 2
        group *= 2
    return None


def _weighted_sample(weights: Floats, size: int, draw: np.random.Generator) -> Ints:
    """Without replacement, each with a probability that its weight gives (Efraimidis and Spirakis)."""
    keys = -np.log(draw.random(len(weights))) / weights
    return np.argpartition(keys, size - 1)[:size] if size < len(keys) else np.arange(len(keys))


def _with_loads(task: Task, chosen: Ints, supers: bool, draw: np.random.Generator) -> Relaxed | None:
    """FilterAssignHelper: a sample for loads is added; it is drawn anew where there is no solution with it."""
    brokers, count = len(task.fair), len(task.rectangle)
    for factor in (task.wanted, task.most):
        for _ in range(max(ceil(log(count)), 1) if factor == task.wanted else 1):
            for_load = draw.choice(count, min(FOR_LOAD * brokers, count), replace=False)
            every = np.unique(np.concatenate([chosen, for_load]))
            rectangles = task.rectangles[task.rectangle[every]]
            around = rectangles
            if supers:
                around = super_subscriptions(rectangles, task.mask[task.which[every]], PER_BROKER * brokers, draw)
            boxes = np.unique(np.concatenate([candidates(around), _missing(around, rectangles)]), axis=0)
            found = lp_relax(task, every, np.isin(every, for_load), boxes, factor, draw)
            if found is not None:
                return found
    return None


def _missing(around: Ints, rectangles: Ints) -> Ints:
    """The hull of all subscriptions: it is a candidate whatever the clusters are."""
    low, high = rectangles[:, 0::2].min(axis=0), rectangles[:, 1::2].max(axis=0)
    return np.array([[low[0], high[0], low[1], high[1]]])


def holding(boxes: Ints, rectangles: Ints) -> Truths:
    """By rectangle and box: whether it is within."""
    inside = np.ones((len(rectangles), len(boxes)), bool)
    for at in (0, 2):
        inside &= boxes[None, :, at] <= rectangles[:, None, at]
        inside &= boxes[None, :, at + 1] >= rectangles[:, None, at + 1]
    return inside


def programme(task: Task, every: Ints, for_load: Truths, boxes: Ints, factor: float) -> tuple[Solution | None, Ints]:
    """The relaxation of (C1) to (C4), over classes of sampled subscribers with equal rectangles and brokers; and by
    column of a box, broker and box."""
    keys = task.rectangle[every] * len(task.mask) + task.which[every]
    pairs, inverse = np.unique(keys, return_inverse=True)
    rectangle, which = np.divmod(pairs, len(task.mask))
    load = np.bincount(inverse.reshape(-1), for_load, len(pairs))
    inside = holding(boxes, task.rectangles[rectangle])
    pair, broker = np.nonzero(task.mask[which])
    useful = (task.mask[which].T.astype(np.float32) @ inside.astype(np.float32)) > 0
    at_broker, at_box = np.nonzero(useful)
    column = np.full(useful.shape, -1)
    column[at_broker, at_box] = len(pair) + np.arange(len(at_broker))
    brokers, size = len(task.fair), len(pair) + len(at_broker)
    nest_row, nest_box = np.nonzero(inside[pair])
    rows = [at_broker, brokers + pair, brokers + len(pairs) + broker, 2 * brokers + len(pairs) + nest_row]
    rows.append(2 * brokers + len(pairs) + np.arange(len(pair)))
    columns = [len(pair) + np.arange(len(at_broker)), np.arange(len(pair)), np.arange(len(pair))]
    columns += [column[broker[nest_row], nest_box], np.arange(len(pair))]
    ones = np.ones(len(nest_row))
    data = [np.ones(len(at_broker)), np.ones(len(pair)), load[pair], ones, -np.ones(len(pair))]
    shape = (2 * brokers + len(pairs) + len(pair), size)
    matrix = csr_array((np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    low = np.concatenate(
        [np.full(brokers, -np.inf), np.ones(len(pairs)), np.full(brokers, -np.inf), np.zeros(len(pair))]
    )
    room = factor * task.fair * (load.sum() / max(len(task.rectangle), 1))
    high = np.concatenate(
        [np.full(brokers, float(task.boxes)), np.full(len(pairs), np.inf), room, np.full(len(pair), np.inf)]
    )
    weight = weights_of(task.sums, boxes)
    cost = np.concatenate([np.zeros(len(pair)), task.prices[at_broker] * weight[at_box]])
    return solved(cost, np.ones(size), matrix, low, high), np.stack([at_broker, at_box])


def weights_of(sums: Floats, boxes: Ints) -> Floats:
    first_x, last_x, first_y, last_y = boxes.T
    return np.asarray(sums[last_x, last_y] - sums[first_x, last_y] - sums[last_x, first_y] + sums[first_x, first_y])


def lp_relax(
    task: Task, every: Ints, for_load: Truths, boxes: Ints, factor: float, draw: np.random.Generator
) -> Relaxed | None:
    """LPRelax: solves the relaxation and rounds it until the sample is covered."""
    solution, columns = programme(task, every, for_load, boxes, factor)
    if solution is None:
        return None
    fractions = np.clip(solution.variables[-columns.shape[1] :], 0.0, 1.0)
    chance = 1 - (1 - fractions) ** (2 * log(max(len(every), 2)))
    chosen = np.zeros((len(task.fair), len(boxes)), bool)
    part = task._replace(rectangle=task.rectangle[every], which=task.which[every])
    for _ in range(ROUNDINGS):
        chosen[:] = False
        taken = draw.random(len(chance)) < chance
        chosen[columns[0, taken], columns[1, taken]] = True
        found = Relaxed(chosen, boxes, solution.value, len(every))
        if not violated(part, found).any():
            break
    return found


def violated(task: Task, found: Relaxed) -> Truths:
    """By subscriber: whether no broker in time has a filter with a box around what it wants."""
    return np.asarray(~np.asarray(covering(task, found)[task.rectangle] & task.mask[task.which]).any(axis=1))


def covering(task: Task, found: Relaxed) -> Truths:
    """By rectangle and broker: whether the filter has a box around it."""
    inside = holding(found.boxes, task.rectangles).astype(np.float32)
    return np.asarray(inside @ found.chosen.T.astype(np.float32) > 0)


def expanded(boxes: Ints, expansion: float, shape: tuple[int, ...]) -> Ints:
    """Each box enlarged by a share of its sides, in whole cells, as far as event space goes."""
    wide = boxes.copy()
    for at, end in ((0, shape[0] - 1), (2, shape[1] - 1)):
        more = np.ceil(expansion / 2 * (boxes[:, at + 1] - boxes[:, at])).astype(np.int64)
        wide[:, at] = np.maximum(boxes[:, at] - more, 0)
        wide[:, at + 1] = np.minimum(boxes[:, at + 1] + more, end)
    return wide


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


def slp1(problem: Problem, supers: bool, seed: int) -> tuple[Ints, Filters, float]:
    """On all leaves; the fractional value of the programme is returned beside."""
    task = task_of(problem)
    found = filter_assign(task, supers, seed)
    leaves = len(problem.fair)
    had = no_filters(len(problem.brokers.nodes), problem.boxes)
    if found is None:
        leaf, filters = assign_all(problem, ground_of(problem, problem.factor), had)
        return leaf, filters, np.nan
    leaf = assign_subscribers(task, covering(task, found), factors_of(problem))
    if (leaf < 0).any():
        served = leaf >= 0
        part = fitted_part(problem, leaf, served)
        had.boxes[:leaves], had.counts[:leaves] = part.boxes[:leaves], part.counts[:leaves]
        had.weights[:leaves] = part.weights[:leaves]
        leaf, filters = assign_all(problem, ground_of(problem, problem.factor), part)
        return leaf, filters, found.fractional
    return leaf, fitted(problem, leaf), found.fractional


def fitted_part(problem: Problem, leaf: Ints, served: Truths) -> Filters:
    """The filters of those who are assigned."""
    from dataclasses import replace

    part = replace(
        problem, rectangle=problem.rectangle[served], which=problem.which[served], clients=problem.clients[served]
    )
    return fitted(part, leaf[served])


def slp(problem: Problem, supers: bool, seed: int, in_time: float = SHARE_IN_TIME) -> tuple[Ints, Filters, float]:
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
        part, fractional = _divided(problem, children, below, mine, supers, seed, in_time)
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
        return *assign_all(problem, ground_of(problem, problem.factor), part_filters), value
    return leaf, fitted(problem, leaf), value


def _leaves_below(parent: Ints, leaves: int) -> Truths:
    """By node and leaf."""
    found = np.zeros((len(parent), leaves), bool)
    found[np.arange(leaves), np.arange(leaves)] = True
    for node in range(len(parent)):
        if parent[node] >= 0:
            found[parent[node]] |= found[node]
    return found


def _divided(
    problem: Problem, children: Ints, below: Truths, mine: Ints, supers: bool, seed: int, in_time: float
) -> tuple[Ints, float]:
    """The child of each subscriber of a broker, and the value of the programme."""
    fair = below[children] @ problem.fair
    share = (problem.mask.astype(float) * problem.fair) @ below[children].T / np.maximum(fair, 1e-300)
    mask = share >= in_time
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
    found = filter_assign(task, supers, seed) if reachable.all() and len(children) > 1 else None
    covers = np.ones((len(task.rectangles), len(children)), bool) if found is None else covering(task, found)
    part = assign_subscribers(task, covers, rooms)
    if (part < 0).any():
        part = assign_subscribers(task, np.ones_like(covers), [*rooms, np.full(len(children), len(mine))])
    return part, np.nan if found is None else found.fractional


def plan_slp1(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    leaf, filters, _ = slp1(problem, bool(parameters["super_subscriptions"]), seed)
    return decision_of(scenario, base, problem, leaf, filters)


def plan_slp(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    problem = problem_of(scenario, pipeline, base, parameters)
    leaf, filters, _ = slp(problem, bool(parameters["super_subscriptions"]), seed)
    return decision_of(scenario, base, problem, leaf, filters)
