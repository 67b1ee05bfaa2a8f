"""The certified bound of a log of a million events: how far the default effort is from all of it, and what it takes.

``spt`` is scored, since its core depends on nothing but the network; the gap is that of its core above the bound.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Measurement, per_item
from benchmarks.pipeline import spark
from overstory.kernels.ascent import ascent_bounds
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.network import Ints
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.bound import EFFORT, Bound, bound_of, grouped, named_by_brokers, scaled
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.rules import Metered, metered
from overstory.planners.chains import make_plan

UNLIMITED = 10**18
POINTS = 3.0  # of gap that the default may be above unlimited effort
SEED = 3
SOME = 20  # one in so many sets of filters, for the kernel alone


def bound(quick: bool) -> Iterator[Measurement]:
    brokers, events = (30, 2_000) if quick else (1_000, 1_000_000)
    pipeline = spark()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "net"
        make_localized(folder, topology("transit-stub", brokers, SEED), Localized(events=events), SEED)
        scenario = read_scenario(folder)
        plan = make_plan("spt", scenario, pipeline, {}, 0)
        core = pipeline.score(scenario, plan).card.core
        known = metered(scenario, plan, pipeline.publishers(scenario))
        size = f"{events:,} events, {brokers:,} brokers"
        yield from _efforts(pipeline, scenario, known, core, size, brokers * events // 10)
        yield _shared(pipeline, scenario, known, size)


def _efforts(
    pipeline: Pipeline, scenario: Scenario, known: Metered, core: float, size: str, little: int
) -> Iterator[Measurement]:
    whole, taken = _bounded(pipeline, scenario, known, UNLIMITED)
    best = _gap(core, whole)
    for name, effort, points in (("default", EFFORT, POINTS), (f"effort {little:.0e}", little, None)):
        found, seconds = _bounded(pipeline, scenario, known, effort)
        gap, share = _gap(core, found), float(found.share)
        bar = None if points is None else best + points
        yield Measurement("bound", f"{size}: gap, {name}, {share:.0%} bounded", gap, "unlimited", best, bar, unit="%")
        yield Measurement("bound", f"{size}: time, {name}", seconds, "unlimited", taken, unit="s")
        if found.estimate is not None:
            estimate = 100 * float(found.estimate / whole.whole)
            yield Measurement("bound", f"{size}: estimate of the bound, {name}", estimate, "unlimited", 100, unit="%")


def _bounded(pipeline: Pipeline, scenario: Scenario, known: Metered, effort: int) -> tuple[Bound, float]:
    rows = pipeline.reduce(scenario, known.predicates)
    start = time.perf_counter()
    found = bound_of(rows, known, scenario.network, effort)
    return found, time.perf_counter() - start


def _gap(core: float, found: Bound) -> float:
    return 100 * (core / float(found.whole) - 1)


def _shared(pipeline: Pipeline, scenario: Scenario, known: Metered, size: str) -> Measurement:
    """The kernel alone: publishing brokers whose events the same brokers want, beside each of them for itself."""
    some = pipeline.reduce(scenario, known.predicates).where(f"pmod(high, {SOME}) = 0")
    (batch,) = some.toArrow().combine_chunks().to_batches()
    sets = grouped(named_by_brokers(batch, known.rules, known.publishers), known.rules, known.publishers)
    of_root = np.repeat(np.arange(len(sets.root_offsets) - 1), np.diff(sets.root_offsets))
    lengths = np.diff(sets.terminal_offsets)[of_root]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    terminals = sets.terminals[
        np.repeat(sets.terminal_offsets[of_root] - offsets[:-1], lengths) + np.arange(offsets[-1])
    ]
    graph, found = scaled(scenario.network), np.zeros(len(sets.roots), np.int64)

    def run(terminal_offsets: Ints, terminals: Ints, root_offsets: Ints, roots: Ints) -> None:
        links = graph.offsets, graph.targets, graph.prices
        ascent_bounds(*links, terminal_offsets, terminals, root_offsets, roots, found)

    together = per_item(
        lambda: run(sets.terminal_offsets, sets.terminals, sets.root_offsets, sets.roots), len(found), 3
    )
    apart = per_item(lambda: run(offsets, terminals, np.arange(len(found) + 1), sets.roots), len(found), 3)
    return Measurement("bound", f"{size}: kernel, a set and a root", together, "each root for itself", apart)
