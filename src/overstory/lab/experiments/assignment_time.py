"""Figure 11 of Yu, Agarwal and Yang: how long planning takes, by the number of subscribers."""

from collections.abc import Iterable, Sequence

from overstory.lab import assignment_cells as cells_
from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import largest, lines, number, where

PLANNERS = ("gr-star", "slp1", "assignment-search")
SIZES = (10_000, 100_000, 1_000_000)
HOUR = 3600.0


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": "HL", "seed": 1, **cells_.sizes(quick), "subscribers": subscribers}
        for subscribers in ((250, 500) if quick else SIZES)
    ]
    return cells_.cells(scenarios, PLANNERS)


def slp_hours(rows: Sequence[Row]) -> BySeed:
    """Of the largest number of subscribers that there is."""
    mine = largest(where(rows, planner="slp1"), "subscribers")
    return {int(number(row, "seed")): number(row, "seconds") / HOUR for row in mine}


MEASURES: dict[str, Measure] = {"slp_million_hours": slp_hours}


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = lines(rows, "subscribers", "seconds", "planner", PLANNERS)
    return [Figure("assignment-time", "Planning", "subscribers", "seconds", shown, log_x=True, log_y=True)]


EXPERIMENT = Experiment(
    "assignment-time",
    "seconds that planning an assignment takes, by the number of subscribers",
    cells,
    cells_.run,
    cells_.PAPER,
    "Fig. 11",
    measures=MEASURES,
    figures=figures,
    alone=True,
)
