"""Figures 8 and 9 of Yu, Agarwal and Yang: several levels of brokers, with tight and loose latency."""

from collections.abc import Iterable, Sequence

import numpy as np

from overstory.lab import assignment_cells as cells_
from overstory.lab.assignment_cells import GROUPS, combined
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import estimate, number, where

PLANNERS = ("gr", "gr-star", "gr-star-residual", "slp", "assignment-search")
LATENCIES = ("tight", "loose")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": workload, "levels": "several", "latency": latency, "seed": seed, **cells_.sizes(quick, "several")}
        for seed in cells_.seeds(quick)
        for latency in LATENCIES
        for workload in GROUPS
    ]
    return cells_.cells(scenarios, PLANNERS)


def _values(rows: Sequence[Row], column: str, planner: str, latency: str, workload: str) -> BySeed:
    mine = where(rows, planner=planner, latency=latency, workload=workload)
    return {int(number(row, "seed")): number(row, column) for row in mine}


def wins(rows: Sequence[Row], feasible: bool) -> BySeed:
    """Workloads on which offline greedy needs less bandwidth than the linear-programming algorithm."""
    found: list[BySeed] = []
    for latency in LATENCIES:
        for workload in GROUPS:
            ours, theirs = (_values(rows, "bandwidth", name, latency, workload) for name in ("gr-star", "slp"))
            over = _values(rows, "overloaded", "gr-star", latency, workload)
            shared = ours.keys() & theirs.keys()
            found.append({seed: float(ours[seed] < theirs[seed] and not (feasible and over[seed])) for seed in shared})
    return combined(found, sum)


def overloaded(rows: Sequence[Row], workloads: Iterable[str]) -> BySeed:
    parts = [_values(rows, "overloaded", "gr-star", "tight", workload) for workload in workloads]
    return combined(parts, lambda values: float(np.mean(values)))


MEASURES: dict[str, Measure] = {
    "gr_star_wins": lambda rows: wins(rows, False),
    "gr_star_feasible_wins": lambda rows: wins(rows, True),
    "tight_gr_star_overloaded_percent": lambda rows: overloaded(rows, ["LH"]),
    "tight_gr_star_overloaded_percent_mean": lambda rows: overloaded(rows, GROUPS),
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for latency in LATENCIES:
        bars = []
        for planner in PLANNERS:
            mean = estimate([number(row, "bandwidth") for row in where(rows, planner=planner, latency=latency)])
            if mean is not None:
                bars.append(Line(planner, [0.0], [mean.mean], [mean.spread or 0.0]))
        name = f"assignment-levels-{latency}"
        found.append(Figure(name, f"Bandwidth, {latency} latency", "planner", "bytes into brokers", bars, bars=True))
    return found


EXPERIMENT = Experiment(
    "assignment-levels",
    "bandwidth and loads with several levels of brokers, under tight and loose latency",
    cells,
    cells_.run,
    cells_.PAPER,
    "Figs. 8 and 9",
    measures=MEASURES,
    figures=figures,
)
