"""The paper's worked numbers; MC, DC and OC by the one meter; and local estimates are the differences that they say."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from overstory.kernels import tamara, tamara_channels, tamara_estimates, tamara_state, tamara_updates
from overstory.planners.topics.clustering import alone, covered, direct_of, overall
from overstory.planners.topics.costs import SCRIBE_AVERAGE, Costs, linear, on_curve
from overstory.planners.topics.demand import Demand, lower_bound
from overstory.planners.topics.replaying import EVERYONE, Rules, clustering_of, empty_state, settle

from .instances import costs_for, metered, overall_by_sets, random_demand, scenario_for

LINEAR = linear(20_000, 200)
TABLE_2 = {  # units of the charts that the printed shares stand for: Scribe's maintenance and dissemination, Tamara's
    "average": (80, 11, 17, 16, (-78.75, 45.45, -63.73)),
    "frequent": (80, 32, 21, 37, (-73.75, 15.62, -48.21)),
    "infrequent": (80, 4, 9, 10, (-88.75, 150.0, -77.38)),
}
TABLE_3 = {  # of Scribe, static clusters, Tamara and k-means: maintenance and dissemination; and the printed shares
    "average": ((80, 12), (36, 29), (24, 24), (29, 13), (-29.34, -47.82, -54.34)),
    "frequent": ((80, 33), (60, 46), (26, 43), (30, 37), (-6.2, -38.9, -40.7)),
    "infrequent": ((80, 4), (29, 12), (3, 15), (28, 4), (-51.2, -78.57, -61.9)),
}


def state_with(users: int, topics: int) -> tamara_state.Tamara:
    return empty_state(users, np.full(topics, 0.1), LINEAR, Rules(), 4)


def test_adding_a_topic_pays_from_911_users_on() -> None:
    """A cluster of 10,000, and a topic with an event in ten intervals: |s̃| > 1001.1 / 1.1 = 910.09."""
    state = state_with(1, 2)

    def added(common: float) -> float:
        return tamara_estimates.adding(state, 10_000, 1, 0.1, 5_000, common)

    assert added(910) == pytest.approx(0.1)
    assert added(911) == pytest.approx(-1.0)
    assert added(1001.1 / 1.1) == pytest.approx(0.0, abs=1e-9)
    threshold = 1001.1 / 1.1
    assert threshold == pytest.approx(910.09, abs=0.001)


def test_the_coin_of_911_subscriptions() -> None:
    assert tamara_estimates.coin(0.99, 911.0) == pytest.approx(0.005042, abs=5e-7)


@pytest.mark.parametrize(("shared", "threshold", "below", "above"), [(80, 79.11, 79, 80), (7, 466.06, 466, 467)])
def test_merging_pays_from_a_number_of_common_users_on(shared: int, threshold: float, below: int, above: int) -> None:
    """Twenty topics more on each side, 200 users more on each side, each topic with an event in ten intervals."""
    state = state_with(1, 2)

    def merged(common: float) -> float:
        widths = np.array([20.0 + shared, 20.0 + shared, 40.0 + shared])
        return tamara_estimates.merging(state, np.array([200 + common, 200 + common]), widths, 0.1 * widths, common)

    exact = (0.1 * 8000 - shared * 1.1) / (0.1 * shared + 1)
    assert exact == pytest.approx(threshold, abs=0.005)
    assert merged(below) > 0 > merged(above)
    if shared == 80:
        assert merged(79) == pytest.approx(1.0)
        assert merged(80) == pytest.approx(-8.0)


def test_a_cluster_is_joined_for_enough_of_its_topics() -> None:
    """|t̃| > (1 + α |T_c|) / (1 + α): of 12 topics at 0.1, three are enough."""
    for wanted in range(1, 12):
        state = empty_state(1, np.full(12, 0.1), LINEAR, Rules(), 4)
        for topic in range(12):
            tamara_channels.put_topic(state, 0, topic)
        for topic in range(1, wanted):
            state.wants[0, topic] = 1
            tamara_channels.subscribe(state, 0, topic)
        assert tamara.joining(state, 0, 0, 0) == pytest.approx(1 - wanted + 0.1 * (12 - wanted))
        assert (tamara.joining(state, 0, 0, 0) < 0) == (wanted > (1 + 0.1 * 12) / 1.1)


@pytest.mark.parametrize("model", TABLE_2)
def test_the_printed_shares_are_those_of_whole_units(model: str) -> None:
    """And of Scribe's cost, maintenance is the share that the frequencies imply."""
    maintenance, dissemination, ours, ours_too, (one, other, all_) = TABLE_2[model]
    assert 100 * (ours / maintenance - 1) == pytest.approx(one, abs=0.01)
    assert 100 * (ours_too / dissemination - 1) == pytest.approx(other, abs=0.01)
    whole = maintenance + dissemination
    assert 100 * ((ours + ours_too) / whole - 1) == pytest.approx(all_, abs=0.01)
    share = maintenance / whole
    assert share == pytest.approx({"average": 0.8791, "frequent": 0.7142, "infrequent": 0.9524}[model], abs=1e-4)


