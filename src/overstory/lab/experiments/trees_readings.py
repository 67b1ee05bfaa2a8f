"""Ours: both readings of a subscription: a broker and one keyword, or a broker and all its keywords."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, excess, lines, quotients, relative, where

PLANNERS = ("single", "mult", "tree-search", "opt")
READINGS = {False: "a broker and a keyword", True: "a broker and all its keywords"}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (100, 1_000, 2) if quick else (500, 10_000, 10)
    scenarios: list[Settings] = [
        {"data": "Localized1", "brokers": brokers, "events": events, "per_broker": whole, "seed": seed}
        for seed in range(1, seeds + 1)
        for whole in READINGS
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def mult_above_opt(rows: Sequence[Row], whole: bool) -> BySeed:
    mine = where(rows, per_broker=whole)
    return excess(quotients(mine, "cost_fit", {"planner": "mult"}, {"planner": "opt"}))


def mult_trees(rows: Sequence[Row], whole: bool) -> BySeed:
    return by_seed(where(rows, per_broker=whole, planner="mult"), "flows")


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for part, what in (("cost_fit", "in sample"), ("cost_held_out", "held out")):
        ratios = relative(rows, part, {"planner": "opt"}, ("per_broker", "seed"))
        shown = [
            row | {"kind": f"{row['planner']}, {READINGS[bool(row['per_broker'])]}", "at": 0}
            for row in ratios
            if row["planner"] != "opt"
        ]
        name = f"trees-readings-{what.replace(' ', '-')}"
        bars = lines(shown, "at", part, "kind")
        found.append(Figure(name, f"Localized1, {what}", "", "times the cost of opt", bars, bars=True))
    return found


EXPERIMENT = Experiment(
    "trees-readings",
    "a subscription as a broker and one keyword, or as a broker and all its keywords",
    cells,
    tree_cells.run,
    measures={
        "mult_above_opt_by_keyword": partial(mult_above_opt, whole=False),
        "mult_above_opt_by_broker": partial(mult_above_opt, whole=True),
        "mult_trees_by_keyword": partial(mult_trees, whole=False),
        "mult_trees_by_broker": partial(mult_trees, whole=True),
    },
    figures=figures,
)
