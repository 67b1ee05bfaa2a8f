"""Score: the meter. It knows nothing of planners: a scenario and a plan in, what the plan costs out.

Rows of the reduced log travel under the plan in Spark's workers, each of which counts for itself; counts are integers,
so it does not matter who counted what. The driver adds them up and applies prices once.
"""

import pickle
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.metering import (
    DELIVERIES,
    DISCARDS,
    DUPLICATES,
    EVENTS,
    FALSE_POSITIVES,
    Rules,
    Totals,
    empty_totals,
)
from overstory.kernels.travel import travel
from overstory.model.delays import MICRO, in_micros
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.model.settings import Curve
from overstory.pipeline.bound import Bound
from overstory.pipeline.entries import Entries
from overstory.pipeline.exact import dot, priced, rounded, rounded_down
from overstory.pipeline.flood import flood_cost
from overstory.pipeline.limits import measured
from overstory.pipeline.match import FIT, HELD_OUT
from overstory.pipeline.rows import alike_together, in_large_batches, rows_of
from overstory.pipeline.rules import Metered
from overstory.pipeline.shipping import arrived, shipped
from overstory.pipeline.steered import Steering, trees_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterable[pa.RecordBatch]


def totals_of(rows: "DataFrame", metered: Metered) -> Totals:
    """Runs on Spark, and adds up what each task counted."""
    context = rows.sparkSession.sparkContext
    known = context.broadcast((metered.rules, metered.publishers))
    steering = shipped(rows.sparkSession, metered.steering)

    def count(batches: Batches) -> Iterator[pa.RecordBatch]:
        rules, publishers = known.value
        total = counted(in_large_batches(batches), rules, arrived(steering), publishers)
        yield pa.RecordBatch.from_pydict({"counts": [pickle.dumps(tuple(total))]})

    found = rows.mapInArrow(count, "counts binary").toArrow()["counts"].to_pylist()
    total = empty_totals(metered.rules)
    for counts in found:
        add(total, Totals(*pickle.loads(counts)))
    return total


def counted(batches: Batches, rules: Rules, steering: Steering, publishers: NDArray[np.int64]) -> Totals:
    """Without Spark: what rows of the reduced log come to."""
    total = empty_totals(rules)
    for batch in batches:
        rows = rows_of(alike_together(batch), publishers)
        travel(rules, trees_of(rules, steering, rows), rows, total)
    return total


def add(total: Totals, more: Totals) -> None:
    for name, ours, theirs in zip(Totals._fields, total, more, strict=True):
        if name == "group_latest":
            np.maximum(ours, theirs, out=ours)
        else:
            ours += theirs


class Costs(NamedTuple):
    """Exact, by part of the log; upkeep and control are those of the whole log."""

    core: list[Fraction]
    access: list[Fraction]
    upkeep: Fraction
    control: Fraction
    shares: list[Fraction]  # of the events

    @property
    def whole(self) -> Fraction:
        return sum(self.core + self.access, self.upkeep + self.control)

    def of_part(self, part: int) -> Fraction:
        """Leases are renewed and subscriptions change whatever is published, so a part bears its share of both."""
        return self.core[part] + self.access[part] + (self.upkeep + self.control) * self.shares[part]


def on_curve(curve: Curve, clients: int) -> Fraction:
    """The price of a flow of so many clients: 0 of none, straight between two points, and beyond the last as it was
    between the two before."""
    if clients == 0:
        return Fraction(0)
    points = [(Fraction(size), Fraction(price)) for size, price in curve]
    if points[0][0] > 0:
        points.insert(0, (Fraction(0), Fraction(0)))
    if len(points) == 1:
        return points[0][1]
    at = next((at for at in range(1, len(points)) if points[at][0] >= clients), len(points) - 1)
    (before, low), (after, high) = points[at - 1], points[at]
    return low + (high - low) * (clients - before) / (after - before)


