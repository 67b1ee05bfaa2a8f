"""Workloads of subscriber assignment follow their laws; experiments measure what claims ask for."""

from pathlib import Path

import numpy as np
import pytest

from overstory import cli
from overstory.lab import assignment_cells
from overstory.lab.broker_trees import DEGREE, tree_of
from overstory.lab.experiment import Row
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.interests import BROAD, REGIONS, SIDE, SKEW, WAYS, google_groups, hotspots, rss, zipf
from overstory.lab.latency_matrix import distances
from overstory.lab.measuring import number
from overstory.lab.subscribers import Subscribers, _centres, _draw_places, make_subscribers
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

REGION = np.repeat(np.arange(3), [40, 10, 40])


def test_google_groups_are_as_broad_and_as_skewed_as_asked() -> None:
    for skew in SKEW:
        for broad in BROAD:
            found = google_groups(20_000, REGION, skew, broad, np.random.default_rng(1))
            assert (found.of_subscriber < WAYS).mean() == pytest.approx(BROAD[broad], abs=0.01)
            assert (found.low >= 0).all()
            assert (found.high <= SIDE).all()
            assert (found.low < found.high).all()
            mix = np.bincount(REGION[found.location], minlength=3) / 20_000
            assert mix == pytest.approx(REGIONS, abs=0.02)
    popular = [
        np.sort(np.bincount(google_groups(20_000, REGION, skew, "low", np.random.default_rng(1)).of_subscriber))[
            -20:
        ].sum()
        for skew in ("low", "high")
    ]
    assert popular[1] > 2 * popular[0]


def test_feeds_have_ten_places_and_hot_spots_four_widths() -> None:
    feeds = rss(20_000, 90, np.random.default_rng(2))
    assert (feeds.high - feeds.low == 1).all()
    assert all(len(np.unique(feeds.location[feeds.of_subscriber == feed])) <= 10 for feed in range(50))
    counts = np.sort(np.bincount(feeds.of_subscriber))[::-1]
    assert counts[0] / 20_000 == pytest.approx(zipf(50, 0.5)[0], rel=0.1)
    spots = hotspots(20_000, 90, np.random.default_rng(3))
    inner = (spots.low > 0).all(axis=1) & (spots.high < SIDE).all(axis=1)
    assert set((spots.high - spots.low)[inner].reshape(-1).tolist()) == {20.0, 50.0, 100.0, 200.0}


def test_a_tree_of_several_levels_has_few_children_and_all_brokers() -> None:
    places = _draw_places(200, _centres(), np.random.default_rng(1))[0]
    tree = tree_of(places, np.zeros(5), several_levels=True, processing=2.0)
    assert np.bincount(tree.parent[1:]).max() <= DEGREE
    assert len(tree.leaves) > 100
    assert tree.before[0] == 0
    below = np.arange(1, 201)
    far = np.linalg.norm(tree.places[below] - tree.places[tree.parent[below]], axis=1)
    assert tree.before[below] == pytest.approx(tree.before[tree.parent[below]] + far + 2.0)


def test_a_scenario_is_made_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--subscribers", "300", "--brokers", "6", "--events", "500", "--load", "5", "--seed", "3"]
    for kind in ("google-groups", "rss", "hotspots"):
        assert cli.main(["scenario", "make", kind, str(tmp_path / kind), *options]) == 0
        assert "least feasible load factor: " in capsys.readouterr().out
        scenario = read_scenario(tmp_path / kind)
        assert scenario.subscriptions.num_rows == 300
        assert scenario.settings.limits.boxes == 3
        assert scenario.settings.limits.load == 5
    refused = ["scenario", "make", "rss", str(tmp_path / "no"), *options[:-4], "--load", "0.5"]
    assert cli.main(refused) == 4
    assert "the least load factor of any assignment" in capsys.readouterr().err
    assert cli.main(["scenario", "make", "rss", str(tmp_path / "no"), "--load", "much"]) == 64


def test_sites_of_a_latency_matrix_are_places(tmp_path: Path) -> None:
    far = distances(np.random.default_rng(1).normal(0, 40, (60, 5)))
    np.savetxt(tmp_path / "matrix.txt", far + 1 - np.eye(60))
    what = Subscribers(subscribers=300, brokers=8, events=500, load=8.0, latencies=str(tmp_path / "matrix.txt"))
    notes = make_subscribers(tmp_path / "sites", what, 1)
    assert any("coordinates of 60 sites are off by" in note for note in notes)
    scenario = read_scenario(tmp_path / "sites")
    assert len(np.unique(scenario.clients["x"].to_numpy())) <= 60


def test_the_same_seed_makes_the_same_scenario(tmp_path: Path) -> None:
    what = Subscribers(subscribers=200, brokers=5, events=300, load=5.0)
    for name in ("one", "two"):
        make_subscribers(tmp_path / name, what, 7)
    assert read_scenario(tmp_path / "one").fingerprint == read_scenario(tmp_path / "two").fingerprint


