"""Flooding and direct copies cost what they should, by an oracle that knows graphs but no meter."""

import random
from dataclasses import replace

import msgspec
import networkx
import pytest

from overstory.filters import parse_filter
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import PATHS
from overstory.pipeline.validate import problems_of_plan
from overstory.planners.chains import make_plan

from ..pipeline.meter import meter
from ..plans import events_of, random_plan, random_scenario
from .steps import Steps
from .test_planners import prices_of, stranded


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    folder = tmp_path_factory.mktemp("scenarios")
    drawn = [random_scenario(random.Random(seed), folder / str(seed)) for seed in range(60)]
    return [scenario for scenario in drawn if not stranded(scenario) and events_of(scenario)]


def with_coalesce(scenario: Scenario, coalesce: bool) -> Scenario:
    """Without headers: the oracle knows of payloads alone."""
    return replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=coalesce, headers=False))


def graph_of(scenario: Scenario) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(scenario.brokers["id"].to_pylist())
    graph.add_weighted_edges_from((u, v, price) for (u, v), price in prices_of(scenario).items())
    return graph


def wanting(scenario: Scenario, plan: Plan) -> list[tuple[int, int, set[int]]]:
    """Of each event the bytes, the publishing broker, and the brokers where somebody wants it. What a client does not
    want of its own makes no difference: it is published where it would be wanted."""
    broker = dict(zip(plan.attachments["client"].to_pylist(), plan.attachments["broker"].to_pylist(), strict=True))
    rows = [(parse_filter(row["filter"]), broker[row["client"]]) for row in scenario.subscriptions.to_pylist()]
    return [
        (event.bytes, broker[event.publisher], {at for wish, at in rows if wish.matches(event.attributes)})
        for event in events_of(scenario)
    ]


def test_direct_pays_for_every_copy_on_its_own(scenarios: list[Scenario]) -> None:
    for given in scenarios:
        scenario = with_coalesce(given, False)
        plan = make_plan("direct", scenario, Steps(), {})
        distances = dict(networkx.all_pairs_dijkstra_path_length(graph_of(scenario)))
        owed = sum(size * distances[root][end] for size, root, ends in wanting(scenario, plan) for end in ends)
        assert meter(scenario, plan)[0].core == pytest.approx(scenario.settings.prices.core * owed)


def test_direct_shares_the_beginnings_of_ways(scenarios: list[Scenario]) -> None:
    """Prices are such that there is one cheapest path to each broker, which networkx must find too."""
    for given in scenarios:
        scenario = with_coalesce(priced_apart(given), True)
        plan = make_plan("direct", scenario, Steps(), {})
        graph, owed = graph_of(scenario), 0.0
        for size, root, ends in wanting(scenario, plan):
            paths = networkx.single_source_dijkstra_path(graph, root)
            links = {link for end in ends for link in zip(paths[end], paths[end][1:], strict=False)}
            owed += size * sum(graph.edges[link]["weight"] for link in links)
        card = meter(scenario, plan)[0]
        assert card.core == pytest.approx(scenario.settings.prices.core * owed)
        assert card.duplicates == card.false_positives == 0


def priced_apart(scenario: Scenario) -> Scenario:
    """No two sets of links cost the same: each price has a bit of its own."""
    links = scenario.links
    prices = [price + 2.0 ** (-at - 10) for at, price in enumerate(links["price"].to_pylist()[:40])]
    prices += links["price"].to_pylist()[40:]
    return replace(scenario, links=links.set_column(2, links.schema.field("price"), [prices]))


def test_flood_costs_what_flooding_costs(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        card = meter(scenario, make_plan("flood", scenario, Steps(), {}))[0]
        assert card.core == pytest.approx(card.flood)
        assert card.frames == card.events * (scenario.brokers.num_rows - 1)
        assert card.discards == card.duplicates == 0


@pytest.mark.parametrize("name", ["flood", "direct"])
def test_plans_keep_the_law_and_deliver_what_is_wanted(name: str, scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = make_plan(name, scenario, Steps(), {})
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert (
            meter(scenario, plan)[0].deliveries
            == meter(scenario, make_plan("mst", scenario, Steps(), {}))[0].deliveries
        )


def test_direct_has_a_flow_for_each_broker_that_the_base_attaches_to(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        base = random_plan(random.Random(1), scenario)
        plan = make_plan("direct", scenario, Steps(), {}, base=base)
        assert plan.attachments.equals(base.attachments)
        broker = dict(zip(base.attachments["client"].to_pylist(), base.attachments["broker"].to_pylist(), strict=True))
        client = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "client")), strict=True))
        assert set(plan.flows["kind"].to_pylist()) <= {PATHS}
        members = zip(plan.members["flow"].to_pylist(), plan.members["subscription"].to_pylist(), strict=True)
        pairs = {(flow, broker[client[each]]) for flow, each in members}
        assert len(pairs) == plan.flows.num_rows == len({at for _, at in pairs})
        assert plan.members.num_rows == scenario.subscriptions.num_rows
