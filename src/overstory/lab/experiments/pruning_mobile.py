"""Figure 12 of Chen et al.: four monitors that want everything move around; then all others do, too.

How long a move takes the paper does not say. So all is run with 30 s, in which what a monitor uncovers gets far, and
with 0 s, in which it does not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, number, quotients, where
from overstory.lab.pruning_cells import MOBILE, series, totals
from overstory.lab.simulator.pruning import MOVE_TAKES

TIER = "publications_tier_"


MOVES = (MOVE_TAKES, 0.0)  # seconds that a monitor's move takes: what claims are read by, and what else it could be


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    hours: Settings = {"hours": 0.5} if quick else {}
    workloads = [hours | {"others_move": others, "move_takes": takes} for takes in MOVES for others in (False, True)]
    return pruning_cells.cells(workloads, 1, quick, MOBILE)


def if_moves_take(takes: float, measure: Measure) -> Measure:
    return lambda rows: measure(where(rows, move_takes=takes))


def mean_queue(rows: Sequence[Row]) -> BySeed:
    """With active covering, if all move, against monitors alone."""
    mine = where(series(rows), policy="active")
    return quotients(mine, "queue", {"others_move": True}, {"others_move": False})


def longest_queue(rows: Sequence[Row]) -> BySeed:
    mine = where(totals(rows), policy="active")
    return quotients(mine, "queue_peak", {"others_move": True}, {"others_move": False})


def monitors_longest_queue(rows: Sequence[Row]) -> BySeed:
    """With active covering, if monitors alone move: in messages."""
    return by_seed(where(totals(rows), policy="active", others_move=False), "queue_peak")


def vain_by_tier(rows: Sequence[Row], is_light: Callable[[Sequence[float], int], bool]) -> BySeed:
    """The share of what selective pruning sends in vain that goes to light tiers, in percent; each tier counts by its
    mean broker."""
    found = {}
    for row in where(totals(rows), policy="selective", others_move=False):
        tiers = sorted(name.removeprefix(TIER) for name in row if name.startswith(TIER))
        load = [number(row, f"{TIER}{tier}") for tier in tiers]
        vain = [number(row, f"false_positives_tier_{tier}") for tier in tiers]
        if sum(vain):
            light = sum(count for at, count in enumerate(vain) if is_light(load, at))
            found[int(number(row, "seed"))] = 100 * light / sum(vain)
    return found


def light_tiers(rows: Sequence[Row]) -> BySeed:
    """With less to do than the mean."""
    return vain_by_tier(rows, lambda load, at: load[at] < sum(load) / len(load))


def lower_tiers(rows: Sequence[Row]) -> BySeed:
    return vain_by_tier(rows, lambda load, at: 2 * at >= len(load))


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        figure
        for takes in MOVES
        for others, who in ((False, "monitors"), (True, "all"))
        for figure in _figures(where(rows, others_move=others, move_takes=takes), who, takes)
    ]


def _figures(rows: Sequence[Row], who: str, takes: float) -> list[Figure]:
    name, moving = f"pruning-mobile-{who}-{takes:g}s", f"{who} move, in {takes:g} s"
    queue = pruning_cells.over_time(rows, name)[0]
    return [
        pruning_cells.delays(rows, name, f"delay (s), {moving}"),
        *pruning_cells.bars(rows, name, {"messages": f"messages in all, {moving}"}),
        replace(queue, title=f"queue, {moving}", x="seconds"),
    ]


EXPERIMENT = Experiment(
    "pruning-mobile",
    "four monitors that want everything move, alone and with all others, under every routing policy",
    cells,
    pruning_cells.run_moves,
    pruning_cells.PAPER,
    "Fig. 12",
    measures={
        f"{name}{end}": if_moves_take(takes, measure)
        for takes, end in zip(MOVES, ("", "_at_once"), strict=True)
        for name, measure in {
            "active_queue_all_over_monitors": mean_queue,
            "active_longest_queue_all_over_monitors": longest_queue,
            "active_longest_queue_monitors": monitors_longest_queue,
            "light_tiers_false_positive_percent": light_tiers,
            "lower_tiers_false_positive_percent": lower_tiers,
            "cost_over_best_other": pruning_cells.cost_over_best_other,
        }.items()
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
