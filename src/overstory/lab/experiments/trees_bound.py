"""Ours: how far from the least possible? Costs, held out and coalesced, against the certified bound."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import largest, lines, number, where
from overstory.lab.tree_cells import DATA_SETS, events_of, sizes_and_seeds

PLANNERS = ("spt", "single", "mult", "geo-mult", "tree-search", "opt")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    most = 2 if quick else 3
    scenarios: list[Settings] = [
        {"data": data, "brokers": brokers, "events": events_of(quick), "seed": seed}
        for brokers, seed in sizes_and_seeds(quick)
        if seed <= most
        for data in DATA_SETS
    ]
    return tree_cells.cells(scenarios, [{"planner": planner, "coalesce": True} for planner in PLANNERS])


def against_bound(rows: Sequence[Row]) -> list[Row]:
    """Only the reference computes the bound, which is the same for all."""
    keys = ("data", "brokers", "seed")
    bounds = {
        tuple(row[key] for key in keys): number(row, "lower_bound_held_out") for row in where(rows, planner="opt")
    }
    found: list[Row] = []
    for row in rows:
        bound = bounds.get(tuple(row[key] for key in keys))
        if bound:
            found.append(row | {"times": number(row, "cost_held_out") / bound})
    return found


def times_bound(rows: Sequence[Row], planner: str, data: str) -> BySeed:
    mine = largest(where(against_bound(rows), planner=planner, data=data))
    return {int(number(row, "seed")): number(row, "times") for row in mine}


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = against_bound(rows)
    return [
        Figure(
            f"trees-bound-{data.lower()}",
            f"{data}, held out, coalesced",
            "brokers",
            "times the certified bound",
            lines(where(shown, data=data), "brokers", "times", "planner", PLANNERS),
        )
        for data in DATA_SETS
    ]


EXPERIMENT = Experiment(
    "trees-bound",
    "costs, held out and coalesced, as multiples of the certified lower bound",
    cells,
    tree_cells.run,
    measures={
        f"{planner.replace('-', '_')}_times_bound_{data.lower()}": partial(times_bound, planner=planner, data=data)
        for planner in ("tree-search", "opt")
        for data in DATA_SETS
    },
    figures=figures,
)
