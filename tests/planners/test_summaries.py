"""Summaries of few boxes cover, waste little, and say more where events are in slices."""

import dataclasses
from collections import defaultdict
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.filters.box import Box
from overstory.lab.localized import Localized
from overstory.lab.ranges import make_ranges
from overstory.lab.topologies import topology
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.settings import Prices
from overstory.pipeline.validate import problems_of_plan
from overstory.planners.chains import make_plan
from overstory.planners.trees.slices import slices_of
from overstory.planners.trees.summaries import MOST_NEAR, Summarising, hull, with_near
from overstory.routing.law import Law

from ..pipeline.meter import meter
from ..plans import events_of
from .scenarios import law_is_kept
from .steps import Steps


def range_texts(drawn: list[tuple[int, int, int, int]]) -> list[str]:
    return [
        f"x >= {x} AND x < {x + width} AND y >= {y} AND y < {y + height}" for x, width, y, height in sorted(set(drawn))
    ]


RANGES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(0, 8), st.integers(1, 4)), min_size=1, max_size=7
)
EVENTS = [{"x": x, "y": y} for x in range(12) for y in range(12)]


@settings(max_examples=60, deadline=None)
@given(RANGES, st.integers(1, 4))
def test_a_summary_covers_with_few_boxes(drawn: list[tuple[int, int, int, int]], most: int) -> None:
    texts = range_texts(drawn)
    text = Summarising(EVENTS, most).summary(texts)
    assert text is not None
    found = parse_filter(text)
    assert len(found.boxes) <= most
    assert all(found.covers(parse_filter(each)) for each in texts)


def greedily(boxes: list[Box], most: int) -> list[Box]:
    """The plain twin: all pairs, anew each time, by counting one by one the events that the host does not want."""
    places: list[Box | None] = list(boxes)
    unwanted = [event for event in EVENTS if not any(box.contains(event) for box in boxes)]
    while sum(box is not None for box in places) > most:
        alive = [at for at, box in enumerate(places) if box is not None]
        costs = []
        for high, low in sorted((high, low) for low, high in combinations(alive, 2)):
            one, other = places[low], places[high]
            assert one is not None
            assert other is not None
            grown = hull(one, other)
            more = sum(grown.contains(e) and not one.contains(e) and not other.contains(e) for e in unwanted)
            costs.append((more, high, low, grown))
        _, high, low, grown = min(costs, key=lambda cost: cost[:3])
        places[low], places[high] = grown, None
    return [box for box in places if box is not None]


