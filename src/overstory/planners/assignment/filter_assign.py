"""FilterAssign of Yu, Agarwal and Yang (their Algorithm 1): filters by linear programming on a coreset of subscribers.

``filter_assign`` finds the coreset by iterative reweighted sampling, ``lp_relax`` solves the linear programme of a
sample and rounds it. Where the paper is silent:

* ε is 0.1.
* A guess is doubled after six programmes at the latest. That is less than Lemma 2 allows for, but a sample twice as
  large takes little longer to solve, and covers everybody sooner than dozens of small ones.
* If no sample for loads has an assignment at the load factor that is wanted, the largest is tried, and at last the
  least factor that the sample itself has one for: a few subscribers of each broker say little about how tight loads
  are. A maximum flow tells beforehand whether the programme has a solution: as a box around everything is among the
  candidates, it has one just if the sample for loads has an assignment.
* Programmes are solved roughly (see ``linear``) until filters cover everybody. Then that programme is solved to a
  vertex, which gives brokers fewer boxes, and if its filters cover everybody too, they are the result.
"""

from math import ceil, log
from typing import NamedTuple

import numpy as np

from overstory.model.network import Floats, Ints
from overstory.planners.assignment.balancing import is_feasible, least_load_factor, merged
from overstory.planners.assignment.candidate_filters import OVERLAP, PER_BROKER, candidates, super_subscriptions
from overstory.planners.assignment.linear import Programme, Solution, at_a_vertex, roughly_solved
from overstory.planners.assignment.problem import Truths, as_words
from overstory.planners.assignment.relaxation import Task, holding, programme

PROGRAMMES = 6  # for one guess of g
ROUNDINGS = 20
MOST_SAMPLED = 4000
PARTS = 1000  # of a subscriber, in which a sample's share of room is counted


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


class Fraction(NamedTuple):
    """A solution of the relaxation, which is then rounded."""

    programme: Programme
    columns: Ints  # broker and box of each variable y
    solution: Solution
    every: Ints  # S_a
    boxes: Ints

    def at_a_vertex(self) -> "Fraction":
        return self._replace(solution=at_a_vertex(self.programme, self.solution))

    def rounded(self, task: Task, draw: np.random.Generator, knobs: Knobs = USUAL) -> tuple[Relaxed, Relaxed]:
        """Filters that cover the sample, if a few roundings come to that, and these filters expanded."""
        fractions = np.clip(self.solution.variables[-self.columns.shape[1] :], 0.0, 1.0)
        chance = 1 - (1 - fractions) ** (2 * log(max(len(self.every), 2)))
        chosen = np.zeros((len(task.fair), len(self.boxes)), bool)
        part = task._replace(rectangle=task.rectangle[self.every], which=task.which[self.every])
        for _ in range(ROUNDINGS):
            chosen[:] = False
            taken = draw.random(len(chance)) < chance
            chosen[self.columns[0, taken], self.columns[1, taken]] = True
            found = Relaxed(chosen, self.boxes, self.solution.value, len(self.every))
            if not violated(part, found).any():
                break
        return found, found._replace(boxes=expanded(found.boxes, knobs.expansion, task.sums.shape))


def filter_assign(task: Task, seed: int, knobs: Knobs = USUAL) -> Relaxed | None:
    """Algorithm 1: filters that cover everybody, by iterative reweighted sampling."""
    draw, count, group, valid, tried = np.random.default_rng(seed), len(task.rectangle), 4, 0, 0
    while group <= count:
        weights, before, iterations = np.ones(count), tried, 0
        sample = min(ceil(knobs.sampled * group * log(group)), count, MOST_SAMPLED)
        while iterations < most_iterations(group, count) and tried - before < PROGRAMMES:
            helped = _with_loads(task, _weighted_sample(weights, sample, draw), knobs, draw)
            if helped is None:
                return None
            tried += 1
            found, wide = helped.rounded(task, draw, knobs)
            if not helped.solution.is_vertex and not violated(task, wide).any():
                found, wide = helped.at_a_vertex().rounded(task, draw, knobs)
            uncovered = violated(task, found)
            is_valid = bool(weights[uncovered].sum() <= knobs.expansion * weights.sum())
            valid += is_valid
            if not violated(task, wide).any():
                return wide._replace(
                    certificate=sample, guess=group, iterations=tried - before, valid=valid, tried=tried
                )
            if is_valid:
                iterations += 1
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


