"""Trees that span, as cheap as they claim; attachments; what is asked for wrongly; and the same plan every time."""

import random
from pathlib import Path

import networkx
import pyarrow as pa
import pytest

from overstory.errors import InfeasibleError, UsageError
from overstory.model.plan import EVERYTHING, Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Settings
from overstory.model.tables import BROKERS, CLIENTS, FLOWS, LINKS, PLAN_TABLES, TREE
from overstory.pipeline.validate import problems_of_plan
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.registry import PLANNERS, planner_named

from ..plans import random_plan, random_scenario
from ..tables import events_table, scenario_of, scenario_tables, table_of
from .steps import Steps


def planned(
    name: str, scenario: Scenario, given: dict[str, Value] | None = None, seed: int = 0, base: Plan | None = None
) -> Plan:
    return make_plan(name, scenario, Steps(), given or {}, seed, base)


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    """Those in which every client can be attached."""
    folder = tmp_path_factory.mktemp("scenarios")
    drawn = [random_scenario(random.Random(seed), folder / str(seed)) for seed in range(60)]
    found = [scenario for scenario in drawn if not stranded(scenario)]
    assert len(found) > 30
    return found


def stranded(scenario: Scenario) -> list[int]:
    """Clients that have no broker and, without a metric, no link to one."""
    linked = {*scenario.links["source"].to_pylist(), *scenario.links["target"].to_pylist()}
    clients = [row["id"] for row in scenario.clients.to_pylist() if row["broker"] is None]
    return [each for each in clients if each not in linked and scenario.settings.access.metric == "none"]


def prices_of(scenario: Scenario) -> dict[tuple[int, int], float]:
    """Of links between brokers."""
    brokers = set(scenario.brokers["id"].to_pylist())
    return {
        (row["source"], row["target"]): row["price"]
        for row in scenario.links.to_pylist()
        if {row["source"], row["target"]} <= brokers
    }


def tree_of(plan: Plan) -> networkx.Graph:
    return networkx.Graph(zip(plan.trees["source"].to_pylist(), plan.trees["target"].to_pylist(), strict=True))


ALL = [("spt", {}), ("spt", {"root": "random"}), ("mst", {})]


