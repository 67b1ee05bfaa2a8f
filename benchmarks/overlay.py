"""Attaching clients to brokers: seconds against the paper's Table I, and how much cheaper than the paper's planners.

Seconds are of the decision alone: histograms, prices and distances are there. The paper's are 91, 100 and 180 s for
10,000 users and 100 brokers, in C++ without optimisation.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measurement
from overstory.lab.experiments.overlay_time import ATTACH
from overstory.lab.overlay_cells import OF_PAPER, SEARCH
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.overlay.instance import Instance

BARS = {"greedy-packing": 0.02, "two-stage-clustering": 0.5, "steiner-mixing": 5.0, SEARCH: 20.0}
TIMES = {0.2: 1 / 0.8, 1.0: 1 / 0.95}  # by ratio of prices: what the paper's best planner costs at least


def _bench(folder: Path, parameters: Quadratic, seed: int) -> Workbench:
    make_quadratic(folder, parameters, seed)
    bench = Workbench(read_scenario(folder))
    bench.load()
    return bench


def speed(quick: bool) -> Iterator[Measurement]:
    """A curve over users and brokers."""
    sizes = ((100, 5),) if quick else ((1000, 10), (2000, 20), (5000, 50), (10_000, 100))
    for users, brokers in sizes:
        with tempfile.TemporaryDirectory() as place:
            bench = _bench(Path(place) / "scenario", Quadratic(users=users, brokers=brokers), 1)
            for name, attach in ATTACH.items():
                instance = Instance(bench.scenario, bench, "auto", fine=name == SEARCH)
                _ = instance.reach, instance.ways, instance.prices
                attach(instance)
                start = time.perf_counter()
                attach(instance)
                taken = time.perf_counter() - start
                bar = BARS[name] if users == 10_000 else None
                yield Measurement("overlay-speed", f"{name}: {users:,} x {brokers}", taken, bar=bar, unit="s")


def quality(quick: bool) -> Iterator[Measurement]:
    """Held-out cost with narrow interests, beside the best of the paper's planners."""
    users, brokers, seeds = (80, 5, 1) if quick else (1000, 100, 5)
    for ratio in (0.2,) if quick else (0.2, 1.0):
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as place:
                what = Quadratic(users=users, brokers=brokers, width=0.02, channels=100, access_core_ratio=ratio)
                bench = _bench(Path(place) / "scenario", what, seed)
                costs = {
                    name: bench.score(make_plan(name, bench.scenario, bench, {}, seed)).cost_held_out
                    for name in (*OF_PAPER, SEARCH)
                }
                best = min(OF_PAPER, key=lambda name: costs[name])
                yield Measurement(
                    "overlay",
                    f"{users:,} x {brokers}, access/core {ratio}, seed {seed}",
                    costs[SEARCH],
                    best,
                    costs[best],
                    bar_ratio=None if quick else TIMES[ratio],
                    unit="cost",
                )
