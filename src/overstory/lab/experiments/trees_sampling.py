"""Figure 4 of Majumder et al.: cost by the share of documents that the coordinator sees."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, quotients, savings, where
from overstory.pipeline.match import SHARES

PLANNERS = ("single", "mult", "tree-search")
FACTORS = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
FITTED = SHARES[0] / 100  # the share of the log that planners may fit to: factors are relative to all of it
ENOUGH = 0.03


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (100, 2_000, 2) if quick else (2000, 10_000, 10)
    scenarios: list[Settings] = [
        {"data": "Localized1", "brokers": brokers, "events": events, "seed": seed, "share": round(factor / FITTED, 6)}
        for seed in range(1, seeds + 1)
        for factor in (FACTORS[::3] if quick else FACTORS)
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def with_factor(rows: Sequence[Row]) -> list[Row]:
    return [row | {"factor": round(number(row, "share") * FITTED, 4)} for row in rows]


def gain_beyond(rows: Sequence[Row], planner: str, part: str) -> BySeed:
    """What half of all documents saves over 3 % of them, in percent."""
    mine = where(with_factor(rows), planner=planner)
    return savings(quotients(mine, part, {"factor": max(FACTORS)}, {"factor": ENOUGH}))


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = with_factor(rows)
    return [
        Figure(
            f"trees-sampling-{what.replace(' ', '-')}",
            what,
            "share of documents seen",
            "links crossed",
            lines(shown, "factor", part, "planner", PLANNERS),
            log_x=True,
        )
        for part, what in (("cost", "all documents"), ("cost_held_out", "held out"))
    ]


EXPERIMENT = Experiment(
    "trees-sampling",
    "cost by the share of documents that planners see",
    cells,
    tree_cells.run,
    tree_cells.PAPER,
    "Fig. 4",
    measures={
        f"{planner.replace('-', '_')}_gain_beyond_3_percent{end}": partial(gain_beyond, planner=planner, part=part)
        for planner in PLANNERS
        for part, end in (("cost", ""), ("cost_held_out", "_held_out"))
    },
    figures=figures,
)
