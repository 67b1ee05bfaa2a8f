"""A million users and 10,000 topics: topic-search plans them from a folder, with co-interest counted on Spark.

What is measured runs in a process of its own, on two cores: python -m benchmarks.topics_million FOLDER. Its seconds are
from its start to its end, so Python, Java and Spark start within them, the scenario is read and the plan written. Its
memory is the largest sum over all its processes of their proportional set sizes.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement
from benchmarks.pipeline import spark
from benchmarks.watch import on_cores, told_by, told_here
from overstory.lab.topics import Topics, make_topics
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

CORES = 2
MOST_SECONDS, MOST_MEMORY = 300, 6
GB = 1e9


def million(quick: bool) -> Iterator[Measurement]:
    users, topics, clusters = (2_000, 200, 16) if quick else (1_000_000, 10_000, 800)
    what = Topics(users=users, topics=topics, natural_clusters=clusters, intervals=24, changes=False)
    with tempfile.TemporaryDirectory() as place:
        make_topics(Path(place) / "scenario", what, seed=1)
        start = time.perf_counter()
        if quick:
            said, _, peak = told_here(lambda: planned(Path(place), spark()))
        else:
            said, _, peak = told_by("benchmarks.topics_million", Path(place))
        seconds = time.perf_counter() - start
    size = f"{users:,} users, {topics:,} topics, {said['clusters']:,} clusters, {said['without']:.2f} times less"
    yield Measurement("topics-million", f"{size}: planned", seconds, bar=MOST_SECONDS, unit="s")
    yield Measurement("topics-million", f"{size}: largest sum of memory", peak / GB, bar=MOST_MEMORY, unit="GB")
    for step, took in said["steps"].items():
        yield Measurement("topics-million", step, max(took, 0.001), unit="s")


def planned(folder: Path, pipeline: Pipeline) -> dict[str, Any]:
    scenario = read_scenario(folder / "scenario")
    plan = make_plan("topic-search", scenario, pipeline, {}, seed=1)
    start = time.perf_counter()
    plan.write(folder / "plan")
    steps = pipeline.clock.seconds | {"writing the plan": time.perf_counter() - start}
    clusters = int((plan.flows["associations"].to_numpy() > 0).sum())
    return {"clusters": clusters, "without": plan.header.alternatives["a tree for each topic"], "steps": steps}


if __name__ == "__main__":
    on_cores(CORES)
    with Pipeline(f"local[{CORES}]") as started:
        print(json.dumps(planned(Path(sys.argv[1]), started)))
