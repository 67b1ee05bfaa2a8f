"""Figures 7(b) to 7(d) of Yu, Agarwal and Yang: who keeps delays and loads."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from overstory.lab import assignment_cells as cells_
from overstory.lab.assignment_cells import GROUPS, combined, most_of, value_of
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import number, where

PLANNERS = ("gr", "gr-star", "slp1", "assignment-search", "balance")
BOTH = ("slp1", "gr-star")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": workload, "seed": seed, **cells_.sizes(quick)}
        for seed in cells_.seeds(quick)
        for workload in GROUPS
    ]
    return cells_.cells(scenarios, PLANNERS)


def largest_delay(rows: Sequence[Row]) -> BySeed:
    return most_of(
        value_of(rows, "delay", planner=planner, workload=workload) for planner in BOTH for workload in GROUPS
    )


def largest_load(rows: Sequence[Row]) -> BySeed:
    parts = []
    for planner in BOTH:
        for workload in GROUPS:
            load = value_of(rows, "load", planner=planner, workload=workload)
            most = value_of(rows, "most_load", planner=planner, workload=workload)
            parts.append({seed: load[seed] / most[seed] for seed in load})
    return most_of(parts)


def mean_overloaded(rows: Sequence[Row]) -> BySeed:
    parts = [value_of(rows, "overloaded", planner="gr", workload=workload) for workload in GROUPS]
    return combined(parts, lambda values: float(np.mean(values)))


MEASURES: dict[str, Measure] = {
    "largest_delay": largest_delay,
    "largest_load_over_cap": largest_load,
    "gr_overloaded_percent": partial(value_of, column="overloaded", planner="gr", workload="HH"),
    "gr_above_desired_percent": partial(value_of, column="above_wanted", planner="gr", workload="HH"),
    "gr_overloaded_percent_mean": mean_overloaded,
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    """The largest load of each planner, by workload."""
    place = {workload: float(at) for at, workload in enumerate(GROUPS)}
    found = []
    for planner in PLANNERS:
        mine = where(rows, planner=planner)
        means = {name: [number(row, "load") for row in where(mine, workload=name)] for name in GROUPS}
        known = [name for name in GROUPS if means[name]]
        y = [float(np.mean(means[name])) for name in known]
        found.append(Line(planner, [place[name] for name in known], y, [0.0] * len(known)))
    lines = [line for line in found if line.x]
    return [Figure("assignment-limits-load", "Load of the fullest broker", "workload", "times a fair share", lines)]


EXPERIMENT = Experiment(
    "assignment-limits",
    "delays and loads of planners of assignment against their limits",
    cells,
    cells_.run,
    cells_.PAPER,
    "Figs. 7(b) to 7(d)",
    measures=MEASURES,
    figures=figures,
)
