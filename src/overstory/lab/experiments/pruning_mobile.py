"""Figure 12 of Chen et al.: four monitors that want everything move around; then all others do, too."""

from collections.abc import Callable, Iterable, Sequence

from overstory.lab import pruning_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import number, quotients, where
from overstory.lab.pruning_cells import MOBILE, series, totals

TIER = "publications_tier_"


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    hours: Settings = {"hours": 0.5} if quick else {}
    return pruning_cells.cells([hours | {"others_move": others} for others in (False, True)], 1, quick, MOBILE)


def mean_queue(rows: Sequence[Row]) -> BySeed:
    """With active covering, if all move, against monitors alone."""
    mine = where(series(rows), policy="active")
    return quotients(mine, "queue", {"others_move": True}, {"others_move": False})


def longest_queue(rows: Sequence[Row]) -> BySeed:
    mine = where(totals(rows), policy="active")
    return quotients(mine, "queue_peak", {"others_move": True}, {"others_move": False})


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
    found = []
    for others, what in ((False, "monitors"), (True, "all")):
        mine = where(rows, others_move=others)
        found.append(pruning_cells.delays(mine, f"pruning-mobile-{what}", f"delay (s), {what} move"))
        found += pruning_cells.bars(mine, f"pruning-mobile-{what}", {"messages": f"messages in all, {what} move"})
        found += pruning_cells.over_time(mine, f"pruning-mobile-{what}")[:1]
    return found


EXPERIMENT = Experiment(
    "pruning-mobile",
    "four monitors that want everything move, alone and with all others, under every routing policy",
    cells,
    pruning_cells.run_moves,
    pruning_cells.PAPER,
    "Fig. 12",
    measures={
        "active_queue_all_over_monitors": mean_queue,
        "active_longest_queue_all_over_monitors": longest_queue,
        "light_tiers_false_positive_percent": light_tiers,
        "lower_tiers_false_positive_percent": lower_tiers,
        "cost_over_best_other": pruning_cells.cost_over_best_other,
    },
    figures=figures,
    refuses=pruning_cells.not_congested,
)
