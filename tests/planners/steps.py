"""What planners ask of the pipeline, answered without Spark, one event after the other."""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.kernels.distances import distances_to
from overstory.kernels.steiner import graph_of, steiner_trees
from overstory.model.access import access_of
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.values import Attributes
from overstory.pipeline.boxes import Boxes, boxes_of
from overstory.pipeline.candidates import Candidates
from overstory.pipeline.densities import Rates
from overstory.pipeline.histograms import Histogram
from overstory.pipeline.interests import Csr, Interests, Partners, counted_here, interests_from
from overstory.pipeline.trial import Trial, tried
from overstory.planners.trees.demand import demand_of

from ..plans import events_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


LATTICE = ((np.arange(40) + 0.5) / 40).tolist()


class Sample(NamedTuple):
    part: Ints
    broker: Ints
    offsets: Ints
    predicates: Ints
    bytes: Ints
    share: float


def plain_channel(channels: Sequence[str] | Mapping[str, Sequence[float]], attributes: Attributes) -> int:
    if not isinstance(channels, Mapping):
        (found,) = [number for number, text in enumerate(channels) if parse_filter(text).matches(attributes)]
        return found
    channel = 0
    for name, edges in channels.items():
        value = attributes.get(name)
        bins = len(edges) + 1 if value is None else sum(edge <= value for edge in edges)  # type: ignore[operator]
        channel = channel * (len(edges) + 2) + bins
    return channel


def is_linked(scenario: Scenario, client: int, broker: int) -> bool:
    """Without a metric only links that are listed lead anywhere, and the one to the client's own broker."""
    if scenario.settings.access.metric != "none":
        return True
    rows = scenario.links.to_pylist()
    homes = {row["id"]: row["broker"] for row in scenario.clients.to_pylist()}
    return homes[client] == broker or any({row["source"], row["target"]} == {client, broker} for row in rows)


