"""Planners that attach clients: lawful plans, oracles, capacities, what is infeasible, and the same plan every time."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from overstory.errors import InfeasibleError, UsageError
from overstory.kernels.overlay_exact import cost
from overstory.kernels.overlay_state import access_and_core, new_state
from overstory.lab.overlay_example import make_example, make_star
from overstory.lab.overlay_steinlib import make_reduction
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.lab.stp import Problem
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.overlay.baselines import facility_location, linear_programme, primal_dual, publisher_relocation
from overstory.planners.overlay.clustering import clustered
from overstory.planners.overlay.exact import attached, branched, optimal_tree, small_of, solve
from overstory.planners.overlay.greedy_packing import packed
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.mixing import mixed, votes_of
from overstory.planners.overlay.partition import partitioned
from overstory.planners.overlay.search import check_effort, improved, passes_for, searched
from overstory.planners.overlay.writing import CORES
from overstory.planners.registry import PLANNERS

from ..scenarios import law_is_kept

OVERLAY = [name for name, planner in PLANNERS.items() if planner.problem == "overlay" and name != "nearest"]
FAST = [name for name in OVERLAY if name != "overlay-exact"]


def quadratic(folder: Path, seed: int = 1, **given: object) -> Scenario:
    usual: dict[str, object] = {"users": 40, "brokers": 4, "channels": 5, "events": 200, "grid": 20}
    make_quadratic(folder, Quadratic(**(usual | given)), seed)  # type: ignore[arg-type]
    return read_scenario(folder)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return quadratic(tmp_path_factory.mktemp("overlay") / "scenario")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[Instance]:
    """Up to 12 users and 4 brokers, under all laws."""
    folder, found = tmp_path_factory.mktemp("small"), []
    for seed in range(25):
        draw = random.Random(seed)
        made = quadratic(
            folder / str(seed),
            seed,
            users=draw.randint(4, 12),
            brokers=draw.randint(2, 4),
            width=draw.choice([0.1, 0.3]),
            grid=6,
            access_core_ratio=draw.choice([0.2, 1.0, 5.0]),
            prices=draw.choice(["metric", "independent"]),
            capacity=draw.choice([0.0, 4.0]),
        )
        found.append(Instance(made, Workbench(made), "auto", fine=True))
    return found


@pytest.mark.parametrize("name", FAST)
def test_plans_are_lawful_and_the_same_every_time(name: str, scenario: Scenario) -> None:
    bench = Workbench(scenario)
    plan = make_plan(name, scenario, bench, {}, 3)
    assert problems_of_plan(scenario, plan, bench.publishers(scenario)) == []
    assert plan.members.num_rows == 0
    again = make_plan(name, scenario, Workbench(scenario), {}, 3)
    assert all(getattr(plan, table).equals(getattr(again, table)) for table in ("attachments", "flows", "trees"))
    if name != "random":
        assert bench.score(plan).exceeded == ()


@pytest.mark.parametrize("core", CORES)
def test_every_core_keeps_the_law(core: str, scenario: Scenario) -> None:
    few = replace(scenario, subscriptions=scenario.subscriptions)
    plan = make_plan("greedy-packing", few, Workbench(few), {"core": core}, 1)
    assert problems_of_plan(few, plan, Workbench(few).publishers(few)) == []
    assert law_is_kept(few, plan)


def test_exact_is_below_everything_and_search_near_it(small: list[Instance]) -> None:
    others: dict[str, Callable[[Instance], NDArray[np.int64]]] = {
        "greedy": packed,
        "clustering": clustered,
        "mixing": lambda each: mixed(each, 1),
        "facility": lambda each: facility_location(each, 1),
        "relocation": lambda each: publisher_relocation(each, 1),
        "primal-dual": lambda each: primal_dual(each, 1),
    }
    gaps = []
    for instance in small:
        table, (_, least) = small_of(instance), branched(instance)
        for name, attach in others.items():
            assert cost(table, attach(instance)) >= least * (1 - 1e-9), name
        found = searched(instance, 8, 1).at
        assert np.isfinite(cost(table, found))  # capacities hold
        gaps.append(cost(table, found) / least - 1)
    assert np.mean(gaps) <= 0.02
    assert max(gaps) <= 0.10


def test_annealing_works_longer_with_more_effort_and_less_on_larger_instances() -> None:
    assert passes_for(1_000, 100, 10, 1) == 900
    assert passes_for(1_000, 100, 110, 4) == 714
    assert passes_for(10_000, 100, 10, 1) == 90
    assert passes_for(1_000, 20, 50, 1) == 200
    assert passes_for(0, 5, 0, 3) == 600
    assert passes_for(10_000_000, 100, 10, 1) == 0


@pytest.mark.parametrize("effort", [0, -1, 1.5, True, "much"])
def test_an_effort_is_a_number_from_one_on(effort: object) -> None:
    with pytest.raises(UsageError, match=f"effort={effort}: it is a number from 1 on"):
        check_effort(effort)


def test_two_exact_methods_agree(small: list[Instance]) -> None:
    for instance in [each for each in small if len(each.traffic.users) < 8][:3]:
        at, least = branched(instance)
        other, told = solve(instance)
        assert np.isclose(cost(small_of(instance), other), least, rtol=1e-6)
        assert np.isclose(told, least, rtol=1e-5)
        assert np.isclose(cost(small_of(instance), at), least)


def test_a_steiner_tree_problem_becomes_an_overlay(tmp_path: Path) -> None:
    """Zhao and Wu's own reduction, on a wheel: a hub that joins four ends for 4, where the rim takes 6."""
    rim = [(at, (at + 1) % 4, 2.0) for at in range(4)]
    links = [
        link for u, v, price in [*rim, *((at, 4, 1.0) for at in range(4))] for link in ((u, v, price), (v, u, price))
    ]
    make_reduction(tmp_path / "wheel", Problem("wheel", 5, links, 8, [0, 1, 2, 3]))
    scenario = read_scenario(tmp_path / "wheel")
    bench = Workbench(scenario)
    exact, greedy = (
        bench.score(make_plan(name, scenario, bench, {})).cost for name in ("overlay-exact", "greedy-packing")
    )
    assert (exact, greedy) == (40.0, 60.0)
    instance = Instance(scenario, bench, "auto", fine=True)
    assert attached(instance).tolist() == [0, 1, 2, 3]
    assert len(optimal_tree(instance, 0, np.array([1, 2, 3]))) == 4