@pytest.mark.parametrize("model", TABLE_3)
def test_the_shares_of_table_3_are_those_of_whole_units(model: str) -> None:
    """Static clusters, Tamara and k-means after a shift, and the share of maintenance in Scribe's cost."""
    scribe, *others, printed = TABLE_3[model]
    for (maintenance, dissemination), share in zip(others, printed, strict=True):
        whole = 100 * ((maintenance + dissemination) / sum(scribe) - 1)
        assert whole == pytest.approx(share, abs=0.11)
    expected = {"average": 0.8695, "frequent": 0.708, "infrequent": 0.9524}[model]
    assert scribe[0] / sum(scribe) == pytest.approx(expected, abs=1e-4)


def test_at_least_one_coin_wins_as_often_as_it_should() -> None:
    """So many tosses as the threshold is, many times over: the share of runs without a win is at most 1 - φ."""
    draws = np.array([0, 7], np.uint64)
    for phi, threshold in ((0.9, 5), (0.5, 40), (0.99, 3)):
        omega = tamara_estimates.coin(phi, float(threshold))
        assert 1 - (1 - omega) ** threshold >= phi - 1e-12
        lost = sum(all(tamara_state.uniform(draws) >= omega for _ in range(threshold)) for _ in range(4000))
        assert lost / 4000 == pytest.approx(1 - phi, abs=4 * np.sqrt(phi * (1 - phi) / 4000))


def curved(users: int, topics: int) -> Costs:
    found = linear(users, topics)
    return found._replace(maintain=on_curve(SCRIBE_AVERAGE, np.arange(users + 3.0)))


@settings(max_examples=40, deadline=None)
@given(seed=some.integers(0, 10**6), linear_costs=some.booleans())
def test_every_local_estimate_is_the_full_difference(seed: int, linear_costs: bool) -> None:
    draw = np.random.default_rng(seed)
    demand, _ = random_demand(draw, 9, 6)
    costs = costs_for(demand) if linear_costs else curved(9, 6)
    state = empty_state(9, demand.rates + 0.25, costs, Rules(sampled=EVERYONE), 12)
    clusters = [sorted(draw.choice(6, draw.integers(2, 5), replace=False).tolist()) for _ in range(3)]
    settle(state, demand._replace(rates=state.rate), covered(demand, costs_for(demand), clusters))

    def cost() -> float:
        return sum(tamara_state.overall(state))

    before = cost()
    for user in range(9):
        for cluster in np.flatnonzero(state.width).tolist():
            if not state.member[cluster, user]:
                told = tamara.joining(state, user, cluster, -1)
                tamara_channels.join(state, user, cluster)
                assert cost() - before == pytest.approx(told, abs=1e-9)
                before = cost()
                if state.size[cluster] > 1:
                    told = tamara.leaving(state, user, cluster, np.inf)
                    tamara_channels.leave(state, user, cluster)
                    assert cost() - before == pytest.approx(told, abs=1e-9)
                    before = cost()
    for cluster in np.flatnonzero(state.width).tolist():
        for topic in range(6):
            if not state.inside[cluster, topic]:
                members = state.rows[cluster, : state.size[cluster]]
                common = float(state.direct[members, topic].sum())
                numbers = int(state.size[cluster]), int(state.width[cluster]), float(state.rate[topic])
                told = tamara_estimates.adding(state, *numbers, int(state.fans[topic]), common)
                tamara_updates.add_topic(state, cluster, topic)
                assert cost() - before == pytest.approx(told, abs=1e-9)
                before = cost()
    used = np.flatnonzero(state.width).tolist()
    if len(used) > 1:
        one, other = used[:2]
        common = float(np.sum(state.member[one].astype(bool) & state.member[other].astype(bool)))
        told = tamara_estimates.merging_two(state, one, other, common)
        direct = state.direct.copy()
        tamara_updates.merge(state, one, other)
        if (direct == state.direct).all():  # else users also drop what the union now brings, and it pays more
            assert cost() - before == pytest.approx(told, abs=1e-9)
        else:
            assert cost() - before <= told + 1e-9
    topics = [topic for topic in range(6) if state.fans[topic]]
    if len(topics) > 1:
        one, other = topics[:2]
        before = cost()
        common = float(np.sum(state.direct[:, one].astype(bool) & state.direct[:, other].astype(bool)))
        sizes = [(float(state.rate[topic]), int(state.fans[topic])) for topic in (one, other)]
        told = tamara_estimates.pairing(state, *sizes[0], *sizes[1], common)
        tamara_updates.create(state, one, other)
        assert cost() - before == pytest.approx(told, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=some.integers(0, 10**6), linear_costs=some.booleans())
