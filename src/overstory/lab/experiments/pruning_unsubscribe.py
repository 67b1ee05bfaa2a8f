"""Figures 1 and 7 of Chen et al.: 300 broad subscriptions leave, and what they covered sets off."""

from collections.abc import Iterable, Sequence

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import number, where
from overstory.lab.pruning_cells import between, saved, series, totals, within


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    return pruning_cells.cells([{}], 3, quick)


def hours_to_settle(rows: Sequence[Row]) -> BySeed:
    """Until the queues of core brokers are no longer than before the first unsubscription."""
    found = {}
    mine = where(series(rows), policy="active")
    for seed in sorted({int(number(row, "seed")) for row in mine}):
        over = sorted((number(row, "second"), number(row, "queue")) for row in where(mine, seed=seed))
        above = [second for second, queue in over if queue > over[0][1] + 1]
        found[seed] = max(above, default=0.0) / 3600
    return found


def slower_baseline(rows: Sequence[Row]) -> BySeed:
    lazy, packing = (between(policy, "active", "delay_mean")(rows) for policy in ("lazy", "packing"))
    return {seed: max(lazy[seed], packing[seed]) for seed in lazy.keys() & packing.keys()}


def vanished(rows: Sequence[Row]) -> BySeed:
    mine = where(totals(rows), policy="selective")
    return {
        int(number(row, "seed")): 100 * (1 - number(row, "triggered_E") / number(row, "triggered_A"))
        for row in mine
        if number(row, "triggered_A")
    }


def in_vain(rows: Sequence[Row], value: str) -> BySeed:
    return {int(number(row, "seed")): 100 * number(row, value) for row in where(totals(rows), policy="selective")}


def figures(rows: Sequence[Row]) -> list[Figure]:
    name = "pruning-unsubscribe"
    return [
        pruning_cells.delays(rows, name),
        *pruning_cells.bars(rows, name),
        *pruning_cells.over_time(rows, name),
        pruning_cells.triggered(rows, name),
    ]


EXPERIMENT = Experiment(
    "pruning-unsubscribe",
    "300 unsubscriptions of broad filters, under every routing policy: delay, queues, tables, triggered messages",
    cells,
    pruning_cells.run_unsubscriptions,
    pruning_cells.PAPER,
    "Figs. 1 and 7",
    measures={
        "active_hours_to_settle": hours_to_settle,
        "table_saved_percent": saved("selective", "active", "table_core_end"),
        "table_saved_percent_lazy": saved("selective", "lazy", "table_core_end"),
        "slower_baseline_over_active_delay": slower_baseline,
        "selective_delay_percent": between("selective", "active", "delay_mean", 100.0),
        "selective_delay_ratio": within("selective", "delay_mean", "delay_before"),
        "active_last_over_first_messages": within("active", "triggered_E", "triggered_A"),
        "selective_messages_vanished_percent": vanished,
        "false_positive_percent": lambda rows: in_vain(rows, "false_positive_share"),
        "false_positive_percent_core": lambda rows: in_vain(rows, "false_positive_share_core"),
        "cost_over_best_other": pruning_cells.cost_over_best_other,
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
