"""The linear programme of Yu, Agarwal and Yang over *all* rectangles and subscribers, one level, by column generation.

1. ``_master`` is the programme over some rectangles. Its prices say what each subscription is worth at each leaf.
2. ``kernels.worthiest`` finds, of all rectangles, those that are worth more than they cost. They join the programme.
3. The same prices give a bound. To be within a box at a leaf is worth what it is worth to be served, less the room
   that it takes there. A leaf has at most α boxes, so that no choice of rectangles is cheaper than what it is worth to
   serve everybody, less what all room is worth, less α times the gain of the best rectangle at each leaf. The search
   for rectangles ends once the best bound is near the value: ``bound <= value over all rectangles <= value``.
4. Prices of the programme jump. So rectangles are priced part of the way from the prices of the best bound to them.

The programme bounds the sum of the boxes' weights; their union may weigh less.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from overstory.kernels.worthiest import worthiest
from overstory.model.network import Floats, Ints
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.greedy import gr_star
from overstory.planners.assignment.linear import solved
from overstory.planners.assignment.problem import Problem, Truths
from overstory.planners.assignment.relaxation import holding, weights_of

NEAR = 1e-4  # of the value, between it and the bound
EXACTNESS = 1e-9  # of the weight of all events, below which a gain is none
ROUNDS = 500
BACK = 0.7  # of the way from the newest prices to those of the best bound
JOINING = 40  # rectangles of a leaf in a round


class Programme(NamedTuple):
    value: float  # of the programme over the rectangles that were found
    bound: float  # the programme over all rectangles has at least this value
    columns: int
    rounds: int


class Demand(NamedTuple):
    """Subscribers with the same rectangle and class as one."""

    boxes: Ints
    counts: Ints
    mask: Truths  # by pair and leaf: whether it is in time


class Prices(NamedTuple):
    """What the programme says that things are worth."""

    served: Floats  # by pair: to be served
    room: Floats  # by leaf: room for one more


def all_rectangles(problem: Problem) -> Programme:
    pairs, counts = np.unique(problem.rectangle * len(problem.words) + problem.which, return_counts=True)
    rectangle, which = np.divmod(pairs, len(problem.words))
    demand = Demand(problem.space.rectangles[rectangle], counts, problem.mask[which])
    columns = _first_columns(problem, demand)
    value, prices = _master(problem, demand, columns)
    fresh, best = _priced(problem, demand, prices)
    anchor, rounds = prices, 1
    while rounds < ROUNDS and not fresh <= columns and best < (1 - NEAR) * value:
        columns |= fresh
        value, newest = _master(problem, demand, columns)
        for back in (BACK, 0.0):
            prices = _between(newest, anchor, back)
            fresh, bound = _priced(problem, demand, prices)
            if bound > best:
                best, anchor = bound, prices
            if not fresh <= columns or best >= (1 - NEAR) * value:
                break
        rounds += 1
    return Programme(value, min(best, value), len(columns), rounds)


def _first_columns(problem: Problem, demand: Demand) -> set[tuple[int, ...]]:
    """Rectangles that serve everybody: the hull of all of them at every leaf, those of a plan, and each one's own. A
    column is a leaf and four ends."""
    hull = [*demand.boxes[:, [0, 2]].min(axis=0), *demand.boxes[:, [1, 3]].max(axis=0)]
    whole = (int(hull[0]), int(hull[2]), int(hull[1]), int(hull[3]))
    columns: set[tuple[int, ...]] = {(leaf, *whole) for leaf in range(len(problem.fair))}
    for leaf in range(len(problem.fair)):
        columns |= {(leaf, *box) for box in demand.boxes[demand.mask[:, leaf]].tolist()}
    filters = fitted(problem, gr_star(problem, problem.least <= problem.most, [problem.factor]).leaf)
    for leaf in range(len(problem.fair)):
        columns |= {(leaf, *box) for box in filters.boxes[leaf, : filters.counts[leaf]].tolist()}
    return columns


def _between(newest: Prices, anchor: Prices, back: float) -> Prices:
    return Prices(*(back * old + (1 - back) * new for new, old in zip(newest, anchor, strict=True)))


def _priced(problem: Problem, demand: Demand, prices: Prices) -> tuple[set[tuple[int, ...]], float]:
    """The rectangles that are worth more than they cost, and the bound that the prices give."""
    sums, costs = problem.space.sums, problem.brokers.prices
    bound = float(prices.served.sum() - prices.room @ problem.capacity(problem.factor))
    fresh: set[tuple[int, ...]] = set()
    least = EXACTNESS * float(sums[-1, -1])
    for leaf in range(len(problem.fair)):
        worth = np.where(demand.mask[:, leaf], prices.served - demand.counts * prices.room[leaf], 0.0)
        valued = np.flatnonzero(worth > 0)
        if not len(valued):
            continue
        boxes, gains = worthiest(sums, float(costs[leaf]), demand.boxes[valued], worth[valued], least)
        bound -= problem.boxes * float(gains.max(initial=least))
        fresh |= {(leaf, *box) for box in boxes[np.argsort(-gains)[:JOINING]].tolist()}
    return fresh, bound


def _master(problem: Problem, demand: Demand, columns: set[tuple[int, ...]]) -> tuple[float, Prices]:
    """The value of the programme over some rectangles, and its prices."""
    pair, leaf = np.nonzero(demand.mask)
    every = np.array(sorted(columns))
    owner, shapes = every[:, 0], every[:, 1:]
    inside = holding(shapes, demand.boxes)[pair] & (owner[None, :] == leaf[:, None])
    nest_row, nest_column = np.nonzero(inside)
    leaves, count, size = len(problem.fair), len(demand.boxes), len(pair)
    rows = [owner, leaves + pair, leaves + count + leaf, 2 * leaves + count + np.arange(size)]
    rows.append(2 * leaves + count + nest_row)
    at = [size + np.arange(len(owner)), np.arange(size), np.arange(size), np.arange(size), size + nest_column]
    data = [np.ones(len(owner)), np.ones(size), demand.counts[pair].astype(float), -np.ones(size)]
    data.append(np.ones(len(nest_row)))
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
    served, taken = found.duals[leaves : leaves + count], -found.duals[leaves + count : 2 * leaves + count]
    return found.value, Prices(np.maximum(served, 0.0), np.maximum(taken, 0.0))
