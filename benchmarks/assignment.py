"""Subscriber assignment: how dear plans are beside gr-star, optima and bounds, and how long planning takes.

Costs are bytes into brokers of events that planners see; seconds are of planning, with reading the problem into arrays
beside. Each subject is a measurement of its own: ``quality`` on all sets of workloads, ``oracles`` against constraint
programming and the linear programme over all rectangles, ``speed`` by size, ``online`` with arrivals and departures.
"""

import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Measurement
from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.assignment import baselines
from overstory.planners.assignment.all_rectangles import all_rectangles
from overstory.planners.assignment.bounds import certified_bound, exact
from overstory.planners.assignment.greedy import gr_star
from overstory.planners.assignment.online import Online
from overstory.planners.assignment.online import part_of as present
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.assignment.search import EFFORT, search
from overstory.planners.assignment.slp import slp1

GROUPS = {"LL": ("low", "low"), "HL": ("high", "low"), "LH": ("low", "high"), "HH": ("high", "high")}
SETS = (*GROUPS, "rss", "hotspots")
TREES = (("one", "loose"), ("several", "tight"), ("several", "loose"))
BARS = {"gr-star": 5.0, "assignment-search": 60.0, "slp1": 600.0}
GIGABYTE = 1 << 20  # of the kibibytes in which memory is told
CHECKPOINTS = 20
TINY = Subscribers(subscribers=600, brokers=8, events=3000)


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


def workload(name: str, levels: str, latency: str, **sizes: Any) -> Subscribers:
    brokers = {"brokers": 100 if levels == "one" else 200} | sizes
    if name not in GROUPS:
        return Subscribers(kind=name, levels=levels, latency=latency, **brokers)
    skew, broad = GROUPS[name]
    return Subscribers(interest_skew=skew, broad_interests=broad, levels=levels, latency=latency, **brokers)


def quality(quick: bool) -> Iterator[Measurement]:
    """``assignment-search`` relative to gr-star and to the best baseline, on all sets, one level and several."""
    sizes = {"subscribers": 400, "brokers": 8, "events": 1000, "load": 4.0} if quick else {}
    for name in SETS[:1] if quick else SETS:
        for levels, latency in TREES[:1] if quick else TREES:
            problem, _ = problem_for(workload(name, levels, latency, **sizes))
            label = f"{name}, {levels} level{'s' if levels == 'several' else ''}, {latency}"
            found = search(problem, 1 if quick else EFFORT, 1)
            cost = bandwidth(problem, found.filters)
            starts = {"gr-star": gr_star(problem), "gr-star residual": gr_star(problem, residual=True)}
            for called, state in starts.items():
                bar = None if quick or name not in GROUPS else 0.5 if name.endswith("H") else 0.7
                ratio = cost / bandwidth(problem, state.filters)
                yield Measurement("assignment", label, ratio, bar=bar, unit=f"× {called}")
            best = min(_baseline_costs(problem).values())
            yield Measurement("assignment", label, cost / best, bar=1.002, unit="× the best baseline")
            yield Measurement("assignment", label, cost / certified_bound(problem), unit="× bound")


def _baseline_costs(problem: Problem) -> dict[str, float]:
    groupings = (baselines.by_k_means, baselines.by_packing, baselines.by_forgy, baselines.by_hypergraph)
    return {each.__name__: bandwidth(problem, baselines.completed(problem, each(problem, 1))[1]) for each in groupings}


def oracles(quick: bool) -> Iterator[Measurement]:
    """Against the optimum of tiny problems, and the linear programme over all rectangles of small ones."""
    whole, _ = problem_for(TINY)
    ratios = []
    for seed in range(2 if quick else 20):
        tiny = part_of(whole, seed, 6 + seed % 7, 3)
        ratios.append(bandwidth(tiny, search(tiny, 1, seed).filters) / exact(tiny))
    yield Measurement(
        "assignment-oracles", f"{len(ratios)} tiny problems", float(np.mean(ratios)), bar=1.03, unit="× CP-SAT"
    )
    for subscribers in (40,) if quick else (60, 150, 500):
        what = Subscribers(subscribers=subscribers, brokers=6, events=3000, load=3.0, load_wanted=1.8)
        problem, _ = problem_for(what)
        ratio = bandwidth(problem, search(problem, 4, 1).filters) / all_rectangles(problem).bound
        yield Measurement("assignment-oracles", f"{subscribers} subscribers", ratio, bar=1.1, unit="× LP")


