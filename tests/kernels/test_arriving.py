"""Assignments that change one item at a time: who has to move, and that nobody else does."""

import numpy as np

from overstory.kernels import arriving
from overstory.kernels.enlarging import Filters, grown_for, let_in_path, no_filters
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items
from overstory.kernels.staying import Home, home_of
from overstory.kernels.volumes import coarse_of

NARROW, WIDE, FAR = 0, 1, 2  # rectangles
RECTANGLES = np.array([[1, 2, 1, 2], [0, 4, 0, 4], [6, 8, 6, 8]])


def ground_of(*capacity: int) -> Ground:
    """Three leaves: class i may be at leaves i and i + 1, the last one at the last leaf alone."""
    sums = np.zeros((10, 10))
    sums[1:, 1:] = np.ones((9, 9)).cumsum(0).cumsum(1)
    three, words = np.ones(3), np.array([[3], [6], [4]], np.uint64)
    return Ground(sums, coarse_of(sums), three, np.full(3, -1), RECTANGLES, words, three, np.array(capacity))


def filters_of(ground: Ground, wanted: list[list[int]]) -> Filters:
    filters, grown = no_filters(3, 2), grown_for(2)
    for leaf, rectangles in enumerate(wanted):
        for rectangle in rectangles:
            let_in_path(ground.sums, ground.parent, filters, leaf, ground.rectangles[rectangle], grown)
    return filters


def state_of(filters: Filters, leaf: list[int]) -> State:
    at = np.array(leaf)
    return State(filters, np.zeros((3, 1), np.uint64), np.bincount(at[at >= 0], minlength=3), at)


def home_for(items: Items, price: float = 0.0) -> Home:
    return home_of(np.full(len(items.size), NONE), no_filters(3, 2), 3, price, 0)


def test_an_arrival_takes_the_place_of_those_who_can_go_elsewhere_for_nothing() -> None:
    ground, items = ground_of(1, 1, 1), Items(np.zeros(3, np.int64), np.array([0, 1, 0]), np.ones(3, np.int64))
    state = state_of(filters_of(ground, [[NARROW]] * 3), [0, 1, NONE])
    chains, out = arriving.chains_of_few(ground, items, state)
    assert arriving.arrive(ground, items, state, chains, out, 2, home_for(items)) == 2
    assert state.load.tolist() == [1, 1, 1]
    assert state.leaf.tolist() == [1, 2, 0]
    assert state.filters.weights.tolist() == [1, 1, 1]


def test_an_arrival_without_a_place_changes_nothing() -> None:
    ground, items = ground_of(1, 1, 0), Items(np.zeros(3, np.int64), np.array([0, 1, 0]), np.ones(3, np.int64))
    state = state_of(filters_of(ground, [[NARROW]] * 3), [0, 1, NONE])
    chains, out = arriving.chains_of_few(ground, items, state)
    assert arriving.arrive(ground, items, state, chains, out, 2, home_for(items)) == NONE
    assert state.leaf.tolist() == [0, 1, NONE]
    assert state.load.tolist() == [1, 1, 0]
    assert out.count[0] == 0
    assert not out.is_out.any()


def test_whoever_has_left_makes_room_for_the_next() -> None:
    ground, items = ground_of(1, 0, 0), Items(np.zeros(2, np.int64), np.zeros(2, np.int64), np.ones(2, np.int64))
    state = state_of(filters_of(ground, [[NARROW], [], []]), [0, NONE])
    chains, out = arriving.chains_of_few(ground, items, state)
    home = home_for(items)
    assert arriving.arrive(ground, items, state, chains, out, 1, home) == NONE
    arriving.depart(items, state, chains, 0)
    assert arriving.arrive(ground, items, state, chains, out, 1, home) == 0
    assert state.leaf.tolist() == [NONE, 0]


def test_a_place_is_taken_whatever_it_costs_and_filters_grow_for_it() -> None:
    ground, items = ground_of(0, 0, 0), Items(np.array([WIDE]), np.array([0]), np.ones(1, np.int64))
    state = state_of(filters_of(ground, [[NARROW], [], []]), [NONE])
    chains, _ = arriving.chains_of_few(ground, items, state)
    arriving.place(ground, items, state, chains, 0, 0, grown_for(2))
    assert (state.leaf[0], state.load[0], state.covered[WIDE, 0]) == (0, 1, 1)


def test_filters_grow_where_that_is_cheaper_than_the_moves_that_make_room() -> None:
    """The first leaf is full and could send one to the last, the second would have to grow by 15."""
    for price, expected in ((14.0, [2, NONE, 0]), (16.0, [0, NONE, 1])):
        ground = ground_of(1, 1, 1)._replace(words=np.array([[3], [5], [4]], np.uint64))
        items = Items(np.full(3, WIDE), np.array([1, 2, 0]), np.ones(3, np.int64))
        state = state_of(filters_of(ground, [[WIDE], [NARROW], [WIDE]]), [0, NONE, NONE])
        chains, out = arriving.chains_of_few(ground, items, state)
        arriving.arrive(ground, items, state, chains, out, 2, home_for(items, price))
        assert state.leaf.tolist() == expected


def test_a_leaf_that_has_too_many_sends_all_of_these_on_which_costs_as_much() -> None:
    """Three are at the first leaf, which has room for one; the second would have to grow by 15."""
    for price, expected in ((4.0, [2, 2, 2, 0]), (6.0, [0, 0, 0, 1])):
        ground = ground_of(1, 1, 9)._replace(words=np.array([[3], [5], [4]], np.uint64))
        items = Items(np.full(4, WIDE), np.array([1, 1, 1, 0]), np.ones(4, np.int64))
        state = state_of(filters_of(ground, [[WIDE], [NARROW], [WIDE]]), [0, 0, 0, NONE])
        chains, out = arriving.chains_of_few(ground, items, state)
        arriving.arrive(ground, items, state, chains, out, 3, home_for(items, price))
        assert state.leaf.tolist() == expected
