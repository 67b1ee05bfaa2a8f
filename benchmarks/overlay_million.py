"""A million users attached to a thousand brokers on metric prices, through the pipeline, on two cores.

What is measured runs in a process of its own: python -m benchmarks.overlay_million FOLDER. Seconds are of the decisions
and of scoring the search's plan; histograms, prices and distances are steps of the pipeline, and stand apart. Memory is
the largest sum over all its processes of their proportional set sizes.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measurement
from benchmarks.pipeline import spark
from benchmarks.watch import on_cores, told_by, told_here
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.plan import Header, Plan
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.overlay.greedy_packing import packed
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.search import searched
from overstory.planners.overlay.writing import CHEAPEST, plan_tables

CORES, ROUNDS, GB = 2, 8, 1e9
PREPARING, PACKING, SEARCHING, SCORING = "preparing", "greedy-packing", "overlay-search", "scoring"
BARS = {PACKING: 5.0, SEARCHING: 600.0, SCORING: 120.0}
MOST_MEMORY = 8.0


def million(quick: bool) -> Iterator[Measurement]:
    users, brokers = (1_000, 10) if quick else (1_000_000, 1_000)
    given = Quadratic(users=users, brokers=brokers, width=0.02, channels=100, events=100 * brokers)
    with tempfile.TemporaryDirectory() as place:
        make_quadratic(Path(place) / "scenario", given, 1)
        folder = Path(place) / "scenario"
        if quick:
            seconds, _, peak = told_here(lambda: timed(folder, spark()))
        else:
            seconds, _, peak = told_by("benchmarks.overlay_million", folder)
    size = f"{users:,} x {brokers:,}"
    for what, taken in seconds.items():
        bar = None if quick else BARS.get(what)
        yield Measurement("overlay-million", f"{size}: {what}", max(taken, 1e-3), bar=bar, unit="s")
    bar = None if quick else MOST_MEMORY
    yield Measurement("overlay-million", f"{size}: largest sum of memory", peak / GB, bar=bar, unit="GB")


def timed(folder: Path, pipeline: Pipeline) -> dict[str, float]:
    times = [time.perf_counter()]
    scenario = read_scenario(folder)
    instance = Instance(scenario, pipeline, "auto", fine=True)
    _ = instance.nearest, instance.given
    times.append(time.perf_counter())
    packed(instance)
    times.append(time.perf_counter())
    found = searched(instance, ROUNDS, 1)
    times.append(time.perf_counter())
    plan = Plan.of(Header(SEARCHING, scenario.fingerprint), plan_tables(instance, found.at, CHEAPEST))
    pipeline.score(scenario, plan)
    times.append(time.perf_counter())
    names = (PREPARING, PACKING, SEARCHING, SCORING)
    return {name: later - earlier for name, earlier, later in zip(names, times[:-1], times[1:], strict=True)}


if __name__ == "__main__":
    on_cores(CORES)
    with Pipeline(f"local[{CORES}]") as started:
        print(json.dumps(timed(Path(sys.argv[1]), started)))
