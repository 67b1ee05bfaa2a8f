"""Filters are enlarged until a flow assigns everybody, and by less than whoever is left over would cost."""

import numpy as np
import pytest

from overstory.kernels.enlarging import Filters, grown_for, path_cost
from overstory.kernels.freeing import cheapest_by_leaf, enlargement_costs, numbers_freed
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment import filters
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.flowing import flow_of, flow_to
from overstory.planners.assignment.greedy import gr_star, ground_of
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem, distinct_rows
from overstory.planners.assignment.repairing import repaired
from tests.planners.assignment.worlds import HOTSPOTS, LEVELS, SMALL, problem


def cut_down(mine: Problem, seed: int) -> Filters:
    """The filters of an assignment, some leaves of which have lost a box."""
    state = gr_star(mine, residual=True)
    found = fitted(mine, state.leaf, state.filters)
    for leaf in np.random.default_rng(seed).choice(len(mine.fair), 3, replace=False).tolist():
        found.counts[leaf] = max(found.counts[leaf] - 1, 0)
    return found


def left_over(mine: Problem, filters: Filters) -> int:
    words = mine.words[mine.which] & covered_by(mine, filters)[mine.rectangle]
    return int((flow_to(words, len(mine.fair), [mine.capacity(mine.factor)]) < 0).sum())


@pytest.mark.parametrize("what", [SMALL, LEVELS, HOTSPOTS], ids=lambda what: f"{what.kind} {what.levels}")
def test_after_the_repair_a_flow_assigns_everybody(what: Subscribers) -> None:
    mine = problem(what)
    lost = 0
    for seed in range(3):
        before = cut_down(mine, seed)
        kept = bandwidth(mine, before)
        lost += left_over(mine, before)
        after, covered = repaired(mine, ground_of(mine, mine.factor), before)
        assert left_over(mine, after) == 0
        assert np.array_equal(covered, covered_by(mine, after))
        assert bandwidth(mine, before) == kept  # what was given is as it was
    assert lost > 0


def test_pairs_are_all_subscribers() -> None:
    mine, pairs = problem(SMALL), problem(SMALL).pairs
    assert np.array_equal(pairs.rectangle[pairs.of_subscriber], mine.rectangle)
    assert np.array_equal(pairs.which[pairs.of_subscriber], mine.which)
    assert pairs.size.sum() == SMALL.subscribers
    assert len(np.unique(pairs.rectangle * 10_000 + pairs.which)) == len(pairs.size)


def test_a_flow_of_pairs_is_that_of_subscribers() -> None:
    mine = problem(LEVELS)
    pairs, covered = mine.pairs, covered_by(mine, cut_down(mine, 1))
    distinct, kind = distinct_rows(mine.words[pairs.which] & covered[pairs.rectangle])
    room = [mine.capacity(mine.factor)]
    one_by_one = flow_to(mine.words[mine.which] & covered[mine.rectangle], len(mine.fair), room)
    assert np.array_equal(flow_of(distinct, kind[pairs.of_subscriber], len(mine.fair), room), one_by_one)


def test_filters_are_the_same_with_a_table_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = problem(SMALL)
    leaf = gr_star(mine, residual=True).leaf
    with_table = fitted(mine, leaf)
    monkeypatch.setattr(filters, "TABLE", 0)
    for one, other in zip(with_table, fitted(mine, leaf), strict=True):
        assert np.array_equal(one, other)


def test_costs_of_enlargements_are_those_of_paths() -> None:
    mine = problem(LEVELS)
    ground, filters, grown = ground_of(mine, mine.factor), cut_down(mine, 1), grown_for(mine.boxes)
    useful = np.random.default_rng(1).random((20, len(mine.fair))) < 0.3
    costs = enlargement_costs(ground.sums, ground.prices, ground.parent, filters, ground.rectangles[:20], useful, grown)
    assert np.isinf(costs[~useful]).all()
    for rectangle, leaf in np.argwhere(useful)[::17].tolist():
        box = ground.rectangles[rectangle]
        alone = path_cost(ground.sums, ground.coarse, ground.prices, ground.parent, filters, leaf, box, grown, np.inf)
        assert costs[rectangle, leaf] == alone


def test_the_cheapest_of_each_leaf_is_that_of_all_costs() -> None:
    mine = problem(LEVELS)
    ground, filters, grown = ground_of(mine, mine.factor), cut_down(mine, 1), grown_for(mine.boxes)
    freed = np.random.default_rng(2).integers(-6, 5, (len(ground.rectangles), len(mine.fair)))
    costs = enlargement_costs(ground.sums, ground.prices, ground.parent, filters, ground.rectangles, freed > 0, grown)
    scores = np.where(freed > 0, costs / np.maximum(freed, 1), np.inf)
    rectangle, least = cheapest_by_leaf(
        ground.sums, ground.coarse, ground.prices, ground.parent, filters, ground.rectangles, freed, grown
    )
    assert np.allclose(least, scores.min(axis=0))
    known = np.flatnonzero(rectangle >= 0)
    assert np.allclose(scores[rectangle[known], known], least[known])


def test_numbers_freed_are_those_of_a_matrix() -> None:
    mine, draw = problem(SMALL), np.random.default_rng(3)
    pairs = mine.pairs
    stuck, open_ones = draw.random(len(pairs.size)) < 0.3, draw.random(len(mine.fair)) < 0.6
    plain = np.zeros((len(mine.space.rectangles), len(mine.fair)), np.int64)
    for at in np.flatnonzero(stuck).tolist():
        plain[pairs.rectangle[at]] += mine.mask[pairs.which[at]] * open_ones * pairs.size[at]
    found = numbers_freed(pairs.rectangle, pairs.which, pairs.size, stuck, mine.mask & open_ones, len(plain))
    assert np.array_equal(found, plain)