@settings(max_examples=40, deadline=None)
@given(RANGES, st.integers(1, 4))
def test_boxes_are_merged_where_they_grow_least(drawn: list[tuple[int, int, int, int]], most: int) -> None:
    boxes = [box for text in range_texts(drawn) for box in parse_filter(text).boxes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("overstory.planners.trees.summaries.DRAWS", 0)
        ours, plain = Summarising(EVENTS, most).merged(boxes)[0], greedily(boxes, most)
    inside = [[any(box.contains(event) for box in found) for event in EVENTS] for found in (ours, plain)]
    assert inside[0] == inside[1]


def test_what_the_host_wants_anyway_counts_for_nothing() -> None:
    """The hull of the last two boxes adds one event, which the first box holds; any other hull lets in another."""
    texts = [(0, 1, 0, 3), (0, 2, 0, 1), (1, 1, 0, 2)]
    boxes = [box for text in range_texts(texts) for box in parse_filter(text).boxes]
    found = Summarising(EVENTS, 2).merged(boxes)[0]
    assert {(e["x"], e["y"]) for e in EVENTS if any(box.contains(e) for box in found)} == {
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    }


def test_attributes_of_another_kind_are_left_free() -> None:
    one, other = (parse_filter(text).boxes[0] for text in ("x = 1 AND y = 2 AND z = 3", "x = 'a' AND y = 5"))
    found = hull(one, other)
    assert found.sets.keys() == {"y"}
    assert found.covers(one)
    assert found.covers(other)


@settings(max_examples=40, deadline=None)
@given(RANGES, st.integers(1, 4))
def test_boxes_that_move_between_groups_waste_no_more(drawn: list[tuple[int, int, int, int]], most: int) -> None:
    boxes = [box for text in range_texts(drawn) for box in parse_filter(text).boxes]
    moved, plain = Summarising(EVENTS, most).merged(boxes)[0], greedily(boxes, most)
    ours, theirs = (sum(any(box.contains(event) for box in found) for event in EVENTS) for found in (moved, plain))
    assert len(moved) <= most
    assert ours <= theirs


def test_boxes_are_moved_where_greed_went_wrong() -> None:
    texts = range_texts([(3, 3, 7, 3), (7, 2, 2, 2), (4, 1, 0, 2), (4, 3, 5, 3), (4, 1, 6, 1), (0, 3, 1, 1)])
    boxes = [box for text in texts for box in parse_filter(text).boxes]
    moved, plain = Summarising(EVENTS, 2).merged(boxes)[0], greedily(boxes, 2)
    ours, theirs = (sum(any(box.contains(event) for box in found) for event in EVENTS) for found in (moved, plain))
    assert (ours, theirs) == (43, 49)


def test_events_near_to_those_of_the_log() -> None:
    floats = [{"x": float(at), "y": at, "z": "a"} for at in range(10)]
    found = with_near(floats)
    assert found[:10] == floats
    assert len(found) == 10 * (1 + MOST_NEAR)
    assert {(event["y"], event["z"]) for event in found} == {(at, "a") for at in range(10)}
    assert 0 < max(abs(float(str(event["x"])) - float(str(event["y"]))) for event in found) < 1
    assert with_near(EVENTS) == EVENTS


# Slices


@settings(max_examples=60, deadline=None)
@given(RANGES, st.integers(2, 4))
def test_each_event_is_in_one_slice_and_boxes_are_in_those_that_they_meet(
    drawn: list[tuple[int, int, int, int]], count: int
) -> None:
    boxes = [box for text in range_texts(drawn) for box in parse_filter(text).boxes]
    slices = slices_of(boxes, EVENTS, count)
    assert slices is not None
    filters = [parse_filter(text) for text in slices.events()]
    assert len(filters) == count
    for event, number in zip(EVENTS, slices.of_events(EVENTS).tolist(), strict=True):
        assert [each.matches(event) for each in filters] == [other == number for other in range(count)]
    for box in boxes:
        met = [number for number, each in enumerate(filters) if any(box.intersect(cell) for cell in each.boxes)]
        assert slices.of_box(box) == met


@settings(max_examples=60, deadline=None)
@given(RANGES, st.integers(2, 6), st.integers(2, 4))
def test_summaries_of_slices_cover_with_few_boxes_in_all(
    drawn: list[tuple[int, int, int, int]], most: int, count: int
) -> None:
    texts = range_texts(drawn)
    boxes = [box for text in texts for box in parse_filter(text).boxes]
    slices = slices_of(boxes, EVENTS, min(count, most))
    found = Summarising(EVENTS, most, slices).summaries(texts)
    assert slices is not None
    filters = {number: parse_filter(str(text)) for number, text in found.items()}
    assert sum(len(each.boxes) for each in filters.values()) <= most
    for event, number in zip(EVENTS, slices.of_events(EVENTS).tolist(), strict=True):
        if any(box.contains(event) for box in boxes):
            assert filters[number].matches(event)


def test_one_box_of_a_slice_tells_its_cells_apart() -> None:
    """Four rectangles, one in each quarter: each of two slices has two quarters, and a box for both of them."""
    texts = range_texts([(1, 2, 1, 2), (8, 2, 8, 2), (1, 3, 9, 1), (7, 2, 2, 3)])
    boxes = [box for text in texts for box in parse_filter(text).boxes]
    slices = slices_of(boxes, EVENTS, 2)
    assert slices is not None
    assert slices.ends == ((6.0,), (6.0,))
    found = Summarising(EVENTS, 2, slices).merged(boxes)
    assert [len(some) for some in found.values()] == [1, 1]
    for event, number in zip(EVENTS, slices.of_events(EVENTS).tolist(), strict=True):
        wanted = any(box.contains(event) for box in boxes)
        assert any(box.contains(event) for box in found[number]) == wanted
    plain = Summarising(EVENTS, 2).merged(boxes)[0]
    assert sum(any(box.contains(event) for box in plain) for event in EVENTS) > 4 + 4 + 3 + 6


def test_no_slices_without_two_numbers_that_all_filters_speak_of() -> None:
    for texts in (["x < 3", "x > 5"], ["x < 3 AND y < 2", "x > 5"], ["x < 3 AND y = 'a'", "x > 4 AND y = 'b'"], []):
        assert slices_of([box for text in texts for box in parse_filter(text).boxes], EVENTS, 2) is None
    boxes = parse_filter("x < 3 AND y < 2").boxes
    assert slices_of(boxes, [{"x": 1, "y": at} for at in range(5)], 2) is None
    assert slices_of(boxes, [], 2) is None


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("ranges") / "scenario"
    what = Localized(keywords=40, subscribers_per_keyword=6, locality=1.0, events=80)
    make_ranges(folder, topology("random-regular", 12, 1), what, 1)
    return read_scenario(folder)


def planned(scenario: Scenario, given: dict[str, Value]) -> Plan:
    return make_plan("steered", scenario, Steps(), given)


def boxes_held(plan: Plan) -> dict[int, int]:
    """By host, those of all its summaries."""
    found: dict[int, int] = defaultdict(int)
    for row in plan.filters.to_pylist():
        found[row["source"]] += len(parse_filter(row["filter"]).boxes)
    return found


def test_plans_in_slices_keep_the_law_and_waste_less(ranges: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.planners.trees.summaries.DRAWS", 50)
    plans = [planned(ranges, {"steer": "all", "boxes": 8, "slices": slices}) for slices in (1, 4)]
    for plan, flows in zip(plans, (1, 4), strict=True):
        assert plan.flows.num_rows == flows
        assert max(boxes_held(plan).values()) <= 8
        assert problems_of_plan(ranges, plan, Steps().publishers(ranges)) == []
        assert law_is_kept(ranges, plan)
    one, four = (meter(ranges, plan)[0] for plan in plans)
    law = Law(ranges, plans[1])
    journeys = [law.travel(event) for event in events_of(ranges)]
    assert four.false_positives == sum(journey.false_positives for journey in journeys)
    assert four.core == sum(len(journey.crossings) for journey in journeys)
    assert one.deliveries == four.deliveries
    assert four.false_positives < one.false_positives
    unasked = planned(ranges, {"steer": "all", "boxes": 8})
    assert unasked.filters.equals(plans[1].filters)
    assert planned(ranges, {"steer": "all", "boxes": 8, "ordered": True}).flows.num_rows == 1
    assert planned(ranges, {"steer": "all", "boxes": 200}).flows.num_rows == 1


def test_slices_are_tried_where_entries_are_priced(ranges: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.planners.trees.steered._Trials.search", lambda trials, ranking: None)  # other ways
    monkeypatch.setattr("overstory.planners.trees.summaries.DRAWS", 50)
    dear = msgspec.structs.replace(ranges.settings, prices=Prices(upkeep_core=100.0))
    tried = planned(dataclasses.replace(ranges, settings=dear), {"boxes": 8}).header.alternatives
    assert tried["steered"] < tried["steered in 4 slices"]
    free = planned(ranges, {"boxes": 8}).header.alternatives
    assert free["steered"] > free["steered in 4 slices"]


def test_slices_that_cannot_be(ranges: Scenario) -> None:
    for wrong in ({"slices": 2}, {"boxes": 2, "slices": 3}, {"boxes": 4, "slices": 2, "ordered": True}):
        with pytest.raises(UsageError, match="slices"):
            planned(ranges, {"steer": "all", **wrong})
