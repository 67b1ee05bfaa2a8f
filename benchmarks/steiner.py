"""Steiner trees: how dear they are with each effort, beside the bound and known optima, and how long they take.

Times are of the processor, on one core, and without the tables of distances. SteinLib is measured where its files are
beside the project.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Measurement
from benchmarks.trees import DATA_SETS, scenario_of
from overstory.kernels.distances import Distances, distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.steiner import BEST, EFFORTS, PLAN, ROUTE, Effort, Instances, Trees, steiner_trees, trees_with
from overstory.kernels.steiner_router import Router, ways_of
from overstory.lab.experiments.steinlib import read_optima
from overstory.lab.stp import read_stp
from overstory.lab.topologies import topology
from overstory.model.network import Network
from overstory.pipeline.workbench import Workbench
from overstory.planners.references import score_reference

STEINLIB = Path(__file__).parents[2] / "shared" / "data" / "steinlib"
BEFORE = Effort(4, False, 0, 0, 0)  # the trees that there were before local search
LONGEST = {500: 30.0, 5000: 80.0}  # µs an event
MEAN = {(PLAN, "B"): 100.05, (PLAN, "C"): 100.5, (BEST, "C"): 100.15}  # % of the optimum
WORST = 102.0
TERMINALS = 10


def route(quick: bool) -> Iterator[Measurement]:
    """Events with ten terminals on transit-stub networks: all over the network, and close to each other."""
    for brokers in (60,) if quick else (500, 5000):
        made = topology("transit-stub", brokers, 1)
        ends = np.concatenate([made.sources, made.targets]), np.concatenate([made.targets, made.sources])
        network = Network.between(np.arange(brokers), *ends, np.ones(len(ends[0])), np.ones(len(ends[0])))
        known = network.offsets, network.targets, network.prices
        graph, distances = graph_of(*known), distances_to(*known, np.arange(brokers))
        for name, instances in _drawn(distances, 100 if quick else 5000):
            yield from _routed(graph, distances, instances, f"{brokers:,} brokers, {TERMINALS} terminals, {name}")


def _routed(graph: Graph, distances: Distances, instances: Instances, size: str) -> Iterator[Measurement]:
    events, longest = len(instances.roots), LONGEST.get(len(graph.offsets) - 1)
    routed, taken = _timed(lambda: steiner_trees(graph, distances, *instances, ROUTE))
    before, earlier = _timed(lambda: trees_with(BEFORE, graph, distances, instances))
    times = taken / events * 1e6, "starts alone", earlier / events * 1e6
    yield Measurement("steiner-route", f"{size}: time", *times, longest)
    alone = _one_by_one(Router(ways_of(graph, distances)), instances)
    yield Measurement("steiner-route", f"{size}: time of single calls", alone / events * 1e6, bar=longest)
    costs = float(routed.costs.sum()) / events, "starts alone", float(before.costs.sum()) / events
    yield Measurement("steiner-route", f"{size}: a tree's links", *costs, bar_ratio=1.0, unit="links")


def _one_by_one(router: Router, instances: Instances) -> float:
    """The processor's time for a call from Python for each."""
    sets = np.split(instances.terminals, instances.offsets[1:-1])
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for root, terminals in zip(instances.roots.tolist(), sets, strict=True):
            router.tree(root, terminals)
        best = min(best, time.process_time() - start)
    return best


def _drawn(distances: Distances, events: int) -> Iterator[tuple[str, Instances]]:
    dice = np.random.default_rng(1)
    size = distances.far.shape[1]
    roots, offsets = dice.integers(size, size=events), np.arange(events + 1) * TERMINALS
    yield "uniform", Instances(roots, offsets, dice.integers(size, size=events * TERMINALS))
    near = np.argsort(distances.far, axis=1, kind="stable")[:, : size // 10]
    chosen = near[np.repeat(roots, TERMINALS), dice.integers(size // 10, size=events * TERMINALS)]
    yield "localized", Instances(roots, offsets, chosen)


def _timed(work: Callable[[], Trees], rounds: int = 5) -> tuple[Trees, float]:
    """The trees, and the best time of the processor."""
    found, best = work(), float("inf")
    for _ in range(rounds):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return found, best


def library(quick: bool) -> Iterator[Measurement]:
    """SteinLib, set by set and effort by effort."""
    optima = read_optima(STEINLIB) if STEINLIB.exists() else {}
    for group in sorted({group for group, _ in optima}):
        paths = sorted((STEINLIB / group).glob("*.stp"))[: 2 if quick else None]
        for effort in EFFORTS:
            costs, seconds, before = [], [], []
            for path in paths:
                optimum = optima[group, path.name]
                if optimum is not None:
                    cost, taken = _solved(path, EFFORTS[effort])
                    costs.append(100 * cost / optimum)
                    seconds.append(taken)
                    before.append(_solved(path, BEFORE)[1])
            size = f"{group}, {len(costs)} instances, {effort}"
            times = 1000 * sum(seconds), "starts alone", 1000 * sum(before)
            least = 1 / 3 if effort == PLAN else None
            yield Measurement("steiner-library", f"{size}: all", *times, bar_ratio=least, unit="ms")
            for what, value, bar, unit in (
                ("mean", float(np.mean(costs)), MEAN.get((effort, group)), "% of the optimum"),
                ("worst", max(costs), WORST if effort == PLAN else None, "% of the optimum"),
                ("slowest", 1000 * max(seconds), 1000.0 if effort == BEST else None, "ms"),
            ):
                yield Measurement("steiner-library", f"{size}: {what}", value, bar=bar, unit=unit)


def _solved(path: Path, effort: Effort) -> tuple[float, float]:
    network, terminals = (problem := read_stp(path)).network(), np.unique(problem.terminals)
    known = network.offsets, network.targets, network.prices
    graph, distances = graph_of(*known), distances_to(*known, terminals)
    ends = Instances(terminals[:1], np.array([0, len(terminals)]), terminals)
    found, taken = _timed(lambda: trees_with(effort, graph, distances, ends), 1 if effort.tries else 3)
    return float(found.costs[0]), taken


def opt(quick: bool) -> Iterator[Measurement]:
    """A tree for each event of the paper's data sets, beside the certified bound."""
    brokers, events = (60, 300) if quick else (5000, 10_000)
    for name, locality in DATA_SETS.items():
        with tempfile.TemporaryDirectory() as place:
            scenario = scenario_of(Path(place) / "scenario", brokers, locality, events)
            bench = Workbench(scenario)
            for effort in (ROUTE, PLAN):
                card = score_reference("opt", scenario, bench, {"effort": effort}, 0)
                bar = 1.03 if (name, effort, quick) == ("Uniform", PLAN, False) else None
                size, ratio = f"{name}, {brokers:,} brokers, {effort}", card.core / card.lower_bound
                yield Measurement("steiner-opt", size, ratio, bar=bar, unit="× bound")
