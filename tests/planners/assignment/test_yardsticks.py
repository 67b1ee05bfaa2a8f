"""Bounds are below, oracles agree: certified bound, linear programmes, constraint programming, the paper's lemmas."""

from dataclasses import replace
from itertools import combinations, product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.packing import brokers_needed
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment.all_rectangles import all_rectangles
from overstory.planners.assignment.bounds import certified_bound, exact
from overstory.planners.assignment.candidate_filters import candidates, intervals, super_subscriptions
from overstory.planners.assignment.filter_assign import (
    Relaxed,
    filter_assign,
    lp_relax,
    most_iterations,
    violated,
)
from overstory.planners.assignment.greedy import gr_star
from overstory.planners.assignment.hypergraph import connectivity, hypergraph_of, partition
from overstory.planners.assignment.linear import solved
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.relaxation import Task, holding, programme, weights_of
from overstory.planners.assignment.search import search
from overstory.planners.assignment.slp import task_of
from overstory.planners.assignment.trial import compile_kernels, small_problem
from tests.planners.assignment.worlds import HOTSPOTS, LEVELS, SMALL, problem


def tiny(seed: int, subscribers: int = 8, leaves: int = 3) -> Problem:
    """Some subscribers and leaves of a small problem, with loads that bind."""
    whole, draw = problem(SMALL), np.random.default_rng(seed)
    mine = draw.choice(len(whole.clients), subscribers, replace=False)
    brokers = whole.brokers._replace(
        nodes=whole.brokers.nodes[:leaves], parent=whole.brokers.parent[:leaves], prices=np.ones(leaves),
        leaves=whole.brokers.leaves[:leaves],
    )  # fmt: skip
    words = np.array([[7], [3], [6]], np.uint64)
    return replace(
        whole,
        brokers=brokers,
        clients=whole.clients[mine],
        rectangle=whole.rectangle[mine],
        which=draw.integers(0, 3, subscribers),
        words=words,
        fair=np.full(leaves, subscribers / leaves),
        others=np.zeros(leaves, np.int64),
        boxes=2,
        wanted=1.5,
        most=2.0,
    )


def test_the_search_finds_tiny_optima() -> None:
    ratios = []
    for seed in range(4):
        small = tiny(seed)
        best = exact(small)
        found = search(small, 1, seed)
        ratios.append(bandwidth(small, found.filters) / best)
        assert ratios[-1] >= 1 - 1e-9
        assert certified_bound(small) <= best + 1e-6
    assert np.mean(ratios) <= 1.03


@pytest.mark.parametrize("what", [SMALL, LEVELS, HOTSPOTS], ids=lambda what: f"{what.kind} {what.levels}")
def test_the_bound_is_below_every_plan(what: Subscribers) -> None:
    mine = problem(what)
    bound = certified_bound(mine)
    assert 0 < bound <= bandwidth(mine, gr_star(mine, residual=True).filters)
    assert bound >= 0.9 * certified_bound(mine, mine.most * 1.5)  # more room, no higher bound
    assert certified_bound(mine, mine.most * 1.5) <= bound


def test_the_problem_that_kernels_are_compiled_with() -> None:
    small = small_problem()
    compile_kernels()
    assert certified_bound(small) <= bandwidth(small, search(small, 1, 0).filters)


@st.composite
def tiny_trees(draw: st.DrawFn) -> Problem:
    """A few subscribers, and three leaves: all below the root, or two of them below another broker."""
    deep, size = draw(st.booleans()), draw(st.integers(1, 6))
    small, seed = small_problem(), draw(st.integers(0, 10_000))
    dice = np.random.default_rng(seed)
    parent, prices = np.array([3, 3, -1, -1] if deep else [-1, -1, -1]), dice.integers(1, 4, 4 if deep else 3)
    sums = np.zeros((5, 5))
    sums[1:, 1:] = dice.integers(0, 9, (4, 4)).cumsum(0).cumsum(1)
    low = dice.integers(0, 4, (4, 2))
    high = dice.integers(low + 1, 5)
    rectangles = np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)
    return replace(
        small,
        brokers=small.brokers._replace(parent=parent, prices=prices.astype(float), nodes=np.arange(len(parent))),
        space=small.space._replace(sums=sums, rectangles=rectangles),
        clients=np.arange(size),
        rectangle=dice.integers(0, 4, size),
        which=dice.integers(0, 3, size),
        words=dice.integers(1, 8, (3, 1)).astype(np.uint64),
        fair=np.ones(3),
        others=np.zeros(3, np.int64),
        most=float(draw(st.integers(1, 6))),
    )


