"""Figure 9 of Chen et al.: queues by how many subscriptions each broad one covers."""

from collections.abc import Iterable, Sequence

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, where
from overstory.lab.pruning_cells import POLICIES, totals

DEGREES = (10, 30, 50)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    degrees = DEGREES[:2] if quick else DEGREES
    return pruning_cells.cells([{"degree": degree} for degree in degrees], 1, quick)


def longest_queue(rows: Sequence[Row]) -> BySeed:
    found: BySeed = {}
    for row in where(totals(rows), policy="selective"):
        seed = int(number(row, "seed"))
        found[seed] = max(found.get(seed, 0.0), number(row, "queue_peak"))
    return found


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"pruning-degree-{value.replace('_', '-')}",
            label,
            "covering degree",
            label,
            lines(totals(rows), "degree", value, "policy", POLICIES),
            log_y=value == "delay_mean",
        )
        for value, label in (
            ("queue_peak", "longest queue of a core broker"),
            ("delay_mean", "delay (s)"),
            ("messages", "messages in all"),
        )
    ]


EXPERIMENT = Experiment(
    "pruning-degree",
    "queues, delay and messages by covering degree, under every routing policy",
    cells,
    pruning_cells.run_unsubscriptions,
    pruning_cells.PAPER,
    "Fig. 9",
    measures={
        "selective_longest_queue": longest_queue,
        "cost_over_best_other": pruning_cells.cost_over_best_other,
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
