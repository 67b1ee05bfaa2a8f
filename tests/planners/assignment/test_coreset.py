"""Few items stand for all: filters that cover the decisive ones cover everybody, and loads are as they are."""

import numpy as np
import pytest

from overstory.kernels.enlarging import grown_for, let_in_path, no_filters
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment import coreset as coresets
from overstory.planners.assignment import search as searching
from overstory.planners.assignment.coreset import UNITS, coreset, decisive_pairs, grouped
from overstory.planners.assignment.filters import covered_by
from overstory.planners.assignment.greedy import gr_star, ground_of
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.search import EFFORT, on_coreset, reach_of, work_of
from tests.planners.assignment.worlds import HOTSPOTS, LEVELS, RSS, SMALL, problem

WORLDS = pytest.mark.parametrize("what", [SMALL, LEVELS, HOTSPOTS, RSS], ids=lambda what: f"{what.kind} {what.levels}")


@WORLDS
def test_decisive_pairs_are_those_that_no_other_stands_for(what: Subscribers, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = problem(what)
    boxes, pairs = mine.space.rectangles, mine.pairs
    low, high = boxes[:, None, 0::2] >= boxes[None, :, 0::2], boxes[:, None, 1::2] <= boxes[None, :, 1::2]
    within = np.asarray((low & high).all(axis=2))
    lacks = mine.mask[:, None] < mine.mask[None]  # the first a leaf that the second has
    fewer = np.asarray(~lacks.any(axis=2))
    stands = within[np.ix_(pairs.rectangle, pairs.rectangle)] & fewer[np.ix_(pairs.which, pairs.which)]
    number = np.arange(len(pairs.size))
    same = (boxes[pairs.rectangle][:, None] == boxes[pairs.rectangle]).all(axis=2)
    same &= pairs.which[:, None] == pairs.which
    stands &= ~same | (number[None] < number[:, None])
    plain = ~stands.any(axis=1)
    assert np.array_equal(decisive_pairs(mine)[pairs.rectangle, pairs.which], plain)
    monkeypatch.setattr(coresets, "AT_ONCE", 7)
    assert decisive_pairs(mine).sum() == plain.sum()


@WORLDS
def test_filters_that_cover_the_decisive_pairs_cover_everybody(what: Subscribers) -> None:
    mine, draw = problem(what), np.random.default_rng(1)
    filters, grown, ground = (
        no_filters(len(mine.brokers.nodes), mine.boxes),
        grown_for(mine.boxes),
        ground_of(mine, 9.0),
    )
    for rectangle, which in np.argwhere(decisive_pairs(mine)):
        leaf = draw.choice(np.flatnonzero(mine.mask[which]))
        let_in_path(ground.sums, ground.parent, filters, leaf, ground.rectangles[rectangle], grown)
    served = mine.words[mine.which] & covered_by(mine, filters)[mine.rectangle]
    assert (served.max(axis=1) > 0).all()


def test_a_coreset_weighs_what_all_weigh_at_each_leaf() -> None:
    mine, draw = problem(SMALL), np.random.default_rng(1)
    leaf = gr_star(mine, residual=True).leaf
    groups, ground = grouped(mine, leaf), ground_of(mine, mine.factor)
    decisive = decisive_pairs(mine)
    items, chosen, roomy = coreset(ground, groups, decisive, 100, draw)
    assert len(items.size) < len(groups.leaf)
    sure = decisive[groups.items.rectangle, groups.items.which]
    assert np.isin(np.flatnonzero(sure), chosen).all()
    step = UNITS * SMALL.subscribers / 100
    load = np.bincount(groups.leaf[chosen], items.size, len(mine.fair))
    assert (abs(load - UNITS * np.bincount(leaf, minlength=len(mine.fair))) <= step + 1).all()
    assert (load <= roomy.capacity).all()


def test_searching_on_a_coreset_ends_within_the_limits_and_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "DRAWN", 100)
    mine = problem(LEVELS)
    start = gr_star(mine, residual=True)
    ground, work = ground_of(mine, mine.factor), work_of(EFFORT) // 50
    leaf, filters = on_coreset(mine, ground, reach_of(mine), start.leaf, start.filters, work, 1)
    assert bandwidth(mine, filters) < bandwidth(mine, start.filters)
    assert (np.bincount(leaf, minlength=len(mine.fair)) <= ground.capacity).all()
    served = covered_by(mine, filters)[mine.rectangle] & mine.words[mine.which]
    at = served[np.arange(len(leaf)), leaf // 64] >> (leaf % 64).astype(np.uint64) & np.uint64(1)
    assert at.all()
