"""The meter without Spark: the same kernels on one batch, for many small scenarios."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overstory import parse_filter
from overstory.kernels.metering import Totals
from overstory.matching import FilterIndex
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline.bound import bound_here
from overstory.pipeline.columns import batch_of
from overstory.pipeline.entries import entries_of
from overstory.pipeline.match import BROKER, reduce_batch
from overstory.pipeline.rules import Metered, listed, metered
from overstory.pipeline.score import counted, scorecard


def meter(scenario: Scenario, plan: Plan) -> tuple[Scorecard, Traffic]:
    rules, rows, totals = counted_here(scenario, plan)
    bound = bound_here(rows, rules, scenario.network)
    return scorecard(scenario, plan, rules, totals, entries_of(plan, listed(scenario, plan, rules)), bound)


def counted_here(scenario: Scenario, plan: Plan) -> tuple[Metered, pa.RecordBatch, Totals]:
    events = pq.read_table(scenario.events).combine_chunks()
    rules = metered(scenario, plan, events["$publisher"].to_numpy())
    batch = with_parts(events)
    brokers = rules.publisher_brokers[np.searchsorted(rules.publishers, np.asarray(batch.column("$publisher")))]
    index = FilterIndex(map(parse_filter, rules.predicates.texts))
    offsets, found = index.match_batch(batch_of(batch, {BROKER: brokers}))
    rows = reduce_batch(batch, offsets, found)
    return rules, rows, counted([rows], rules.rules, rules.steering, rules.publishers)


def with_parts(events: pa.Table) -> pa.RecordBatch:
    """Any parts will do."""
    parts = pa.array(events["$id"].to_numpy() % 3)
    (batch,) = events.append_column("$part", parts).to_batches() or [None]
    assert batch is not None
    return batch
