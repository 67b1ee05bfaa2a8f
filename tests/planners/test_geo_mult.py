"""Groups by location: medoids that are near, trees from them, and one group where that is best."""

import random
from pathlib import Path

import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.pipeline.validate import problems_of_plan
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.trees import geo_mult
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.geo_mult import Groups, cost_of, distances_between, k_medoids, things_of
from overstory.planners.trees.spt import paths_from

from .scenarios import law_is_kept, line_of_brokers, random_scenarios
from .steps import Steps


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    return random_scenarios(tmp_path_factory.mktemp("scenarios"), 40)


def planned(scenario: Scenario, given: dict[str, Value] | None = None, seed: int = 0) -> Plan:
    return make_plan("geo-mult", scenario, Steps(), given or {}, seed)


def demand(scenario: Scenario) -> Demand:
    return demand_of(scenario, Steps(), defaults.tables(scenario))


@pytest.mark.parametrize("given", [{}, {"groups": 3}, {"groups": 2, "by": "filter"}, {"by": "subscription"}])
def test_everything_is_delivered_once(given: dict[str, Value], scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned(scenario, given)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert law_is_kept(scenario, plan)
        assert plan.trees.equals(planned(scenario, given).trees)


@pytest.mark.parametrize("way", geo_mult.WAYS)
def test_no_round_raises_the_distance(way: str, scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        things, far = things_of(asked, way), distances_between(asked.network)
        for size in (1, 2, 4):
            rounds = [k_medoids(things, far, size, 1, rounds).distance for rounds in range(4)]
            assert rounds == sorted(rounds, reverse=True)


def test_medoids_are_nearer_than_random_brokers(scenarios: list[Scenario]) -> None:
    dice = np.random.default_rng(2)
    for scenario in scenarios:
        asked = demand(scenario)
        things, far = things_of(asked, "subscription"), distances_between(asked.network)
        for size in (1, 2):
            drawn = dice.integers(len(asked.network), size=size)
            anywhere = (things.weights @ far[:, drawn]).min(axis=1).sum()
            assert min(k_medoids(things, far, size, seed).distance for seed in range(3)) <= anywhere * 1.000001


def test_one_group_is_the_tree_of_its_centre(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        things, far = things_of(asked, "filter"), distances_between(asked.network)
        groups = k_medoids(things, far, 1, 0)
        centre = scenario.network.ids[groups.centres[0]].item()
        sums = [float(things.weights.sum(axis=0) @ far[:, each]) for each in range(len(asked.network))]
        assert sums[groups.centres[0]] == min(sums)
        tree = planned(scenario, {"groups": 1}).trees if asked.items else None
        if tree is not None:
            rooted = make_plan("spt", scenario, Steps(), {"root": centre}).trees
            links = [
                {frozenset(link) for link in zip(each["source"].to_pylist(), each["target"].to_pylist(), strict=True)}
                for each in (tree, rooted)
            ]
            assert links[0] == links[1]


def test_two_places_far_apart(tmp_path: Path) -> None:
    """On a line, with subscribers at both ends: two medoids stand there, and distances are as networkx would say."""
    scenario = line_of_brokers(tmp_path / "line", 9, {"a": [0, 1], "b": [8, 7]}, [(4, "a"), (4, "b")] * 10)
    asked = demand(scenario)
    far = distances_between(asked.network)
    assert far[0].tolist() == [float(each) for each in range(9)]
    groups = k_medoids(things_of(asked, "filter"), far, 2, 0)
    assert {each <= 1 for each in groups.centres.tolist()} == {True, False}
    assert len(set(groups.of_item[:2].tolist())) == 1 != len(set(groups.of_item.tolist()))


def test_the_number_of_groups_is_chosen_by_cost(scenarios: list[Scenario]) -> None:
    """On the part of the sample that is to choose by; one group is among the candidates."""
    for scenario in scenarios:
        asked = demand(scenario)
        chosen = geo_mult.best_groups(asked, geo_mult.WAYS, [1, 2, 4], 0)
        for way in geo_mult.WAYS:
            one = k_medoids(things_of(asked, way), distances_between(asked.network), 1, 0)
            assert cost_of(asked, asked.choose, chosen) <= cost_of(asked, asked.choose, one)


def test_cost_is_that_of_the_trees(scenarios: list[Scenario]) -> None:
    """One group: the cheapest paths from the centre, up from the root and down to each terminal."""
    for scenario in scenarios:
        asked = demand(scenario)
        rows = asked.fit
        single = Groups(np.array([0]), np.zeros(asked.items, np.int64), 0.0)
        assert cost_of(asked, rows, single) >= 0
        far, _ = paths_from(asked.network, rows.roots)
        ends = [asked.item_broker[rows.items[a:b]] for a, b in zip(rows.offsets, rows.offsets[1:], strict=False)]
        nearest = [max(far[row, brokers]) * rows.bytes[row] for row, brokers in enumerate(ends)]
        assert cost_of(asked, rows, single) >= sum(nearest) - 1e-9


def test_bad_input(tmp_path: Path) -> None:
    nobody = line_of_brokers(tmp_path / "nobody", 3, {}, [(0, "a")])
    assert planned(nobody).flows.num_rows == 0
    silent = line_of_brokers(tmp_path / "silent", 3, {"a": [2], "b": [0]}, [])
    assert problems_of_plan(silent, planned(silent), np.empty(0, np.int64)) == []
    alone = line_of_brokers(tmp_path / "alone", 3, {"a": [2]}, [(0, "a")] * 5)
    plan = planned(alone)
    assert plan.members.num_rows == 1
    assert law_is_kept(alone, plan)


def test_parameters(scenarios: list[Scenario]) -> None:
    groups: list[Value] = [0, "many", 1.5, True, None]
    for wrong in groups:
        with pytest.raises(UsageError, match="auto or a number from 1 on"):
            planned(scenarios[0], {"groups": wrong})
    with pytest.raises(UsageError, match="by=broker: it is subscription, filter or both"):
        planned(scenarios[0], {"by": "broker"})


def test_seeds(scenarios: list[Scenario]) -> None:
    dice = random.Random(1)
    for scenario in dice.sample(scenarios, 5):
        for seed in range(3):
            one, other = (planned(scenario, {"groups": 2}, seed) for _ in range(2))
            assert one.members.equals(other.members)
            assert one.trees.equals(other.trees)
