"""Table II of Yu, Agarwal and Yang: bandwidth on the RSS feeds and on hot spots of a grid."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import assignment_cells as cells_
from overstory.lab.assignment_cells import OTHERS, over, ratio, value_of
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import estimate, number, where

PLANNERS = ("gr-no-latency", "assignment-search", "slp1", "gr-star", "gr")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": workload, "seed": seed, **cells_.sizes(quick)}
        for seed in cells_.seeds(quick)
        for workload in OTHERS
    ]
    return cells_.cells(scenarios, PLANNERS)


def excess(rows: Sequence[Row], workload: str) -> BySeed:
    """How far the heaviest broker of online greedy is above the largest load, in percent."""
    load = value_of(rows, "load", planner="gr", workload=workload)
    most = value_of(rows, "most_load", planner="gr", workload=workload)
    return {seed: 100 * (load[seed] / most[seed] - 1) for seed in load}


MEASURES: dict[str, Measure] = {
    "feeds_gr_star_over_fractional": partial(over, planner="gr-star", column="fractional", workload="rss", of="slp1"),
    "feeds_gr_star_over_no_latency": partial(ratio, one="gr-star", other="gr-no-latency", workload="rss"),
    "grid_gr_excess_percent": partial(excess, workload="hotspots"),
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for workload in OTHERS:
        bars = []
        for planner in PLANNERS:
            mean = estimate([number(row, "bandwidth") for row in where(rows, planner=planner, workload=workload)])
            if mean is not None:
                bars.append(Line(planner, [0.0], [mean.mean], [mean.spread or 0.0]))
        name = f"assignment-workloads-{workload}"
        found.append(Figure(name, f"Bandwidth, {workload}", "planner", "bytes into brokers", bars, bars=True))
    return found


EXPERIMENT = Experiment(
    "assignment-workloads",
    "bandwidth of planners of assignment on RSS feeds and on hot spots",
    cells,
    cells_.run,
    cells_.PAPER,
    "Table II",
    measures=MEASURES,
    figures=figures,
)
