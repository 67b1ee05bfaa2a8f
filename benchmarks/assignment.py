"""Subscriber assignment: how dear plans are beside gr-star and the certified bound, and how long planning takes.

Costs are bytes into brokers of events that planners see; seconds are of planning, with reading the problem into arrays
beside. All plans keep their limits, or are marked.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measurement
from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.assignment.bounds import certified_bound
from overstory.planners.assignment.greedy import gr_star
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.assignment.search import EFFORT, search

GROUPS = {"LL": ("low", "low"), "HL": ("high", "low"), "LH": ("low", "high"), "HH": ("high", "high")}
BARS = {"gr-star": 5.0, "assignment-search": 60.0}


def problem_for(what: Subscribers, seed: int = 1) -> tuple[Problem, float]:
    """And the seconds that reading it into arrays took."""
    with tempfile.TemporaryDirectory() as place:
        make_subscribers(Path(place) / "scenario", what, seed)
        scenario = read_scenario(Path(place) / "scenario")
        bench = Workbench(scenario)
        bench.load()
        base = defaults.tables(scenario)
        began = time.perf_counter()
        return problem_of(scenario, bench, base, {}), time.perf_counter() - began


def quality(quick: bool) -> Iterator[Measurement]:
    """``assignment-search`` relative to gr-star, on all sets, one level and several."""
    subscribers, events = (400, 1000) if quick else (100_000, 100_000)
    effort, seeds = (1, 1) if quick else (EFFORT, 2)
    for name, (skew, broad) in list(GROUPS.items())[: 1 if quick else None]:
        for levels, latency in (("one", "loose"), ("several", "tight"), ("several", "loose"))[: 1 if quick else None]:
            brokers = 8 if quick else 100 if levels == "one" else 200
            what = Subscribers(
                subscribers=subscribers,
                brokers=brokers,
                interest_skew=skew,
                broad_interests=broad,
                levels=levels,
                latency=latency,
                events=events,
            )
            for seed in range(1, seeds + 1):
                problem, _ = problem_for(what, seed)
                start = bandwidth(problem, gr_star(problem, residual=True).filters)
                found = bandwidth(problem, search(problem, effort, seed).filters)
                label = f"{name}, {levels} level{'s' if levels == 'several' else ''}, {latency}, seed {seed}"
                bar = None if quick else 0.5 if broad == "high" else 0.7
                yield Measurement("assignment", label, found / start, bar=bar, unit="× gr-star")
                yield Measurement("assignment", label, found / certified_bound(problem), unit="× bound")


def speed(quick: bool) -> Iterator[Measurement]:
    """Seconds by the number of subscribers."""
    for subscribers in (300, 600) if quick else (10_000, 100_000, 1_000_000):
        what = Subscribers(subscribers=subscribers, brokers=8 if quick else 100, events=1000 if quick else 100_000)
        problem, read = problem_for(what)
        label = f"{subscribers:,} subscribers"
        yield Measurement("assignment-speed", f"{label}, reading", read, unit="s")
        for name in BARS:
            began = time.perf_counter()
            if name == "gr-star":
                gr_star(problem, residual=True)
            else:
                search(problem, 1 if quick else EFFORT, 1)
            bar = BARS[name] if subscribers == 1_000_000 else None
            yield Measurement("assignment-speed", f"{label}, {name}", time.perf_counter() - began, bar=bar, unit="s")
