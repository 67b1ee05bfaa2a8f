"""Cells of experiments with subscriber assignment: a planner on a generated scenario, under the meter.

``bandwidth`` is the cost of the whole log, ``sum_of_boxes`` what it would be if the boxes of a filter were counted one
by one, ``fractional`` the value of the linear programme of ``slp1`` and ``slp`` (no bound: it is of the sample and the
candidates of the seed, with ``sampled`` subscribers), ``bound`` a certified one. All three are scaled from what
planners see to the log. ``delay`` is relative to the shortest way, ``load`` to a fair share, and ``load_10`` to
``load_90`` are percentiles of brokers' loads. ``certificate`` is how many subscribers were drawn whose filters,
expanded, cover everybody (Lemma 1), for the guess ``guess``; ``valid`` is the percentage of iterations that were valid
(Lemma 3).
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from overstory.kernels.enlarging import Filters
from overstory.kernels.greedy import State
from overstory.lab.experiment import BySeed, Row, Settings
from overstory.lab.measuring import number, where
from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.network import Floats, Ints
from overstory.model.plan import Header, Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.tables import PLAN_TABLES
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.assignment import blind, greedy, search, slp
from overstory.planners.assignment.bounds import certified_bound
from overstory.planners.assignment.filter_assign import USUAL as USUAL_KNOBS
from overstory.planners.assignment.filter_assign import Knobs, Relaxed
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.outcome import decision_of
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.assignment.relaxation import weights_of
from overstory.planners.assignment.slp import Planned

PAPER = "assignment"
GROUPS = {"LL": ("low", "low"), "HL": ("high", "low"), "LH": ("low", "high"), "HH": ("high", "high")}
OTHERS = {"rss": "rss", "hotspots": "hotspots"}
SCENARIO = ("workload", "levels", "latency", "subscribers", "brokers", "events", "boxes", "broker_places", "seed")
USUAL: Settings = {
    "levels": "one",
    "latency": "loose",
    "boxes": 3,
    "effort": search.EFFORT,
    "broker_places": "subscribers",
    "knob": "none",  # of slp, with another value than the usual one
    "value": 0.0,
}
PERCENTILES = (10, 25, 50, 75, 90)
BLIND = ("closest", "closest-unbalanced", "balance")


def sizes(quick: bool, levels: str = "one") -> Settings:
    if quick:
        return {"subscribers": 500, "brokers": 8 if levels == "one" else 40, "events": 2000, "effort": 1}
    return {"subscribers": 100_000, "brokers": 100 if levels == "one" else 200, "events": 100_000}


def seeds(quick: bool) -> range:
    return range(1, 3) if quick else range(1, 6)


def cells(scenarios: Iterable[Settings], planners: Sequence[str]) -> Iterator[Settings]:
    for scenario in scenarios:
        for planner in planners:
            yield USUAL | scenario | {"planner": planner}


def what_of(settings: Settings, load: float | None = None) -> Subscribers:
    workload = str(settings["workload"])
    skew, broad = GROUPS.get(workload, ("high", "low"))
    return Subscribers(
        kind=OTHERS.get(workload, "google-groups"),
        interest_skew=skew,
        broad_interests=broad,
        levels=str(settings["levels"]),
        latency=str(settings["latency"]),
        load=load,
        subscribers=int(number(settings, "subscribers")),
        brokers=int(number(settings, "brokers")),
        events=int(number(settings, "events")),
        boxes=int(number(settings, "boxes")),
        broker_places=str(settings["broker_places"]),
    )


class _Bench:
    def __init__(self, settings: Settings) -> None:
        with tempfile.TemporaryDirectory(prefix="overstory-lab-") as folder:
            path = Path(folder) / "scenario"
            make_subscribers(path, what_of(settings), int(number(settings, "seed")))
            self.scenario: Scenario = read_scenario(path)
            self.bench = Workbench(self.scenario)
            self.bench.load()
        self.base = defaults.tables(self.scenario)
        self.problem = problem_of(self.scenario, self.bench, self.base, {})
        self.last_hops = blind.last_hops(self.scenario, self.problem)
        self.bound = certified_bound(self.problem)

    def delays(self) -> Floats:
        """By subscriber and leaf: beyond the shortest way, relative to it."""
        far = self.problem.brokers.before[self.problem.brokers.leaves] + self.last_hops
        return np.asarray(far / far.min(axis=1, keepdims=True) - 1)


@lru_cache(1)
def _bench(*values: Value) -> _Bench:
    return _Bench(dict(zip(SCENARIO, values, strict=True)))


def _greedy(state: State) -> Planned:
    return Planned(state.leaf, state.filters, np.nan)


def _blind(bench: _Bench, leaf: Ints) -> Planned:
    return Planned(leaf, fitted(bench.problem, leaf), np.nan)


def _searched(problem: Problem, effort: int, seed: int) -> Planned:
    found = search.search(problem, effort, seed)
    return Planned(found.leaf, found.filters, np.nan)


def _knobs(cell: Settings) -> Knobs:
    """The usual ones, but for the one that the cell turns."""
    name = str(cell["knob"])
    if name not in Knobs._fields:
        return USUAL_KNOBS
    usual, value = getattr(USUAL_KNOBS, name), number(cell, "value")
    return USUAL_KNOBS._replace(**{name: type(usual)(value)})


RUNS: dict[str, Callable[[_Bench, Settings], Planned]] = {
    "gr": lambda bench, cell: _greedy(greedy.gr(bench.problem, _seed(cell))),
    "gr-star": lambda bench, cell: _greedy(greedy.gr_star(bench.problem)),
    "gr-star-residual": lambda bench, cell: _greedy(greedy.gr_star(bench.problem, True)),
    "gr-no-latency": lambda bench, cell: _greedy(greedy.gr(greedy.without_latency(bench.problem), _seed(cell))),
    "closest": lambda bench, cell: _blind(
        bench, np.maximum(blind.closest(bench.last_hops, bench.problem.capacity(bench.problem.most)), 0)
    ),
    "closest-unbalanced": lambda bench, cell: _blind(bench, blind.closest(bench.last_hops, None)),
    "balance": lambda bench, cell: _blind(bench, blind.balanced(bench.problem)),
    "slp1": lambda bench, cell: slp.slp1(bench.problem, _seed(cell), _knobs(cell)),
    "slp": lambda bench, cell: slp.slp(bench.problem, _seed(cell), _knobs(cell)),
    "assignment-search": lambda bench, cell: _searched(bench.problem, int(number(cell, "effort")), _seed(cell)),
}


def _seed(cell: Settings) -> int:
    return int(number(cell, "seed"))


def run(settings: Settings) -> list[Row]:
    bench = _bench(*(settings[name] for name in SCENARIO))
    began = time.perf_counter()
    found = RUNS[str(settings["planner"])](bench, settings)
    leaf, filters, fractional = found.leaf, found.filters, found.fractional
    seconds = time.perf_counter() - began
    problem = bench.problem
    tables = decision_of(bench.scenario, bench.base, problem, leaf, filters)
    plan = Plan.of(Header("", ""), {name: PLAN_TABLES[name].completed(rows) for name, rows in tables.items()})
    card = bench.bench.score(plan)
    load = np.bincount(leaf, minlength=len(problem.fair)) / problem.fair
    delay = bench.delays()[np.arange(len(leaf)), leaf]
    scale = card.events / max(problem.space.visible, 1)
    return [
        settings
        | {
            "bandwidth": float(card.cost),
            "held_out": float(card.cost_held_out),
            "sum_of_boxes": scale * _sum_of_boxes(problem, filters),
            "fractional": None if np.isnan(fractional) else scale * float(fractional),
            "bound": scale * bench.bound,
            "within_limits": not card.exceeded,
            "load": float(load.max()),
            "load_deviation": float(load.std()),
            "most_load": problem.most,
            "overloaded": float(100 * (load > problem.most + 1e-9).mean()),
            "above_wanted": float(100 * (load > problem.wanted + 1e-9).mean()),
            "delay": float(delay.max()),
            "rms_delay": float(np.sqrt((delay**2).mean())),
            "least_load": problem.least,
            "seconds": seconds,
            **{f"load_{each}": float(np.percentile(load, each)) for each in PERCENTILES},
            **_certificate(found.relaxed),
        }
    ]


def _certificate(found: Relaxed | None) -> Row:
    """How the sampling of the linear programme went; nothing where there was none."""
    if found is None:
        return {}
    return {
        "sampled": found.sampled,
        "certificate": found.certificate,
        "guess": found.guess,
        "iterations": found.iterations,
        "valid": 100 * found.valid / max(found.tried, 1),
    }


def _sum_of_boxes(problem: Problem, filters: Filters) -> float:
    boxes, counts = filters.boxes, filters.counts
    used = np.arange(boxes.shape[1])[None, :] < counts[:, None]
    weights = weights_of(problem.space.sums, boxes.reshape(-1, 4)).reshape(used.shape)
    return float(problem.brokers.prices @ np.where(used, weights, 0.0).sum(axis=1))


def value_of(rows: Sequence[Row], column: str, **wanted: Value) -> BySeed:
    """A column's value for each seed that has it."""
    return {
        int(number(row, "seed")): number(row, column) for row in where(rows, **wanted) if row.get(column) is not None
    }


