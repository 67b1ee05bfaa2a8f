"""Annealing: exact states at any temperature, no dearer ones without heat, and capacities that hold in the end."""

import numpy as np
import pytest

from overstory.kernels.overlay_annealing import heat_pass, relieve
from overstory.kernels.overlay_state import access_and_core, new_state
from overstory.kernels.plain_overlay import access_at, cost_of

from .overlays import drawn


@pytest.mark.parametrize("seed", range(8))
def test_states_stay_exact_and_capacities_are_restored(seed: int) -> None:
    problem, draw = drawn(seed, users=16, brokers=5, channels=4, tight=True), np.random.default_rng(seed)
    at = np.zeros(16, np.int64)
    paid = np.array([access_at(problem, user, 0) for user in range(16)])
    state = new_state(problem, at, paid)
    for temperature in (10.0, 1.0, 0.1):
        heat_pass(state, draw.permutation(16), draw.gumbel(size=97), temperature, 0.5)
        assert np.isclose(sum(access_and_core(state)), cost_of(problem, state.at.tolist(), state.paid.tolist()))
    assert relieve(state) == 0
    assert (np.bincount(state.at, problem.demand, 5) <= problem.capacity + 1e-9).all()
    before = sum(access_and_core(state))
    heat_pass(state, draw.permutation(16), draw.gumbel(size=97), 0.0, 1e9)
    assert sum(access_and_core(state)) <= before + 1e-9
    assert (np.bincount(state.at, problem.demand, 5) <= problem.capacity + 1e-9).all()