def test_what_it_saves_that_a_topic_goes_or_a_cluster_ends_is_the_full_difference(
    seed: int, linear_costs: bool
) -> None:
    draw = np.random.default_rng(seed)
    demand, _ = random_demand(draw, 9, 6)
    costs = costs_for(demand) if linear_costs else curved(9, 6)
    state = empty_state(9, demand.rates + 0.25, costs, Rules(sampled=EVERYONE), 12)
    clusters = [sorted(draw.choice(6, draw.integers(3, 6), replace=False).tolist()) for _ in range(3)]
    settle(state, demand._replace(rates=state.rate), covered(demand, costs_for(demand), clusters))

    def lacking(cluster: int, topic: int) -> int:
        members = state.rows[cluster, : state.size[cluster]].tolist()
        return sum(
            bool(state.wants[user, topic]) and not tamara_channels.brings(state, user, topic, cluster)
            for user in members
        )

    for cluster in np.flatnonzero(state.width).tolist():
        before, topic = sum(tamara_state.overall(state)), int(state.topics[cluster, 0])
        told = tamara_estimates.removing(state, cluster, topic, float(lacking(cluster, topic)))
        tamara_updates.remove_topic(state, cluster, topic)
        assert sum(tamara_state.overall(state)) - before == pytest.approx(told, abs=1e-9)
        before = sum(tamara_state.overall(state))
        topics = state.topics[cluster, : state.width[cluster]].tolist()
        told = tamara_estimates.destroying(state, cluster, np.array([float(lacking(cluster, each)) for each in topics]))
        tamara_updates.destroy(state, cluster)
        assert sum(tamara_state.overall(state)) - before == pytest.approx(told, abs=1e-9)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=some.integers(0, 10**6))
def test_the_overall_cost_is_that_of_the_meter(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the formulas over sets, of the arrays, of the kernel, and of the meter on a lawful plan: before and after each
    of some updates, so that differences are the same as well."""
    draw = np.random.default_rng(seed)
    demand, counts = random_demand(draw, 7, 5)
    counts = np.maximum(counts, 1)
    demand = demand._replace(rates=counts.astype(float))
    if not len(demand.topics):
        return
    kept = np.flatnonzero(np.diff(demand.offsets))  # a user without interests has no subscription
    scenario = scenario_for(tmp_path_factory.mktemp("topics") / "s", demand, counts)
    state = empty_state(7, demand.rates, costs_for(demand), Rules(sampled=EVERYONE), 12)
    clusters = [sorted(draw.choice(5, draw.integers(2, 5), replace=False).tolist()) for _ in range(2)]
    settle(state, demand, covered(demand, costs_for(demand), clusters))

    def agreed() -> None:
        found = clustering_of(state)
        expected = overall_by_sets(demand, costs_for(demand), found)
        assert tamara_state.overall(state) == pytest.approx(expected)
        assert tuple(overall(demand, costs_for(demand), found)) == pytest.approx(expected)
        held = [found.held[found.held_offsets[user] : found.held_offsets[user + 1]] for user in kept.tolist()]
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in held])])
        present = found._replace(held_offsets=offsets, held=np.concatenate([np.empty(0, np.int32), *held]))
        assert metered(scenario, present) == pytest.approx(sum(expected))

    agreed()
    wanting = kept.tolist()
    for cluster in np.flatnonzero(state.width).tolist():
        strangers = [user for user in wanting if not state.member[cluster, user]]
        if strangers:
            tamara_channels.join(state, strangers[0], cluster)
            agreed()
        absent = np.flatnonzero(state.inside[cluster] == 0).tolist()
        if absent:
            tamara_updates.add_topic(state, cluster, absent[0])
            agreed()
    used = np.flatnonzero(state.width).tolist()
    if len(used) > 1:
        tamara_updates.merge(state, *used[:2])
        agreed()
    if used:
        tamara_updates.remove_topic(state, used[0], int(state.topics[used[0], 0]))
        agreed()


@settings(max_examples=60, deadline=None)
@given(seed=some.integers(0, 10**6))
def test_nothing_costs_less_than_the_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    demand, _ = random_demand(draw, 8, 5)
    costs = costs_for(demand)
    clusters = [sorted(draw.choice(5, draw.integers(2, 5), replace=False).tolist()) for _ in range(3)]
    for found in (alone(demand), covered(demand, costs, clusters)):
        assert overall(demand, costs, found).cost >= lower_bound(demand, costs) - 1e-9


def test_a_user_without_interests_and_a_topic_without_subscribers(tmp_path: Path) -> None:
    """Such a user has no subscription; the events of such a topic are told to its channel, and go no further."""
    demand = Demand(np.array([0, 2, 2, 4]), np.array([0, 1, 0, 1], np.int32), np.array([2.0, 1.0, 3.0]))
    costs = costs_for(demand)
    assert overall(demand, costs, alone(demand)).cost == 2 + 2 + 2 * (1 + 2) + 1 * (1 + 2) + 3 * 1
    assert lower_bound(demand, costs) == 2 * 3 + 1 * 3 + 3 * 1 + 2
    scenario = scenario_for(tmp_path / "s", demand, np.array([2, 1, 3]))
    assert scenario.subscriptions.num_rows == 2
    nobody = alone(demand)._replace(held_offsets=np.zeros(3, np.int64))
    assert metered(scenario, nobody) == overall(demand, costs, alone(demand)).cost
    assert direct_of(demand, alone(demand)).all()
