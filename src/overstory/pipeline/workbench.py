"""The pipeline's steps for a log that fits into one process: the same functions on the same arrays, without Spark.

Experiments try many planners on many small scenarios. There a workbench is faster than jobs, and whole cells of an
experiment can run beside each other in Spark's tasks. Plans are not validated: the planners' tests do that.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline.bound import Bound, bound_here
from overstory.pipeline.boxes import Boxes, boxes_of
from overstory.pipeline.candidates import DELAY, Candidates, candidates_here, limits_of, reach_of
from overstory.pipeline.densities import (
    ADVERTISEMENTS,
    Grid,
    Rates,
    announced_texts,
    given_texts,
    rates_announced,
    rates_given,
)
from overstory.pipeline.entries import entries_for
from overstory.pipeline.histograms import (
    Channels,
    Histogram,
    check_channels,
    filter_channels,
    grid_channels,
    histogram_here,
)
from overstory.pipeline.interests import Csr, Interests, Partners, counted_here, interests_from, partners_here
from overstory.pipeline.joint_bound import apart, is_small, joint_bound
from overstory.pipeline.least_access import least_access, together
from overstory.pipeline.match import FIT, HELD_OUT, SHARES
from overstory.pipeline.predicates import Predicates, distinct, index_of
from overstory.pipeline.rules import Metered, metered
from overstory.pipeline.sample import Sample, sampled
from overstory.pipeline.score import counted, scorecard
from overstory.pipeline.steiner import Crossings, card_of, crossed, ground_of, without_links
from overstory.pipeline.trial import Trial, reduced_here, some_of, tried
from overstory.pipeline.xxhash import hashes_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NO_BOUND = Bound(Fraction(0), Fraction(0), Fraction(0))


class Workbench:
    """The pipeline's steps for one scenario, in this process and without Spark.

    Planners see ``share`` of the events that they may look at."""

    def __init__(self, scenario: Scenario, share: float = 1.0) -> None:
        if not 0 < share <= 1:
            raise UsageError(f"share={share}: it is more than 0 and at most 1")
        self.scenario, self.share = scenario, share

    def load(self) -> None:
        """After this the scenario's folder is not needed any more."""
        _ = self._events, self.scenario.fingerprint, self.scenario.attributes

    @cached_property
    def _events(self) -> pa.RecordBatch:
        events = pq.read_table(self.scenario.events)
        part = parts_of(events["$id"].to_numpy())
        (batch,) = events.append_column("$part", pa.array(part)).combine_chunks().to_batches()
        return batch

    @cached_property
    def _shown(self) -> pa.RecordBatch:
        """What planners may see: all but the part held out, as far as the share goes."""
        ids, part = (np.asarray(self._events.column(name)) for name in ("$id", "$part"))
        lucky = hashes_of(hashes_of(ids)) % 10**6 < round(self.share * 10**6)
        return self._events.filter(pa.array((part < HELD_OUT) & lucky))

    def publishers(self, scenario: Scenario) -> Ints:
        return np.unique(np.asarray(self._events.column("$publisher")))

    def predicates(self, scenario: Scenario) -> Ints:
        return Predicates().numbers(scenario.subscriptions["filter"])

    def boxes(self, scenario: Scenario) -> Boxes:
        return boxes_of(distinct(scenario.subscriptions["filter"])[0])

    def histograms(self, scenario: Scenario, channels: Channels) -> Histogram:
        check_channels(scenario, channels)
        if isinstance(channels, Mapping):
            return histogram_here(self._shown, grid_channels(channels))
        return histogram_here(self._shown, filter_channels(index_of(channels)))

    def rates(self, scenario: Scenario, grid: Grid, source: str) -> Rates:
        check_channels(scenario, grid)
        if source == ADVERTISEMENTS:
            clients, said = announced_texts(scenario)
            texts, codes = distinct(said)
            counted = self.histograms(scenario, grid or [EVERYTHING])
            return rates_announced(scenario, clients, codes, boxes_of(texts), grid, counted)
        texts, codes = distinct(given_texts(scenario))
        return rates_given(scenario, codes, boxes_of(texts), grid)

    def candidates(
        self, scenario: Scenario, limit: float | None = None, before: Floats | None = None, by: str = DELAY
    ) -> Candidates:
        return candidates_here(scenario, reach_of(scenario, before, by), limits_of(scenario, limit))

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        predicates = Predicates()
        predicates.numbers(scenario.subscriptions["filter"])
        rows = reduced_here(self._shown, predicates, None)
        return sampled(rows, attachments, scenario.network, most)

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        found: Ints = self._steiner(self._shown, attachments, tree_effort).bytes[FIT]
        return found

    def some_events(self, scenario: Scenario, part: int, most: int) -> pa.RecordBatch:
        return some_of(self._shown, part, most)

    def interests(self, scenario: Scenario) -> Interests:
        share = self._shown.num_rows / max(self._events.num_rows, 1)
        return interests_from(scenario, counted_here(pa.Table.from_batches([self._shown]), share))

    def partners(self, scenario: Scenario, interests: Csr, most: int) -> Partners:
        return partners_here(interests, most)

    def trial(self, scenario: Scenario, tables: Mapping[str, pa.Table], part: int, most: int) -> Trial:
        plan, events = Plan.of(Header("", ""), tables), self.some_events(scenario, part, most)
        return tried(scenario, plan, self.publishers(scenario), events, self._events.num_rows)

    def score(self, plan: Plan, bounded: bool = False) -> Scorecard:
        """With a certified bound only if it is asked for: it takes longer than all the rest, and depends on nothing but
        attachments."""
        return self.measured(plan, bounded)[0]

    def measured(self, plan: Plan, bounded: bool = False) -> tuple[Scorecard, Traffic]:
        """The score, and what each link carries."""
        known, rows = self._known(plan)
        totals = counted([rows], known.rules, known.steering, known.publishers)
        bound = self._bound(known, rows) if bounded else NO_BOUND
        entries = entries_for(self.scenario, plan, known)
        least = self.bound_total if bounded else Fraction(0)
        return scorecard(self.scenario, plan, known, totals, entries, bound, least)

    @cached_property
    def bound_total(self) -> Fraction:
        """What no plan that keeps capacities undercuts, wherever it attaches clients."""
        if not self.scenario.settings.prices.access or not is_small(self.scenario):
            return self._access_alone()
        known = apart(self.scenario, self.publishers(self.scenario))
        rows = reduced_here(self._events, known.predicates, None)
        return max(joint_bound(self.scenario, known, rows), self._access_alone())

    def _access_alone(self) -> Fraction:
        known, rows = self._known(together(self.scenario))
        totals = counted([rows], known.rules, known.steering, known.publishers)
        return Fraction(self.scenario.settings.prices.access) * least_access(self.scenario, known, totals)

    def score_steiner(self, scenario: Scenario, base: Plan, tree_effort: str, effort: int) -> Scorecard:
        """Scores the reference as the pipeline does. Every row is bounded, whatever the effort."""
        known, rows = self._known(base)
        totals = counted([rows], known.rules, known.steering, known.publishers)
        crossings = self._steiner(self._events, base.attachments, tree_effort)
        return card_of(scenario, base, known, totals, crossings, self._bound(known, rows))

    def _known(self, plan: Plan) -> tuple[Metered, pa.RecordBatch]:
        known = metered(self.scenario, plan, self.publishers(self.scenario))
        return known, reduced_here(self._events, known.predicates, (known.publishers, known.publisher_brokers))

    def _steiner(self, events: pa.RecordBatch, attachments: pa.Table, tree_effort: str) -> Crossings:
        known = metered(self.scenario, without_links(self.scenario, attachments), self.publishers(self.scenario))
        rows = reduced_here(events, known.predicates, (known.publishers, known.publisher_brokers))
        return crossed(
            [rows], known.rules, known.publishers, *ground_of(self.scenario.network, known.rules), tree_effort
        )

    def _bound(self, known: Metered, rows: pa.RecordBatch) -> Bound:
        return bound_here(rows, known, self.scenario.network)


def parts_of(ids: Ints) -> Ints:
    """The part of the log that each event is in: see ``match.split``."""
    share = hashes_of(ids) % 100
    return np.where(share < SHARES[0], 0, np.where(share < SHARES[1], 1, HELD_OUT))
