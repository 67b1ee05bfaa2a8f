"""Baselines that group interests first: k-means, packing as of an R-tree, Forgy's method, hypergraph partitioning.

Each gives every leaf a centre in event space, and every subscriber the leaf in time, with room, whose centre is nearest
to what it wants. Whoever finds none is assigned with a flow ahead, as ``assignment-search`` does.
"""

from collections.abc import Callable, Mapping
from math import ceil, sqrt

import numpy as np
import pyarrow as pa

from overstory.kernels.enlarging import Filters
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.blind import closest
from overstory.planners.assignment.completing import assign_all
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.greedy import ground_of
from overstory.planners.assignment.hypergraph import distances_by_part
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.assignment.relaxation import weights_of
from overstory.planners.assignment.slp import fitted_part
from overstory.planners.steps import Steps

ROUNDS = 6
Grouping = Callable[[Problem, int], Ints]


def _middles(problem: Problem) -> Floats:
    rectangles = problem.space.rectangles
    return np.asarray((rectangles[:, 0::2] + rectangles[:, 1::2]) / 2)


def _assigned(problem: Problem, far: Floats) -> Ints:
    """``far`` is by rectangle and leaf: to the nearest in time with room; -1 of those who find none."""
    distances = np.where(problem.mask[problem.which], far[problem.rectangle], np.inf)
    return closest(distances, problem.capacity(problem.factor))


def by_k_means(problem: Problem, seed: int) -> Ints:
    """Lloyd's rounds on the middles of rectangles, from middles drawn by how many want them."""
    middles, draw = _middles(problem), np.random.default_rng(seed)
    centres = middles[draw.choice(problem.rectangle, len(problem.fair))] + draw.random((len(problem.fair), 2))
    for number in range(ROUNDS):
        far = np.linalg.norm(middles[:, None] - centres[None], axis=2)
        leaf = _assigned(problem, far)
        if number < ROUNDS - 1:
            served = leaf >= 0
            counts = np.bincount(leaf[served], minlength=len(centres))
            for axis in range(2):
                sums = np.bincount(leaf[served], middles[problem.rectangle[served], axis], len(centres))
                centres[:, axis] = np.where(counts > 0, sums / np.maximum(counts, 1), centres[:, axis])
    return leaf


def by_packing(problem: Problem, seed: int) -> Ints:
    """Sort-tile-recursive packing (Leutenegger et al., 1997) of everybody into as many tiles as there are leaves."""
    middles, leaves = _middles(problem)[problem.rectangle], len(problem.fair)
    slices = ceil(sqrt(leaves))
    order = np.argsort(middles[:, 0], kind="stable")
    centres: list[Floats] = []
    for some in np.array_split(order, slices):
        tiles = leaves // slices + (len(centres) + leaves // slices < leaves and leaves % slices > 0)
        for tile in np.array_split(some[np.argsort(middles[some, 1], kind="stable")], max(tiles, 1)):
            centres.append(middles[tile].mean(axis=0) if len(tile) else middles.mean(axis=0))
    while len(centres) < leaves:
        centres.append(centres[len(centres) % slices])
    far = np.linalg.norm(_middles(problem)[:, None] - np.array(centres[:leaves])[None], axis=2)
    return _assigned(problem, far)


def by_forgy(problem: Problem, seed: int) -> Ints:
    """Forgy's method on interests (Riabov et al., 2002): to the leaf whose box wastes least, boxes anew each round."""
    rectangles, sums, draw = problem.space.rectangles, problem.space.sums, np.random.default_rng(seed)
    boxes = rectangles[draw.choice(problem.rectangle, len(problem.fair))].copy()
    for _ in range(ROUNDS):
        wide = np.empty((len(rectangles), len(boxes), 4), np.int64)
        wide[:, :, 0::2] = np.minimum(rectangles[:, None, 0::2], boxes[None, :, 0::2])
        wide[:, :, 1::2] = np.maximum(rectangles[:, None, 1::2], boxes[None, :, 1::2])
        waste = (
            weights_of(sums, wide.reshape(-1, 4)).reshape(len(rectangles), -1) - weights_of(sums, rectangles)[:, None]
        )
        leaf = _assigned(problem, waste)
        for each in range(len(boxes)):
            mine = rectangles[problem.rectangle[leaf == each]]
            if len(mine):
                boxes[each] = mine[np.abs(mine - np.median(mine, axis=0)).sum(axis=1).argmin()]  # a typical one
    return leaf


def by_hypergraph(problem: Problem, seed: int) -> Ints:
    """To a leaf of one's part of the hypergraph of interests: see ``hypergraph``."""
    return _assigned(problem, distances_by_part(problem, seed))


def _planned(grouping: Grouping) -> Callable[..., dict[str, pa.Table]]:
    def plan(
        scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
    ) -> dict[str, pa.Table]:
        problem = problem_of(scenario, pipeline, base, parameters)
        leaf, filters = completed(problem, grouping(problem, seed))
        return decision_of(scenario, base, problem, leaf, filters)

    return plan


def completed(problem: Problem, leaf: Ints) -> tuple[Ints, Filters]:
    """With everybody assigned, and filters."""
    if (leaf >= 0).all():
        return leaf, fitted(problem, leaf)
    return assign_all(problem, ground_of(problem, problem.factor), fitted_part(problem, leaf, leaf >= 0))


plan_k_means, plan_packing, plan_forgy = _planned(by_k_means), _planned(by_packing), _planned(by_forgy)
plan_hypergraph = _planned(by_hypergraph)
