"""Figures 6 and 7(a) and Table I of Yu, Agarwal and Yang: bandwidth on the four Google Groups workloads."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import assignment_cells as cells_
from overstory.lab.assignment_cells import BLIND, GROUPS, combined, least_of, mean_ratio, most_of, over, ratio
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import estimate, number, where

PLANNERS = ("gr-no-latency", "assignment-search", "slp1", "gr-star", "gr", *BLIND)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": workload, "seed": seed, **cells_.sizes(quick)}
        for seed in cells_.seeds(quick)
        for workload in GROUPS
    ]
    return cells_.cells(scenarios, PLANNERS)


def over_best_blind(rows: Sequence[Row], planner: str, workload: str) -> BySeed:
    return most_of(ratio(rows, planner, other, workload) for other in BLIND)


def worst_over(rows: Sequence[Row], planners: Sequence[str], column: str, of: str | None) -> BySeed:
    return most_of(over(rows, planner, column, workload, of) for planner in planners for workload in GROUPS)


def mean_over_blind(rows: Sequence[Row]) -> BySeed:
    parts = [over_best_blind(rows, "gr-star", workload) for workload in GROUPS]
    return combined(parts, lambda values: sum(values) / len(values))


MEASURES: dict[str, Measure] = {
    "gr_over_best_blind": lambda rows: most_of(over_best_blind(rows, "gr", workload) for workload in GROUPS),
    "gr_star_over_best_blind_mean": mean_over_blind,
    "worst_over_fractional": partial(worst_over, planners=("slp1", "gr-star"), column="fractional", of="slp1"),
    "worst_over_fractional_with_gr": partial(
        worst_over, planners=("slp1", "gr-star", "gr"), column="fractional", of="slp1"
    ),
    "worst_over_bound": partial(worst_over, planners=("slp1", "gr-star"), column="bound", of=None),
    "gr_star_over_slp_baseline": partial(ratio, one="gr-star", other="slp1", workload="HL"),
    "gr_star_over_slp_baseline_sum": partial(ratio, one="gr-star", other="slp1", workload="HL", column="sum_of_boxes"),
    "gr_star_over_slp_mean": partial(mean_ratio, one="gr-star", other="slp1"),
    "gr_over_gr_star_mean": partial(mean_ratio, one="gr", other="gr-star"),
    "gr_over_gr_star_least": lambda rows: least_of(ratio(rows, "gr", "gr-star", workload) for workload in GROUPS),
}


def _bars(rows: Sequence[Row], column: str, workload: str | None) -> list[Line]:
    found = []
    for planner in PLANNERS:
        mine = where(rows, planner=planner) if workload is None else where(rows, planner=planner, workload=workload)
        mean = estimate([number(row, column) for row in mine])
        if mean is not None:
            found.append(Line(planner, [0.0], [mean.mean], [mean.spread or 0.0]))
    return found


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = [
        Figure(
            f"assignment-bandwidth-{workload.lower()}",
            f"Bandwidth, interest skew and broad interests {workload}",
            "planner",
            "bytes into brokers",
            _bars(rows, "bandwidth", workload),
            bars=True,
        )
        for workload in GROUPS
    ]
    for column, title in (("rms_delay", "Root mean square of delay"), ("load_deviation", "Deviation of loads")):
        name = f"assignment-bandwidth-{column.replace('_', '-')}"
        shown.append(Figure(name, title, "planner", column, _bars(rows, column, None), bars=True))
    return shown


EXPERIMENT = Experiment(
    "assignment-bandwidth",
    "bandwidth, delays and loads of every planner of assignment on four Google Groups workloads",
    cells,
    cells_.run,
    cells_.PAPER,
    "Figs. 6 and 7, Table I",
    measures=MEASURES,
    figures=figures,
)
