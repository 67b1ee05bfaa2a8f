"""Filters that serve nearly everybody, enlarged as little as possible until a maximum flow assigns everybody.

Where a flow leaves somebody over, its least cut tells who is *stuck*: those left over, all who share a full leaf with
somebody stuck, and so on. It takes one of them to go to a leaf with room outside the cut, and any of them will do: it
need not be one that is left over. So of all rectangles that somebody stuck wants, and all leaves with room that are in
time for it, the enlargement that costs least for the subscribers that it frees is made, and the flow is found again.
Before that, filters are enlarged for those whom none covers, at whichever leaf that costs least, full or not.
"""

import numpy as np

from overstory.kernels.enlarging import Filters, grown_for, let_in_path
from overstory.kernels.freeing import cheapest_by_leaf, enlargement_costs, numbers_freed
from overstory.kernels.greedy import Ground
from overstory.model.network import Ints
from overstory.planners.assignment.balancing import Flow, max_flow
from overstory.planners.assignment.filters import covered_by
from overstory.planners.assignment.problem import Pairs, Problem, Truths, Words, as_truths, distinct_rows

AT_ONCE = 16  # enlargements for those whom no filter covers, between two looks at who is left
MOST_FLOWS = 24


def repaired(problem: Problem, ground: Ground, filters: Filters, flows: int = MOST_FLOWS) -> tuple[Filters, Words]:
    """Filters under which there is a flow for everybody, if so many flows were enough to get there; and by rectangle
    the leaves that cover it, as bits."""
    pairs, leaves = problem.pairs, len(problem.fair)
    kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
    _cover(problem, ground, kept, pairs)
    for _ in range(flows):
        covered = covered_by(problem, kept)
        distinct, kind = distinct_rows(problem.words[pairs.which] & covered[pairs.rectangle])
        counts = np.bincount(kind, pairs.size, len(distinct)).astype(np.int64)
        flow = max_flow(as_truths(distinct, leaves), counts, ground.capacity)
        left = len(problem.clients) - flow.value
        if not left or not _freed(problem, ground, kept, pairs, flow, kind, left):
            break
    return kept, covered_by(problem, kept)


def _cover(problem: Problem, ground: Ground, filters: Filters, pairs: Pairs) -> None:
    """Enlarges filters until everybody is covered by a leaf that is in time, full or not."""
    grown, everywhere = grown_for(problem.boxes), np.ones(len(problem.fair), bool)
    while True:
        served = problem.words[pairs.which] & covered_by(problem, filters)[pairs.rectangle]
        freed = _numbers_freed(problem, pairs, np.asarray(served.max(axis=1) == 0), everywhere)
        if not freed.any():
            return
        wanted = np.flatnonzero(freed.any(axis=1))
        costs = enlargement_costs(
            ground.sums, ground.prices, ground.parent, filters, ground.rectangles[wanted], freed[wanted] > 0, grown
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(freed[wanted] > 0, costs / freed[wanted], np.inf)
        for _ in range(AT_ONCE):
            rectangle, leaf = np.unravel_index(int(np.argmin(score)), score.shape)
            if not np.isfinite(score[rectangle, leaf]):
                break
            let_in_path(ground.sums, ground.parent, filters, int(leaf), ground.rectangles[wanted[rectangle]], grown)
            score[rectangle], score[:, leaf] = np.inf, np.inf  # for others at this leaf it is cheaper now, perhaps


def _freed(problem: Problem, ground: Ground, filters: Filters, pairs: Pairs, flow: Flow, kind: Ints, left: int) -> bool:
    """Enlarges some filters so that stuck subscribers can leave. Returns whether there was a way."""
    room = ground.capacity - np.bincount(flow.brokers, flow.amounts, len(ground.capacity)).astype(np.int64)
    open_ones = (room > 0) & ~flow.stuck_brokers
    freed = _numbers_freed(problem, pairs, flow.stuck_classes[kind], open_ones)
    freed = np.minimum(np.minimum(freed, room), left)
    grown = grown_for(problem.boxes)
    rectangle, score = cheapest_by_leaf(
        ground.sums, ground.coarse, ground.prices, ground.parent, filters, ground.rectangles, freed, grown
    )
    order = np.argsort(score, kind="stable")[: int((rectangle >= 0).sum())]
    for leaf in order.tolist():
        let_in_path(ground.sums, ground.parent, filters, leaf, ground.rectangles[rectangle[leaf]], grown)
    return len(order) > 0


def _numbers_freed(problem: Problem, pairs: Pairs, stuck: Truths, open_ones: Truths) -> Ints:
    """By rectangle and leaf: how many stuck subscribers could go there if its filter let the rectangle in."""
    useful = problem.mask & open_ones
    return numbers_freed(pairs.rectangle, pairs.which, pairs.size, stuck, useful, len(problem.space.rectangles))
