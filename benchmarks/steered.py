"""Steered delivery: how close to the bound it is, with headers and with small summaries, and how fast brokers decide.

Costs are of events that no planner saw, relative to the certified bound on them. Times are of the processor, on one
core, with matching apart.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import routing
from benchmarks.measure import Measurement
from benchmarks.pipeline import seconds, spark
from overstory.kernels.steering import Met, Ports, Sent, encode_trees, ports_of, take_hop
from overstory.kernels.steiner_router import Router, links_of, prepare
from overstory.lab.localized import Localized, make_localized
from overstory.lab.ranges import make_ranges
from overstory.lab.simulator.workload import make_publications
from overstory.lab.topologies import topology
from overstory.matching import Batch
from overstory.model.network import Ints, Network
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.pipeline.rules import metered
from overstory.pipeline.score import totals_of
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

DATA_SETS = {"Localized1": 0.02, "Localized2": 0.15, "Uniform": 1.0}
BARS = {"Localized1": (1.03, 1.06)}  # without headers, and with them at 200 bytes
USUAL = (1.05, 1.09)
PAYLOAD = 200
BOXES, FURTHER = 16, 0.03  # of a summary, and how much more it may cost
LONGEST = {500: 40.0, 5000: 100.0}  # µs for a decision where events enter
HOP = 0.5  # µs an event
TERMINALS = 10
BUSIEST = 30  # brokers whose hops are timed
STEERED: dict[str, Value] = {"steer": "all"}


class Ratios(NamedTuple):
    """To the bound."""

    bare: float
    headers: float


def ratios_of(brokers: int, locality: float, seed: int, events: int = 10_000) -> Ratios:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "scenario"
        what = Localized(locality=locality, events=events, bytes=PAYLOAD)
        make_localized(folder, topology("transit-stub", brokers, seed), what, seed)
        scenario = read_scenario(folder)
        bare = _card(scenario, STEERED, bounded=True)
        headers = _card(_with_headers(scenario), STEERED)
        return Ratios(*(cost / bare.lower_bound_held_out for cost in (bare.cost_held_out, headers.cost_held_out)))


def boxes_ratio(brokers: int, locality: float, seed: int, keywords: int, events: int = 10_000) -> float:
    """What summaries of few boxes cost beside exact ones, on range interests."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "scenario"
        what = Localized(locality=locality, events=events, bytes=PAYLOAD, keywords=keywords)
        make_ranges(folder, topology("transit-stub", brokers, seed), what, seed)
        scenario = read_scenario(folder)
        few, exact = (_card(scenario, STEERED | given) for given in ({"boxes": BOXES}, {}))
        return few.cost_held_out / exact.cost_held_out


def _card(scenario: Scenario, given: dict[str, Value], bounded: bool = False) -> Scorecard:
    bench = Workbench(scenario)
    return bench.score(make_plan("steered", scenario, bench, given, 1), bounded)


def _with_headers(scenario: Scenario) -> Scenario:
    return replace(scenario, settings=msgspec.structs.replace(scenario.settings, headers=True))


def quality(quick: bool) -> Iterator[Measurement]:
    """The worst of all seeds, without headers and with them."""
    sizes = {60: 1} if quick else {500: 10, 1000: 10, 2000: 10, 5000: 3}
    for brokers, seeds in sizes.items():
        for name, locality in list(DATA_SETS.items())[: 1 if quick else None]:
            found = [ratios_of(brokers, locality, seed, 500 if quick else 10_000) for seed in range(1, seeds + 1)]
            bars: Sequence[float | None] = (None, None) if quick else BARS.get(name, USUAL)
            for kind, values, bar in zip(("no headers", "headers"), zip(*found, strict=True), bars, strict=True):
                size = f"{name}, {brokers:,} brokers, {kind}, worst of {seeds}"
                yield Measurement("steered", size, max(values), bar=bar, unit="× bound")


def boxes(quick: bool) -> Iterator[Measurement]:
    """Range interests: hosts have twenty rectangles each."""
    for brokers, keywords in ((60, 100),) if quick else ((500, 1000),):
        for name, locality in list(DATA_SETS.items())[: 1 if quick else None]:
            found = boxes_ratio(brokers, locality, 1, keywords, 500 if quick else 10_000)
            bar = None if quick else 1 + FURTHER
            size = f"{name}, {brokers:,} brokers, {keywords:,} rectangles, {BOXES} boxes"
            yield Measurement("steered-boxes", size, found, bar=bar, unit="× exact")


class Ground(NamedTuple):
    """A network, and events with ten terminals each all over it."""

    network: Network
    router: Router
    ports: Ports
    roots: Ints
    offsets: Ints
    terminals: Ints

    def decide(self) -> Sent:
        """What a publishing broker does, apart from matching: trees, and their headers."""
        link_offsets, links = links_of(self.router.trees(self.roots, self.offsets, self.terminals))
        known = self.roots, link_offsets, links, self.offsets, self.terminals
        return encode_trees(self.ports, *known, np.empty(0, np.int64), 0)