def test_a_cell_says_all_that_is_measured() -> None:
    small = {"workload": "HL", "seed": 1, **assignment_cells.sizes(True), "subscribers": 300}
    found: list[Row] = []
    for planner in ("gr-star", "balance", "assignment-search"):
        (row,) = assignment_cells.run(assignment_cells.USUAL | small | {"planner": planner})
        assert number(row, "bound") <= number(row, "bandwidth") * 1.1  # it is scaled from the events that planners see
        assert number(row, "bandwidth") <= number(row, "sum_of_boxes") * 1.1
        assert number(row, "delay") <= 0.3 + 1e-9
        found.append(row)
    assert number(found[2], "bandwidth") < number(found[1], "bandwidth")
    assert number(found[1], "load") == pytest.approx(number(found[1], "least_load"))


NUMBERS = {
    "fractional": 50.0,
    "bound": 25.0,
    "sum_of_boxes": 110.0,
    "load": 1.8,
    "most_load": 1.5,
    "overloaded": 12.0,
    "above_wanted": 20.0,
    "delay": 0.25,
    "seconds": 7200.0,
    "rms_delay": 0.1,
    "load_deviation": 0.2,
}
BANDWIDTH = {"gr": 150.0, "gr-star": 100.0, "slp1": 125.0, "slp": 125.0, "gr-no-latency": 2.0}


def rows_of(name: str) -> list[Row]:
    return [
        cell | NUMBERS | {"bandwidth": BANDWIDTH.get(str(cell["planner"]), 300.0) / (1 + float(str(cell["boxes"])))}
        for cell in EXPERIMENTS[name].cells({}, True)
    ]


def measured(name: str) -> dict[str, float]:
    rows = rows_of(name)
    return {each: next(iter(measure(rows).values())) for each, measure in EXPERIMENTS[name].measures.items()}


def test_measures_of_made_up_rows() -> None:
    found = measured("assignment-bandwidth")
    assert found["gr_over_best_blind"] == 0.5
    assert found["worst_over_fractional"] == pytest.approx(125 / 4 / 50)
    assert found["gr_star_over_slp_baseline"] == 0.8
    assert found["gr_over_gr_star_mean"] == found["gr_over_gr_star_least"] == 1.5
    found = measured("assignment-workloads")
    assert found["feeds_gr_star_over_no_latency"] == 50
    assert found["grid_gr_excess_percent"] == pytest.approx(20)
    found = measured("assignment-limits")
    assert found["largest_delay"] == 0.25
    assert found["largest_load_over_cap"] == pytest.approx(1.2)
    assert found["gr_overloaded_percent_mean"] == 12
    found = measured("assignment-levels")
    assert found["gr_star_wins"] == 8
    assert found["gr_star_feasible_wins"] == 0
    assert measured("assignment-rectangles")["late_over_early_saving"] == pytest.approx(
        (1 / 4 - 1 / 6) / (1 / 2 - 1 / 4)
    )
    assert measured("assignment-time")["slp_million_hours"] == 2


def test_figures_show_every_planner() -> None:
    for name in EXPERIMENTS:
        if name.startswith("assignment"):
            figures = EXPERIMENTS[name].figures(rows_of(name))
            assert figures
            assert all(figure.lines for figure in figures)


def test_plans_keep_the_delays_of_a_raw_matrix(tmp_path: Path) -> None:
    """Latencies that no coordinates fit: with rows of links for them, the meter finds nobody late."""
    draw = np.random.default_rng(2)
    far = distances(draw.normal(0, 40, (40, 5))) * draw.uniform(0.6, 1.4, (40, 40))
    np.savetxt(tmp_path / "matrix.txt", (far + far.T) / 2 + 1 - np.eye(40))
    what = Subscribers(
        subscribers=200, brokers=6, events=500, load=6.0, latencies=str(tmp_path / "matrix.txt"), raw=True
    )
    make_subscribers(tmp_path / "raw", what, 1)
    scenario = read_scenario(tmp_path / "raw")
    bench = Workbench(scenario)
    assert bench.score(make_plan("gr-star", scenario, bench, {"residual": True})).exceeded == ()
    late = bench.score(make_plan("gr-no-latency", scenario, bench, {}))
    assert any("delay" in each for each in late.exceeded)


def test_greedy_is_as_far_from_the_best_as_is_proven(tmp_path: Path) -> None:
    brokers, each = 6, 40
    what = Subscribers(kind="broad-and-narrow", subscribers=brokers * each, brokers=brokers, events=2000)
    make_subscribers(tmp_path / "far", what, 1)
    scenario = read_scenario(tmp_path / "far")
    bench = Workbench(scenario)
    greedy = bench.score(make_plan("gr-star", scenario, bench, {}))
    searched = bench.score(make_plan("assignment-search", scenario, bench, {"effort": 1}))
    assert greedy.cost == brokers * what.events
    assert searched.cost <= greedy.cost / 2
    assert searched.exceeded == ()
