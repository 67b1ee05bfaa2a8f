"""Ours: is it content-awareness of the tree, or of the links? A tree of cheapest paths that floods, the same with
filters on its links, and SINGLE."""

from collections.abc import Iterable, Sequence

from overstory.lab import tree_cells
from overstory.lab.experiment import Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, relative, where
from overstory.lab.tree_cells import DATA_SETS

PLANNERS = ("flood", "spt", "mst", "single")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    sizes, events, seeds = ((100, 50), 1_000, 2) if quick else ((2000, 1000, 500), 10_000, 10)
    scenarios: list[Settings] = [
        {"data": data, "brokers": brokers, "events": events, "seed": seed}
        for brokers in sizes
        for data in DATA_SETS
        for seed in range(1, seeds + 1)
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def figures(rows: Sequence[Row]) -> list[Figure]:
    ratios = relative(rows, "cost_held_out", {"planner": "single"}, ("brokers", "data", "seed"))
    return [
        Figure(
            f"trees-flooding-{data.lower()}",
            f"{data}, held out",
            "brokers",
            "times the cost of single",
            lines(where(ratios, data=data), "brokers", "cost_held_out", "planner", PLANNERS),
            log_y=True,
        )
        for data in DATA_SETS
    ]


EXPERIMENT = Experiment(
    "trees-flooding",
    "flooding a tree against filters on its links, beside a tree that knows the content",
    cells,
    tree_cells.run,
    figures=figures,
)