def ground_of(brokers: int, events: int = 1000) -> Ground:
    made, dice = topology("transit-stub", brokers, 1), np.random.default_rng(1)
    ends = np.concatenate([made.sources, made.targets]), np.concatenate([made.targets, made.sources])
    network = Network.between(np.arange(brokers), *ends, np.ones(len(ends[0])), np.ones(len(ends[0])))
    drawn = np.sort(np.stack([dice.choice(brokers, TERMINALS, replace=False) for _ in range(events)]), axis=1)
    return Ground(
        network,
        Router(prepare(network.offsets, network.targets, network.prices)),
        ports_of(network.offsets, network.targets),
        dice.integers(brokers, size=events),
        np.arange(events + 1) * TERMINALS,
        drawn.ravel(),
    )


def entry(quick: bool) -> Iterator[Measurement]:
    """A tree to ten terminals and its headers, in batches of 1,000; and a hop in between, beside one that matches."""
    for brokers in (60,) if quick else (500, 5000):
        ground = ground_of(brokers)
        size = f"{brokers:,} brokers, {TERMINALS} terminals"
        yield Measurement("steered-entry", size, _best(ground.decide, 1000), bar=LONGEST.get(brokers))
        yield _hop(ground, quick)


def _hop(ground: Ground, quick: bool) -> Measurement:
    """What comes to each of the busiest brokers, from all depths of trees, again and again up to 1,000 headers. The
    peer is a broker on a tree that matches among many subscriptions."""
    arriving = _arriving(ground)
    busiest = sorted(arriving, key=lambda broker: -len(arriving[broker]))[:BUSIEST]
    weights = [len(arriving[broker]) for broker in busiest]
    times = [_hop_at(ground, broker, arriving[broker]) for broker in busiest]
    made, router = routing._router(1000 if quick else 100_000)
    batch = Batch({"x": make_publications(made, 1000, np.random.default_rng(2))})
    peer = _best(lambda: routing._carry(router, batch), 1000)
    size = f"{len(ground.network):,} brokers, batches of 1,000"
    taken, bar = float(np.average(times, weights=weights)), None if quick else HOP
    return Measurement("steered-hop", size, taken, "a hop that matches", peer, bar, bar_ratio=5.0)


def _arriving(ground: Ground) -> dict[int, list[NDArray[np.uint8]]]:
    """The headers that come to each broker, however far they have come."""
    found: dict[int, list[NDArray[np.uint8]]] = defaultdict(list)
    ahead = [ground.decide()]
    while ahead:
        sent = ahead.pop()
        targets = ground.network.targets[sent.link]
        for broker in np.unique(targets).tolist():
            mine = np.flatnonzero(targets == broker).tolist()
            headers = [sent.data[sent.offsets[at] : sent.offsets[at + 1]] for at in mine]
            found[broker] += headers
            met = _taken(ground, broker, headers)
            if len(met.onward.link):
                ahead.append(met.onward)
    return found


def _taken(ground: Ground, broker: int, headers: list[NDArray[np.uint8]]) -> Met:
    offsets = np.concatenate([[0], np.cumsum([len(header) for header in headers])])
    return take_hop(ground.ports, broker, offsets, np.concatenate(headers), np.zeros(len(headers), bool), 0)


def _hop_at(ground: Ground, broker: int, headers: list[NDArray[np.uint8]]) -> float:
    some = [headers[at % len(headers)] for at in range(1000)]
    offsets = np.concatenate([[0], np.cumsum([len(header) for header in some])])
    data, ordered = np.concatenate(some), np.zeros(len(some), bool)
    return _best(lambda: take_hop(ground.ports, broker, offsets, data, ordered, 0), len(some))


def _best(work: Callable[[], object], events: int) -> float:
    """Microseconds of the processor for each event, the best of some rounds."""
    work()
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / events * 1e6


def score(quick: bool) -> Iterator[Measurement]:
    """A million events on a thousand brokers under a steered plan, on two cores: matching, and that with counting."""
    brokers, events = (60, 2_000) if quick else (1000, 1_000_000)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "scenario"
        make_localized(folder, topology("transit-stub", brokers, 1), Localized(locality=0.02, events=events), 1)
        scenario, pipeline = read_scenario(folder), spark()
        pipeline.validate(scenario)
        plan = make_plan("steered", scenario, pipeline, STEERED, 1)
        known = metered(scenario, plan, pipeline.publishers(scenario))
        size, bar = f"{brokers:,} brokers, {events:,} events", None if quick else 60.0
        matching = seconds(lambda: pipeline.reduce(scenario, known.predicates))  # which keeps the rows
        counting = seconds(lambda: totals_of(pipeline.reduce(scenario, known.predicates), known))
        yield Measurement("steered-score", f"{size}, matching alone", matching, unit="s")
        yield Measurement("steered-score", size, matching + counting, bar=bar, unit="s")
