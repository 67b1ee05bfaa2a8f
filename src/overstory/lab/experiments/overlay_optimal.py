"""How far is each planner that attaches clients from the optimum? On instances that are small enough to be proven.

Costs are of Steiner trees on sub-channels that all planners share; capacities hold, or the cost is infinite. The bound
on the whole cost is compared with the optimum's score by the meter.
"""

import random
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.overlay_exact import cost
from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, number, where
from overstory.planners.chains import make_plan
from overstory.planners.overlay.baselines import facility_location, linear_programme, primal_dual, publisher_relocation
from overstory.planners.overlay.clustering import clustered
from overstory.planners.overlay.exact import branched, small_of
from overstory.planners.overlay.greedy_packing import packed
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.mixing import mixed
from overstory.planners.overlay.partition import partitioned
from overstory.planners.overlay.search import searched

Ints = NDArray[np.int64]
INSTANCES = 200
ATTACH: dict[str, Callable[[Instance], Ints]] = {
    overlay.GREEDY: packed,
    overlay.CLUSTERING: clustered,
    overlay.MIXING: lambda instance: mixed(instance, 1),
    "overlay-lp": lambda instance: linear_programme(instance, 1),
    "overlay-primal-dual": lambda instance: primal_dual(instance, 1),
    "overlay-partition": lambda instance: partitioned(instance, 1),
    "overlay-facility": lambda instance: facility_location(instance, 1),
    "publisher-relocation": lambda instance: publisher_relocation(instance, 1),
    overlay.SEARCH: lambda instance: searched(instance, 8, 1).at,
}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    """Up to 12 users and 4 brokers, under all laws."""
    for seed in range(1, (4 if quick else INSTANCES) + 1):
        draw = random.Random(seed)
        yield {
            "users": draw.randint(4, 12),
            "brokers": draw.randint(2, 4),
            "channels": 5,
            "events": 200,
            "grid": 6,
            "width": draw.choice([0.1, 0.3]),
            "access_core_ratio": draw.choice([0.2, 1.0, 5.0]),
            "prices": draw.choice(["metric", "independent"]),
            "capacity": draw.choice([0.0, 4.0]),
            "seed": seed,
        }


def run(settings: Settings) -> list[Row]:
    given = {name: value for name, value in settings.items() if name in overlay.SCENARIO}
    bench = overlay.bench_of(settings["seed"], *given.items())
    instance = Instance(bench.scenario, bench, "auto", fine=True)
    table, (_, least) = small_of(instance), branched(instance)
    exact = bench.score(make_plan("overlay-exact", bench.scenario, bench, {}, 1)).cost
    shared: Settings = settings | {"bound_over_exact": float(bench.bound_total) / exact}
    return [
        shared | {"planner": name, "excess": 100 * (float(cost(table, attach(instance))) / least - 1)}
        for name, attach in ATTACH.items()
    ]


def excess(rows: Sequence[Row], planner: str) -> BySeed:
    """Percent above the optimum."""
    return by_seed(where(rows, planner=planner), "excess")


def worst(rows: Sequence[Row], column: str, sign: float = 1.0) -> BySeed:
    """The largest value of a column, or the least where the sign is negative."""
    found = [sign * number(row, column) for row in rows]
    return {0: sign * max(found)} if found else {}


def figures(rows: Sequence[Row]) -> list[Figure]:
    finite = [row for row in rows if np.isfinite(number(row, "excess"))]
    return [
        Figure(
            "overlay-optimal",
            "Above the optimum, by the ratio of prices",
            "mean price of access / mean price of core",
            "percent",
            lines(finite, "access_core_ratio", "excess", "planner"),
            log_x=True,
        )
    ]


EXPERIMENT = Experiment(
    "overlay-optimal",
    "planners that attach clients, against proven optima of small instances",
    cells,
    run,
    measures={
        "search_above_optimum": lambda rows: excess(rows, overlay.SEARCH),
        "search_above_optimum_worst": lambda rows: worst(where(rows, planner=overlay.SEARCH), "excess"),
        "least_above_optimum": lambda rows: worst(rows, "excess", -1.0),
        "bound_over_optimum": lambda rows: worst(rows, "bound_over_exact"),
    },
    figures=figures,
)