def least_of_all(mine: Problem) -> float:
    """The cheapest assignment within the largest load, whose filters are just what is wanted; infinite if there is
    none."""
    cells = np.diff(np.diff(mine.space.sums, axis=0), axis=1)
    parent, best = mine.brokers.parent, np.inf
    for leaf in product(range(3), repeat=len(mine.clients)):
        fits = (np.bincount(leaf, minlength=3) <= mine.most).all()
        if not fits or not mine.mask[mine.which, list(leaf)].all():
            continue
        wanted = np.zeros((len(parent), *cells.shape), bool)
        for one, node in enumerate(leaf):
            box = mine.space.rectangles[mine.rectangle[one]]
            while node >= 0:
                wanted[node, box[0] : box[1], box[2] : box[3]] = True
                node = int(parent[node])
        best = min(best, float(mine.brokers.prices @ (wanted * cells).sum(axis=(1, 2))))
    return best


@settings(max_examples=60)
@given(tiny_trees())
def test_the_bound_is_never_above_a_plan(mine: Problem) -> None:
    assert certified_bound(mine) <= least_of_all(mine) * (1 + 1e-9)


def test_prices_of_classes_find_what_disjoint_ones_do_not() -> None:
    """Three classes, each of which shares one of three brokers with each other: no two are disjoint, and it takes two
    brokers."""
    block, around = np.array([[0, 1, 0, 1]]), np.array([[0, 2, 0, 2]])
    words, order = np.array([[3], [6], [5]], np.uint64), np.array([0, 1, 2])
    assert brokers_needed(block, around, np.array([[1, 1, 1]]), words, order, np.array([9, 9, 9])).tolist() == [2]


def test_brokers_needed_by_hand() -> None:
    """Two classes without a common broker need one each, and five subscribers with room for two need three."""
    block, around = np.array([[0, 1, 0, 1]]), np.array([[0, 2, 0, 2], [5, 6, 5, 6]])
    words, order = np.array([[1], [2], [3]], np.uint64), np.array([0, 1, 2])
    counts = np.array([[1, 1, 0], [9, 9, 9]])
    assert brokers_needed(block, around, counts, words, order, np.array([5, 5])).tolist() == [2]
    counts = np.array([[0, 0, 5], [9, 9, 9]])
    assert brokers_needed(block, around, counts, words, order, np.array([2, 2, 2])).tolist() == [3]


def test_the_programme_over_all_rectangles_is_below_any_choice_of_them() -> None:
    for seed in range(2):
        small = tiny(seed, subscribers=10)
        whole = all_rectangles(small)
        task = task_of(small)
        every = np.arange(len(small.clients))
        few = candidates(task.rectangles[task.rectangle])
        some = solved(*programme(task, every, np.ones(len(every), bool), few, small.factor)[0])
        assert some is not None
        assert whole.value <= some.value * (1 + 1e-6)
        assert 0.999 * whole.value <= whole.bound <= whole.value
        assert whole.rounds > 1


@pytest.mark.parametrize("subscribers", [60, 150])
def test_the_search_is_near_the_programme_over_all_rectangles(subscribers: int) -> None:
    mine = problem(Subscribers(subscribers=subscribers, brokers=6, events=3000, load=3.0, load_wanted=1.8))
    found = bandwidth(mine, search(mine, 4, 1).filters)
    assert found <= 1.1 * all_rectangles(mine).bound


def test_lemma_4_every_smallest_box_is_within_a_candidate_of_at_most_16_times_its_area() -> None:
    for seed in range(6):
        draw = np.random.default_rng(seed)
        low = draw.integers(0, 30, (6, 2))
        high = low + draw.integers(1, 12, (6, 2))
        rectangles = np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)
        found = candidates(rectangles)
        for size in range(1, 7):
            for some in combinations(range(6), size):
                mine = rectangles[list(some)]
                hull = np.array([mine[:, 0].min(), mine[:, 1].max(), mine[:, 2].min(), mine[:, 3].max()])
                around = found[holding(found, hull[None])[0]]
                areas = (around[:, 1] - around[:, 0]) * (around[:, 3] - around[:, 2])
                assert areas.min(initial=10**9) <= 16 * (hull[1] - hull[0]) * (hull[3] - hull[2])


