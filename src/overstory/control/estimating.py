"""What plans cost on a sample of a window, as estimates with their errors.

1. The events of a sample are dealt into buckets by the hashes of their ids, and each bucket is priced by the meter. The
   spread of the buckets is the error of the sum. A saving is the difference of two plans bucket by bucket: what both
   plans cost alike cancels out.
2. A plan is judged by events that its planner did not see: those of the part held out.
3. A sample of a share p of the events is scaled up by 1 / p. Upkeep is that of the whole window, and is not scaled.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overstory.control.deciding import Estimate
from overstory.kernels.metering import PARTS
from overstory.model.network import Floats, Ints
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.bound import bound_here
from overstory.pipeline.entries import Entries, entries_of, is_priced
from overstory.pipeline.match import HELD_OUT
from overstory.pipeline.rules import Metered, listed, metered
from overstory.pipeline.score import costs_of, counted
from overstory.pipeline.trial import reduced_here
from overstory.pipeline.workbench import parts_of
from overstory.pipeline.xxhash import hashes_of

BUCKETS = 24
SPREAD = 0x9E3779B97F4A7C15  # so that the bucket of an event does not depend on its part of the log


class Costs(NamedTuple):
    """Of one plan, of each bucket of the events: the whole cost without upkeep; and the upkeep of the window."""

    buckets: Floats
    upkeep: float


class Sampled:
    """The sample of a window, of which plans are priced."""

    def __init__(self, scenario: Scenario, scale: float = 1.0) -> None:
        """Each event of the sample stands for ``scale`` events."""
        self.scenario, self.scale = scenario, scale
        events = pq.read_table(scenario.events).combine_chunks()
        ids = events["$id"].to_numpy()
        self._part = parts_of(ids)
        bucket = (hashes_of(ids).astype(np.uint64) * np.uint64(SPREAD) >> np.uint64(40)).astype(np.int64) % BUCKETS
        batches = events.append_column("$part", pa.array(bucket)).combine_chunks().to_batches()
        self.events = batches[0] if batches else None
        self.publishers: Ints = np.unique(events["$publisher"].to_numpy())

    def __len__(self) -> int:
        return 0 if self.events is None else int(self.events.num_rows)

    def costs(self, plan: Plan, held_out: bool = False) -> Costs:
        """What the events come to under a plan, or those that its planner did not see, scaled up to the window."""
        known = metered(self.scenario, plan, self.publishers)
        rows, share = self._rows(known, held_out)
        found = np.zeros(BUCKETS)
        for first in range(0, BUCKETS, PARTS):
            some = rows.filter(pa.array(np.isin(np.asarray(rows.column("part")), np.arange(first, first + PARTS))))
            if some.num_rows:
                shifted = pa.array(np.asarray(some.column("part")) - first)
                totals = counted([some.set_column(0, "part", shifted)], known.rules, known.steering, known.publishers)
                costs = costs_of(self.scenario, known, totals, NO_ENTRIES, 0)
                found[first : first + PARTS] = [float(sum(pair)) for pair in zip(costs.core, costs.access, strict=True)]
        return Costs(found * self.scale / share, self._upkeep(plan, known))

    def core_and_bound(self, plan: Plan) -> tuple[float, float]:
        """What the core costs under a plan, and what no plan with its attachments undercuts; both scaled up."""
        known = metered(self.scenario, plan, self.publishers)
        rows, _ = self._rows(known, False)
        rows = rows.set_column(0, "part", pa.array(np.zeros(rows.num_rows, np.int64)))
        totals = counted([rows], known.rules, known.steering, known.publishers)
        core = sum(costs_of(self.scenario, known, totals, NO_ENTRIES, 0).core)
        bound = Fraction(self.scenario.settings.prices.core) * bound_here(rows, known, self.scenario.network).whole
        return float(core) * self.scale, float(bound) * self.scale

    def messages(self, plan: Plan) -> int:
        """The entries between brokers that a plan takes, each of which crosses one link when it is installed."""
        known = metered(self.scenario, plan, self.publishers)
        return entries_of(plan, listed(self.scenario, plan, known)).core or 0

    def _rows(self, known: Metered, held_out: bool) -> tuple[pa.RecordBatch, float]:
        """The reduced rows, with buckets for parts; and the share of the sample's events that they are of."""
        events = pa.RecordBatch.from_pylist([], schema=pa.schema([])) if self.events is None else self.events
        share = 1.0
        if held_out and len(self):
            chosen = self._part == HELD_OUT
            events, share = events.filter(pa.array(chosen)), max(float(chosen.mean()), 1.0 / len(self))
        return reduced_here(events, known.predicates, (known.publishers, known.publisher_brokers)), share

    def _upkeep(self, plan: Plan, known: Metered) -> float:
        if not is_priced(self.scenario):
            return 0.0
        totals = counted([], known.rules, known.steering, known.publishers)
        entries = entries_of(plan, listed(self.scenario, plan, known))
        return float(costs_of(self.scenario, known, totals, entries, 0).upkeep)


NO_ENTRIES = Entries(None, None, 0, ())


def estimate(costs: Costs) -> Estimate:
    """What a window costs under one plan."""
    return _sum_of(costs.buckets, costs.upkeep)


def saving(present: Costs, proposed: Costs) -> Estimate:
    """What a window costs less under the proposed plan than under the present one."""
    return _sum_of(present.buckets - proposed.buckets, present.upkeep - proposed.upkeep)


def _sum_of(buckets: Floats, more: float) -> Estimate:
    error = float(np.sqrt(len(buckets)) * buckets.std(ddof=1))
    return Estimate(float(buckets.sum()) + more, error)
