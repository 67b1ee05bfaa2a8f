"""Top down, what a broker passes to a child can be served below the child; and loads are kept wherever that can be."""

from dataclasses import replace

import numpy as np
import pytest

from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment.filters import covered_by
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.slp import Planned, leaves_below, slp, slp1, subtree
from tests.planners.assignment.worlds import LEVELS, SMALL, problem


def is_lawful(mine: Problem, found: Planned) -> bool:
    """Whether everybody is in time, and within a filter."""
    assert (found.leaf >= 0).all()
    covered = covered_by(mine, found.filters)[mine.rectangle, found.leaf // 64]
    bits = covered >> (found.leaf % 64).astype(np.uint64) & np.uint64(1)
    return bool(mine.mask[mine.which, found.leaf].all() and bits.all())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_top_down_there_is_an_assignment_wherever_there_is_one(seed: int) -> None:
    mine = problem(LEVELS, seed)
    tight = replace(mine, wanted=mine.least, most=mine.least)
    found = slp(tight, seed)
    assert is_lawful(tight, found)
    assert (np.bincount(found.leaf, minlength=len(tight.fair)) <= tight.capacity(mine.least)).all()


@pytest.mark.parametrize("what", [SMALL, LEVELS], ids=["one level", "several levels"])
def test_loads_that_cannot_be_kept_are_exceeded(what: Subscribers) -> None:
    mine = problem(what)
    impossible = replace(mine, wanted=0.5, most=0.6)
    for planner in (slp, slp1) if what is SMALL else (slp,):
        assert is_lawful(impossible, planner(impossible, 1))


def test_with_one_level_top_down_is_slp1() -> None:
    mine = problem(SMALL)
    assert slp(mine, 1).fractional == slp1(mine, 1).fractional


def test_a_subtree_has_the_leaves_below_some_children() -> None:
    mine = problem(LEVELS)
    parent, leaves = mine.brokers.parent, len(mine.fair)
    below = leaves_below(parent, leaves)
    for node in [-1, *np.unique(parent[parent >= 0]).tolist()]:
        children = np.flatnonzero(parent == node)
        small = subtree(mine, children, below)
        under = np.flatnonzero(below[children].any(axis=0))
        assert np.array_equal(small.fair, mine.fair[under])
        assert np.array_equal(small.mask, mine.mask[:, under])
        assert set(small.brokers.nodes.tolist()) == set(mine.brokers.nodes[np.union1d(under, children)].tolist())
        for number, leaf in enumerate(under.tolist()):
            at = leaf
            while parent[at] != node:
                at = parent[at]
            above = small.brokers.parent[number]
            assert small.brokers.nodes[number if above < 0 else above] == mine.brokers.nodes[at]
            price = small.brokers.prices[number] + (0.0 if above < 0 else small.brokers.prices[above])
            assert price == mine.brokers.prices[at]
