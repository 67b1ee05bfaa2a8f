"""Yardsticks: what no assignment can cost less than, and what linear programming says of small problems.

* ``certified_bound`` holds for every assignment in time within a load factor, whatever its filters: see
  ``kernels.packing``. Where there are several levels, it also counts the brokers on the way down, level by level.
* The linear programme of Yu, Agarwal and Yang over all rectangles has a file of its own, ``all_rectangles``.
* ``exact`` is the optimum of tiny problems by constraint programming, with the weight of unions.
* The *fractional value* of ``slp1`` is none of these: it is of a sample and of few rectangles, and no bound.
"""

from collections.abc import Iterator

import numpy as np

from overstory.kernels.packing import brokers_needed, signatures
from overstory.model.network import Ints
from overstory.planners.assignment.problem import Problem, Truths, as_words
from overstory.planners.assignment.relaxation import holding, weights_of

MOST_BLOCKS = 192  # along each dimension
SECONDS = 60.0


def certified_bound(problem: Problem, factor: float | None = None) -> float:
    """Of the bytes that planners see, under a load factor (by default the largest). Every event enters as many leaves
    as it needs; and of the brokers that are so many links below the root and no leaves, as many as those need who have
    no leaf that is nearer to the root."""
    leaves, space, prices = len(problem.fair), problem.space, problem.brokers.prices
    blocks = blocks_of(space.rectangles, space.sums.shape)
    weight = weights_of(space.sums, blocks)
    blocks, weight = blocks[weight > 0], weight[weight > 0]
    _, first, same = np.unique(signatures(blocks, space.rectangles), return_index=True, return_inverse=True)
    total = np.bincount(same.reshape(-1), weight, len(first))
    room = problem.capacity(problem.most if factor is None else factor)
    counts, distinct = _counts(problem), blocks[first]
    needed = _needed_of(problem, distinct, counts, problem.mask, room)
    above = np.zeros(len(distinct))
    for nodes, mask, capacity in _levels(problem, room):
        above += _needed_of(problem, distinct, counts, mask, capacity) * prices[nodes].min()
    above = np.maximum(above, (needed > 0) * _least_above(problem))
    return float(total @ (needed * prices[:leaves].min() + above))


def _needed_of(problem: Problem, blocks: Ints, counts: Ints, mask: Truths, room: Ints) -> Ints:
    order = np.argsort(mask.sum(axis=1), kind="stable")
    return brokers_needed(blocks, problem.space.rectangles, counts, as_words(mask), order, room)


def _levels(problem: Problem, room: Ints) -> Iterator[tuple[Ints, Truths, Ints]]:
    """The brokers that are no leaves, by how many links they are below the root. With each such level: by class and
    broker, whether it leads to a leaf that is in time, which is never so for classes with a leaf that is not below the
    level; and by broker the room of its leaves."""
    parent, leaves = problem.brokers.parent, len(problem.fair)
    depth = np.ones(len(parent), np.int64)
    for node in range(len(parent) - 1, -1, -1):  # parents stand behind their children
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    above = np.arange(leaves)
    for level in range(int(depth.max()), 0, -1):
        above = np.where((above >= 0) & (depth[above] > level), parent[above], above)
        nodes = np.flatnonzero((depth == level) & (np.arange(len(parent)) >= leaves))
        if len(nodes):
            below = above[None, :] == nodes[:, None]
            mask = (problem.mask.astype(np.int64) @ below.T.astype(np.int64)) > 0
            mask[problem.mask[:, ~below.any(axis=0)].any(axis=1)] = False
            yield nodes, mask, below @ room


def _counts(problem: Problem) -> Ints:
    keys = problem.rectangle * len(problem.words) + problem.which
    found = np.bincount(keys, minlength=len(problem.space.rectangles) * len(problem.words))
    return found.reshape(len(problem.space.rectangles), -1)


def blocks_of(rectangles: Ints, shape: tuple[int, ...], most: int = MOST_BLOCKS) -> Ints:
    """Event space cut where rectangles end, not everywhere if these are many."""
    cuts = []
    for at in (0, 2):
        every = np.unique(np.concatenate([[0, shape[at // 2] - 1], rectangles[:, at], rectangles[:, at + 1]]))
        if len(every) > most:
            every = every[np.unique(np.linspace(0, len(every) - 1, most).astype(np.int64))]
        cuts.append(every)
    low = np.stack(np.meshgrid(cuts[0][:-1], cuts[1][:-1], indexing="ij"), axis=-1).reshape(-1, 2)
    high = np.stack(np.meshgrid(cuts[0][1:], cuts[1][1:], indexing="ij"), axis=-1).reshape(-1, 2)
    return np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)


def _least_above(problem: Problem) -> float:
    """The least price of the links above any leaf's own."""
    parent, prices = problem.brokers.parent, problem.brokers.prices
    found = np.zeros(len(parent))
    for node in range(len(parent) - 1, -1, -1):  # parents stand behind their children
        if parent[node] >= 0:
            found[node] = found[parent[node]] + prices[parent[node]]
    return float(found[: len(problem.fair)].min())


def exact(problem: Problem) -> float:
    """The least bandwidth of any assignment of a tiny problem of one level, by constraint programming."""
    from ortools.sat.python import cp_model

    rectangles = problem.space.rectangles[problem.rectangle]
    boxes = _every_hull(rectangles)
    cells = blocks_of(rectangles, problem.space.sums.shape)
    weight = np.rint(weights_of(problem.space.sums, cells)).astype(np.int64)
    cells, weight = cells[weight > 0], weight[weight > 0]
    within, holds = holding(boxes, cells), holding(boxes, rectangles)
    model, leaves = cp_model.CpModel(), len(problem.fair)
    cost = []
    at = [[model.new_bool_var("") for _ in range(leaves)] for _ in rectangles]
    for leaf, room in enumerate(problem.capacity(problem.factor).tolist()):
        taken = [model.new_bool_var("") for _ in boxes]
        model.add(sum(taken) <= problem.boxes)
        model.add(sum(mine[leaf] for mine in at) <= room)
        for one, mine in enumerate(at):
            model.add(sum(taken[box] for box in np.flatnonzero(holds[one]).tolist()) >= mine[leaf])
            if not problem.mask[problem.which[one], leaf]:
                model.add(mine[leaf] == 0)
        for cell in range(len(cells)):
            enters = model.new_bool_var("")
            for box in np.flatnonzero(within[cell]).tolist():
                model.add_implication(taken[box], enters)
            cost.append(int(weight[cell]) * enters)
    for mine in at:
        model.add_exactly_one(mine)
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = SECONDS, 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise AssertionError("the problem is too large for an exact solution")
    return float(solver.objective_value)


def _every_hull(rectangles: Ints) -> Ints:
    """Every smallest box of a set of rectangles."""
    found = np.unique(rectangles, axis=0)
    while True:
        low = np.minimum(found[:, None, 0::2], rectangles[None, :, 0::2]).reshape(-1, 2)
        high = np.maximum(found[:, None, 1::2], rectangles[None, :, 1::2]).reshape(-1, 2)
        more = np.unique(np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1), axis=0)
        if len(more) == len(found):
            return more
        found = more
