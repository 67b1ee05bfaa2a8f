"""The search that counts moves: it keeps the law, counts right, and moves nobody for whom that does not pay."""

import numpy as np
import pytest

from overstory.kernels.enlarging import grown_for, let_in_path, no_filters
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.recreating import Reach
from overstory.kernels.served import Items
from overstory.kernels.staying import home_of, improve_near
from tests.kernels.test_assigning import check_nested, holds_all, levels

COUNT = 30


def begun(seed: int) -> tuple[Ground, Reach, Items, State]:
    """Items of several subscribers each, anywhere in reach, and filters for them."""
    ground, reach = levels(seed)
    draw = np.random.default_rng(seed)
    items = Items(draw.integers(0, 6, COUNT), draw.integers(0, 4, COUNT), draw.integers(1, 4, COUNT))
    leaf = np.array([draw.choice(reach.leaves[reach.offsets[one] : reach.offsets[one + 1]]) for one in items.which])
    filters, grown = no_filters(6, 2), grown_for(2)
    for item in range(COUNT):
        let_in_path(ground.sums, ground.parent, filters, leaf[item], ground.rectangles[items.rectangle[item]], grown)
    load = np.bincount(leaf, items.size, 4).astype(np.int64)
    room = np.maximum(ground.capacity * 0 + 20, load)
    return ground._replace(capacity=room), reach, items, State(filters, np.zeros((6, 1), np.uint64), load, leaf)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("price", "most"), [(0.0, 1000), (0.5, 1000), (0.0, 5)])
def test_the_law_is_kept_and_moves_are_counted(seed: int, price: float, most: int) -> None:
    ground, reach, items, state = begun(seed)
    before, home = float(state.filters.weights.sum()), home_of(state.leaf.copy(), state.filters, 4, price, most)
    cost, moved = improve_near(ground, reach, items, state, home, 40_000, seed)
    assert moved == items.size[state.leaf != home.leaf].sum() == home.moved[0]
    assert moved <= most
    assert cost + price * moved <= before
    assert cost == pytest.approx(float(state.filters.weights.sum()))
    check_nested(ground, state.filters)
    assert np.array_equal(state.load, np.bincount(state.leaf, items.size, 4))
    assert (state.load <= ground.capacity).all()
    for item in range(COUNT):
        assert state.leaf[item] in reach.leaves[reach.offsets[items.which[item]] : reach.offsets[items.which[item] + 1]]
        assert holds_all(state.filters, state.leaf[item], ground.rectangles[items.rectangle[item]])


@pytest.mark.parametrize("seed", range(6))
def test_nobody_moves_where_no_gain_is_worth_a_move(seed: int) -> None:
    ground, reach, items, state = begun(seed)
    home = home_of(state.leaf.copy(), state.filters, 4, 1e6, 1000)
    _, moved = improve_near(ground, reach, items, state, home, 40_000, seed)
    assert moved == 0
    assert np.array_equal(state.leaf, home.leaf)


def test_dearer_moves_are_fewer() -> None:
    moves = dict.fromkeys((0.0, 2.0, 20.0), 0)
    for seed in range(8):
        for price in moves:
            ground, reach, items, state = begun(seed)
            home = home_of(state.leaf.copy(), state.filters, 4, price, 1000)
            moves[price] += improve_near(ground, reach, items, state, home, 40_000, seed)[1]
    assert moves[0.0] > moves[2.0] > moves[20.0]


def test_whoever_has_just_come_moves_for_nothing() -> None:
    ground, reach, items, state = begun(1)
    home = home_of(np.full(COUNT, NONE), state.filters, 4, 1e6, 0)
    before = float(state.filters.weights.sum())
    cost, moved = improve_near(ground, reach, items, state, home, 40_000, 1)
    assert moved == 0
    assert cost < before