@pytest.mark.parametrize(("name", "given"), ALL)
def test_one_flow_on_a_tree_that_spans(name: str, given: dict[str, Value], scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned(name, scenario, given, seed=3)
        tree, brokers = tree_of(plan), scenario.brokers["id"].to_pylist()
        assert plan.trees.num_rows == len(brokers) - 1
        assert set(tree.nodes) == set(brokers)
        assert networkx.is_tree(tree)
        assert all(link in prices_of(scenario) for u, v in tree.edges for link in ((u, v), (v, u)))
        rows = plan.flows.select(FLOWS.schema.names).to_pylist()
        assert rows == [{"flow": 0, "kind": TREE, "events": EVERYTHING, "associations": 0}]
        assert plan.members["subscription"].to_pylist() == scenario.subscriptions["id"].to_pylist()
        assert plan.filters.num_rows == 0
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []


def test_the_tree_of_cheapest_paths(scenarios: list[Scenario]) -> None:
    """From a broker that is named, from the centre, and from a random one."""
    for scenario in scenarios:
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from((u, v, price) for (u, v), price in prices_of(scenario).items())
        distances = dict(networkx.all_pairs_dijkstra_path_length(graph))
        brokers = sorted(distances)

        def along(plan: Plan, root: int, graph: networkx.DiGraph = graph) -> dict[int, float]:
            ways = networkx.single_source_shortest_path(tree_of(plan), root)
            return {each: networkx.path_weight(graph, way, "weight") for each, way in ways.items()}

        for root in brokers:
            assert along(planned("spt", scenario, {"root": root}), root) == distances[root]
        centre = min(brokers, key=lambda each: (max(distances[each].values()), each))
        assert planned("spt", scenario).trees.equals(planned("spt", scenario, {"root": centre}).trees)
        drawn = {str(planned("spt", scenario, {"root": "random"}, seed).trees.to_pylist()): seed for seed in range(12)}
        rooted = {str(planned("spt", scenario, {"root": root}).trees.to_pylist()) for root in brokers}
        assert drawn.keys() <= rooted


def test_links_that_lead_only_there(tmp_path: Path) -> None:
    """They are in no tree, however cheap."""
    links = [(1, 2, 5.0), (2, 1, 5.0), (2, 3, 5.0), (3, 2, 5.0), (1, 3, 0.0)]
    scenario = small(tmp_path, links, [])
    for name in ("spt", "mst"):
        plan = planned(name, scenario, {"root": 1} if name == "spt" else {})
        assert {frozenset(link) for link in tree_of(plan).edges} == {frozenset({1, 2}), frozenset({2, 3})}


def test_the_minimum_spanning_tree(scenarios: list[Scenario]) -> None:
    """By the mean of both directions."""
    for scenario in scenarios:
        prices = prices_of(scenario)
        graph = networkx.Graph()
        graph.add_weighted_edges_from((u, v, prices[u, v] + prices[v, u]) for u, v in prices)
        ours = sum(graph.edges[link]["weight"] for link in tree_of(planned("mst", scenario)).edges)
        assert ours == networkx.minimum_spanning_tree(graph).size("weight")


# Attachments


def small(folder: Path, links: list[tuple[int, int, float]], clients: list[int]) -> Scenario:
    tables = scenario_tables([1, 2, 3], links, clients)
    return scenario_of(folder / "scenario", Settings(), tables, events_table([], {"topic": pa.string()}))


CORE = [(u, v, 1.0) for u, v in ((1, 2), (2, 1), (2, 3), (3, 2))]


def attached(scenario: Scenario) -> dict[int, int]:
    table = defaults.attachments(scenario)
    return dict(zip(table["client"].to_pylist(), table["broker"].to_pylist(), strict=True))


def test_the_cheapest_access_of_listed_links(tmp_path: Path) -> None:
    """Both directions together; what is not listed is free, as long as something is."""
    listed = [
        *((10, 3, 1.0), (3, 10, 1.0), (10, 2, 0.0), (2, 10, 9.0)),
        *((11, 3, 2.0), (11, 1, 2.0), (11, 2, 2.5)),
        *((2, 12, 1.0), (12, 2, 3.0), (12, 2, 0.5), (12, 3, 2.0)),  # of the two the cheaper one
    ]
    assert attached(small(tmp_path, CORE + listed, [12, 11, 10])) == {10: 3, 11: 1, 12: 2}


def test_the_cheapest_access_of_a_metric(tmp_path: Path) -> None:
    """A listed link counts instead of the distance; of equal ones the lowest id."""
    places = [(3, 0.0, 0.0), (2, 4.0, 0.0), (1, 4.0, 0.0)]
    tables = scenario_tables([], CORE)
    tables["brokers"] = table_of(BROKERS, [(each, None, x, y) for each, x, y in places])
    clients = [
        (10, None, 1.0, 1.0),
        (11, None, 3.0, 0.0),
        (12, None, 2.0, 5.0),
        (13, 2, 0.0, 0.0),
        (14, None, 0.0, 0.0),
    ]
    tables["clients"] = table_of(CLIENTS, clients)
    more = table_of(LINKS, [(14, 2, 0.0, 0.0), (2, 14, 0.0, 0.0), (14, 3, 0.5, 0.0)])
    tables["links"] = pa.concat_tables([tables["links"], more])
    settings = Settings(access=Access("euclidean"))
    scenario = scenario_of(tmp_path / "scenario", settings, tables, events_table([], {}))
    assert attached(scenario) == {10: 3, 11: 1, 12: 1, 13: 2, 14: 2}


def test_many_clients_at_once(monkeypatch: pytest.MonkeyPatch, scenarios: list[Scenario]) -> None:
    expected = [attached(scenario) for scenario in scenarios]
    monkeypatch.setattr(defaults, "CLIENTS_AT_ONCE", 2)
    assert [attached(scenario) for scenario in scenarios] == expected
    for scenario, found in zip(scenarios, expected, strict=True):
        assert all(row["broker"] in (None, found[row["id"]]) for row in scenario.clients.to_pylist())


def test_a_client_that_cannot_be_attached(tmp_path: Path) -> None:
    scenario = small(tmp_path, [*CORE, (10, 1, 1.0)], [10, 11, 12])
    with pytest.raises(InfeasibleError, match=r"client 11 has no broker and no link to one .*\(2 such clients\)"):
        planned("mst", scenario)


# What is decided, and what is not


def test_a_base_gives_what_is_not_decided(scenarios: list[Scenario]) -> None:
    dice = random.Random(9)
    for scenario in scenarios[:10]:
        base = random_plan(dice, scenario)
        plan = planned("mst", scenario, base=base)
        assert plan.attachments.equals(base.attachments)
        assert plan.trees.equals(planned("mst", scenario).trees)
        assert plan.filters.num_rows == 0  # they were for other flows
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []


def test_unknown_planners_and_parameters(scenarios: list[Scenario]) -> None:
    with pytest.raises(UsageError, match=f"no planner 'best'; there are {', '.join(PLANNERS)}"):
        planned("best", scenarios[0])
    with pytest.raises(UsageError, match="planner spt has no parameter 'colour'; it has root"):
        planned("spt", scenarios[0], {"shade": 3, "colour": "red"})
    with pytest.raises(UsageError, match="planner mst has no parameter 'root'; it has none"):
        planned("mst", scenarios[0], {"root": 3})
    roots: list[Value] = ["middle", 12345, 1.5, None]
    for root in roots:
        with pytest.raises(UsageError, match="centre, random, or the id of a broker"):
            planned("spt", scenarios[0], {"root": root})


def test_the_registry() -> None:
    for name, planner in PLANNERS.items():
        assert planner_named(name) is planner
        assert planner.name == name
        assert set(planner.writes) <= PLAN_TABLES.keys()
        assert all((planner.summary, planner.guarantee, planner.time, planner.fails))


@pytest.mark.parametrize(("name", "given"), ALL)
def test_the_same_seed_gives_the_same_bytes(
    name: str, given: dict[str, Value], scenarios: list[Scenario], tmp_path: Path
) -> None:
    for number, scenario in enumerate(scenarios[:10]):
        folders = [tmp_path / f"{name} {number} {turn}" for turn in range(2)]
        for folder in folders:
            planned(name, scenario, given, seed=5).write(folder)
        first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
        assert first == second
        assert b'"seed": 5' in first["plan.json"]
        assert scenario.fingerprint.encode() in first["plan.json"]
