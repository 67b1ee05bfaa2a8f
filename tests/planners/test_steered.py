"""Steered plans keep the law, cost what their parts say, and are mixed with a tree where that is cheaper."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from overstory.errors import InfeasibleError, UsageError
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.settings import Prices, Settings
from overstory.model.tables import CLIENTS, PATHS, STEINER, TREE
from overstory.pipeline.validate import problems_of_plan
from overstory.planners.chains import check_parameters, make_plan

from ..pipeline.meter import meter
from ..plans import events_of
from ..tables import events_table, scenario_of, scenario_tables, table_of
from .scenarios import ATTRIBUTES, law_is_kept, random_scenarios
from .steps import Steps

WAYS: list[tuple[str, dict[str, Value]]] = [
    ("medym", {"ordered": True}),
    ("covering-cyclic", {}),
    ("steered", {"steer": "all", "ordered": True}),
    ("steered", {}),
    ("steered", {"boxes": 1, "steer": "all"}),
    ("steered", {"boxes": 2}),
    ("steered", {"regions": 3, "steer": "all"}),
    ("steered", {"boxes": 1, "regions": 2, "steer": "all"}),
    ("tree-search", {}),
]


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    return random_scenarios(tmp_path_factory.mktemp("scenarios"), 16)


def planned(name: str, scenario: Scenario, given: Mapping[str, Value] | None = None) -> Plan:
    return make_plan(name, scenario, Steps(), given or {})


@pytest.mark.parametrize(("name", "given"), WAYS)
def test_everything_is_delivered_once(name: str, given: dict[str, Value], scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned(name, scenario, given)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert law_is_kept(scenario, plan)
        again = planned(name, scenario, given)
        assert all(getattr(plan, table).equals(getattr(again, table)) for table in ("flows", "members", "filters"))


def test_regions_are_tried_where_they_are_asked_for_or_there_are_many_brokers(
    scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = max(scenarios, key=lambda each: (len(each.network), each.subscriptions.num_rows))
    plan = planned("steered", scenario, {"regions": 2})
    assert "steered by 2 regions" in plan.header.alternatives
    priced = with_settings(scenario, prices=Prices(upkeep_core=1.0))
    assert not [name for name in planned("steered", priced).header.alternatives if "regions" in name]
    monkeypatch.setattr("overstory.planners.trees.steered.MANY_BROKERS", 2)
    assert "steered by 2 regions" in planned("steered", priced).header.alternatives
    with pytest.raises(UsageError, match="regions and ordered=true exclude each other"):
        planned("steered", scenario, {"regions": 2, "ordered": True})


def with_settings(scenario: Scenario, **given: object) -> Scenario:
    return dataclasses.replace(scenario, settings=msgspec.structs.replace(scenario.settings, **given))


def test_what_flows_are_made_of(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        for name, kind in (("medym", PATHS), ("steered", STEINER)):
            plan = planned(name, scenario, {"ordered": True} | ({"steer": "all"} if name == "steered" else {}))
            (flow,) = plan.flows.to_pylist()
            assert (flow["kind"], flow["events"], flow["ordered"]) == (kind, "TRUE", True)
            assert plan.members["subscription"].to_pylist() == scenario.subscriptions["id"].to_pylist()


def test_a_cyclic_overlay_crosses_the_links_of_medym(scenarios: list[Scenario]) -> None:
    """Both take the cheapest paths from the publishing broker; where two are as cheap, they may share more or less."""
    for drawn in scenarios:
        scenario = with_settings(drawn, headers=False)
        links = scenario.links
        prices = [price + 2.0 ** (-at - 10) for at, price in enumerate(links["price"].to_pylist()[:40])]
        prices += links["price"].to_pylist()[40:]
        scenario = dataclasses.replace(scenario, links=links.set_column(2, links.schema.field("price"), [prices]))
        cyclic, medym = (meter(scenario, planned(name, scenario))[0] for name in ("covering-cyclic", "medym"))
        assert cyclic.core == pytest.approx(medym.core)
        assert cyclic.deliveries == medym.deliveries


def test_the_cheapest_is_taken(scenarios: list[Scenario]) -> None:
    """By a trial of each; of everything steered and of one tree in any case."""
    mixed = 0
    for scenario in scenarios:
        if not events_of(scenario) or not scenario.subscriptions.num_rows:
            continue
        found = planned("steered", scenario).header.alternatives
        if found:
            assert {"steered", "one tree"} <= found.keys()
            assert min(found.values()) == 1
        chosen = planned("tree-search", scenario).header.alternatives
        assert not chosen or min(chosen.values()) == 1 <= chosen["steered"]
        mixed += len(found) > 2
    assert mixed > 3


def ring(folder: Path, size: int, tail: int, upkeep: float) -> Scenario:
    """Each broker sends much to the next one, so that any tree has a long way for one of them. And there are filters
    that all brokers have, and that match one event each: on a tree, one entry serves all hosts behind a link."""
    links = [(at, (at + step) % size, 1.0) for at in range(size) for step in (1, size - 1)]
    names = [f"busy{at}" for at in range(size)]
    wanted = [((at + 1) % size, name) for at, name in enumerate(names)]
    wanted += [(at, f"rare{number}") for number in range(tail) for at in range(size)]
    subscriptions = [(number, 100 + at, f"topic = '{name}'", False) for number, (at, name) in enumerate(wanted)]
    tables = scenario_tables(range(size), links, [], subscriptions)
    tables["clients"] = table_of(CLIENTS, [(100 + at, at, None, None) for at in range(size)])
    rows: list[tuple[int, int, list[str], str]]
    rows = [(100 + at, 1, [], name) for _ in range(50) for at, name in enumerate(names)]
    rows += [(100 + (at + 1) % size, 1, [], f"rare{at}") for at in range(tail)]
    prices = Settings(prices=Prices(upkeep_core=upkeep))
    return scenario_of(folder, prices, tables, events_table(rows, ATTRIBUTES))


def test_where_upkeep_costs_more_than_it_saves_the_tail_is_on_a_tree(tmp_path: Path) -> None:
    kinds = {}
    for upkeep in (0.0, 0.1, 3.0):
        scenario = ring(tmp_path / str(upkeep), 8, 40, upkeep)
        plan = planned("steered", scenario)
        kinds[upkeep] = plan.flows["kind"].to_pylist()
        costs = {each: meter(scenario, planned(each, scenario))[0].cost for each in ("tree-search", "mst", "medym")}
        ours = meter(scenario, plan)[0].cost
        assert ours <= 1.02 * min(costs.values())
        assert costs["tree-search"] <= 1.002 * min(ours, *costs.values())
    assert kinds == {0.0: [STEINER], 0.1: [STEINER, TREE], 3.0: [STEINER, TREE]}


def test_where_few_brokers_need_it_only_they_are_steered(tmp_path: Path) -> None:
    """Every broker publishes what everybody wants; but for one pair nothing is lost on a tree."""
    scenario = ring(tmp_path / "ring", 8, 0, 0.0)
    plan = planned("steered", with_settings(scenario, headers=True))
    shares = [flow["events"] for flow in plan.flows.to_pylist() if "$broker" in flow["events"]]
    assert "one tree" in plan.header.alternatives
    assert len(shares) in (0, 2)
    names = [name for name in plan.header.alternatives if "brokers steered" in name]
    assert names


def test_steering_is_told(tmp_path: Path) -> None:
    scenario = with_settings(ring(tmp_path / "ring", 8, 40, 0.05), headers=True)
    events = events_table([(100 + at, 500, [], f"busy{at}") for _ in range(9) for at in range(8)], ATTRIBUTES)
    scenario = scenario_of(tmp_path / "large", scenario.settings, tables_of(scenario), events)
    told = planned("steered", scenario).header.steering
    assert 0 < told["saved"] < 1
    assert 0 < told["header_bytes"] <= 8
    assert told["entries"] > 0 < told["entries_of_one_tree"]


def tables_of(scenario: Scenario) -> dict[str, object]:
    return {name: getattr(scenario, name) for name in ("brokers", "links", "clients", "subscriptions")}


def test_wrong_parameters(scenarios: list[Scenario]) -> None:
    for name, wrong in (
        ("steered", {"boxes": 0}),
        ("steered", {"boxes": "few"}),
        ("steered", {"ordered": 1}),
        ("steered", {"slices": 0}),
        ("tree-search", {"steered": "no"}),
        ("medym", {"boxes": 3}),
    ):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            check_parameters(name, wrong)
    with pytest.raises(UsageError, match="steer=some"):
        planned("steered", scenarios[0], {"steer": "some"})


def test_too_many_trees_are_refused(scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.planners.trees.covering_cyclic.MOST_LINKS", 0)
    scenario = next(each for each in scenarios if events_of(each))
    with pytest.raises(InfeasibleError, match="medym"):
        planned("covering-cyclic", scenario)
