"""Figure 8 of Majumder et al.: how long planning takes, by the size of the network."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import largest, lines, quotients, where

PLANNERS = ("single", "mult", "mult2", "tree-search")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    sizes, events, seeds = ((100, 50), 1_000, 1) if quick else ((5000, 2000, 1000, 500), 10_000, 3)
    scenarios: list[Settings] = [
        {"data": data, "brokers": brokers, "events": events, "seed": seed}
        for brokers in sizes
        for data in ("Localized1", "Uniform")
        for seed in range(1, seeds + 1)
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def times_longer(rows: Sequence[Row], data: str) -> BySeed:
    mine = largest(where(rows, data=data))
    return quotients(mine, "seconds", {"planner": "mult2"}, {"planner": "mult"})


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"trees-time-{data.lower()}",
            f"Planning, {data}",
            "brokers",
            "seconds",
            lines(where(rows, data=data), "brokers", "seconds", "planner", PLANNERS),
            log_y=True,
        )
        for data in ("Localized1", "Uniform")
    ]


EXPERIMENT = Experiment(
    "trees-time",
    "seconds that planning takes, by the size of the network",
    cells,
    tree_cells.run,
    tree_cells.PAPER,
    "Fig. 8",
    measures={
        "mult2_over_mult_time": partial(times_longer, data="Localized1"),
        "mult2_over_mult_time_uniform": partial(times_longer, data="Uniform"),
    },
    figures=figures,
    alone=True,
)
