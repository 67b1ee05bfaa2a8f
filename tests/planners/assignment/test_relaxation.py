"""The programme of LPRelax is as good as the paper's, which has more variables, and large ones are solved well."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from overstory.planners.assignment import linear
from overstory.planners.assignment.candidate_filters import candidates
from overstory.planners.assignment.filter_assign import filter_assign, sample_for_loads, violated
from overstory.planners.assignment.linear import Programme, at_a_vertex, roughly_solved, solved
from overstory.planners.assignment.relaxation import Task, holding, not_implied, programme, weights_of
from overstory.planners.assignment.slp import task_of
from tests.planners.assignment.worlds import SMALL, problem


def as_in_the_paper(task: Task, every: np.ndarray, for_load: np.ndarray, boxes: np.ndarray, factor: float) -> float:
    """The value of the programme with x and (C2) to (C4) for every subscriber, row by row."""
    brokers, people = len(task.fair), len(every)
    wide = people * brokers + brokers * len(boxes)
    inside, mask = holding(boxes, task.rectangles[task.rectangle[every]]), task.mask[task.which[every]]
    rows, low, high = [], [], []

    def add(columns: list[int], values: list[float], least: float, most: float) -> None:
        row = np.zeros(wide)
        row[columns] = values
        rows.append(row)
        low.append(least)
        high.append(most)

    def y(broker: int, box: int) -> int:
        return people * brokers + broker * len(boxes) + box

    for one in range(people):
        near = np.flatnonzero(mask[one]).tolist()
        add([one * brokers + broker for broker in near], [1.0] * len(near), 1.0, np.inf)
        for broker in near:
            around = np.flatnonzero(inside[one]).tolist()
            columns = [y(broker, box) for box in around]
            add([*columns, one * brokers + broker], [1.0] * len(columns) + [-1.0], 0.0, np.inf)
    counted = np.flatnonzero(for_load).tolist()
    for broker in range(brokers):
        add([y(broker, box) for box in range(len(boxes))], [1.0] * len(boxes), -np.inf, float(task.boxes))
        room = factor * task.fair[broker] * len(counted) / len(task.rectangle)
        add([one * brokers + broker for one in counted], [1.0] * len(counted), -np.inf, room)
    weights = weights_of(task.sums, boxes)
    cost = np.concatenate([np.zeros(people * brokers), (task.prices[:, None] * weights[None, :]).reshape(-1)])
    found = solved(cost, np.ones(wide), csr_array(np.array(rows)), np.array(low), np.array(high))
    assert found is not None
    return found.value


@pytest.mark.parametrize("seed", range(4))
def test_the_programme_has_the_value_of_the_papers(seed: int) -> None:
    whole, draw = task_of(problem(SMALL)), np.random.default_rng(seed)
    every = np.sort(draw.choice(len(whole.rectangle), 24, replace=False))
    for_load = np.arange(24) % 3 == 0
    boxes = candidates(whole.rectangles[whole.rectangle[every]])[::3]
    boxes = np.concatenate([boxes, [[0, whole.sums.shape[0] - 1, 0, whole.sums.shape[1] - 1]]])
    mine, columns = programme(whole, every, for_load, boxes, 2.0)
    found = solved(*mine)
    assert found is not None
    assert columns.shape[0] == 2
    assert found.value == pytest.approx(as_in_the_paper(whole, every, for_load, boxes, 2.0), rel=1e-6)


@given(st.lists(st.tuples(st.frozensets(st.integers(0, 4)), st.booleans()), min_size=1, max_size=12))
def test_what_is_implied_contains_something_else(rows: list[tuple[frozenset[int], bool]]) -> None:
    sets = np.array([[number in mine for number in range(5)] for mine, _ in rows])
    loaded = np.array([is_loaded for _, is_loaded in rows])
    kept = not_implied(sets, loaded).tolist()
    assert not loaded[kept].any()
    left = {rows[one][0] for one in kept} | {mine for mine, is_loaded in rows if is_loaded}
    assert len({rows[one][0] for one in kept}) == len(kept)
    for one, (mine, is_loaded) in enumerate(rows):
        assert any(other <= mine for other in left)
        if one in kept:
            assert not is_loaded
            assert not any(other <= mine for other in left - {mine})


def test_a_large_programme_is_solved_roughly_and_then_at_a_vertex(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first-order method and the simplex method together are as good as the simplex method, within 2 %, and keep
    all limits."""
    draw = np.random.default_rng(1)
    rows, columns = 80, 400
    matrix = csr_array((draw.random((rows, columns)) < 0.1).astype(float))
    cost, low, high = draw.uniform(1, 9, columns), np.ones(rows), np.full(rows, np.inf)
    whole = Programme(cost, np.ones(columns), matrix, low, high)
    least = solved(*whole)
    monkeypatch.setattr(linear, "FEW_TO_ROUND", 10)
    rough = roughly_solved(whole)
    assert least is not None
    assert rough is not None
    assert not rough.is_vertex
    assert rough.value == pytest.approx(least.value, rel=0.05)
    found = at_a_vertex(whole, rough)
    assert found.is_vertex
    assert least.value * (1 - 1e-9) <= found.value <= 1.02 * least.value
    assert (matrix @ found.variables >= 1 - 1e-6).all()
    assert found.variables.min() >= 0
    assert found.variables.max() <= 1 + 1e-9
    assert (found.variables > 1e-9).sum() <= rows + (found.variables > 1 - 1e-9).sum()
    assert at_a_vertex(whole, found) is found
    monkeypatch.setattr(linear, "USED", 0.9999)  # few variables matter, so that rows fall short
    assert at_a_vertex(whole, rough) is rough


def test_filters_of_large_programmes_cover_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "FEW_TO_ROUND", 10)
    task = task_of(problem(SMALL))
    found = filter_assign(task, 1)
    assert found is not None
    assert not violated(task, found).any()


def test_a_sample_for_loads_has_an_assignment() -> None:
    task = task_of(problem(SMALL))
    found = sample_for_loads(task, 80, np.random.default_rng(0))
    assert found is not None
    assert len(found[0]) == 80
    assert found[1] == task.wanted
    tight = task._replace(wanted=0.5, most=0.6)  # there is none for anybody
    found = sample_for_loads(tight, 80, np.random.default_rng(0))
    assert found is not None
    assert found[1] > 1 - 1e-9
    assert filter_assign(tight, 0) is not None
    nowhere = task._replace(mask=np.zeros_like(task.mask))
    assert sample_for_loads(nowhere, 80, np.random.default_rng(0)) is None
