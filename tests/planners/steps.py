"""What planners ask of the pipeline, answered without Spark, one event after the other."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.kernels.distances import distances_to
from overstory.kernels.steiner import graph_of, steiner_trees
from overstory.model.scenario import Scenario
from overstory.planners.trees.demand import demand_of

from ..plans import events_of

Ints = NDArray[np.int64]


class Sample(NamedTuple):
    part: Ints
    broker: Ints
    offsets: Ints
    predicates: Ints
    bytes: Ints
    share: float


class Steps:
    def publishers(self, scenario: Scenario) -> Ints:
        return np.unique(np.array([event.publisher for event in events_of(scenario)], np.int64))

    def predicates(self, scenario: Scenario) -> Ints:
        texts = scenario.subscriptions["filter"].to_pylist()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        return np.array([numbers[text] for text in texts], np.int64)

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
