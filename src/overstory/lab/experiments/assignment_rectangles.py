"""Figure 10 of Yu, Agarwal and Yang: bandwidth by the rectangles that a filter may have."""

from collections.abc import Iterable, Sequence

from overstory.lab import assignment_cells as cells_
from overstory.lab.assignment_cells import most_of, value_of
from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import lines

PLANNERS = ("gr", "gr-star", "slp1", "assignment-search")
BOXES = (1, 2, 3, 4, 5, 6)
THEIRS = ("gr", "gr-star", "slp1")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"workload": "HH", "seed": seed, **cells_.sizes(quick), "boxes": boxes}
        for seed in cells_.seeds(quick)
        for boxes in ((1, 3, 5) if quick else BOXES)
    ]
    return cells_.cells(scenarios, PLANNERS)


def late_over_early(rows: Sequence[Row], planner: str) -> BySeed:
    """What the fourth and fifth rectangle save over what the second and third do."""
    by_boxes = {boxes: value_of(rows, "bandwidth", planner=planner, boxes=boxes) for boxes in (1, 3, 5)}
    shared = by_boxes[1].keys() & by_boxes[3].keys() & by_boxes[5].keys()
    early = {seed: by_boxes[1][seed] - by_boxes[3][seed] for seed in shared}
    return {seed: (by_boxes[3][seed] - by_boxes[5][seed]) / early[seed] for seed in sorted(shared) if early[seed] > 0}


MEASURES: dict[str, Measure] = {
    "late_over_early_saving": lambda rows: most_of(late_over_early(rows, planner) for planner in THEIRS),
    "gr_star_late_over_early_saving": lambda rows: late_over_early(rows, "gr-star"),
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = lines(rows, "boxes", "bandwidth", "planner", PLANNERS)
    return [Figure("assignment-rectangles", "Bandwidth by rectangles", "rectangles", "bytes into brokers", shown)]


EXPERIMENT = Experiment(
    "assignment-rectangles",
    "bandwidth by the rectangles that a filter may have",
    cells,
    cells_.run,
    cells_.PAPER,
    "Fig. 10",
    measures=MEASURES,
    figures=figures,
)
