"""What planners of trees decide on: which brokers the events of a sample must reach, and for whose sake.

Equal filters at one broker are one *item*: they match the same events and want them at the same place. Planners put
items into groups; a group becomes a flow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.kernels.instances import instances_of
from overstory.model.network import Ints, Network
from overstory.model.scenario import Scenario
from overstory.planners.steps import CHOOSE, FIT, Sample, Steps

MOST_ROWS = 20_000  # of the log that a planner looks at


class Rows(NamedTuple):
    """Distinct events of a sample: where each is published, the items that it matches, ascending, and its weight."""

    roots: Ints
    offsets: Ints
    items: Ints
    bytes: Ints


class Instances(NamedTuple):
    """The rows of each group with the brokers to be reached: see ``kernels.instances``."""

    group_offsets: Ints
    rows: Ints
    terminal_offsets: Ints
    terminals: Ints


@dataclass(frozen=True, eq=False)
class Demand:
    network: Network
    item_of: Ints  # by subscription
    item_broker: Ints  # by position; items stand in the order of their filters, then of their brokers
    item_predicate: Ints
    fit: Rows
    choose: Rows

    @property
    def items(self) -> int:
        return len(self.item_broker)

    def instances(self, rows: Rows, item_group: Ints, groups: int) -> Instances:
        return Instances(*instances_of(rows.roots, rows.offsets, rows.items, self.item_broker, item_group, groups))


def demand_of(scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], most: int = MOST_ROWS) -> Demand:
    network = scenario.network
    predicate = pipeline.predicates(scenario)
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(attached)
    clients = scenario.subscriptions["client"].to_numpy()
    broker = network.positions(brokers[order][np.searchsorted(attached[order], clients)])
    keys, item_of = np.unique(predicate * len(network) + broker, return_inverse=True)
    item_predicate, item_broker = keys // len(network), keys % len(network)
    sample = pipeline.sample(scenario, base["attachments"], most)
    starts = np.searchsorted(item_predicate, np.arange(int(predicate.max(initial=-1)) + 2))
    fit, choose = (_rows(sample, part, starts) for part in (FIT, CHOOSE))
    return Demand(network, item_of, item_broker, item_predicate, fit, choose)


def _rows(sample: Sample, part: int, starts: Ints) -> Rows:
    """Each filter is replaced by the items that have it."""
    mine = np.flatnonzero(sample.part == part)
    sizes = np.diff(sample.offsets)[mine]
    predicates = sample.predicates[_ranges(sample.offsets[mine], sizes)]
    many = np.diff(starts)[predicates]
    items = _ranges(starts[predicates], many)
    row = np.repeat(np.repeat(np.arange(len(mine)), sizes), many)
    offsets = np.searchsorted(row, np.arange(len(mine) + 1))
    return Rows(sample.broker[mine], offsets, items, sample.bytes[mine])


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """All numbers from each start on, as many as its size."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