def _with_loads(task: Task, chosen: Ints, knobs: Knobs, draw: np.random.Generator) -> Fraction | None:
    """FilterAssignHelper: a sample for loads is added; it is drawn anew where there is no solution with it."""
    sample = sample_for_loads(task, knobs.for_load * len(task.fair), draw)
    if sample is None:
        return None
    for_load, factor = sample
    every = np.unique(np.concatenate([chosen, for_load]))
    rectangles = task.rectangles[task.rectangle[every]]
    around = rectangles
    if knobs.super_subscriptions:
        clusters = knobs.per_broker * len(task.fair)
        around = super_subscriptions(rectangles, task.mask[task.which[every]], clusters, draw)
    boxes = np.unique(np.concatenate([candidates(around, knobs.overlap), _whole(rectangles)]), axis=0)
    return lp_relax(task, every, np.isin(every, for_load), boxes, factor)


def sample_for_loads(task: Task, size: int, draw: np.random.Generator) -> tuple[Ints, float] | None:
    """Subscribers (S_b) who have an assignment within their share of all loads, and the load factor for that."""
    count = len(task.rectangle)
    for factor in [task.wanted] * max(ceil(log(count)), 1) + [task.most]:
        found = draw.choice(count, min(size, count), replace=False)
        mask, counts = merged(task.mask[task.which[found]], np.ones(len(found), np.int64))
        share = task.fair * (len(found) / count)
        if is_feasible(mask, counts * PARTS, np.floor(factor * share * PARTS).astype(np.int64)):
            return found, factor
    least = least_load_factor(mask, counts, share)
    return None if np.isinf(least) else (found, least)


def _whole(rectangles: Ints) -> Ints:
    """The hull of all subscriptions: it is a candidate whatever the clusters are."""
    low, high = rectangles[:, 0::2].min(axis=0), rectangles[:, 1::2].max(axis=0)
    return np.array([[low[0], high[0], low[1], high[1]]])


def lp_relax(task: Task, every: Ints, for_load: Truths, boxes: Ints, factor: float) -> Fraction | None:
    """LPRelax: solves the relaxation, roughly where it is large."""
    whole, columns = programme(task, every, for_load, boxes, factor)
    solution = roughly_solved(whole)
    return None if solution is None else Fraction(whole, columns, solution, every, boxes)


def violated(task: Task, found: Relaxed) -> Truths:
    """By subscriber: whether no broker in time has a filter with a box around what it wants."""
    covers, in_time = as_words(covering(task, found)), as_words(task.mask)
    return np.asarray(~(covers[task.rectangle] & in_time[task.which]).any(axis=1))


def covering(task: Task, found: Relaxed) -> Truths:
    """By rectangle and broker: whether the filter has a box around it."""
    used = np.flatnonzero(found.chosen.any(axis=0))
    inside = holding(found.boxes[used], task.rectangles).astype(np.float32)
    return np.asarray(inside @ found.chosen[:, used].T.astype(np.float32) > 0)


def expanded(boxes: Ints, expansion: float, shape: tuple[int, ...]) -> Ints:
    """Each box enlarged by a share of its sides, in whole cells, as far as event space goes."""
    wide = boxes.copy()
    for at, end in ((0, shape[0] - 1), (2, shape[1] - 1)):
        more = np.ceil(expansion / 2 * (boxes[:, at + 1] - boxes[:, at])).astype(np.int64)
        wide[:, at] = np.maximum(boxes[:, at] - more, 0)
        wide[:, at + 1] = np.minimum(boxes[:, at + 1] + more, end)
    return wide
