"""The pipeline: a scenario's journey from tables to a scorecard, one named step after the other.

read → validate → split → match and reduce → score. Each step can be called alone, and gives tables that can be looked
at. Spark starts with the first step that needs it.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import DataError, EngineError, OverstoryError, Problem
from overstory.kernels.metering import Totals
from overstory.matching import freeze
from overstory.model.folders import fingerprint_of
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.model.tables import STEINER
from overstory.pipeline import session
from overstory.pipeline.bound import EFFORT, Bound, bound_of
from overstory.pipeline.boxes import Boxes, boxes_on
from overstory.pipeline.bursts import Burst, bursts_of, check
from overstory.pipeline.cache import Arrays, Cache, digest_of
from overstory.pipeline.candidates import DELAY, Candidates, candidates_on, limits_of, reach_of
from overstory.pipeline.clock import BOUND, CHECK, KEEP, MATCH, READ, START, Clock
from overstory.pipeline.densities import (
    ADVERTISEMENTS,
    Grid,
    Rates,
    announced_texts,
    given_texts,
    rates_announced,
    rates_given,
)
from overstory.pipeline.entries import MOST_UNPRICED, entries_for
from overstory.pipeline.histograms import (
    ChannelOf,
    Channels,
    Histogram,
    check_channels,
    filter_channels,
    grid_channels,
    histogram_of,
    told_of,
)
from overstory.pipeline.history import problems_of_changes
from overstory.pipeline.interests import Csr, Interests, Partners, all_plain, counted_on, interests_from, partners_on
from overstory.pipeline.joint_bound import MOST_ROWS, apart, is_small, joint_bound
from overstory.pipeline.least_access import least_access, together
from overstory.pipeline.match import BROKER, FIT, HELD_OUT, ddl, opened, reduced, ship, split
from overstory.pipeline.match import ROWS as COLUMNS
from overstory.pipeline.predicates import Predicates, distinct, index_of
from overstory.pipeline.rules import Metered, metered
from overstory.pipeline.sample import Sample, sample_of
from overstory.pipeline.score import scorecard, totals_of
from overstory.pipeline.steiner import Crossings, card_of, crossings_of, without_links
from overstory.pipeline.tasks import run_task
from overstory.pipeline.trial import Trial, some_on, tried
from overstory.pipeline.validate import (
    Published,
    check_headroom,
    problems_of_densities,
    problems_of_filters,
    problems_of_plan,
    published_in,
    repeated_id,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MEMORY = 1 << 30  # bytes that an index may take before it is cut into shards
BYTES_A_PREDICATE = 600  # of an index, about
# Kinds of entries of the cache
PUBLISHED, ROWS, BOUNDS, SAMPLES, TOTALS, CROSSINGS = "published", "rows", "bound", "sample", "totals", "crossings"
HISTOGRAMS = "histogram"
TABLE = "table.parquet"
T = TypeVar("T")
N = TypeVar("N", bound=Arrays)


class Score(NamedTuple):
    card: Scorecard
    traffic: Traffic


class Pipeline:
    """``tell`` hears the name of each step as it begins, and as it goes on after one within it. With ``cache``, what
    was worked out is kept inside the scenario's folder (see ``cache``), if Spark runs on this host; ``note`` hears, in
    a line, if it cannot be."""

    def __init__(
        self,
        master: str = session.LOCAL,
        settings: dict[str, str] | None = None,
        memory: int = MEMORY,
        tell: Callable[[str], None] = lambda _: None,
        cache: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.master, self.settings, self.memory, self.tell = master, settings, memory, tell
        self.note = note
        self.caches = cache and (master == "local" or master.startswith("local["))  # workers elsewhere see no folder
        self.clock = Clock(tell)
        self._spark: SparkSession | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="overstory-")
        self._reduced: dict[tuple[object, ...], DataFrame] = {}
        self._logs: dict[Path, Published] = {}
        self._checked: set[Path] = set()
        self._bounds: dict[tuple[Path, bytes, int], Bound] = {}
        self._some_events: dict[tuple[Path, int, int], pa.RecordBatch] = {}
        self._crossings: dict[tuple[Path, bytes, str], Crossings] = {}
        self._caches: dict[Path, Cache] = {}
        self._boxes: dict[Path, Boxes] = {}

    @property
    def spark(self) -> "SparkSession":
        if self._spark is None:
            with self.clock.step(START):
                self._spark = session.start(self.master, self.settings)
        return self._spark

    def tasks(self) -> tuple[int, int]:
        """Of the stages that Spark is busy with: how many are done, and how many there are."""
        spark = self._spark  # another thread may close it meanwhile
        if spark is None:
            return 0, 0
        tracker = spark.sparkContext.statusTracker()
        stages = [about for stage in tracker.getActiveStageIds() if (about := tracker.getStageInfo(stage)) is not None]
        return sum(about.numCompletedTasks for about in stages), sum(about.numTasks for about in stages)

    def close(self, at_once: bool = False) -> None:
        spark, self._spark = self._spark, None
        if spark is not None:
            session.stop(spark, at_once)
        self._folder.cleanup()

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None and issubclass(kind, KeyboardInterrupt))

    @property
    def parallelism(self) -> int:
        """Tasks that run beside each other."""
        return int(self.spark.sparkContext.defaultParallelism)

    def run_task(self, function: Callable[[str], str], argument: str) -> str:
        """A function of a text that is no step on tables: see ``tasks``."""
        with as_ours(f"running {function.__name__}"):
            return run_task(self.spark, function, argument)

    def events(self, scenario: Scenario) -> "DataFrame":
        """Read, and split: the log, each event with its part."""
        with as_ours(f"reading the events of {scenario.folder}"):
            return split(self.spark.read.parquet(session.spark_path(scenario.events)))

    def validate(self, scenario: Scenario) -> None:
        """What cannot be seen without parsing the filters and reading the log."""
        if scenario.folder in self._checked:
            return
        kept = self.remembered(scenario, PUBLISHED, self._checked_now, shape=tuple[list[int], str, int])
        self._logs[scenario.folder] = Published(np.array(kept[0], np.int64), int(kept[1]), kept[2])
        self._checked.add(scenario.folder)

    def _checked_now(self, scenario: Scenario) -> tuple[list[int], str, int]:
        """The publishers; the bytes of all events, as text, since they may take more than 64 bits; the largest."""
        plain = all_plain(scenario.subscriptions["filter"])
        boxes = None if plain else self.boxes(scenario)
        with self.clock.step(CHECK), as_ours(f"reading the events of {scenario.folder}"):
            problems = [] if plain else problems_of_filters(scenario, boxes)
            problems += problems_of_densities(scenario)
            if changes := problems_of_changes(scenario):  # said before the log is read
                raise DataError.about(f"the scenario {scenario.folder}", problems + changes)
            log, found = published_in(self.events(scenario), scenario)
        if problems or found:
            raise DataError.about(f"the scenario {scenario.folder}", problems + found)
        return log.publishers.tolist(), str(log.bytes), log.largest

    def _cache(self, scenario: Scenario) -> Cache | None:
        if not self.caches:
            return None
        if scenario.folder not in self._caches:
            try:
                self._caches[scenario.folder] = Cache(scenario, self.note)
            except OSError:
                return None  # the log cannot be read, which the steps themselves say better
        return self._caches[scenario.folder]

    def remembered(
        self, scenario: Scenario, kind: str, compute: Callable[[Scenario], T], *depends_on: object, shape: type[T]
    ) -> T:
        """What ``compute`` gives, or gave when it was last asked the same. ``shape`` is a type of msgspec."""
        cache = self._cache(scenario)
        if cache is None:
            return compute(scenario)
        key = cache.key(kind, *depends_on)
        found = cache.find_value(key, shape)
        if found is None:
            found = compute(scenario)
            cache.keep_value(key, found)
        return found

    def counted_once(
        self, scenario: Scenario, name: str, compute: Callable[[], N], *depends_on: object, kind: type[N]
    ) -> N:
        """The same of arrays, for which Spark need not even start the next time. ``kind`` is a named tuple."""
        cache = self._cache(scenario)
        if cache is None:
            return compute()
        key = cache.key(name, *depends_on)
        found = cache.find_arrays(key, kind)
        if found is None:
            found = compute()
            cache.keep_arrays(key, found)
        return found

    def summary(self, scenario: Scenario) -> dict[str, int]:
        """Validates the scenario, and counts what is in it."""
        self.validate(scenario)
        predicates = Predicates()
        predicates.numbers(scenario.subscriptions["filter"])
        return {
            "distinct filters": len(predicates),
            "events": self.remembered(scenario, "events", self._count_events, shape=int),
            "publishers": len(self.publishers(scenario)),
            "changes": scenario.changes.num_rows,
        }

    def _count_events(self, scenario: Scenario) -> int:
        with as_ours("counting events"):
            return self.events(scenario).count()

    def publishers(self, scenario: Scenario) -> Ints:
        self.validate(scenario)
        return self._logs[scenario.folder].publishers

    def predicates(self, scenario: Scenario) -> Ints:
        return Predicates().numbers(scenario.subscriptions["filter"])

    def boxes(self, scenario: Scenario) -> Boxes:
        """For planners: the distinct filters of the subscriptions as arrays, by the numbers of ``predicates``. Kept, as
        validation asks for them too."""
        if scenario.folder not in self._boxes:
            with self._step("reading filters"):
                texts = distinct(scenario.subscriptions["filter"])[0]
                self._boxes[scenario.folder] = boxes_on(lambda: self.spark, texts, Path(self._folder.name))
        return self._boxes[scenario.folder]

    def histograms(self, scenario: Scenario, channels: Channels) -> Histogram:
        """For planners: the bytes of each publisher in each channel, of the events that they may see."""
        check_channels(scenario, channels)
        self.validate(scenario)

        def histogram_now() -> Histogram:
            with self._step("counting events by channel"):
                return histogram_of(self.events(scenario), self._channels_in_worker(channels))

        return self.counted_once(scenario, HISTOGRAMS, histogram_now, *told_of(channels), kind=Histogram)

    def rates(self, scenario: Scenario, grid: Grid, source: str) -> Rates:
        """For planners: what each publisher publishes in each channel of a grid, as the table ``densities`` or what
        clients have announced says it: see ``densities``."""
        check_channels(scenario, grid)
        if source == ADVERTISEMENTS:
            clients, said = announced_texts(scenario)
            codes, boxes = self._read_texts(said)
            counted = self.histograms(scenario, grid or [EVERYTHING])
            return rates_announced(scenario, clients, codes, boxes, grid, counted)
        return rates_given(scenario, *self._read_texts(given_texts(scenario)), grid)

    def _read_texts(self, column: pa.ChunkedArray) -> tuple[Ints, Boxes]:
        """The number of each filter among the distinct ones, and the boxes of these."""
        texts, codes = distinct(column)
        with self._step("reading filters"):
            return codes, boxes_on(lambda: self.spark, texts, Path(self._folder.name))

    def _channels_in_worker(self, channels: Channels) -> Callable[[], ChannelOf]:
        if isinstance(channels, Mapping):
            return partial(grid_channels, {name: [*map(float, edges)] for name, edges in channels.items()})
        path = Path(tempfile.mkdtemp(dir=self._folder.name))
        path = path.with_name(f"{path.name}-channels.index")
        freeze(index_of(channels), path)
        name = ship(self.spark, path)
        return lambda: filter_channels(opened(name))

    def candidates(
        self, scenario: Scenario, limit: float | None = None, before: Floats | None = None, by: str = DELAY
    ) -> Candidates:
        """For planners: the brokers within reach of each client. ``before`` is, by broker, the delay of what comes
        there; ``limit`` is for clients that do not say what they allow."""
        reach, limits = reach_of(scenario, before, by), limits_of(scenario, limit)
        with self._step("finding brokers in reach"):
            return candidates_on(self.spark, scenario, reach, limits, Path(self._folder.name))

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        """For planners: what they may learn from, and select on."""
        self.validate(scenario)
        predicates = Predicates()
        predicates.numbers(scenario.subscriptions["filter"])

        def sample_now() -> Sample:
            rows = self.reduce(scenario, predicates)
            with self._step("sampling events"):
                return sample_of(rows, attachments, scenario.network, most)

        depends_on = fingerprint_of(attachments), most, *self._asked(predicates)
        found = self.counted_once(scenario, SAMPLES, sample_now, *depends_on, kind=Sample)
        return found._replace(share=float(found.share))

    def reduce(
        self, scenario: Scenario, predicates: Predicates, brokers: tuple[Ints, Ints] | None = None
    ) -> "DataFrame":
        """Match, and reduce: kept, for the next plan that asks about the same predicates."""
        asks_for_broker = predicates.uses(BROKER)
        theirs = brokers[1].tobytes() if brokers is not None and asks_for_broker else b""
        key = (scenario.folder, theirs, *predicates.texts)
        if key not in self._reduced:
            cache = self._cache(scenario)
            name = "" if cache is None else cache.key(ROWS, theirs, *self._asked(predicates))
            rows = None if cache is None else self._rows_in(cache, name)
            if rows is None:
                with self._step(MATCH):
                    rows = self._matched(scenario, predicates, brokers if asks_for_broker else None).persist()
                    rows.count()  # now, so that no later step has to match
                if cache is not None:
                    self._keep_rows(cache, name, rows)
            self._reduced[key] = rows
        return self._reduced[key]

    def _rows_in(self, cache: Cache, name: str) -> "DataFrame | None":
        """Read at once, as another process may need the room at any time."""
        entry = cache.find(name)
        if entry is None:
            return None
        spark = self.spark  # if that does not start, it is not for what is kept
        try:
            with self._step(READ):
                rows = spark.read.schema(ddl(COLUMNS)).parquet(session.spark_path(entry / TABLE)).persist()
                rows.count()
                return rows
        except EngineError:
            cache.drop(name)
            return None

    def _keep_rows(self, cache: Cache, name: str, rows: "DataFrame") -> None:
        with cache.new(name) as entry:
            if entry is not None:
                with self._step(KEEP):
                    rows.write.parquet(str((entry / TABLE).absolute()))

    def _asked(self, predicates: Predicates) -> tuple[object, ...]:
        """What rows depend on beside the log, unless a filter asks for the publishing broker."""
        return self._shards(predicates), *predicates.texts

    def _shards(self, predicates: Predicates) -> int:
        return max(1, -(-len(predicates) * BYTES_A_PREDICATE // self.memory))

    def _matched(self, scenario: Scenario, predicates: Predicates, brokers: tuple[Ints, Ints] | None) -> "DataFrame":
        shards = self._shards(predicates)
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        indexes = [
            path.rename(path.with_name(f"{folder.name}-{path.name}")) for path in predicates.write_index(folder, shards)
        ]
        events = self.events(scenario)
        if shards > 1 and (twice := repeated_id(events)) is not None:  # what shards find is merged by the id
            problem = Problem("events", None, "$id", f"two events have the id {twice}")
            raise DataError.about(f"the scenario {scenario.folder}", [problem])
        return reduced(self.spark, events, indexes, brokers)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        with self.clock.step(name), as_ours(name):
            yield

    def score(
        self,
        scenario: Scenario,
        plan: Plan,
        effort: int = EFFORT,
        count_messages: Callable[[], int | None] = lambda: None,
    ) -> Score:
        """The meter, on the whole log. ``count_messages`` replays the changes, once the plan is known to be lawful."""
        known, totals = self._counted(scenario, plan)
        bound = self.bound(scenario, plan, known, effort)
        with self.clock.step("counting entries"):
            entries = entries_for(scenario, plan, known)
        if entries.core is None:
            self.note(f"entries are not counted: upkeep is free, and there are more than {MOST_UNPRICED:,} filters")
        least, messages = self.least_total(scenario, effort), count_messages()
        return Score(*scorecard(scenario, plan, known, totals, entries, bound, least, messages))

    def least_total(self, scenario: Scenario, effort: int = EFFORT) -> Fraction:
        """What no plan undercuts, wherever it attaches clients: the larger of the cheapest access of everyone, and a
        bound on access and core together, where the network with all access links is not too large for that."""
        alone = Fraction(scenario.settings.prices.access) * self.least_access(scenario)
        if not scenario.settings.prices.access or not is_small(scenario):
            return alone

        def joint_now(scenario: Scenario) -> str:
            known = apart(scenario, self.publishers(scenario))
            rows = self.reduce(scenario, known.predicates, (known.publishers, known.publisher_brokers))
            with self._step("bounding access and core together"):
                if rows.count() > MOST_ROWS:
                    return "0"
                batches = rows.toArrow().combine_chunks().to_batches()
                return str(joint_bound(scenario, known, batches[0])) if batches else "0"

        return max(alone, Fraction(self.remembered(scenario, "joint", joint_now, shape=str)))

    def least_access(self, scenario: Scenario) -> Fraction:
        """The cheapest access of everyone, wherever clients are attached; 0 where access costs nothing."""
        if not scenario.settings.prices.access:
            return Fraction(0)

        def least_now(scenario: Scenario) -> str:
            known, totals = self._totals(scenario, together(scenario))
            with self.clock.step("bounding the least access"):
                return str(least_access(scenario, known, totals))

        return Fraction(self.remembered(scenario, "access", least_now, shape=str))

    def score_steiner(self, scenario: Scenario, base: Plan, tree_effort: str, effort: int = EFFORT) -> Scorecard:
        """What it would cost if every event took a Steiner tree of its own, with clients attached as in ``base``."""
        known, totals = self._counted(scenario, base)
        crossings = self.steiner(scenario, base.attachments, tree_effort)
        bound = self.bound(scenario, base, known, effort)
        return card_of(scenario, base, known, totals, crossings, bound, self.least_total(scenario, effort))

    def _counted(self, scenario: Scenario, plan: Plan) -> tuple[Metered, Totals]:
        with self.clock.step("checking the plan"):
            known_boxes, publishers = self._boxes.get(scenario.folder), self.publishers(scenario)
            problems = problems_of_plan(scenario, plan, publishers, known_boxes, self.note)
            if problems:
                raise DataError("the plan breaks the law:", problems)
        return self._totals(scenario, plan)

    def _totals(self, scenario: Scenario, plan: Plan) -> tuple[Metered, Totals]:
        """What the log comes to under a plan that is known to be lawful."""
        known = metered(scenario, plan, self.publishers(scenario))

        def totals_now() -> Totals:
            rows = self._rows_for(scenario, known)
            with self._step("counting traffic"):
                return totals_of(rows, known)

        steiner = np.array([kind == STEINER for kind in plan.flows["kind"].to_pylist()])
        arrays = [*known.rules, steiner, scenario.network.prices, known.publishers]
        depends_on = digest_of(arrays), *self._asked(known.predicates)
        totals = self.counted_once(scenario, TOTALS, totals_now, *depends_on, kind=Totals)
        busiest = max(int(counts.sum(axis=0).max(initial=0)) for counts in (totals.link_frames, totals.group_copies))
        check_headroom(self._logs[scenario.folder], plan.flows.num_rows, busiest)
        return known, totals

    def _rows_for(self, scenario: Scenario, known: Metered) -> "DataFrame":
        return self.reduce(scenario, known.predicates, (known.publishers, known.publisher_brokers))

    def bursts(self, scenario: Scenario, plan: Plan, top: int, threshold: float) -> list[Burst]:
        """Subscriptions whose removal would uncover most others: see ``bursts``."""
        check(top, threshold)
        publishers = self.publishers(scenario)
        problems = problems_of_plan(scenario, plan, publishers, self._boxes.get(scenario.folder), self.note)
        if problems:
            raise DataError("the plan breaks the law:", problems)
        with self._step("predicting bursts"):
            return bursts_of(scenario, plan, publishers, partial(self._rows_for, scenario), top, threshold)

    def steiner(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Crossings:
        """A Steiner tree for each event: kept, as a reference and a planner may both ask for it."""
        key = (scenario.folder, fingerprint_of(attachments), tree_effort)
        if key not in self._crossings:
            known = metered(scenario, without_links(scenario, attachments), self.publishers(scenario))

            def crossings_now() -> Crossings:
                rows = self._rows_for(scenario, known)
                folder = Path(tempfile.mkdtemp(dir=self._folder.name))
                with self._step("growing Steiner trees"):
                    return crossings_of(rows, known, scenario.network, tree_effort, folder)

            depends_on = (*key[1:], *self._asked(known.predicates))
            self._crossings[key] = self.counted_once(scenario, CROSSINGS, crossings_now, *depends_on, kind=Crossings)
        return self._crossings[key]

    def some_events(self, scenario: Scenario, part: int, most: int) -> pa.RecordBatch:
        """For planners: at most so many events of a part that they may see, those with the least hashes of ids."""
        self.validate(scenario)
        if part >= HELD_OUT:
            raise ValueError("planners see no events of the part held out")
        key = (scenario.folder, part, most)
        if key not in self._some_events:
            with self._step("taking some events"):
                self._some_events[key] = some_on(self.events(scenario), part, most)
        return self._some_events[key]

    def interests(self, scenario: Scenario) -> Interests:
        """For planners: the topics that each subscription wants, and what each topic comes to."""
        self.validate(scenario)
        with self._step("reading interests"):
            return interests_from(scenario, counted_on(self.events(scenario)))

    def partners(self, scenario: Scenario, interests: Csr, most: int) -> Partners:
        """For planners: of each topic the others that most of its users want as well."""
        with self._step("counting common interests"):
            return partners_on(self.spark, interests, most)

    def trial(self, scenario: Scenario, tables: Mapping[str, pa.Table], part: int, most: int) -> Trial:
        """For planners: what a plan costs on some events of that part, scaled up to the log."""
        events = self.some_events(scenario, part, most)
        every = self.remembered(scenario, "events", self._count_events, shape=int)
        with self.clock.step("trying plans"):
            return tried(scenario, Plan.of(Header("", ""), tables), self.publishers(scenario), events, every)

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        """For planners: the bytes of the part to fit that cross each link, if each event takes a Steiner tree."""
        found: Ints = self.steiner(scenario, attachments, tree_effort).bytes[FIT]
        return found

    def bound(self, scenario: Scenario, plan: Plan, known: Metered, effort: int) -> Bound:
        """Depends on the attachments alone, so it is kept for the next plan that has the same."""
        key = (scenario.folder, fingerprint_of(plan.attachments), effort)
        if key not in self._bounds:

            def bound_now(scenario: Scenario) -> list[str]:
                rows = self._rows_for(scenario, known)
                with self._step(BOUND):
                    return bound_of(rows, known, scenario.network, effort).as_texts()

            # With less effort than all takes, it depends on how many rows there are, and so on what is asked as well
            depends_on = (*key[1:], *self._asked(known.predicates))
            found = self.remembered(scenario, BOUNDS, bound_now, *depends_on, shape=list[str])
            self._bounds[key] = Bound(*map(Fraction, found))
        return self._bounds[key]


@contextmanager
def as_ours(doing: str) -> Iterator[None]:
    """What Spark raises, in one line."""
    try:
        yield
    except OverstoryError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Exception" in line] or lines
        raise EngineError(
            f"Spark failed while {doing}: {telling[-1][:300] if telling else type(error).__name__}"
        ) from None
