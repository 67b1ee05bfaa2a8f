"""Figures 6 and 7 of Majumder et al.: cost and duplicates by the number of trees, as clusters merge."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, where

PLANNERS = ("mult", "mult2")
COUNTS = (1000, 800, 600, 400, 300, 200, 150, 100, 80, 60, 40, 20, 10, 5, 2, 1)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (100, 1_000, 2) if quick else (500, 10_000, 10)
    scenarios: list[Settings] = [
        {"data": "Localized1", "brokers": brokers, "events": events, "seed": seed} for seed in range(1, seeds + 1)
    ]
    counts = COUNTS[::3] if quick else COUNTS
    return tree_cells.cells(
        scenarios, [{"planner": planner, "trees": trees} for planner in PLANNERS for trees in counts]
    )


def best_count(rows: Sequence[Row], planner: str, part: str = "cost_fit") -> BySeed:
    """The number of trees at which a planner's configurations cost least."""
    mine = where(rows, planner=planner)
    seeds = sorted({int(number(row, "seed")) for row in mine})
    cheapest = {seed: min(where(mine, seed=seed), key=lambda row: number(row, part)) for seed in seeds}
    return {seed: number(row, "flows") for seed, row in cheapest.items()}


def duplicates_left(rows: Sequence[Row], planner: str = "mult") -> BySeed:
    """With the fewest trees, as a share of those with the most, in percent."""
    mine = where(rows, planner=planner)
    found = {}
    for seed in sorted({int(number(row, "seed")) for row in mine}):
        ordered = sorted(where(mine, seed=seed), key=lambda row: number(row, "flows"))
        most = number(ordered[-1], "duplicates")
        if most:
            found[seed] = 100 * number(ordered[0], "duplicates") / most
    return found


def reached(rows: Sequence[Row]) -> list[Row]:
    """Rows that came to about as many trees as were asked for: mult2 stops, with more, when no merge saves anything."""
    return [row for row in rows if number(row, "flows") <= 1.1 * number(row, "trees") + 1]


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = [
        ("cost_fit", "in sample", "Cost, in sample", "links crossed"),
        ("cost_held_out", "held out", "Cost, held out", "links crossed"),
        ("duplicates", "duplicates", "Duplicates", "frames that reach a broker again"),
    ]
    return [
        Figure(
            f"trees-count-{what.replace(' ', '-')}",
            title,
            "trees",
            label,
            lines(reached(rows), "trees", part, "planner", PLANNERS),
        )
        for part, what, title, label in shown
    ]


EXPERIMENT = Experiment(
    "trees-count",
    "cost and duplicates by the number of trees, as mult and mult2 merge clusters",
    cells,
    tree_cells.run,
    tree_cells.PAPER,
    "Figs. 6 and 7",
    measures={
        "best_trees_mult": partial(best_count, planner="mult"),
        "best_trees_mult2": partial(best_count, planner="mult2"),
        "best_trees_mult_held_out": partial(best_count, planner="mult", part="cost_held_out"),
        "duplicates_left": duplicates_left,
    },
    figures=figures,
)
