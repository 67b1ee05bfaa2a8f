"""Routing trees on the paper's three data sets: how dear every planner's plan is, and how long planning takes.

Costs are ratios to ``opt``, in sample with one copy per flow as in the paper, and to the certified bound, held out and
coalesced, as brokers will carry them.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.measure import Measurement
from benchmarks.pipeline import spark
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.planners.chains import make_plan
from overstory.planners.defaults import attachments
from overstory.planners.references import score_reference

DATA_SETS = {"Localized1": 0.02, "Localized2": 0.15, "Uniform": 1.0}
OTHERS = ("direct", "spt", "mst", "single", "mult", "mult2", "hybrid", "geo-mult", "semcast")
SLOW = ("mult2", "hybrid", "semcast")  # not at the largest size
EFFORT = 10**12  # dual ascent for every row
BARS = {"opt": 15.0, "single": 20.0, "mult": 30.0, "tree-search": 30.0}
IN_SAMPLE: dict[tuple[str, str | int], float] = {
    ("Localized1", 1): 1.23,
    ("Uniform", 1): 1.10,
    ("Localized1", "auto"): 1.12,
}
TREES_ALONE: dict[str, Value] = {"by": "fit", "steered": False}
HELD_OUT = {"Localized1": 1.15, "Uniform": 1.10}


def scenario_of(folder: Path, brokers: int, locality: float, events: int, seed: int = 1) -> Scenario:
    made = topology("transit-stub", brokers, seed)
    make_localized(folder, made, Localized(locality=locality, events=events), seed)
    return read_scenario(folder)


def scored(scenario: Scenario, name: str, given: dict[str, Value] | None = None) -> tuple[Scorecard, float]:
    """And the seconds that planning took."""
    start = time.perf_counter()
    plan = make_plan(name, scenario, spark(), given or {}, 1)
    taken = time.perf_counter() - start
    return spark().score(scenario, plan, EFFORT).card, taken


def quality(quick: bool) -> Iterator[Measurement]:
    """In sample beside ``opt``, and held out beside the bound and the best other planner."""
    sizes, seeds, events = ((60,), (1,), 500) if quick else ((500, 2000, 5000), (1, 2), 10_000)
    for brokers in sizes:
        for name, locality in list(DATA_SETS.items())[: 1 if quick else None]:
            others = [other for other in OTHERS if brokers <= 2000 or other not in SLOW][: 2 if quick else None]
            cases = [_case(brokers, locality, events, seed, others) for seed in seeds]
            size = f"{name}, {brokers:,} brokers"
            bars = brokers == 5000
            for trees in (1, "auto"):
                ratio = float(np.mean([case.in_sample[trees] for case in cases]))
                bar = IN_SAMPLE.get((name, trees)) if bars else None
                yield Measurement("trees", f"{size}, trees={trees}, in sample", ratio, bar=bar, unit="× opt")
            for other in cases[0].others:
                ratio = float(np.mean([case.held_out for case in cases]))
                theirs = float(np.mean([case.others[other] for case in cases]))
                bar = HELD_OUT.get(name) if bars else None
                yield Measurement(
                    "trees", f"{size}, held out", ratio, other, theirs, bar, bar_ratio=1.0, unit="× bound"
                )


class Case(NamedTuple):
    in_sample: dict[str | int, float]  # relative to opt, by how many trees there may be
    held_out: float  # relative to the bound
    others: dict[str, float]


def _case(brokers: int, locality: float, events: int, seed: int, names: Sequence[str]) -> Case:
    with tempfile.TemporaryDirectory() as place:
        scenario = scenario_of(Path(place) / "scenario", brokers, locality, events, seed)
        apart = replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=False))
        opt = score_reference("opt", scenario, spark(), {}, EFFORT)
        in_sample: dict[str | int, float] = {
            trees: scored(apart, "tree-search", {"trees": trees, "by": "fit", "steered": False})[0].cost_fit
            / opt.cost_fit
            for trees in (1, "auto")
        }
        bound = opt.lower_bound_held_out
        others = {name: scored(scenario, name)[0].cost_held_out / bound for name in names}
        others["opt"] = opt.cost_held_out / bound
        return Case(in_sample, scored(scenario, "tree-search")[0].cost_held_out / bound, others)


def speed(quick: bool) -> Iterator[Measurement]:
    """Of planning, after a first plan of each; curves over brokers and over events."""
    sizes = ((60, 500),) if quick else ((500, 10_000), (2000, 10_000), (5000, 10_000), (500, 100_000), (500, 1_000_000))
    for brokers, events in sizes:
        with tempfile.TemporaryDirectory() as place:
            scenario = scenario_of(Path(place) / "scenario", brokers, DATA_SETS["Localized1"], events)
            size = f"{brokers:,} brokers, {events:,} events"
            bars = BARS if (brokers, events) == (5000, 10_000) else {}
            spark().sample(scenario, attachments(scenario), 1)
            start = time.perf_counter()
            score_reference("opt", scenario, spark(), {}, EFFORT)
            taken = time.perf_counter() - start
            yield Measurement("trees-speed", f"opt, certified: {size}", taken, bar=bars.get("opt"), unit="s")
            for name in ("single", "mult", "tree-search"):
                start = time.perf_counter()
                make_plan(name, scenario, spark(), {}, 1)
                taken = time.perf_counter() - start
                yield Measurement("trees-speed", f"{name}: {size}", taken, bar=bars.get(name), unit="s")