def test_lemma_4_in_one_dimension() -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        low = draw.integers(0, 50, 7)
        high = low + draw.integers(1, 20, 7)
        found = intervals(low, high)
        for size in range(1, 8):
            for some in combinations(range(7), size):
                first, last = low[list(some)].min(), high[list(some)].max()
                around = found[(found[:, 0] <= first) & (found[:, 1] >= last)]
                assert (around[:, 1] - around[:, 0]).min() <= 4 * (last - first)


def test_super_subscriptions_hold_their_members() -> None:
    mine = problem(SMALL)
    rectangles = mine.space.rectangles[mine.rectangle]
    found = super_subscriptions(rectangles, mine.mask[mine.which], 40, np.random.default_rng(1))
    assert len(found) <= 40
    assert holding(found, rectangles).any(axis=1).all()


def rounded(task: Task, seed: int) -> tuple[Relaxed, float, np.ndarray]:
    """One rounding of the programme of everybody, its fractional bandwidth and boxes."""
    every, draw = np.arange(len(task.rectangle)), np.random.default_rng(seed)
    boxes = candidates(np.unique(task.rectangles[task.rectangle], axis=0))
    whole, columns = programme(task, every, np.ones(len(every), bool), boxes, task.most)
    solution = solved(*whole)
    assert solution is not None
    fractions = np.clip(solution.variables[-columns.shape[1] :], 0, 1)
    taken = draw.random(len(fractions)) < 1 - (1 - fractions) ** (2 * log(len(every)))
    chosen = np.zeros((len(task.fair), len(boxes)), bool)
    chosen[columns[0, taken], columns[1, taken]] = True
    return Relaxed(chosen, boxes, solution.value, len(every)), solution.value, fractions


def test_theorem_1_as_statistics() -> None:
    """Roundings cover the sample at least every other time, and cost at most 2 ln|S| times the fraction on average."""
    task = task_of(tiny(3, subscribers=12))
    covered, ratios = [], []
    for seed in range(40):
        found, value, _ = rounded(task, seed)
        covered.append(not violated(task, found).any())
        ratios.append((found.chosen @ weights_of(task.sums, found.boxes)).sum() / value)
    assert np.mean(covered) >= 0.5
    assert np.mean(ratios) <= 2 * log(12)


def test_filter_assign_covers_everybody_and_lp_relax_its_sample() -> None:
    task = task_of(problem(SMALL))
    found = filter_assign(task, 1)
    assert found is not None
    assert not violated(task, found).any()
    assert 0 < found.certificate <= found.sampled <= len(task.rectangle)
    assert 0 < found.iterations <= 20 * most_iterations(found.guess, len(task.rectangle))
    assert found.valid <= found.tried
    every = np.arange(60)
    boxes = candidates(task.rectangles[task.rectangle[every]])
    fraction = lp_relax(task, every, np.ones(60, bool), boxes, task.most)
    assert fraction is not None
    some, wide = fraction.rounded(task, np.random.default_rng(0))
    assert not violated(task._replace(rectangle=task.rectangle[every], which=task.which[every]), some).any()
    assert not (violated(task, wide) & ~violated(task, some)).any()
    assert some.fractional > 0


def test_lemmas_2_and_3_as_statistics() -> None:
    """Iterations are valid at least every other time, and a certificate is found within its iterations."""
    task = task_of(problem(SMALL))
    found = [filter_assign(task, seed) for seed in range(5)]
    known = [each for each in found if each is not None]
    assert len(known) == 5
    assert sum(each.valid for each in known) >= 0.5 * sum(each.tried for each in known)
    assert all(each.iterations <= most_iterations(each.guess, len(task.rectangle)) for each in known)


def test_theorem_1_boxes_as_statistics() -> None:
    """Roundings give a broker at most 2 ln|S| times as many boxes as it may have, on average."""
    task = task_of(tiny(3, subscribers=12))
    boxes = [rounded(task, seed)[0].chosen.sum(axis=1) for seed in range(40)]
    assert (np.mean(boxes, axis=0) <= 2 * log(12) * task.boxes).all()


def test_connectivity_is_the_bandwidth_of_exact_filters() -> None:
    mine = problem(SMALL)
    graph = hypergraph_of(mine)
    part = partition(graph, 8, 0.5, 1)
    assert graph.sizes.sum() == SMALL.subscribers
    assert set(part.tolist()) <= set(range(8))
    assert np.bincount(part, graph.sizes, 8).max() <= 1.5 * SMALL.subscribers / 8 + 1
    by_chance = np.random.default_rng(1).integers(0, 8, len(part))
    assert connectivity(graph, part) < connectivity(graph, by_chance)
    alone = connectivity(graph, np.zeros(len(part), np.int64))
    assert alone == graph.weights.sum()