def ratio(rows: Sequence[Row], one: str, other: str, workload: str, column: str = "bandwidth") -> BySeed:
    """The ratio of two planners' figures on one workload, by seed."""
    above = value_of(rows, column, planner=one, workload=workload)
    below = value_of(rows, column, planner=other, workload=workload)
    return {seed: above[seed] / below[seed] for seed in sorted(above.keys() & below.keys()) if below[seed]}


def over(rows: Sequence[Row], planner: str, column: str, workload: str, of: str | None = None) -> BySeed:
    """A planner's bandwidth over a yardstick, which the rows of planner ``of`` have."""
    above = value_of(rows, "bandwidth", planner=planner, workload=workload)
    below = value_of(rows, column, planner=of or planner, workload=workload)
    return {seed: above[seed] / below[seed] for seed in sorted(above.keys() & below.keys()) if below[seed]}


def combined(parts: Iterable[BySeed], how: Callable[[Sequence[float]], float]) -> BySeed:
    """One number for each seed that all parts have."""
    every = list(parts)
    shared = set.intersection(*(set(part) for part in every)) if every else set()
    return {seed: float(how([part[seed] for part in every])) for seed in sorted(shared)}


def mean_ratio(rows: Sequence[Row], one: str, other: str, column: str = "bandwidth") -> BySeed:
    return combined((ratio(rows, one, other, workload, column) for workload in GROUPS), _mean)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


least_of = partial(combined, how=min)
most_of = partial(combined, how=max)
