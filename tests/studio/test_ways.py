"""One event's way through a plan, as the law has it."""

import pytest

from overstory.model.scenario import Scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.routing.law import Law
from overstory.studio import ways
from overstory.studio.ways import some_ways

from ..plans import events_of
from .pages import scenario_in


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return scenario_in(tmp_path_factory.mktemp("ways") / "net", 12)


@pytest.mark.parametrize(
    ("planner", "coalesce"), [("spt", True), ("flood", True), ("direct", False), ("steered", True)]
)
def test_a_way_is_what_the_law_says(scenario: Scenario, planner: str, coalesce: bool) -> None:
    """With all subscriptions, and not only with those that the events match."""
    plan = make_plan(planner, scenario, Workbench(scenario), {})
    told, (found, none) = some_ways(scenario, [(plan, coalesce), (None, True)])
    assert (len(told), len(found), none) == (6, 6, [])
    law = Law(scenario, plan)
    law.coalesce = coalesce
    journeys = {f"event {event.id}:": law.travel(event) for event in events_of(scenario)}
    for each, way in zip(told, found, strict=True):
        journey = journeys[" ".join(each.label.split(" ")[:2])]
        ids = scenario.network.ids.tolist()
        assert ids[way.entry] == journey.uplink[1]
        assert [(ids[hop.source], ids[hop.target], hop.wanted) for hop in way.hops] == [
            (crossing.source, crossing.target, crossing.wanted) for crossing in journey.crossings
        ]
        assert sum(many for _, many in way.served) == len(journey.deliveries) > 0
    reached = [len(way.served) for way in found]
    assert reached[0] <= reached[-1]


def test_too_many_filters_are_not_read_for_a_picture(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "MOST_FILTERS", 3)
    assert some_ways(scenario, [(None, True)]) == ([], [[]])
