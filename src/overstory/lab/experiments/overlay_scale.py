"""Figure 9 of Zhao and Wu: cost reduction by the size of the network, with a hundred users for each broker.

Sizes with fewer users for each broker are ours, and so is ``overlay-search``, on the first ten instances.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, relative, where

PLANNERS = (overlay.RANDOM, *overlay.OF_PAPER)
SEARCHED = 10  # instances of each size that overlay-search is tried on


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    seeds = 2 if quick else int(str(parameters["instances"]))
    sizes = ((200, 4), (400, 8)) if quick else ((1000, 10), (2000, 20), (5000, 50), (10_000, 100), (1000, 100))
    for users, brokers in sizes:
        for seed in range(1, seeds + 1):
            names = (*PLANNERS, overlay.SEARCH) if seed <= SEARCHED else PLANNERS
            scenario: Settings = {"users": users, "brokers": brokers, "access_core_ratio": 1.0, "seed": seed}
            yield from overlay.cells([scenario], [{"planner": name} for name in names])


def of_figure(rows: Sequence[Row]) -> list[Row]:
    """Those of the paper's figure: most users for each broker."""
    most = max((number(row, "users") / number(row, "brokers") for row in rows), default=0.0)
    return [row for row in rows if number(row, "users") / number(row, "brokers") == most]


def least(rows: Sequence[Row], of_means: bool) -> BySeed:
    """The smallest cost reduction of the three algorithms over all sizes, or of their means over the sizes."""
    mine = of_figure(rows)
    found: dict[int, list[float]] = {}
    for planner in overlay.OF_PAPER:
        by_size = overlay.reductions(mine, planner, "users")
        for seed in sorted({seed for some in by_size.values() for seed in some}):
            values = [some[seed] for some in by_size.values() if seed in some]
            found.setdefault(seed, []).append(float(np.mean(values) if of_means else np.min(values)))
    return {seed: min(values) for seed, values in found.items()}


def exponent(rows: Sequence[Row], per: str) -> BySeed:
    """The slope of random attachment's cost against the number of users, both as logarithms."""
    mine = where(of_figure(rows), planner=overlay.RANDOM)
    found: BySeed = {}
    for seed in sorted({int(number(row, "seed")) for row in mine}):
        names = ("users", "cost", "access_bytes")
        points = sorted(tuple(number(row, name) for name in names) for row in where(mine, seed=seed))
        if len(points) > 1:
            users, costs, traffic = (np.array(column) for column in zip(*points, strict=True))
            divided = {"": np.ones(len(users)), "users": users, "traffic": traffic}[per]
            found[seed] = float(np.polyfit(np.log(users), np.log(costs / divided), 1)[0])
    return found


def ratio(rows: Sequence[Row], one: str, other: str, worst: bool) -> BySeed:
    return overlay.ratios_of_reductions(of_figure(rows), one, other, "users", worst)


def figures(rows: Sequence[Row]) -> list[Figure]:
    shown = [row | {"reduction": 1.0 / number(row, "cost")} for row in of_figure(rows)]
    shown = relative(shown, "reduction", {"planner": overlay.RANDOM}, ("users", "seed"))
    return [
        Figure(
            "overlay-scale",
            "Cost reduction by the number of users, a broker for each hundred",
            "users",
            "cost of random attachment / cost",
            lines(shown, "users", "reduction", "planner"),
        )
    ]


EXPERIMENT = Experiment(
    "overlay-scale",
    "cost reduction of attaching clients, by the size of the network",
    cells,
    overlay.run,
    overlay.PAPER,
    "Fig. 9",
    parameters={"instances": 100},
    measures={
        "least_cost_reduction": partial(least, of_means=False),
        "least_mean_cost_reduction": partial(least, of_means=True),
        "random_cost_exponent": partial(exponent, per=""),
        "random_unit_cost_exponent": partial(exponent, per="traffic"),
        "random_user_cost_exponent": partial(exponent, per="users"),
        **{
            f"{name}_reduction{'_worst' if worst else ''}": partial(ratio, one=one, other=other, worst=worst)
            for name, one, other in (
                ("clustering_over_mixing", overlay.CLUSTERING, overlay.MIXING),
                ("greedy_over_clustering", overlay.GREEDY, overlay.CLUSTERING),
                ("greedy_over_mixing", overlay.GREEDY, overlay.MIXING),
            )
            for worst in (False, True)
        },
    },
    figures=figures,
)
