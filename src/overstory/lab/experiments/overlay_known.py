"""Users that know only some of the brokers (Zhao and Wu, section V): what that costs, by how many they know."""

from collections.abc import Iterable, Sequence

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, quotients, where

PLANNERS = (overlay.RANDOM, overlay.GREEDY, overlay.SEARCH)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers, seeds = (60, 6, 2) if quick else (1000, 100, 10)
    counts = (2, 0) if quick else (2, 5, 10, 25, 50, 0)
    scenarios: list[Settings] = [
        {
            "users": users,
            "brokers": brokers,
            "access_core_ratio": 1.0,
            "width": 0.02,
            "channels": 100,
            "known": known,
            "seed": seed,
        }
        for seed in range(1, seeds + 1)
        for known in counts
    ]
    return overlay.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def dearer(rows: Sequence[Row], planner: str) -> BySeed:
    """The cost where users know fewest brokers, relative to that where they know all."""
    fewest = min((int(str(row["known"])) for row in rows if row["known"]), default=0)
    mine = where(rows, planner=planner)
    return quotients(mine, "cost_held_out", {"known": fewest}, {"known": 0})


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = [row | {"known": row["known"] or row["brokers"]} for row in rows]
    return [
        Figure(
            "overlay-known",
            "Cost by the number of brokers that each user knows",
            "brokers that a user knows",
            "held-out cost",
            lines(shown, "known", "cost_held_out", "planner"),
            log_x=True,
        )
    ]


EXPERIMENT = Experiment(
    "overlay-known",
    "what it costs that users know only some brokers",
    cells,
    overlay.run,
    measures={
        "greedy_with_fewest_over_all": lambda rows: dearer(rows, overlay.GREEDY),
        "search_with_fewest_over_all": lambda rows: dearer(rows, overlay.SEARCH),
    },
    figures=figures,
)
