"""Which boxes hold which, against all points of a small space."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory.kernels import holding
from overstory.kernels.holding import (
    HELD,
    LEFT_OUT,
    NOT_WHOLE,
    ONCE,
    TWICE,
    UNKNOWN,
    UNSURE,
    Domains,
    Groups,
    Pool,
    hulls_of,
    meet_unions,
    rows_left_out,
    served_once,
    work_for,
)
from overstory.kernels.nothing import NONE

Ints = NDArray[np.int64]
Box = tuple[dict[int, tuple[int, int]], bool]  # the ranges of attributes, and whether it is exact
Union = list[Box]
LOW, HIGH = (0, -1, 5), (3, 2, 6)  # of three attributes
POINTS = list(product(*(range(low, high + 1) for low, high in zip(LOW, HIGH, strict=True))))
DOMAINS = Domains(np.array(LOW), np.array(HIGH))

intervals = [
    st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda ends: (min(ends), max(ends)))
    for low, high in zip(LOW, HIGH, strict=True)
]
sides = st.fixed_dictionaries({}, optional=dict(enumerate(intervals)))
boxes = st.tuples(sides, st.sampled_from([True, True, True, False]))
unions = st.lists(boxes, max_size=4)
exact_unions = st.lists(st.tuples(sides, st.just(True)), max_size=5)


def pool_of(unions: list[Union]) -> Pool:
    every = [box for union in unions for box in union]
    ranges = [(attribute, *box[attribute]) for box, _ in every for attribute in sorted(box)]
    columns = np.array(ranges, np.int64).reshape(-1, 3).T
    return Pool(
        np.cumsum([0, *map(len, unions)]),
        np.array([exact for _, exact in every], bool),
        np.cumsum([0, *(len(box) for box, _ in every)]),
        columns[0].astype(np.int32),
        columns[1].copy(),
        columns[2].copy(),
    )


def holds(box: Box, point: tuple[int, ...]) -> bool:
    return all(low <= point[attribute] <= high for attribute, (low, high) in box[0].items())


def points(union: Union, exact: bool | None = None) -> set[tuple[int, ...]]:
    return {point for point in POINTS for box in union if exact in (None, box[1]) and holds(box, point)}


def answer(holding: Union, held: Union) -> int:
    sure = points(holding, True)
    if points(held) <= sure:
        return HELD
    complete = all(exact for _, exact in holding)
    return LEFT_OUT if complete and not points(held, True) <= sure else UNKNOWN


@given(exact_unions | unions, st.lists(st.lists(unions, max_size=3), max_size=3))
def test_what_a_row_leaves_out(row: Union, groups: list[list[Union]]) -> None:
    members = [union for group in groups for union in group]
    pool = pool_of([row, *members])
    offsets, places = np.cumsum([0, *map(len, groups)]), np.arange(1, len(members) + 1)
    asked = Groups(offsets, places, hulls_of(pool, offsets, places))
    work = work_for(DOMAINS, max(len(row), 1), 3)
    middle = len(groups) // 2
    spans = np.array([[0, middle, middle, len(groups)]])
    lost, doubts, count = rows_left_out(pool, DOMAINS, np.zeros(1, np.int64), spans, asked, work, 100)
    answers = [answer(row, union) for union in members]
    assert lost[0] == (answers.index(LEFT_OUT) if LEFT_OUT in answers else NONE)
    upto = lost[0] if lost[0] != NONE else len(answers)
    assert doubts[:, 1].tolist() == [at for at in range(upto) if answers[at] == UNKNOWN]
    assert count == len(doubts)


@given(unions, st.lists(unions, max_size=4))
def test_whether_a_union_is_served_once(wanted: Union, shares: list[Union]) -> None:
    pool = pool_of([wanted, *shares])
    numbers = np.arange(1, len(shares) + 1)
    (found,) = served_once(pool, DOMAINS, np.zeros(1, np.int64), np.array([0, len(shares)]), numbers)
    if any(points(one, True) & points(other, True) for one, other in combinations(shares, 2)):
        assert found == TWICE
        return
    together = answer([box for share in shares for box in share], wanted)
    apart = not any(points(one) & points(other) for one, other in combinations(shares, 2))
    expected = {LEFT_OUT: NOT_WHOLE, UNKNOWN: UNSURE, HELD: ONCE if apart else UNSURE}
    assert found == expected[together]


@given(st.lists(st.tuples(unions, unions), max_size=4))
def test_what_unions_have_in_common(pairs: list[tuple[Union, Union]]) -> None:
    one, other = pool_of([a for a, _ in pairs]), pool_of([b for _, b in pairs])
    met = meet_unions(one, np.arange(len(pairs)), other, np.arange(len(pairs)))
    for number, (a, b) in enumerate(pairs):
        assert points(union_of(met, number)) == points(a) & points(b)
        assert points(union_of(met, number), True) == points(a, True) & points(b, True)


def union_of(pool: Pool, number: int) -> Union:
    return [
        (
            {
                int(pool.attribute[at]): (int(pool.low[at]), int(pool.high[at]))
                for at in range(pool.range_offsets[box], pool.range_offsets[box + 1])
            },
            bool(pool.exact[box]),
        )
        for box in range(pool.offsets[number], pool.offsets[number + 1])
    ]


@given(st.lists(st.lists(unions, max_size=3), max_size=3))
def test_a_hull_is_the_least_box_around(groups: list[list[Union]]) -> None:
    every = [union for group in groups for union in group]
    pool = pool_of(every)
    hulls = hulls_of(pool, np.cumsum([0, *map(len, groups)]), np.arange(len(every)))
    for number, group in enumerate(groups):
        boxes = [box for union in group for box, _ in union]
        shared = set.intersection(*(set(box) for box in boxes)) if boxes else set()
        hull = {at: (min(box[at][0] for box in boxes), max(box[at][1] for box in boxes)) for at in shared}
        assert union_of(hulls, number) == ([(hull, False)] if boxes else [])


def test_beyond_the_work_allowed_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain function, which takes its limit from the module: a row of many slices that miss the last one."""
    slices: Union = [({0: (at, at)}, True) for at in range(3)]
    pool = pool_of([slices, [({}, True)]])
    work = work_for(DOMAINS, 3, 3)
    monkeypatch.setattr(holding, "MOST_WORK", 0)
    width = holding._take_names(pool, 0, work, 0)
    count = holding._spread(pool, DOMAINS, 0, work, width, 0)
    plain = holding._held.py_func  # type: ignore[attr-defined]
    assert plain(pool, DOMAINS, 3, work, width, count) == UNKNOWN
    monkeypatch.setattr(holding, "MOST_WORK", 100)
    assert plain(pool, DOMAINS, 3, work, width, count) == LEFT_OUT
