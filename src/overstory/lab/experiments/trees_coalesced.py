"""Ours: many trees with one copy for each, and with one copy for as long as trees share links."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import largest, lines, quotients, relative, savings, where
from overstory.lab.tree_cells import DATA_SETS

PLANNERS = ("mult", "geo-mult", "semcast-filtered", "tree-search")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    sizes, events, seeds = ((100,), 1_000, 2) if quick else ((2000, 500), 10_000, 5)
    scenarios: list[Settings] = [
        {"data": data, "brokers": brokers, "events": events, "seed": seed}
        for brokers in sizes
        for data in DATA_SETS
        for seed in range(1, seeds + 1)
    ]
    planners: list[Settings] = [
        {"planner": planner, "coalesce": coalesce} for planner in PLANNERS for coalesce in (False, True)
    ]
    return tree_cells.cells(scenarios, [*planners, {"planner": "opt"}])


def coalescing_saves(rows: Sequence[Row], planner: str) -> BySeed:
    mine = largest(where(rows, data="Localized1", planner=planner))
    return savings(quotients(mine, "cost_held_out", {"coalesce": True}, {"coalesce": False}))


def figures(rows: Sequence[Row]) -> list[Figure]:
    ratios = relative(largest(rows), "cost_held_out", {"planner": "opt"}, ("data", "seed"))
    shown = [
        row | {"kind": f"{row['planner']}, {'coalesced' if row['coalesce'] else 'a copy per tree'}", "at": 0}
        for row in ratios
        if row["planner"] != "opt"
    ]
    return [
        Figure(
            f"trees-coalesced-{data.lower()}",
            f"{data}, held out",
            "",
            "times the cost of opt",
            lines(where(shown, data=data), "at", "cost_held_out", "kind"),
            bars=True,
        )
        for data in DATA_SETS
    ]


EXPERIMENT = Experiment(
    "trees-coalesced",
    "many trees with a copy for each, and with one copy while trees share links",
    cells,
    tree_cells.run,
    measures={
        f"coalescing_saves_{planner.replace('-', '_')}": partial(coalescing_saves, planner=planner)
        for planner in PLANNERS
    },
    figures=figures,
)
