"""Figure 8 of Chen et al.: delay by the number of unsubscriptions."""

from collections.abc import Iterable, Sequence

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, quotients, where
from overstory.lab.pruning_cells import POLICIES, totals

COUNTS = (100, 200, 300)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    counts = COUNTS[::2] if quick else COUNTS
    return pruning_cells.cells([{"unsubscriptions": count} for count in counts], 1, quick)


def steady(rows: Sequence[Row]) -> BySeed:
    mine = where(totals(rows), policy="selective")
    return quotients(mine, "delay_mean", {"unsubscriptions": max(COUNTS)}, {"unsubscriptions": min(COUNTS)})


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"pruning-count-{value.replace('_', '-')}",
            label,
            "unsubscriptions",
            label,
            lines(totals(rows), "unsubscriptions", value, "policy", POLICIES),
            log_y=value == "delay_mean",
        )
        for value, label in (("delay_mean", "delay (s)"), ("messages", "messages in all"))
    ]


EXPERIMENT = Experiment(
    "pruning-count",
    "delay and messages by the number of unsubscriptions, under every routing policy",
    cells,
    pruning_cells.run_unsubscriptions,
    pruning_cells.PAPER,
    "Fig. 8",
    measures={
        "selective_delay_300_over_100": steady,
        "cost_over_best_other": pruning_cells.cost_over_best_other,
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
