"""What cannot be planned is named: which subscriber, which limit."""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import InfeasibleError, OverstoryError, UsageError
from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.scenario import Scenario
from overstory.pipeline.histograms import Channels, Histogram
from overstory.pipeline.workbench import Workbench
from overstory.planners.assignment.blind import closest
from overstory.planners.chains import make_plan
from tests.planners.assignment.worlds import SMALL, problem, world


def fails(scenario: Scenario, name: str = "gr-star", **given: object) -> str:
    with pytest.raises(OverstoryError) as caught:
        make_plan(name, scenario, Workbench(scenario), given)  # type: ignore[arg-type]
    return str(caught.value)


def changed(table: str, column: str, values: object) -> Scenario:
    scenario = world(SMALL)[0]
    rows: pa.Table = getattr(scenario, table)
    at = rows.column_names.index(column)
    return replace(scenario, **{table: rows.set_column(at, rows.schema.field(column), pa.array(values))})


def test_a_subscriber_that_nobody_can_serve_in_time() -> None:
    scenario = world(SMALL)[0]
    latest = scenario.clients["latest"].to_pylist()
    latest[5] = 0.5
    said = fails(changed("clients", "latest", latest))
    assert f"client {scenario.clients['id'][5]} within the delay" in said


def test_no_boxes() -> None:
    assert "boxes=0" in fails(world(SMALL)[0], boxes=0)


def test_shares_that_do_not_add_up() -> None:
    scenario = world(SMALL)[0]
    shares = np.asarray(scenario.brokers["share"].to_pylist()) / 2
    assert "add up to 0.5, not to 1" in fails(changed("brokers", "share", shares))


def test_attributes_that_are_no_numbers_or_too_many() -> None:
    size = SMALL.subscribers
    assert "ranges of numbers" in fails(changed("subscriptions", "filter", ["x = 'a'"] * size))
    assert "3 attributes" in fails(changed("subscriptions", "filter", ["x > 1 AND y > 2 AND z > 3"] * size))


def test_several_publishing_brokers() -> None:
    scenario, bench = world(SMALL)

    class Two(Workbench):
        def publishers(self, scenario: Scenario) -> np.ndarray:
            return np.asarray(scenario.clients["id"].to_numpy()[:2])

    with pytest.raises(UsageError, match="published at 2 brokers"):
        make_plan("gr-star", scenario, Two(scenario), {})
    assert bench is not None


def test_an_infeasible_draw_is_refused_with_the_least_load(tmp_path: object) -> None:
    what = msgspec.structs.replace(SMALL, load=0.9, load_wanted=0.9)
    folder = tmp_path / "none"  # type: ignore[operator]
    with pytest.raises(InfeasibleError, match="the least load factor of any assignment in time is 1"):
        make_subscribers(folder, what, 1)
    assert not folder.exists()


def test_limits_that_no_assignment_keeps_are_exceeded_and_said() -> None:
    scenario, _ = world(SMALL)
    limits = msgspec.structs.replace(scenario.settings.limits, load=0.9, load_wanted=0.9)
    tight = replace(scenario, settings=msgspec.structs.replace(scenario.settings, limits=limits))
    bench = Workbench(tight)
    card = bench.score(make_plan("assignment-search", tight, bench, {"effort": 1}))
    assert any(text.startswith("load") for text in card.exceeded)


def test_the_least_load_is_kept_where_what_is_wanted_is_impossible() -> None:
    scenario, _ = world(SMALL)
    limits = msgspec.structs.replace(scenario.settings.limits, load=3.0, load_wanted=0.9)
    tight = replace(scenario, settings=msgspec.structs.replace(scenario.settings, limits=limits))
    bench = Workbench(tight)
    card = bench.score(make_plan("assignment-search", tight, bench, {"effort": 1}))
    assert card.exceeded == ()
    assert card.load == pytest.approx(problem(SMALL).least)


def test_who_finds_no_room_is_told_and_nobody_waits() -> None:
    far = np.array([[1.0, 2.0], [1.0, np.inf], [1.0, np.inf], [1.0, 2.0]])
    assert closest(far, np.array([2, 1])).tolist() == [0, 0, -1, 1]
    assert closest(far, np.array([0, 1])).tolist() == [1, -1, -1, -1]


def test_sizes_of_generated_scenarios() -> None:
    with pytest.raises(UsageError, match="boxes must be 1 or more"):
        Subscribers(boxes=0)


def test_an_empty_event_space() -> None:
    """A log whose events planners may not see has no weight anywhere."""
    scenario, _ = world(SMALL)

    class Empty(Workbench):
        def histograms(self, scenario: Scenario, channels: Channels) -> Histogram:
            found = super().histograms(scenario, channels)
            return found._replace(bytes=np.zeros_like(found.bytes))

    with pytest.raises(UsageError, match="event space is empty"):
        make_plan("gr-star", scenario, Empty(scenario), {})


def test_knobs_that_are_no_numbers() -> None:
    assert "expansion=0: it is a number above 0" in fails(world(SMALL)[0], "slp1", expansion=0)


def test_raw_delays_need_a_matrix_and_few_pairs() -> None:
    with pytest.raises(UsageError, match="--latencies FILE"):
        Subscribers(raw=True)
    with pytest.raises(UsageError, match="take fewer, or leave out --raw"):
        Subscribers(raw=True, latencies="matrix.txt", subscribers=1_000_000)
