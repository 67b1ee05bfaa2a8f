"""A million subscriptions: a plan with a row of three boxes on every link is validated and scored, on two cores.

What is measured runs in a process of its own: python -m benchmarks.million FOLDER. Its seconds are from its start to
its end, so Python, Java and Spark start within them, and the scenario and the plan are read. Its memory is the largest
sum, seen twice a second, over all its processes (driver, Java, Python workers) of their proportional set sizes: pages
that several of them share count once.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement
from benchmarks.million_made import make_million
from benchmarks.pipeline import spark
from benchmarks.watch import on_cores, told_by, told_here
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline

CORES = 2
MOST_SECONDS, MOST_MEMORY = 120, 6
GB = 1e9


def million(quick: bool) -> Iterator[Measurement]:
    subscriptions, brokers, events, matches = (2_000, 60, 1_000, 10) if quick else (1_000_000, 1_000, 100_000, 100)
    with tempfile.TemporaryDirectory() as place:
        make_million(Path(place), subscriptions, brokers, events, matches)
        size = f"{subscriptions:,} subscriptions, {brokers:,} brokers, {events:,} events"
        yield from measured(Path(place), size, quick)


def measured(folder: Path, size: str, quick: bool) -> Iterator[Measurement]:
    start = time.perf_counter()
    if quick:
        said, processes, peak = told_here(lambda: validated_and_scored(folder, spark()))
    else:
        said, processes, peak = told_by("benchmarks.million", folder)
    seconds = time.perf_counter() - start
    busy = sum(process.busy for process in processes)
    size += f", {said['deliveries'] / said['events']:.1f} matches"
    yield Measurement("million", f"{size}: validated and scored", seconds, bar=MOST_SECONDS, unit="s")
    yield Measurement("million", f"{size}: of all cores, load {os.getloadavg()[0]:.1f}", max(busy, 0.01), unit="s")
    yield Measurement("million", f"{size}: largest sum of memory", peak / GB, bar=MOST_MEMORY, unit="GB")
    for role in dict.fromkeys(process.role for process in processes):
        same = [process for process in processes if process.role == role]
        most, busy = max(process.proportional for process in same), sum(process.busy for process in same)
        yield Measurement("million", f"{role}, {busy:.0f} s of a core, proportional", most / GB, unit="GB")
    for step, took in said["steps"].items():
        yield Measurement("million", step, max(took, 0.001), unit="s")


def validated_and_scored(folder: Path, pipeline: Pipeline) -> dict[str, Any]:
    start = time.perf_counter()
    scenario, plan = read_scenario(folder / "scenario"), read_plan(folder / "plan")
    read = time.perf_counter() - start
    card = pipeline.score(scenario, plan).card
    steps = {"reading the tables": read} | pipeline.clock.seconds
    return {"events": card.events, "deliveries": card.deliveries, "cost": card.cost, "steps": steps}


if __name__ == "__main__":
    on_cores(CORES)
    with Pipeline(f"local[{CORES}]") as started:
        print(json.dumps(validated_and_scored(Path(sys.argv[1]), started)))