def costs_of(scenario: Scenario, metered: Metered, totals: Totals, entries: Entries, messages: int) -> Costs:
    prices = scenario.settings.prices
    core = [Fraction(prices.core) * priced(sizes, scenario.network.prices) for sizes in totals.link_bytes]
    down = [priced(sizes[metered.client_group], metered.down.prices) for sizes in totals.group_bytes]
    up = [priced(sizes, metered.up.prices) for sizes in totals.publisher_bytes]
    access = [Fraction(prices.access) * (here + there) for here, there in zip(down, up, strict=True)]
    curve = scenario.settings.curves.upkeep
    of_access = Fraction(prices.upkeep_access) * (entries.access or 0)
    upkeep = Fraction(scenario.settings.intervals) * (
        Fraction(prices.upkeep_core) * (entries.core or 0)
        + (sum((on_curve(curve, size) for size in entries.clients), Fraction(0)) if curve else of_access)
        + Fraction(prices.upkeep_association) * entries.associations
    )
    events = [int(count) for count in totals.counts[:, EVENTS]]
    control = Fraction(prices.control) * messages
    return Costs(core, access, upkeep, control, [Fraction(count, max(sum(events), 1)) for count in events])


def scorecard(
    scenario: Scenario,
    plan: Plan,
    metered: Metered,
    totals: Totals,
    entries: Entries,
    bound: Bound,
    least_total: Fraction = Fraction(0),
    messages: int | None = None,
) -> tuple[Scorecard, Traffic]:
    """``least_total`` is what no plan undercuts, wherever it attaches clients; ``messages`` are those that changes
    send, which only a replay can count, None: nobody has counted them."""
    costs = costs_of(scenario, metered, totals, entries, messages or 0)
    core, per_byte = sum(costs.core, Fraction(0)), Fraction(scenario.settings.prices.core)
    flood = flood_cost(scenario.network, metered.rules.publisher_broker, totals.publisher_bytes.sum(axis=0))
    counts = totals.counts.sum(axis=0)
    mean_delay, max_delay = _delays(metered, totals)
    limits = measured(scenario, plan, metered, totals)
    traffic = Traffic(totals.link_frames.sum(axis=0), totals.link_bytes.sum(axis=0))
    card = Scorecard(
        cost=rounded(costs.whole),
        core=rounded(core),
        access=rounded(sum(costs.access, Fraction(0))),
        upkeep=rounded(costs.upkeep),
        control=rounded(costs.control),
        cost_fit=rounded(costs.of_part(FIT)),
        cost_held_out=rounded(costs.of_part(HELD_OUT)),
        lower_bound=rounded_down(per_byte * bound.whole),
        lower_bound_held_out=rounded_down(per_byte * bound.held_out),
        lower_bound_estimate=None if bound.estimate is None else rounded(per_byte * bound.estimate),
        bounded=float(bound.share),
        gap=_gap(core, per_byte * bound.whole),
        bound_total=rounded_down(least_total),
        gap_total=_gap(costs.whole, least_total),
        flood=rounded(per_byte * flood),
        events=int(counts[EVENTS]),
        deliveries=int(counts[DELIVERIES]),
        frames=int(traffic.frames.sum()),
        duplicates=int(counts[DUPLICATES]),
        false_positives=int(counts[FALSE_POSITIVES]),
        discards=int(counts[DISCARDS]),
        core_bytes=sum(traffic.bytes.tolist()),
        access_bytes=dot(totals.group_bytes.sum(axis=0), metered.rules.group_size)
        + sum(totals.publisher_bytes.sum(axis=0).tolist()),
        entries_core=entries.core,
        entries_access=entries.access,
        flows=plan.flows.num_rows,
        mean_delay=mean_delay,
        max_delay=max_delay,
        load=limits.load,
        filled=limits.filled,
        messages=messages,
        exceeded=plan.header.unmet + limits.exceeded,
    )
    return card, traffic


def _gap(core: Fraction, bound: Fraction) -> float | None:
    """None where there is nothing to compare with."""
    try:
        return float(core / bound - 1) if bound > 0 else None
    except OverflowError:
        return None


def _delays(metered: Metered, totals: Totals) -> tuple[float, float]:
    """Mean and longest, in milliseconds, of all copies that clients got."""
    copies = totals.group_copies.sum(axis=0)
    total = int((copies * metered.rules.group_size).sum())
    if not total:
        return 0.0, 0.0
    last = in_micros(metered.down.delays).astype(np.int64)
    per_client = totals.group_delay[metered.client_group] + copies[metered.client_group] * last
    got = copies[metered.client_group] > 0
    longest = (totals.group_latest[metered.client_group] + last)[got].max()
    return float(per_client.sum() / total / MICRO), float(longest / MICRO)