def test_steiner_points_beat_spanning_trees_on_the_star(tmp_path: Path) -> None:
    make_star(tmp_path / "star")
    scenario = read_scenario(tmp_path / "star")
    bench = Workbench(scenario)
    costs = {
        name: bench.score(make_plan(name, scenario, bench, {})).cost for name in ("greedy-packing", "overlay-search")
    }
    assert costs == {"greedy-packing": 80.0, "overlay-search": 60.0}  # 4 and 3 for each of 20 bytes


def test_nearest_is_optimal_where_core_is_free_and_capacities_loose(small: list[Instance]) -> None:
    for instance in small[:5]:
        free = instance.given._replace(far=np.zeros_like(instance.given.far), near=np.zeros_like(instance.given.near))
        free = free._replace(capacity=np.full(len(free.capacity), np.inf))
        nearest = instance.reach.brokers[:, 0].astype(np.int64)
        state = new_state(free, nearest, instance.access_at(nearest))
        before = sum(access_and_core(state))
        assert improved(state, np.random.default_rng(1), 3) == before
        assert np.isclose(before, instance.reach.costs[:, 0].sum())


def test_search_never_raises_the_cost_and_keeps_capacities(scenario: Scenario) -> None:
    instance = Instance(scenario, Workbench(scenario), "auto", fine=True)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        at = packed(instance)
        state = new_state(instance.given, at, instance.access_at(at))
        costs = [sum(access_and_core(state))]
        for _ in range(3):
            costs.append(improved(state, draw, 1))
            assert costs[-1] <= costs[-2] * (1 + 1e-12)
            assert (np.bincount(state.at, instance.traffic.demand, 4) <= instance.capacity * (1 + 1e-12)).all()


def test_mixing_degenerates_where_access_obeys_the_triangle_inequality(scenario: Scenario) -> None:
    """Every tree attaches everybody to its publisher's broker: all votes of a user are for such brokers."""
    instance = Instance(scenario, Workbench(scenario), 5)
    metric = instance.prices / instance.prices.mean() * instance.ways.far.mean()
    assert (votes_of(instance) >= 0).all()
    assert metric.shape == votes_of(instance).shape
    rates, votes = instance.rates_matrix(), votes_of(instance)
    assert np.isclose(votes.sum(), (instance.wants_matrix() * rates.sum(axis=0)).sum() + rates.sum())


def test_the_partition_and_the_programme_attach_everybody(small: list[Instance]) -> None:
    for instance in small[:2]:
        for at in (partitioned(instance, 1), linear_programme(instance, 1)):
            assert ((instance.reach.brokers == at[:, None]).any(axis=1)).all()


def test_capacities_that_cannot_suffice_are_refused(tmp_path: Path) -> None:
    scenario = quadratic(tmp_path / "tight", capacity=0.5)
    with pytest.raises(InfeasibleError, match="capacity: clients send and get about"):
        make_plan("greedy-packing", scenario, Workbench(scenario), {})


def test_a_client_without_a_broker_within_reach_is_named(tmp_path: Path) -> None:
    make_example(tmp_path / "example")
    scenario = read_scenario(tmp_path / "example")
    apart = pa.compute.or_(pa.compute.equal(scenario.links["source"], 5), pa.compute.equal(scenario.links["target"], 5))
    lonely = replace(scenario, links=scenario.links.filter(pa.compute.invert(apart)))
    with pytest.raises(InfeasibleError, match="client 5 has no broker"):
        make_plan("overlay-search", lonely, Workbench(lonely), {})


@pytest.mark.parametrize("given", [{"core": "star"}, {"order": "size"}])
def test_parameters_that_there_are_not(given: dict[str, Value], scenario: Scenario) -> None:
    with pytest.raises(UsageError, match="it is one of"):
        make_plan("greedy-packing", scenario, Workbench(scenario), given)


def test_no_plan_undercuts_the_joint_bound(small: list[Instance]) -> None:
    for instance in small[:6]:
        bench = Workbench(instance.scenario)
        least = float(bench.bound_total)
        assert least >= float(bench._access_alone()) > 0
        for name in ("overlay-exact", "overlay-search", "greedy-packing"):
            plan = make_plan(name, instance.scenario, bench, {"core": "steiner"} if name != "overlay-exact" else {}, 1)
            assert bench.score(plan).cost >= least * (1 - 1e-12)
