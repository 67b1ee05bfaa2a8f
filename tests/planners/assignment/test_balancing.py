"""Maximum flows over classes: as large as over single subscribers, and the least load factor is the least."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from overstory.planners.assignment.balancing import capacities, is_feasible, least_load_factor, max_flow
from overstory.planners.assignment.problem import as_truths, as_words, distinct_rows
from overstory.planners.assignment.relaxation import Task
from overstory.planners.assignment.slp import assign_subscribers


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    mask = draw.random((6, 4)) < 0.5
    mask[~mask.any(axis=1), 0] = True
    return mask, draw.integers(1, 9, 6), draw.integers(3, 12, 4)


def plain_value(mask: np.ndarray, count: np.ndarray, room: np.ndarray) -> int:
    """A node for each subscriber."""
    each = np.repeat(np.arange(len(count)), count)
    size = len(each) + len(room) + 2
    matrix = np.zeros((size, size), np.int32)
    matrix[0, 1 : 1 + len(each)] = 1
    matrix[1 : 1 + len(each), 1 + len(each) : -1] = mask[each]
    matrix[1 + len(each) : -1, -1] = room
    return int(maximum_flow(csr_array(matrix), 0, size - 1).flow_value)


@pytest.mark.parametrize("seed", range(25))
def test_flow_by_class_is_plain_flow(seed: int) -> None:
    mask, count, room = drawn(seed)
    flow = max_flow(mask, count, room)
    assert flow.value == plain_value(mask, count, room) == flow.amounts.sum()
    assert mask[flow.classes, flow.brokers].all()
    assert (np.bincount(flow.brokers, flow.amounts, 4) <= room).all()
    assert (np.bincount(flow.classes, flow.amounts, 6) <= count).all()
    cut = count[~flow.stuck_classes].sum() + room[flow.stuck_brokers].sum()
    assert cut == flow.value  # a least cut: what is stuck cannot leave
    assert not mask[np.ix_(flow.stuck_classes, ~flow.stuck_brokers)].any()


@pytest.mark.parametrize("seed", range(10))
def test_the_least_load_factor_by_scanning(seed: int) -> None:
    mask, count, _ = drawn(seed)
    fair = np.random.default_rng(seed).dirichlet(np.ones(4)) * count.sum()
    tries = sorted({room / each for each in fair for room in range(1, int(count.sum()) + 1)})
    scanned = next(each for each in tries if is_feasible(mask, count, capacities(fair, each * (1 + 1e-12))))
    assert least_load_factor(mask, count, fair) == pytest.approx(scanned)


def test_no_load_factor_helps_those_whom_nobody_can_serve() -> None:
    assert least_load_factor(np.zeros((1, 2), bool), np.array([1]), np.ones(2)) == np.inf
    assert least_load_factor(np.array([[True, False]]), np.array([1]), np.array([0.0, 1.0])) == np.inf


def test_capacities_are_what_the_meter_allows() -> None:
    fair = np.array([200.0, 1 / 3, 7.3])
    for factor in (1.0, 1.5, 1.8, 2.3, 7 / 3):
        room = capacities(fair, factor)
        assert (room / fair <= factor).all()
        assert ((room + 1) / fair > factor).all()


def test_masks_as_words_and_back() -> None:
    mask = np.random.default_rng(3).random((50, 130)) < 0.3
    assert np.array_equal(as_truths(as_words(mask), 130), mask)
    words = as_words(mask)[np.random.default_rng(4).integers(0, 50, 300)]
    distinct, which = distinct_rows(words)
    assert np.array_equal(distinct[which], words)
    assert len(np.unique(distinct, axis=0)) == len(distinct)


@pytest.mark.parametrize("seed", range(10))
def test_subscribers_of_a_class_are_spread_as_the_flow_says(seed: int) -> None:
    mask, count, room = drawn(seed)
    which = np.repeat(np.arange(6), count)
    rectangle = np.random.default_rng(seed).integers(0, 3, len(which))
    task = Task(
        np.zeros((2, 2)), np.ones(4), np.zeros((3, 4), np.int64), rectangle, which, mask, np.ones(4), 3, 1.0, 2.0
    )
    found = assign_subscribers(task, np.ones((3, 4), bool), np.eye(4, dtype=bool), [room])
    served = found >= 0
    assert served.sum() == plain_value(mask, count, room)
    assert mask[which[served], found[served]].all()
    assert (np.bincount(found[served], minlength=4) <= room).all()