class Steps:
    def publishers(self, scenario: Scenario) -> Ints:
        return np.unique(np.array([event.publisher for event in events_of(scenario)], np.int64))

    def predicates(self, scenario: Scenario) -> Ints:
        texts = scenario.subscriptions["filter"].to_pylist()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        return np.array([numbers[text] for text in texts], np.int64)

    def boxes(self, scenario: Scenario) -> Boxes:
        return boxes_of(pa.array(dict.fromkeys(scenario.subscriptions["filter"].to_pylist())))

    def histograms(self, scenario: Scenario, channels: Sequence[str] | Mapping[str, Sequence[float]]) -> Histogram:
        """The last of five events is held out, the fourth is to choose by."""
        sums: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
        for event in events_of(scenario):
            if event.id % 5 < 4:
                counted = sums[event.id % 5 // 3, event.publisher, plain_channel(channels, event.attributes)]
                counted[0] += 1
                counted[1] += event.bytes
        rows = [(*key, *sums[key]) for key in sorted(sums)]
        return Histogram(*np.array(rows, np.int64).reshape(-1, 5).T)

    def rates(self, scenario: Scenario, grid: Mapping[str, Sequence[float]], source: str) -> Rates:
        """By the table ``densities`` alone, whose filters are tried on a lattice of the unit cube."""
        lattice = [dict(zip(grid, values, strict=True)) for values in itertools.product(LATTICE, repeat=len(grid))]
        sums: dict[tuple[int, int], float] = defaultdict(float)
        for row in scenario.densities.to_pylist():
            wanted = parse_filter(row["filter"])
            found = [plain_channel(grid, values) for values in lattice if wanted.matches(values)]
            for channel in found:
                sums[row["client"], channel] += row["bytes"] / len(found)
        keys = sorted(sums)
        publishers, channels = np.array(keys, np.int64).reshape(-1, 2).T
        return Rates(publishers, channels, np.array([sums[key] for key in keys]))

    def candidates(
        self, scenario: Scenario, limit: float | None = None, before: Floats | None = None, by: str = "delay"
    ) -> Candidates:
        """Each pair of a client and a broker by itself."""
        links, ids = access_of(scenario), scenario.network.ids
        clients = scenario.clients["id"].to_numpy()
        words = np.zeros((len(clients), -(-len(ids) // 64)), np.uint64)
        for row, client in enumerate(clients.tolist()):
            for at, broker in enumerate(ids.tolist()):
                toll = links.down(np.array([client]), np.array([broker]))
                whole = np.rint(1000 * toll.delays[0]) + (0.0 if before is None else np.rint(1000 * before[at]))
                needed = toll.prices[0] if by == "price" else whole / 1000
                if needed <= (np.inf if limit is None else limit) and is_linked(scenario, client, broker):
                    words[row, at // 64] |= np.uint64(1 << at % 64)
        return Candidates(clients, words)

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        """The last of five events is held out, the fourth is to choose by."""
        filters = [parse_filter(text) for text in dict.fromkeys(scenario.subscriptions["filter"].to_pylist())]
        broker = dict(zip(attachments["client"].to_pylist(), attachments["broker"].to_pylist(), strict=True))
        sizes: dict[tuple[int, int, tuple[int, ...]], int] = defaultdict(int)
        for event in events_of(scenario):
            wanted = tuple(number for number, each in enumerate(filters) if each.matches(event.attributes))
            if wanted and event.id % 5 < 4:
                at = int(scenario.network.positions(np.array([broker[event.publisher]]))[0])
                sizes[event.id % 5 // 3, at, wanted] += event.bytes
        rows = sorted(sizes)[:most]
        return Sample(
            np.array([part for part, _, _ in rows], np.int64),
            np.array([at for _, at, _ in rows], np.int64),
            np.cumsum([0] + [len(wanted) for _, _, wanted in rows]),
            np.array([number for _, _, wanted in rows for number in wanted], np.int64),
            np.array([sizes[row] for row in rows], np.int64),
            min(1.0, most / max(len(sizes), 1)),
        )

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        """All of the sample, at once."""
        network = scenario.network
        fit = demand_of(scenario, self, {"attachments": attachments}, 10**9)
        found = fit.instances(fit.fit, np.zeros(fit.items, np.int64), 1)
        known = network.offsets, network.targets, network.prices
        everywhere = distances_to(*known, np.arange(len(network)))
        ends = found.terminal_offsets, found.terminals
        trees = steiner_trees(graph_of(*known), everywhere, fit.fit.roots[found.rows], *ends, tree_effort)
        crossed = np.zeros(len(network.targets), np.int64)
        np.add.at(crossed, trees.links, np.repeat(fit.fit.bytes[found.rows], np.diff(trees.offsets)))
        return crossed

    def some_events(self, scenario: Scenario, part: int, most: int) -> pa.RecordBatch:
        """The last of five events is held out, the fourth is to choose by."""
        events = pq.read_table(scenario.events)
        ids = events["$id"].to_numpy()
        mine = events.append_column("$part", pa.array(ids % 5 // 3)).filter((ids % 5 < 4) & (ids % 5 // 3 == part))
        batches = mine.slice(0, most).combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=mine.schema)

    def interests(self, scenario: Scenario) -> Interests:
        """All events are seen."""
        return interests_from(scenario, counted_here(pq.read_table(scenario.events), 1.0))

    def partners(self, scenario: Scenario, interests: Csr, most: int) -> Partners:
        """By sets."""
        offsets, topics, fan_offsets, _ = interests
        wanted = [set(topics[a:b].tolist()) for a, b in itertools.pairwise(offsets)]
        count = len(fan_offsets) - 1
        found, shared = np.full((count, most), -1), np.zeros((count, most), np.int64)
        for topic in range(count):
            common = {other: sum({topic, other} <= each for each in wanted) for other in range(count) if other != topic}
            best = sorted((other for other in common if common[other]), key=lambda other: (-common[other], other))
            for at, other in enumerate(best[:most]):
                found[topic, at], shared[topic, at] = other, common[other]
        return Partners(found, shared)

    def trial(self, scenario: Scenario, tables: Mapping[str, pa.Table], part: int, most: int) -> Trial:
        events = self.some_events(scenario, part, most)
        plan, every = Plan.of(Header("", ""), tables), pq.read_metadata(scenario.events).num_rows
        return tried(scenario, plan, self.publishers(scenario), events, every)
