"""A trial: what a plan costs by the one cost, on some events that a planner may select on.

It is the meter itself, on fewer events: traffic is scaled up to the whole log, and upkeep is that of the plan. Control
is left out, since only a replay could count it.
"""

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.metering import Totals
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.columns import batch_of
from overstory.pipeline.entries import Entries, clients_of_flows, entries_of, is_priced
from overstory.pipeline.match import BROKER, ROWS, reduce_batch
from overstory.pipeline.predicates import Predicates, index_of
from overstory.pipeline.rules import Metered, listed, metered
from overstory.pipeline.score import costs_of, counted
from overstory.pipeline.xxhash import hashes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]


class Trial(NamedTuple):
    """All of it scaled up to the whole log; ``entries`` are those between brokers, None where nobody counted them."""

    cost: float
    core: float
    upkeep: float
    header_bytes: float  # of steered frames, summed over links; 0 where headers do not count
    frames: float
    entries: int | None


def tried(scenario: Scenario, plan: Plan, publishers: Ints, events: pa.RecordBatch, every: int) -> Trial:
    """``publishers`` are those of the whole log, which has ``every`` so many events."""
    known = metered(scenario, plan, publishers)
    rows = reduced_here(events, known.predicates, (known.publishers, known.publisher_brokers))
    totals = counted([rows], known.rules, known.steering, known.publishers)
    entries = _entries(scenario, plan, known)
    costs = costs_of(scenario, known, totals, entries, 0)
    scale = Fraction(every, max(events.num_rows, 1))
    core = sum(costs.core, Fraction(0)) * scale
    return Trial(
        float(core + sum(costs.access, Fraction(0)) * scale + costs.upkeep),
        float(core),
        float(costs.upkeep),
        float(_header_bytes(known, rows, totals) * scale),
        float(int(totals.link_frames.sum()) * scale),
        entries.core,
    )


def _entries(scenario: Scenario, plan: Plan, known: Metered) -> Entries:
    if is_priced(scenario):
        return entries_of(plan, listed(scenario, plan, known))
    associations = int(plan.flows["associations"].to_numpy().sum())
    has_curve = bool(scenario.settings.curves.upkeep)
    whole = listed(scenario, plan, known) if has_curve else known
    return Entries(None, None, associations, clients_of_flows(whole.rules) if has_curve else ())


def _header_bytes(known: Metered, rows: pa.RecordBatch, totals: Totals) -> int:
    """What frames carry beyond their payloads."""
    if not known.rules.headers[0] or not (known.rules.flow_tree < 0).any():
        return 0
    bare = known.rules._replace(headers=np.zeros(1, bool))
    without = counted([rows], bare, known.steering, known.publishers)
    return int(totals.link_bytes.sum() - without.link_bytes.sum())


def reduced_here(events: pa.RecordBatch, predicates: Predicates, brokers: tuple[Ints, Ints] | None) -> pa.RecordBatch:
    """Matches some events in this process and reduces them, as the pipeline does with the log."""
    if not events.num_rows:
        return pa.RecordBatch.from_pylist([], schema=ROWS)
    index = index_of(predicates.texts)
    extra = None
    if brokers is not None and predicates.uses(BROKER):
        publishers, theirs = brokers
        extra = {BROKER: theirs[np.searchsorted(publishers, np.asarray(events.column("$publisher")))]}
    return reduce_batch(events, *index.match_batch(batch_of(events, extra, index.numbers)))


def some_of(events: pa.RecordBatch, part: int, most: int) -> pa.RecordBatch:
    """At most so many events of a part of the log, those with the least hashes of their ids."""
    mine = events.filter(pa.array(np.asarray(events.column("$part")) == part))
    ids = np.asarray(mine.column("$id"))
    chosen = np.lexsort((ids, hashes_of(ids)))[:most]
    return mine.take(pa.array(chosen[np.argsort(ids[chosen], kind="stable")]))


def some_on(events: "DataFrame", part: int, most: int) -> pa.RecordBatch:
    """The same of a log that Spark reads."""
    from pyspark.sql import functions as sql

    mine = events.where(sql.col("`$part`") == part)
    found = mine.orderBy(sql.xxhash64("`$id`"), "`$id`").limit(most).toArrow().sort_by("$id").combine_chunks()
    batches = found.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)
