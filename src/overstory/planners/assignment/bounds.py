"""Yardsticks: what no assignment can cost less than, and what linear programming says of small problems.

* ``certified_bound`` holds for every assignment in time within a load factor, whatever its filters: see
  ``kernels.packing``. Where there are several levels, it also counts the brokers on the way down, level by level.
* ``all_rectangles`` is the linear programme of Yu, Agarwal and Yang over *all* rectangles and subscribers, by column
  generation. It bounds the sum of the boxes' weights; their union may weigh less.
* ``exact`` is the optimum of tiny problems by constraint programming, with the weight of unions.
* The *fractional value* of ``slp1`` is none of these: it is of a sample and of few rectangles, and no bound.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overstory.kernels.packing import brokers_needed, signatures
from overstory.model.network import Floats, Ints
from overstory.planners.assignment.filter_assign import holding, weights_of
from overstory.planners.assignment.linear import solved
from overstory.planners.assignment.problem import Problem, Truths, as_words

MOST_BLOCKS = 192  # along each dimension
EXACTNESS = 1e-7
ROUNDS = 200
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


class Programme(NamedTuple):
    value: float
    columns: int
    rounds: int


def all_rectangles(problem: Problem) -> Programme:
    """The relaxation over every rectangle, one level: columns are added while one of them would lower the value."""
    pairs, counts = np.unique(problem.rectangle * len(problem.words) + problem.which, return_counts=True)
    rectangle, which = np.divmod(pairs, len(problem.words))
    boxes = problem.space.rectangles[rectangle]
    mask, leaves = problem.mask[which], len(problem.fair)
    columns = [(leaf, tuple(_hull(boxes).tolist())) for leaf in range(leaves)]
    columns += [
        (leaf, tuple(box)) for leaf in range(leaves) for box in np.unique(boxes[mask[:, leaf]], axis=0).tolist()
    ]
    for number in range(ROUNDS):
        value, prices = _master(problem, boxes, mask, counts, columns)
        more = [
            (leaf, tuple(box))
            for leaf in range(leaves)
            for box in _cheapest(problem, boxes, leaf, prices[leaf], float(problem.brokers.prices[leaf]))
        ]
        fresh = [each for each in more if each not in set(columns)]
        if not fresh:
            return Programme(value, len(columns), number + 1)
        columns += fresh
    return Programme(value, len(columns), ROUNDS)


def _hull(boxes: Ints) -> Ints:
    low, high = boxes[:, 0::2].min(axis=0), boxes[:, 1::2].max(axis=0)
    return np.array([low[0], high[0], low[1], high[1]])


def _master(
    problem: Problem, boxes: Ints, mask: np.ndarray, counts: Ints, columns: list[tuple[int, tuple[int, ...]]]
) -> tuple[float, list[tuple[float, Floats]]]:
    """The value, and by leaf the price of a box and what each subscription within one is worth."""
    pair, leaf = np.nonzero(mask)
    owner, shapes = np.array([each[0] for each in columns]), np.array([each[1] for each in columns])
    inside = holding(shapes, boxes)[pair] & (owner[None, :] == leaf[:, None])
    nest_row, nest_column = np.nonzero(inside)
    leaves, count, size = len(problem.fair), len(boxes), len(pair)
    rows = [owner, leaves + pair, leaves + count + leaf, 2 * leaves + count + np.arange(size)]
    rows.append(2 * leaves + count + nest_row)
    at = [size + np.arange(len(owner)), np.arange(size), np.arange(size), np.arange(size), size + nest_column]
    data = [np.ones(len(owner)), np.ones(size), counts[pair].astype(float), -np.ones(size), np.ones(len(nest_row))]
    shape = (2 * leaves + count + size, size + len(owner))
    matrix = csr_array((np.concatenate(data), (np.concatenate(rows), np.concatenate(at))), shape=shape)
    free = np.full(leaves, -np.inf)
    low = np.concatenate([free, np.ones(count), free, np.zeros(size)])
    room = problem.capacity(problem.factor).astype(float)
    high = np.concatenate([np.full(leaves, float(problem.boxes)), np.full(count, np.inf), room, np.full(size, np.inf)])
    cost = np.concatenate([np.zeros(size), problem.brokers.prices[owner] * weights_of(problem.space.sums, shapes)])
    found = solved(cost, np.full(size + len(owner), np.inf), matrix, low, high)
    if found is None:
        raise AssertionError("the hull of everything is a column, so that there is a solution if there is a flow")
    worth = np.zeros((leaves, count))
    worth[leaf, pair] = found.duals[2 * leaves + count :]
    return found.value, [(-float(found.duals[each]), worth[each]) for each in range(leaves)]


def _cheapest(problem: Problem, boxes: Ints, leaf: int, prices: tuple[float, Floats], price: float) -> list[list[int]]:
    """The rectangle with the least reduced cost at a leaf, if that is below 0: every one is looked at."""
    box_price, worth = prices
    valued = np.flatnonzero(worth > EXACTNESS)
    if not len(valued):
        return []
    low_x, high_x = np.unique(boxes[valued, 0]), np.unique(boxes[valued, 1])
    low_y, high_y = np.unique(boxes[valued, 2]), np.unique(boxes[valued, 3])
    at_y, at_high = np.searchsorted(low_y, boxes[valued, 2]), np.searchsorted(high_y, boxes[valued, 3])
    sums, best, found = problem.space.sums, -EXACTNESS * max(1.0, float(problem.space.sums[-1, -1])), None
    for first in low_x.tolist():
        for last in high_x[high_x > first].tolist():
            mine = (boxes[valued, 0] >= first) & (boxes[valued, 1] <= last)
            gain = np.zeros((len(low_y), len(high_y)))
            np.add.at(gain, (at_y[mine], at_high[mine]), worth[valued[mine]])
            gain = gain[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)
            weight = (sums[last, high_y] - sums[first, high_y])[None, :] - (sums[last, low_y] - sums[first, low_y])[
                :, None
            ]
            reduced = np.where(high_y[None, :] > low_y[:, None], price * weight + box_price - gain, np.inf)
            place = np.unravel_index(int(reduced.argmin()), reduced.shape)
            if reduced[place] < best:
                best, found = float(reduced[place]), [first, last, int(low_y[place[0]]), int(high_y[place[1]])]
    return [] if found is None else [found]


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
