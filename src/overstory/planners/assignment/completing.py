"""Everybody to filters that serve nearly everybody, enlarged where that is not enough."""

import numpy as np

from overstory.kernels.enlarging import Filters, grown_for
from overstory.kernels.greedy import Ground, State, fewest_first
from overstory.model.network import Ints
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.flowing import flow_of
from overstory.planners.assignment.greedy import ahead_of, by_class, gr_star, nobody_ahead
from overstory.planners.assignment.problem import Problem, distinct_rows
from overstory.planners.assignment.repairing import repaired


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
    if ahead is None:  # there is no assignment within the largest load
        state = gr_star(problem)
        return state.leaf, fitted(problem, state.leaf, state.filters)
    kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
    nobody = np.zeros(len(problem.fair), np.int64)
    state = State(kept, covered_by(problem, filters), nobody, np.full(len(problem.clients), -1))
    offsets, members = by_class(problem)
    fewest_first(ground, state, problem.rectangle, offsets, members, grown_for(problem.boxes), ahead)
    return state.leaf, fitted(problem, state.leaf, state.filters)
