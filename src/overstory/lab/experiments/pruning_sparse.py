"""Every policy on a workload where left-overs cost nothing and on one where they do; and what the threshold decides.

The dense workload is the paper's, as ``pruning-unsubscribe`` has it; the sparse one is ours
(``simulator.workload``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, where
from overstory.lab.pruning_cells import UNSUBSCRIBE, between, totals, with_percentiles

WORKLOADS = ("dense", "sparse")
THRESHOLD = UNSUBSCRIBE["threshold"]
OTHER_THRESHOLDS = (0.5, 0.7, 0.8, 0.95, 1.0)  # of selective pruning alone
SHOWN = {  # titles and axes
    "messages": ("messages", "messages in all"),
    "delay_mean": ("delay", "delay after the unsubscriptions (s)"),
    "false_positive_percent": ("in vain", "% of publications, core and inner links"),
}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    yield from pruning_cells.cells([{"workload": workload} for workload in WORKLOADS], 3, quick)
    for workload in WORKLOADS:
        for threshold in OTHER_THRESHOLDS[:1] if quick else OTHER_THRESHOLDS:
            yield UNSUBSCRIBE | {"workload": workload, "threshold": threshold, "policy": "selective", "seed": 1}


def usual(rows: Sequence[Row], workload: str) -> list[Row]:
    """One workload, with the paper's threshold."""
    return where(rows, workload=workload, threshold=THRESHOLD)


def on(workload: str, measure: Measure) -> Measure:
    return lambda rows: measure(usual(rows, workload))


def in_vain(value: str) -> Measure:
    """With selective pruning, in percent."""

    def measure(rows: Sequence[Row]) -> BySeed:
        return {int(number(row, "seed")): 100 * number(row, value) for row in where(totals(rows), policy="selective")}

    return measure


def in_percent(rows: Sequence[Row]) -> list[Row]:
    return [row | {"false_positive_percent": 100 * number(row, "false_positive_share")} for row in totals(rows)]


def by_policy(rows: Sequence[Row], value: str) -> Figure:
    """A bar for each policy on each workload, the two workloads beside each other."""
    drawn: list[Line] = []
    for policy in pruning_cells.POLICIES:
        for workload in WORKLOADS:
            mine = [row | {"at": 0} for row in where(usual(rows, workload), policy=policy)]
            for line in lines(mine, "at", value, "policy", (policy,)):
                bar = replace(line, label=f"{policy}, {workload}")
                drawn.append(with_percentiles(bar, mine) if value == "delay_mean" else bar)
    name, (title, label) = f"pruning-sparse-{value.replace('_', '-')}", SHOWN[value]
    return Figure(name, f"Both workloads: {title}", "", label, drawn, log_y=value == "delay_mean", bars=True)


def by_threshold(rows: Sequence[Row], value: str) -> Figure:
    """Selective pruning, with a line for each workload; the first seed, which alone has all thresholds."""
    mine = where(rows, policy="selective", seed=1)
    name, (title, label) = f"pruning-sparse-threshold-{value.replace('_', '-')}", SHOWN[value]
    drawn = lines(mine, "threshold", value, "workload", WORKLOADS)
    return Figure(name, f"Selective pruning: {title}", "threshold", label, drawn, log_y=value == "delay_mean")


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = in_percent(rows)
    return [draw(shown, value) for draw in (by_policy, by_threshold) for value in SHOWN]


EXPERIMENT = Experiment(
    "pruning-sparse",
    "every routing policy where left-overs cost nothing and where they do, and what the threshold decides",
    cells,
    pruning_cells.run_unsubscriptions,
    pruning_cells.PAPER,
    "Sec. V-A",
    measures={
        f"{name}_{workload}": on(workload, measure)
        for name, measure in {
            "false_positive_percent": in_vain("false_positive_share"),
            "false_positive_percent_core": in_vain("false_positive_share_core"),
            "selective_delay_percent": between("selective", "active", "delay_mean", 100.0),
            "selective_messages_over_active": between("selective", "active", "messages"),
            "cost_messages_over_selective": between("cost", "selective", "messages"),
            "cost_over_best_other": pruning_cells.cost_over_best_other,
        }.items()
        for workload in WORKLOADS
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
