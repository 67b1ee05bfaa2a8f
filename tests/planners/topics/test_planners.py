"""Every planner of topics gives a lawful plan, the search the cheapest; what is asked for wrongly is said."""

from pathlib import Path

import pyarrow as pa
import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.topics import Topics, make_topics
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.settings import Prices, Settings
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.registry import PLANNERS, TOPICS, planner_for

from ...tables import events_table, scenario_of, scenario_tables

NAMES = [name for name, planner in PLANNERS.items() if planner.problem == TOPICS]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("topics") / "s"
    make_topics(folder, Topics(users=80, topics=24, natural_clusters=3, interests=9, intervals=60, noise=0.1), seed=3)
    return read_scenario(folder)


@pytest.fixture(scope="module")
def costs(scenario: Scenario) -> dict[str, float]:
    bench = Workbench(scenario)
    found = {}
    for name in NAMES:
        plan = make_plan(name, scenario, bench, {}, seed=1)
        assert problems_of_plan(scenario, plan, bench.publishers(scenario)) == []
        assert plan.flows["access"].to_pylist() == ["events"] * plan.flows.num_rows
        found[name] = bench.score(plan).cost
    return found


def test_the_search_is_the_cheapest_and_scribe_the_dearest(costs: dict[str, float]) -> None:
    assert planner_for(TOPICS) == "topic-search"
    assert min(costs.values()) == costs["topic-search"]
    assert max(costs.values()) == costs["scribe"] == costs["static-clusters"]  # without a base there are no clusters
    assert costs["topic-search"] < 0.7 * costs["scribe"]


def test_the_same_seed_gives_the_same_plan(scenario: Scenario) -> None:
    bench = Workbench(scenario)
    for name in ("topic-search", "tamara", "topics-k-means", "topics-leiden"):
        one, other = (make_plan(name, scenario, bench, {}, seed=2) for _ in range(2))
        assert one.flows.equals(other.flows)
        assert one.members.equals(other.members)


def test_clusters_of_a_base_stay(scenario: Scenario, costs: dict[str, float]) -> None:
    bench = Workbench(scenario)
    base = make_plan("topic-search", scenario, bench, {}, seed=1)
    plan = make_plan("static-clusters", scenario, bench, {}, base=base)
    assert bench.score(plan).cost == pytest.approx(costs["topic-search"], rel=0.05)
    given: dict[str, Value] = {"seeded": True}
    seeded = make_plan("tamara", scenario, bench, given, seed=1)
    assert costs["topic-search"] <= bench.score(seeded).cost <= costs["tamara"]


def test_what_is_asked_for_wrongly_is_said(tmp_path: Path) -> None:
    tables = scenario_tables(
        [0, 1], [(0, 1, 1.0), (1, 0, 1.0), (0, 5, 1.0), (5, 0, 0.0)], [5], [(0, 5, "price > 3", False)]
    )
    free = scenario_of(tmp_path / "free", Settings(), tables, events_table([], {"topic": pa.string()}))
    with pytest.raises(UsageError, match="nothing is paid for keeping trees alive"):
        make_plan("topic-search", free, Workbench(free), {})
    paid = Settings(prices=Prices(upkeep_access=1.0))
    priced = scenario_of(tmp_path / "priced", paid, tables, events_table([(5, 1, "a")], {"topic": pa.string()}))
    with pytest.raises(DataError, match="no subscription to topics"):
        make_plan("scribe", priced, Workbench(priced), {})
