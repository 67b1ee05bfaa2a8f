"""Cells of experiments with routing policies: one policy in the simulator, on one workload.

The first row of a cell has its numbers; then come rows with the longest queue and the mean table of core brokers over
time (``second``). Delays are in seconds, messages are entries and publications that crossed links between brokers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from overstory.errors import InfeasibleError
from overstory.lab.experiment import BySeed, Figure, Line, Measure, Row, Settings
from overstory.lab.measuring import by_seed, lines, number, quotients, where
from overstory.lab.simulator.pruning import (
    MOVE_TAKES,
    Numbers,
    refuse_unless_congested,
    run_mobile,
    run_unsubscribe,
)

PAPER = "pruning"
POLICIES = ("none", "active", "lazy", "packing", "paced", "selective", "cost")
CORE = "ABCDE"
UNSUBSCRIBE: Settings = {
    "subscriptions": 30_000,
    "unsubscriptions": 300,
    "degree": 30,
    "threshold": 0.9,
    "clustered": False,
    "workload": "dense",
}
MOBILE: Settings = {"subscriptions": 5_000, "hours": 6.0, "threshold": 0.9, "move_takes": MOVE_TAKES}
# A smaller workload would not congest the network, so a quick run leaves out policies instead.
QUICK = ("active", "selective", "cost")


def cells(workloads: Sequence[Settings], seeds: int, quick: bool, usual: Settings = UNSUBSCRIBE) -> list[Settings]:
    """Every policy on every workload."""
    return [
        usual | workload | {"policy": policy, "seed": seed}
        for seed in range(1, (1 if quick else seeds) + 1)
        for workload in workloads
        for policy in (QUICK if quick else POLICIES)
    ]


def run_unsubscriptions(settings: Settings) -> list[Row]:
    return _rows(settings, run_unsubscribe(**settings))  # type: ignore[arg-type]


def run_moves(settings: Settings) -> list[Row]:
    return _rows(settings, run_mobile(**settings))  # type: ignore[arg-type]


def _rows(settings: Settings, numbers: Numbers) -> list[Row]:
    scalars: Row = {name: value for name, value in numbers.items() if not isinstance(value, list)}
    triggered, seconds, queues, tables = (
        _list(numbers, name) for name in ("triggered_core", "sample_seconds", "queue_core", "table_core")
    )
    scalars |= {f"triggered_{broker}": count for broker, count in zip(CORE, triggered, strict=False)}
    over_time: list[Row] = [
        settings | {"second": second, "queue": queue, "table": table}
        for second, queue, table in zip(seconds, queues, tables, strict=True)
    ]
    return [settings | scalars, *over_time]


def _list(numbers: Numbers, name: str) -> list[float]:
    value = numbers[name]
    return value if isinstance(value, list) else [value]


def totals(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("second") is None]


def series(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("second") is not None]


def not_congested(rows: Sequence[Row]) -> str | None:
    """Says why nothing may be reported: policies against congestion show nothing where there is none."""
    for row in where(totals(rows), policy="active"):
        monitors_alone = row.get("others_move") is False and row.get("move_takes") == MOVE_TAKES
        if (row.get("unsubscriptions"), row.get("degree")) == (300, 30) or monitors_alone:
            numbers: Numbers = {name: number(row, name) for name in ("delay_mean", "delay_before", "queue_peak")}
            try:
                refuse_unless_congested(numbers)
            except InfeasibleError as error:
                return str(error)
    return None


def between(one: str, other: str, value: str, times: float = 1.0) -> Measure:
    """The quotient of two policies' numbers."""

    def measure(rows: Sequence[Row]) -> BySeed:
        found = quotients(totals(rows), value, {"policy": one}, {"policy": other})
        return {seed: times * quotient for seed, quotient in found.items()}

    return measure


def saved(one: str, other: str, value: str) -> Measure:
    """How much less the one policy has than the other, in percent."""

    def measure(rows: Sequence[Row]) -> BySeed:
        found = quotients(totals(rows), value, {"policy": one}, {"policy": other})
        return {seed: 100 * (1 - quotient) for seed, quotient in found.items()}

    return measure


def within(policy: str, one: str, other: str, times: float = 1.0) -> Measure:
    """The quotient of two numbers of a policy."""

    def measure(rows: Sequence[Row]) -> BySeed:
        mine = where(totals(rows), policy=policy)
        above, below = by_seed(mine, one), by_seed(mine, other)
        return {seed: times * above[seed] / below[seed] for seed in above if below[seed]}

    return measure


def cost_over_best_other(rows: Sequence[Row]) -> BySeed:
    """All messages of the cost-based policy, against those of the policy that sends fewest of all others."""
    found = {}
    for seed in sorted({int(number(row, "seed")) for row in totals(rows)}):
        by_policy = {
            policy: by_seed(where(totals(rows), policy=policy, seed=seed), "messages").get(seed) for policy in POLICIES
        }
        known = {policy: value for policy, value in by_policy.items() if value is not None}
        if "cost" in known and len(known) > 1:
            found[seed] = known.pop("cost") / min(known.values())
    return found


BARS: Mapping[str, str] = {
    "messages": "messages in all",
    "false_positive_share": "share of publications in vain, core and inner links",
    "table_core_end": "entries in a core broker's table, at the end",
}


def bars(rows: Sequence[Row], name: str, what: Mapping[str, str] = BARS) -> list[Figure]:
    shown = [row | {"at": 0} for row in totals(rows)]
    found = []
    for value, label in what.items():
        drawn = lines(shown, "at", value, "policy", POLICIES)
        found.append(Figure(f"{name}-{value.replace('_', '-')}", label, "", label, drawn, bars=True))
    return found


def delays(rows: Sequence[Row], name: str, what: str = "delay after the unsubscriptions (s)") -> Figure:
    """Draws mean delays, with whiskers from the 10th to the 90th percentile."""
    shown = totals(rows)
    drawn = [
        with_percentiles(line, where(shown, policy=line.label))
        for line in lines([row | {"at": 0} for row in shown], "at", "delay_mean", "policy", POLICIES)
    ]
    axis = "mean, 10th and 90th percentile"
    return Figure(f"{name}-delay", what, "", axis, drawn, log_y=True, bars=True)


def with_percentiles(line: Line, rows: Sequence[Row]) -> Line:
    """Gives a bar of mean delays whiskers from the 10th to the 90th percentile."""
    return replace(line, span=(_mean(rows, "delay_p10"), _mean(rows, "delay_p90")))


def _mean(rows: Sequence[Row], value: str) -> float:
    return sum(number(row, value) for row in rows) / len(rows)


def over_time(rows: Sequence[Row], name: str) -> list[Figure]:
    return [
        Figure(
            f"{name}-{value}s",
            f"{label}, over time",
            "seconds after the first unsubscription",
            label,
            lines(series(rows), "second", value, "policy", POLICIES),
        )
        for value, label in (("queue", "longest queue of a core broker"), ("table", "entries in a core broker's table"))
    ]


def triggered(rows: Sequence[Row], name: str) -> Figure:
    """Draws the messages triggered at each core broker, from the farthest to the publishers' one."""
    found = []
    for policy in POLICIES:
        mine = where(totals(rows), policy=policy)
        if mine:
            means = [_mean(mine, f"triggered_{broker}") for broker in CORE]
            found.append(Line(policy, [float(at) for at in range(len(CORE))], means, [0.0] * len(CORE)))
    note = "0 to 4: core brokers A to E"
    return Figure(f"{name}-triggered", "Subscriptions set free", "core broker", "messages triggered", found, note=note)
