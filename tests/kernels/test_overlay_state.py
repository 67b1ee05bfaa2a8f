"""Users at brokers: the cost equals its plain twin, and differences equal recomputation, whatever was moved before."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.overlay_state import access_and_core, differences, move, new_state
from overstory.kernels.plain_overlay import access_at, cost_of

from .overlays import drawn


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 6), st.integers(1, 4))
def test_differences_equal_recomputation(seed: int, users: int, brokers: int, channels: int) -> None:
    problem = drawn(seed, users, brokers, channels)
    draw = np.random.default_rng(seed)
    at = draw.integers(brokers, size=users)
    paid = np.array([access_at(problem, user, broker) for user, broker in enumerate(at.tolist())])
    state = new_state(problem, at, paid)
    found = np.empty(problem.brokers.shape[1])
    for user in draw.integers(users, size=12).tolist():
        before = cost_of(problem, state.at.tolist(), state.paid.tolist())
        assert np.isclose(sum(access_and_core(state)), before, atol=1e-9)
        differences(state, user, found)
        for place, broker in enumerate(problem.brokers[user].tolist()):
            moved, pays = state.at.copy(), state.paid.copy()
            moved[user], pays[user] = broker, problem.costs[user, place]
            assert np.isclose(found[place], cost_of(problem, moved.tolist(), pays.tolist()) - before, atol=1e-9)
        chosen = int(draw.integers(brokers))
        move(state, user, int(problem.brokers[user, chosen]), float(problem.costs[user, chosen]))
    loads = np.bincount(state.at, problem.demand, brokers)
    assert np.allclose(state.load, loads)
    assert np.array_equal(state.users, np.bincount(state.at, minlength=brokers))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_differences_where_few_brokers_are_within_reach(seed: int, channels: int) -> None:
    whole = drawn(seed, 6, 12, channels)
    problem = whole._replace(brokers=whole.brokers[:, :2].copy(), costs=whole.costs[:, :2].copy())
    draw = np.random.default_rng(seed)
    place = draw.integers(2, size=6)
    rows = np.arange(6)
    state = new_state(problem, problem.brokers[rows, place].astype(np.int64), problem.costs[rows, place])
    found = np.empty(2)
    for user in draw.integers(6, size=8).tolist():
        before = cost_of(problem, state.at.tolist(), state.paid.tolist())
        differences(state, user, found)
        for at in range(2):
            moved, pays = state.at.copy(), state.paid.copy()
            moved[user], pays[user] = problem.brokers[user, at], problem.costs[user, at]
            assert np.isclose(found[at], cost_of(problem, moved.tolist(), pays.tolist()) - before, atol=1e-9)
        chosen = int(draw.integers(2))
        move(state, user, int(problem.brokers[user, chosen]), float(problem.costs[user, chosen]))
