"""Table I of Zhao and Wu: seconds that attaching 10,000 users to 100 brokers takes; the pipeline's steps apart."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, quotients, where
from overstory.planners.overlay.clustering import clustered
from overstory.planners.overlay.greedy_packing import packed
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.mixing import mixed
from overstory.planners.overlay.search import searched

ATTACH: dict[str, Callable[[Instance], object]] = {
    overlay.GREEDY: packed,
    overlay.CLUSTERING: clustered,
    overlay.MIXING: lambda instance: mixed(instance, 1),
    overlay.SEARCH: lambda instance: searched(instance, 8, 1),
}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers, seeds = (100, 5, 1) if quick else (10_000, 100, 3)
    scenarios: list[Settings] = [
        {"users": users, "brokers": brokers, "access_core_ratio": 1.0, "seed": seed} for seed in range(1, seeds + 1)
    ]
    return overlay.cells(scenarios, [{"planner": planner} for planner in ATTACH])


def run(settings: Settings) -> list[Row]:
    """The second time counts: kernels are compiled then, and prices and distances are there."""
    given = {name: value for name, value in settings.items() if name in overlay.SCENARIO}
    bench = overlay.bench_of(settings["seed"], *given.items())
    name = str(settings["planner"])
    instance = Instance(bench.scenario, bench, "auto", fine=name == overlay.SEARCH)
    ATTACH[name](instance)
    began = time.perf_counter()
    ATTACH[name](instance)
    return [settings | {"seconds": time.perf_counter() - began}]


def slower(rows: Sequence[Row], planner: str) -> BySeed:
    return quotients(rows, "seconds", {"planner": planner}, {"planner": overlay.GREEDY})


def seconds(rows: Sequence[Row]) -> BySeed:
    return by_seed(where(rows, planner=overlay.MIXING), "seconds")


EXPERIMENT = Experiment(
    "overlay-time",
    "seconds that attaching clients takes",
    cells,
    run,
    overlay.PAPER,
    "Table I",
    measures={
        "clustering_over_greedy_seconds": partial(slower, planner=overlay.CLUSTERING),
        "mixing_over_greedy_seconds": partial(slower, planner=overlay.MIXING),
        "mixing_seconds": seconds,
    },
    alone=True,
)
