"""FilterAssign of Yu, Agarwal and Yang (their Algorithm 1): filters by linear programming on a coreset of subscribers.

``filter_assign`` finds the coreset by iterative reweighted sampling, ``lp_relax`` solves the linear programme of a
sample and rounds it. Where the paper is silent: ε is 0.1; an iteration is repeated at most 20 times until it is valid;
if the programme has no solution at the load factor that is wanted, the largest is tried.
"""

from math import ceil, log
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overstory.model.network import Floats, Ints
from overstory.planners.assignment.candidate_filters import OVERLAP, PER_BROKER, candidates, super_subscriptions
from overstory.planners.assignment.linear import Solution, solved
from overstory.planners.assignment.problem import Truths

RETRIES = 20
ROUNDINGS = 20
MOST_SAMPLED = 4000


class Knobs(NamedTuple):
    """What the paper sets once and for all, or leaves to its report."""

    super_subscriptions: bool = True
    per_broker: int = PER_BROKER  # super-subscriptions
    expansion: float = 0.1  # ε
    overlap: float = OVERLAP  # η
    for_load: int = 10  # subscribers for each broker whose loads the programme looks at (S_b)
    sampled: float = 10.0  # g ln g times this are drawn (Q)
    in_time: float = 0.3  # γ̄ of several levels


USUAL = Knobs()


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
    sampled: int  # S_a, the subscribers of the programme
    certificate: int = 0  # Q, the drawn ones among them: with their filters, expanded, everybody is covered (Lemma 1)
    guess: int = 0  # g, for which they were found
    iterations: int = 0  # with that g, valid or not
    valid: int = 0  # of all iterations with any g, the ones that left little weight uncovered (Lemma 3)
    tried: int = 0  # all iterations with any g


def filter_assign(task: Task, seed: int, knobs: Knobs = USUAL) -> Relaxed | None:
    """Algorithm 1: filters that cover everybody, by iterative reweighted sampling."""
    draw, count, group, valid, tried = np.random.default_rng(seed), len(task.rectangle), 4, 0, 0
    while group <= count:
        weights, before = np.ones(count), tried
        sample = min(ceil(knobs.sampled * group * log(group)), count, MOST_SAMPLED)
        for _ in range(most_iterations(group, count)):
            for _ in range(RETRIES):
                chosen = _weighted_sample(weights, sample, draw)
                found = _with_loads(task, chosen, knobs, draw)
                if found is None:
                    return None
                tried += 1
                wide = found._replace(boxes=expanded(found.boxes, knobs.expansion, task.sums.shape))
                uncovered = violated(task, found)
                is_valid = bool(weights[uncovered].sum() <= knobs.expansion * weights.sum())
                valid += is_valid
                if not violated(task, wide).any():
                    return wide._replace(
                        certificate=sample, guess=group, iterations=tried - before, valid=valid, tried=tried
                    )
                if is_valid:
                    break
            weights[uncovered] *= 2
        group *= 2
    return None


def most_iterations(group: int, count: int) -> int:
    """Valid iterations after which a certificate of such a size would have been found (Lemma 2)."""
    return max(ceil(4 * group * log(count / group)), 1)


def _weighted_sample(weights: Floats, size: int, draw: np.random.Generator) -> Ints:
    """Without replacement, each with a probability that its weight gives (Efraimidis and Spirakis)."""
    keys = -np.log(draw.random(len(weights))) / weights
    return np.argpartition(keys, size - 1)[:size] if size < len(keys) else np.arange(len(keys))


def _with_loads(task: Task, chosen: Ints, knobs: Knobs, draw: np.random.Generator) -> Relaxed | None:
    """FilterAssignHelper: a sample for loads is added; it is drawn anew where there is no solution with it."""
    brokers, count = len(task.fair), len(task.rectangle)
    for factor in (task.wanted, task.most):
        for _ in range(max(ceil(log(count)), 1) if factor == task.wanted else 1):
            for_load = draw.choice(count, min(knobs.for_load * brokers, count), replace=False)
            every = np.unique(np.concatenate([chosen, for_load]))
            rectangles = task.rectangles[task.rectangle[every]]
            around = rectangles
            if knobs.super_subscriptions:
                around = super_subscriptions(rectangles, task.mask[task.which[every]], knobs.per_broker * brokers, draw)
            boxes = np.unique(np.concatenate([candidates(around, knobs.overlap), _whole(rectangles)]), axis=0)
            found = lp_relax(task, every, np.isin(every, for_load), boxes, factor, draw)
            if found is not None:
                return found
    return None


def _whole(rectangles: Ints) -> Ints:
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