def part_of(whole: Problem, seed: int, subscribers: int, leaves: int) -> Problem:
    """Some subscribers and leaves of a problem, with loads that bind."""
    draw = np.random.default_rng(seed)
    mine = draw.choice(len(whole.clients), subscribers, replace=False)
    nodes = {name: getattr(whole.brokers, name)[:leaves] for name in ("nodes", "parent", "leaves")}
    return replace(
        whole,
        brokers=whole.brokers._replace(prices=np.ones(leaves), **nodes),
        clients=whole.clients[mine],
        rectangle=whole.rectangle[mine],
        which=draw.integers(0, 3, subscribers),
        words=np.array([[7], [3], [6]], np.uint64),
        fair=np.full(leaves, subscribers / leaves),
        others=np.zeros(leaves, np.int64),
        boxes=2,
        wanted=1.5,
        most=2.0,
    )


def speed(quick: bool) -> Iterator[Measurement]:
    """Seconds by the number of subscribers, one level and several, and the memory of all of it."""
    for subscribers in (300, 600) if quick else (10_000, 100_000, 1_000_000):
        for levels in ("one", "several"):
            yield from _timed(subscribers, levels, ("gr-star", "assignment-search"), quick)
    yield _memory("assignment-speed")


def slp_speed(quick: bool) -> Iterator[Measurement]:
    """Seconds of the linear-programming planner, with reading the problem, by the number of subscribers."""
    for subscribers in (300,) if quick else (10_000, 100_000, 1_000_000):
        yield from _timed(subscribers, "one", () if quick else ("slp1",), quick)
    yield _memory("assignment-speed")


def ten_million(quick: bool) -> Iterator[Measurement]:
    """Offline greedy, and reading the problem, with ten million subscribers."""
    yield from _timed(900 if quick else 10_000_000, "one", ("gr-star",), quick)
    yield _memory("assignment-speed", bar=None)


def _timed(subscribers: int, levels: str, planners: tuple[str, ...], quick: bool) -> Iterator[Measurement]:
    sizes = {"brokers": 8 if levels == "one" else 40, "events": 1000, "load": 4.0} if quick else {}
    problem, read = problem_for(workload("HL", levels, "loose", subscribers=subscribers, **sizes))
    label = f"{subscribers:,} subscribers, {levels}"
    yield Measurement("assignment-speed", f"{label}, reading", read, unit="s")
    for name in planners:
        began = time.perf_counter()
        _run(name, problem, 1 if quick else EFFORT)
        bar = BARS[name] if subscribers == 1_000_000 else None
        yield Measurement("assignment-speed", f"{label}, {name}", time.perf_counter() - began, bar=bar, unit="s")


def _memory(subject: str, bar: float | None = 6.0) -> Measurement:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE
    return Measurement(subject, "memory at most", used, bar=bar, unit="GB")


def _run(name: str, problem: Problem, effort: int) -> None:
    if name == "gr-star":
        gr_star(problem)
    elif name == "slp1":
        slp1(problem, 1)
    else:
        search(problem, effort, 1)


def online(quick: bool) -> Iterator[Measurement]:
    """Arrivals and departures one by one, against a fresh plan at checkpoints."""
    count, changes, checkpoints = (300, 80, 2) if quick else (100_000, 100_000, CHECKPOINTS)
    sizes = {"brokers": 8, "events": 1000, "load": 4.0} if quick else {}
    whole, _ = problem_for(workload("HL", "one", "loose", subscribers=2 * count, **sizes))
    draw, effort = np.random.default_rng(1), 1 if quick else EFFORT
    order = draw.permutation(2 * count)
    here, away = order[:count].tolist(), order[count:].tolist()
    half = replace(whole, fair=whole.fair / 2)
    running = Online(half, *_begun(half, np.array(here), effort))
    worst = 0.0
    for number in range(1, changes + 1):
        if draw.random() < 0.5:
            here.append(away.pop())
            running.arrive(here[-1])
        else:
            away.insert(0, here.pop(int(draw.integers(len(here)))))
            running.depart(away[0])
        if number % (changes // checkpoints) == 0:
            fresh = search(present(half, np.array(here)), effort, number)
            worst = max(worst, running.cost / bandwidth(half, fresh.filters))
    yield Measurement("assignment-online", f"{changes:,} changes, worst checkpoint", worst, bar=1.1, unit="× fresh")
    mean = running.statistics.moves / changes
    yield Measurement("assignment-online", f"{changes:,} changes, moves of each", mean, bar=1.0, unit="moves")
    yield Measurement("assignment-online", "99th percentile", running.moves_percentile(0.99), unit="moves")


def _begun(whole: Problem, here: np.ndarray, effort: int) -> tuple[np.ndarray, Any]:
    found = search(present(whole, here), effort, 0)
    leaf = np.full(len(whole.clients), -1)
    leaf[here] = found.leaf
    return leaf, found.filters
