"""Subscribers whom filters cannot tell apart go together: an assignment of lumps is one of everybody."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels import ruining
from overstory.kernels.enlarging import grown_for
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment.cells import cells_of
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.greedy import gr_star, ground_of
from overstory.planners.assignment.lumps import PARTS, grouped, lumped, unlumped
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem, as_truths, as_words
from overstory.planners.assignment.search import improved, state_of, work_of
from tests.planners.assignment.worlds import HOTSPOTS, LEVELS, RSS, SMALL, problem

WORLDS = pytest.mark.parametrize("what", [SMALL, LEVELS, HOTSPOTS, RSS], ids=lambda what: f"{what.kind} {what.levels}")


def boxes_that_hold(mine: Problem, leaf: int, rectangle: np.ndarray, filters: object) -> set[tuple[int, int]]:
    """Box by box, of one leaf."""
    boxes, counts = filters.boxes, filters.counts  # type: ignore[attr-defined]
    low, high = rectangle[0::2], rectangle[1::2]
    return {
        (leaf, number)
        for number in range(counts[leaf])
        if (boxes[leaf, number, 0::2] <= low).all() and (boxes[leaf, number, 1::2] >= high).all()
    }


@WORLDS
@pytest.mark.parametrize("cells", [1, 5, 1000])
def test_a_lump_may_be_served_just_where_filters_serve_each_of_its_subscribers(what: Subscribers, cells: int) -> None:
    mine = problem(what)
    leaf = gr_star(mine, residual=True).leaf
    filters, leaves = fitted(mine, leaf), range(len(mine.fair))
    ground, _, groups = lumped(mine, ground_of(mine, mine.factor), leaf, filters, cells)
    around = [set().union(*(boxes_that_hold(mine, at, box, filters) for at in leaves)) for box in mine.space.rectangles]
    hulls = [set().union(*(boxes_that_hold(mine, at, box, filters) for at in leaves)) for box in ground.rectangles]
    mask = as_truths(ground.words, len(mine.fair))
    for one, lump in enumerate(groups.of_subscriber.tolist()):
        box, hull = mine.space.rectangles[mine.rectangle[one]], ground.rectangles[groups.items.rectangle[lump]]
        assert (hull[0::2] <= box[0::2]).all()
        assert (hull[1::2] >= box[1::2]).all()
        assert hulls[groups.items.rectangle[lump]] == around[mine.rectangle[one]]
        allowed, theirs = mask[groups.items.which[lump]], mine.mask[mine.which[one]]
        assert not (allowed & ~theirs).any()
        serving = [at for at in leaves if any(at == holder for holder, _ in around[mine.rectangle[one]])]
        assert np.array_equal(allowed[serving], theirs[serving])
    assert np.array_equal(groups.leaf[groups.of_subscriber], leaf)
    assert np.array_equal(np.bincount(groups.of_subscriber), groups.items.size)


@WORLDS
def test_lumps_of_one_leaf_can_be_packed(what: Subscribers) -> None:
    mine = problem(what)
    leaf = gr_star(mine, residual=True).leaf
    finest = grouped(mine, leaf)
    _, _, groups = lumped(mine, ground_of(mine, mine.factor), leaf, fitted(mine, leaf), 1)
    assert groups.items.size.max() < max(mine.fair.mean() / PARTS, 1) + finest.items.size.max()
    assert len(groups.leaf) <= len(finest.leaf)


def test_in_a_cell_each_a_group_is_a_lump() -> None:
    mine = problem(SMALL)
    leaf = gr_star(mine, residual=True).leaf
    ground = ground_of(mine, mine.factor)
    every = len(mine.space.rectangles) + len(mine.words)
    lumps, groups = lumped(mine, ground, leaf, fitted(mine, leaf), every).groups, unlumped(mine, ground, leaf).groups
    largest = max(mine.fair.mean() // PARTS, 1)
    assert len(lumps.leaf) == len(groups.leaf) or groups.items.size.max() > largest


@WORLDS
def test_what_is_found_on_lumps_holds_for_everybody(what: Subscribers) -> None:
    mine = problem(what)
    start = gr_star(mine, residual=True)
    ground, begun = ground_of(mine, mine.factor), fitted(mine, start.leaf, start.filters)
    leaf, filters = improved(mine, ground, start.leaf, begun, work_of(4), 1)
    assert bandwidth(mine, filters) < bandwidth(mine, begun)
    assert (np.bincount(leaf, minlength=len(mine.fair)) <= ground.capacity).all()
    served = covered_by(mine, filters)[mine.rectangle] & mine.words[mine.which]
    at = served[np.arange(len(leaf)), leaf // 64] >> (leaf % 64).astype(np.uint64) & np.uint64(1)
    assert at.all()


def test_whoever_is_out_of_time_may_stay_where_he_is() -> None:
    """Everybody is at leaf 0, as by a planner that does not look at delays, and most have one other leaf in time."""
    known = problem(SMALL)
    leaves, size = len(known.fair), len(known.clients)
    fair, which = np.full(leaves, 100.0 * PARTS), np.arange(size) % leaves
    mine = replace(known, words=as_words(np.eye(leaves, dtype=bool)), which=which, fair=fair)
    leaf = np.zeros(size, np.int64)
    ground, filters = ground_of(mine, mine.factor), fitted(mine, leaf)
    ground, reach, groups = lumped(mine, ground, leaf, filters, 1)
    assert as_truths(ground.words, leaves)[groups.items.which, groups.leaf].all()
    state = state_of(ground, groups, filters)
    ruining.improve(ground, reach, groups.items, state, grown_for(mine.boxes), 1 << 18, 0.02, 1)
    served = as_truths(covered_by(mine, state.filters), leaves)[mine.rectangle, state.leaf[groups.of_subscriber]]
    assert served.all()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.integers(1, 40))
@settings(max_examples=50)
def test_cells_are_few_and_equal_things_share_one(points: list[tuple[int, int]], count: int) -> None:
    features = np.array(points, float)
    found = cells_of(features, np.ones(len(points)), count)
    assert set(found.tolist()) == set(range(min(count, len(set(points)))))
    assert len({(point, cell) for point, cell in zip(points, found.tolist(), strict=True)}) == len(set(points))


def test_cells_are_cut_where_things_are_far_apart() -> None:
    features = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0], [0.0, 6.0]])
    weights = np.ones(5)
    assert cells_of(features, weights, 2).tolist() == [0, 0, 1, 1, 1]
    assert cells_of(features, np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 2).tolist() == [0, 1, 0, 1, 0]


PROGRAM = """
import hashlib
import numpy as np
from overstory.planners.assignment.cells import cells_of

draw = np.random.default_rng(0)
points = draw.integers(0, 50, (3000, 4)).astype(float)
mirrored = np.concatenate([points, points[:, ::-1]])  # as much spread in one direction as in the other
print(hashlib.sha256(cells_of(mirrored, np.ones(6000), 90).tobytes()).hexdigest())
"""


def test_cells_are_the_same_on_any_processor() -> None:
    """OpenBLAS sums in an order of its own on each kind of processor, and with each number of threads."""
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=os.environ | given, capture_output=True, text=True, check=True
        ).stdout
        for given in ({}, {"OPENBLAS_CORETYPE": "Sandybridge"}, {"OPENBLAS_CORETYPE": "Nehalem"})
    }
    assert len(told) == 1
