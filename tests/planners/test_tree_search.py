"""The search finds what is known to be best, is never dearer than one tree, and keeps the law."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.plan import Plan, Value, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.objective import Objective
from overstory.planners.trees.spanning import cost_on, priced
from overstory.planners.trees.tree_search import MOST_LINKS, configurations, search

from .scenarios import law_is_kept, line_of_brokers, random_scenarios
from .steps import Steps


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    return random_scenarios(tmp_path_factory.mktemp("scenarios"), 30)


def planned(scenario: Scenario, given: Mapping[str, Value] | None = None, seed: int = 0) -> Plan:
    """On trees, unless it is given otherwise: ``test_steered`` has the rest."""
    return make_plan("tree-search", scenario, Steps(), {"steered": False, **(given or {})}, seed)


def demand(scenario: Scenario) -> Demand:
    return demand_of(scenario, Steps(), defaults.tables(scenario))


@pytest.mark.parametrize("given", [{}, {"trees": 1}, {"trees": 2, "by": "fit"}, {"steered": True}])
def test_everything_is_delivered_once(given: dict[str, int | str], scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned(scenario, given)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert law_is_kept(scenario, plan)
        again = planned(scenario, given)
        assert plan.trees.equals(again.trees)
        assert plan.members.equals(again.members)
        assert plan.flows.num_rows <= int(given.get("trees", 10**6))


def test_the_cheapest_of_all_configurations_is_taken(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        for rows, by in ((asked.fit, "fit"), (asked.choose, "choose")):
            if not len(asked.fit.roots) or not len(asked.choose.roots):
                continue
            judge, fit = Objective(asked, rows, True), Objective(asked, asked.fit, True)
            tried = list(configurations(ground_of(asked, asked.fit), asked, fit, 100, 0))
            found = search(asked, True, 100, by)
            assert tried[0].name == "one tree"
            least = min(judge.cost(each.groups, each.parents) for each in tried)
            assert judge.cost(found.groups, found.parents) == least


def test_a_plan_tells_what_the_alternatives_cost(scenarios: list[Scenario], tmp_path: Path) -> None:
    """Relative to the choice, as the part that it chooses by prices them; one tree is always among them."""
    told = 0
    for number, scenario in enumerate(scenarios):
        asked, plan = demand(scenario), planned(scenario)
        if not len(asked.fit.roots) or not len(asked.choose.roots):
            continue
        judge, fit = (Objective(asked, rows, scenario.settings.coalesce) for rows in (asked.choose, asked.fit))
        most = max(2, MOST_LINKS // max(len(scenario.network) - 1, 1))
        tried = configurations(ground_of(asked, asked.fit), asked, fit, most, 0)
        costs = {each.name: judge.cost(each.groups, each.parents) for each in tried}
        found, least = plan.header.alternatives, min(costs.values())
        assert found.keys() == (costs.keys() if least > 0 else set())
        for name, cost in found.items():
            assert cost == pytest.approx(costs[name] / least, rel=1e-5)
        if found:
            assert min(found.values()) == 1 <= found["one tree"]
        plan.write(tmp_path / str(number))
        assert read_plan(tmp_path / str(number)).header.alternatives == found
        told += found.get("one tree", 1) > 1
    assert told > 1


def test_without_coalescing_costs_are_those_of_each_flow(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        fit = Objective(asked, asked.fit, False)
        for each in configurations(ground_of(asked, asked.fit), asked, fit, 100, 0):
            found = asked.instances(asked.fit, each.groups[asked.item_predicate], len(each.parents))
            trees = [priced(asked.network, parent) for parent in each.parents]
            total = sum(cost_on(tree, asked.fit, found, group) for group, tree in enumerate(trees))
            assert np.isclose(fit.cost(each.groups, each.parents), total)


def test_moving_filters_never_costs_more(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        for coalesce in (True, False):
            fit = Objective(asked, asked.fit, coalesce)
            tried = {each.name: each for each in configurations(ground_of(asked, asked.fit), asked, fit, 100, 0)}
            for name, each in tried.items():
                if moved := tried.get(f"{name}, moved"):
                    before, after = (fit.cost(one.groups, one.parents) for one in (each, moved))
                    assert after <= before * (1 + 1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_longer_log_makes_no_worse_plan(seed: int, tmp_path: Path) -> None:
    """Both plans are priced on those events of the longer log that no planner sees."""
    benches = []
    for events in (1_000, 20_000):
        shape = Localized(keywords=100, locality=0.1, events=events)
        make_localized(tmp_path / str(events), topology("transit-stub", 100, seed), shape, seed)
        benches.append(Workbench(read_scenario(tmp_path / str(events))))
    plans = [make_plan("tree-search", bench.scenario, bench, {"rows": 1_000, "steered": False}) for bench in benches]
    of_the_short, of_the_long = (benches[1].score(plan).cost_held_out for plan in plans)
    assert of_the_long <= 1.005 * of_the_short


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    silent = line_of_brokers(tmp_path / "silent", 4, {"a": [0, 3]}, [])
    unwanted = line_of_brokers(tmp_path / "unwanted", 4, {"a": [0]}, [(1, "b")] * 10)
    nobody = line_of_brokers(tmp_path / "nobody", 4, {}, [(1, "b")] * 10)
    alone = line_of_brokers(tmp_path / "alone", 1, {"a": [0]}, [(0, "a")] * 10)
    for scenario in (silent, unwanted, nobody, alone):
        plan = planned(scenario)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []


@pytest.mark.parametrize("given", [{"trees": 0}, {"trees": "many"}, {"by": "luck"}, {"rows": -1}])
def test_wrong_parameters(given: dict[str, Value], tmp_path: Path) -> None:
    scenario = line_of_brokers(tmp_path / "line", 3, {"a": [0, 2]}, [(1, "a")] * 10)
    with pytest.raises(UsageError, match="it is"):
        planned(scenario, given)
