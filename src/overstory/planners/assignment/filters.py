"""The filters of an assignment: drawn tight around what each leaf serves, and around its children's for other nodes.

At a leaf the better of two is taken: the filter that it had, drawn tight, and one fitted anew (``kernels.fitting``).
"""

import numpy as np

from overstory.kernels.enlarging import Filters, mark_covered, no_filters
from overstory.kernels.fitting import fit, shrunk
from overstory.kernels.volumes import union_weight
from overstory.model.network import Ints
from overstory.planners.assignment.problem import Problem, Words

TABLE = 1 << 25  # truths


def fitted(problem: Problem, leaf: Ints, had: Filters | None = None) -> Filters:
    """``leaf`` is that of each subscriber; ``had`` are filters that let through all that subscribers want there."""
    nodes, leaves = len(problem.brokers.nodes), len(problem.brokers.leaves)
    found = no_filters(nodes, problem.boxes)
    rectangles = problem.space.rectangles
    pairs = _distinct(leaf * len(rectangles) + problem.rectangle, leaves * len(rectangles))
    offsets = np.searchsorted(pairs, np.arange(leaves + 1) * len(rectangles))
    for node in range(leaves):
        mine = rectangles[pairs[offsets[node] : offsets[node + 1]] % len(rectangles)]
        _set_best(problem, found, node, mine, had)
    for node in range(leaves, nodes):
        below = np.flatnonzero(problem.brokers.parent == node)
        mine = np.concatenate([found.boxes[child, : found.counts[child]] for child in below.tolist()])
        _set_best(problem, found, node, mine, had)
    return found


def _distinct(keys: Ints, limit: int) -> Ints:
    """Keys below the limit, each once and in order; they are marked in a table, not sorted, where that is small."""
    if limit > TABLE:
        return np.unique(keys)
    present = np.zeros(limit, bool)
    present[keys] = True
    return np.flatnonzero(present)


def covered_by(problem: Problem, filters: Filters) -> Words:
    """By rectangle: the leaves whose filters hold it, as bits."""
    found = np.zeros((len(problem.space.rectangles), problem.words.shape[1]), np.uint64)
    for leaf in range(len(problem.fair)):
        mark_covered(problem.space.rectangles, filters, leaf, found)
    return found


def _set_best(problem: Problem, found: Filters, node: int, mine: Ints, had: Filters | None) -> None:
    if not len(mine):
        return
    sums = problem.space.sums
    tries = [fit(sums, mine, problem.boxes)]
    if had is not None and had.counts[node]:
        tight = shrunk(mine, had.boxes[node], int(had.counts[node]))
        if _holds_all(tight, mine):
            tries.append(tight)
    weights = [union_weight(sums, boxes, len(boxes)) for boxes in tries]
    best = int(np.argmin(weights))
    found.boxes[node, : len(tries[best])] = tries[best]
    found.counts[node], found.weights[node] = len(tries[best]), weights[best]


def _holds_all(boxes: Ints, rectangles: Ints) -> bool:
    """Whether each rectangle is within one of the boxes."""
    low = (boxes[None, :, 0::2] <= rectangles[:, None, 0::2]).all(axis=2)
    high = (boxes[None, :, 1::2] >= rectangles[:, None, 1::2]).all(axis=2)
    return bool(np.asarray(low & high).any(axis=1).all())
