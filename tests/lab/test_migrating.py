"""Migration: it lowers the cost, ends without cycles, heeds refusals and capacities, and goes on under churn."""

from itertools import pairwise

import numpy as np
import pytest

from overstory.kernels.overlay_state import access_and_core
from overstory.kernels.plain_overlay import access_at, cost_of
from overstory.lab.migrating import carried_on, churned, new_brokers, present, turn, until_quiet
from overstory.routing.migration import ACCEPT, CONNECT, DECLINE, REDIRECT, REPLICATE, REQUEST, Migration

from ..kernels.overlays import drawn


class Table:
    """Knowledge that is given as tables."""

    def __init__(self, savings: dict[int, dict[int, float]]) -> None:
        self.table = savings

    def users_of(self, broker: int) -> list[tuple[float, int]]:
        return [(float(user), user) for user in self.table]

    def savings(self, user: int) -> dict[int, float]:
        return self.table[user]

    def cost_of(self, user: int) -> float:
        return 10.0


def test_the_heaviest_user_is_asked_first_and_verbs_follow_each_other() -> None:
    policy, known = Migration(0, hysteresis=0.05), Table({1: {1: 5.0}, 7: {1: 1.0, 2: 3.0}})
    request = policy.propose(known)
    assert request is not None
    assert (request.verb, request.user, request.foreign) == (REQUEST, 7, 2)
    answers = policy.answered(request, True, known)
    assert [each.verb for each in answers] == [ACCEPT, REPLICATE, CONNECT, REDIRECT]
    known.table[7] = {1: 0.1}  # others have moved since: what is left does not pay
    assert policy.answered(request, True, known) == []


def test_whoever_declines_is_left_alone_for_a_while() -> None:
    policy, known = Migration(0, patience=3), Table({1: {1: 5.0}})
    request = policy.propose(known)
    assert request is not None
    assert [each.verb for each in policy.answered(request, False, known)] == [DECLINE]
    assert [policy.propose(known) is None for _ in range(3)] == [True, True, False]


def test_a_saving_within_the_hysteresis_moves_nobody() -> None:
    assert Migration(0, hysteresis=0.5).propose(Table({1: {1: 5.0}})) is None


@pytest.mark.parametrize("seed", range(12))
def test_it_ends_without_cycles_and_never_raises_the_cost(seed: int) -> None:
    problem, draw = drawn(seed, users=14, brokers=5, channels=4, tight=True), np.random.default_rng(seed)
    at = draw.integers(5, size=14)
    state = carried_on(problem, at)
    turns = until_quiet(state, new_brokers(5, 0.01), draw)
    costs = [sum(access_and_core(carried_on(problem, at))), *(each.cost for each in turns)]
    assert len(turns) < 300
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(costs))
    paid = [access_at(problem, user, broker) for user, broker in enumerate(state.at.tolist())]
    assert np.isclose(costs[-1], cost_of(problem, state.at.tolist(), paid))
    over = np.bincount(at, problem.demand, 5) > problem.capacity
    assert (state.load[~over] <= problem.capacity[~over] + 1e-9).all()


def test_under_churn_it_follows() -> None:
    problem, draw = drawn(3, users=30, brokers=4, channels=4), np.random.default_rng(3)
    prices = np.divide(
        problem.costs, problem.demand[:, None], out=np.ones_like(problem.costs), where=problem.demand[:, None] > 0
    )
    away, at = np.zeros(30, bool), problem.brokers[:, 0].astype(np.int64)
    brokers, knows = new_brokers(4, 0.01), np.ones(problem.brokers.shape, bool)
    given = problem
    for _ in range(5):
        given = churned(given, away, 0.3, draw)
        state = carried_on(present(given, away, prices), at)
        before = sum(access_and_core(state))
        for _ in range(20):
            last = turn(state, brokers, knows, 0.2, draw)
        assert last.cost <= before + 1e-9
        at = state.at.copy()
