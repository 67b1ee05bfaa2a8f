"""Figure 10 of Chen et al.: subscriptions that cover each other are near to each other."""

from collections.abc import Iterable, Sequence

from overstory.lab import pruning_cells
from overstory.lab.experiment import Experiment, Figure, Parameters, Row, Settings
from overstory.lab.pruning_cells import between, saved


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    return pruning_cells.cells([{"clustered": True}], 3, quick)


def figures(rows: Sequence[Row]) -> list[Figure]:
    name = "pruning-clustered"
    return [pruning_cells.delays(rows, name), *pruning_cells.bars(rows, name), *pruning_cells.over_time(rows, name)]


EXPERIMENT = Experiment(
    "pruning-clustered",
    "300 unsubscriptions where subscriptions that cover each other are near to each other, under every routing policy",
    cells,
    pruning_cells.run_unsubscriptions,
    pruning_cells.PAPER,
    "Fig. 10",
    measures={
        "selective_delay_percent": between("selective", "active", "delay_mean", 100.0),
        "table_saved_percent": saved("selective", "active", "table_core_end"),
        "cost_over_best_other": pruning_cells.cost_over_best_other,
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
