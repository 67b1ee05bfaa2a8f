"""One arrival or departure at a time: limits hold, few are moved, and the plan stays near a fresh one."""

import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment import online
from overstory.planners.assignment.online import Online, part_of
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.search import search
from tests.planners.assignment.worlds import LEVELS, SMALL, problem


def check(running: Online, whole: Problem, here: np.ndarray) -> None:
    leaf, filters = running.state.leaf, running.state.filters
    assert np.array_equal(np.flatnonzero(leaf >= 0), np.sort(here))
    assert whole.mask[whole.which[here], leaf[here]].all()
    assert np.array_equal(running.state.load, np.bincount(leaf[here], minlength=len(whole.fair)))
    if not running.statistics.overloaded:
        room = running.roomier if running.statistics.crowded else running.ground
        assert (running.state.load <= room.capacity).all()
    for one in here.tolist():
        box = whole.space.rectangles[whole.rectangle[one]]
        mine = filters.boxes[leaf[one], : filters.counts[leaf[one]]]
        assert ((mine[:, 0::2] <= box[0::2]).all(axis=1) & (mine[:, 1::2] >= box[1::2]).all(axis=1)).any()


@pytest.mark.parametrize("what", [SMALL, LEVELS], ids=lambda what: what.levels)
def test_arrivals_and_departures(what: Subscribers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "EVERY", 60)
    monkeypatch.setattr(online, "BUDGET", 1 << 17)
    whole = problem(what)
    draw = np.random.default_rng(1)
    order = draw.permutation(len(whole.clients))
    here, away = order[:400].tolist(), order[400:].tolist()
    start = search(part_of(whole, np.array(here)), 1, 1)
    leaf = np.full(len(whole.clients), -1)
    leaf[here] = start.leaf
    running = Online(whole, leaf, start.filters)
    for _ in range(240):
        if draw.random() < 0.5 and away:
            here.append(away.pop())
            running.arrive(here[-1])
        else:
            gone = here.pop(int(draw.integers(len(here))))
            running.depart(gone)
            away.insert(0, gone)
    check(running, whole, np.array(here))
    known = running.statistics
    assert known.arrivals + known.departures == 240
    assert known.moves <= 240
    assert sum(running.moves_by_change) == known.moves
    assert len(running.moves_by_change) == 240
    assert running.moves_percentile(1.0) == max(running.moves_by_change)
    fresh = search(part_of(whole, np.array(here)), 1, 2)
    assert running.cost <= 1.15 * bandwidth(whole, fresh.filters)


def test_everybody_may_leave_and_come_again_but_nobody_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "EVERY", 10)
    monkeypatch.setattr(online, "BUDGET", 1 << 12)
    whole = problem(SMALL)
    running = Online(whole, np.full(len(whole.clients), -1), search(whole, 1, 1).filters)
    for one in range(10):
        running.arrive(one)
    with pytest.raises(UsageError, match="subscriber 3 is there already"):
        running.arrive(3)
    for one in range(10):
        running.depart(one)
    with pytest.raises(UsageError, match="subscriber 3 is not there"):
        running.depart(3)
    check(running, whole, np.array([], np.int64))
    assert running.statistics.arrivals == running.statistics.departures == 10
