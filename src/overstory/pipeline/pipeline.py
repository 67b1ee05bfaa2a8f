"""The pipeline: a scenario's journey from tables to a scorecard, one named step after the other.

read → validate → split → match and reduce → score. Each step can be called alone, and gives tables that can be looked
at. Spark starts with the first step that needs it.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import DataError, EngineError, OverstoryError, Problem
from overstory.kernels.metering import Totals
from overstory.model.folders import fingerprint_of
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline import session
from overstory.pipeline.bound import EFFORT, Bound, bound_of
from overstory.pipeline.bursts import Burst, bursts_of, check
from overstory.pipeline.cache import Cache
from overstory.pipeline.clock import BOUND, CHECK, KEEP, MATCH, READ, START, Clock
from overstory.pipeline.entries import entries_of
from overstory.pipeline.match import BROKER, FIT, ddl, reduced, split
from overstory.pipeline.match import ROWS as COLUMNS
from overstory.pipeline.predicates import Predicates
from overstory.pipeline.rules import Metered, metered
from overstory.pipeline.sample import Sample, sample_of
from overstory.pipeline.score import scorecard, totals_of
from overstory.pipeline.steiner import Crossings, card_of, crossings_of, without_links
from overstory.pipeline.tasks import run_task
from overstory.pipeline.validate import (
    Published,
    check_headroom,
    problems_of_filters,
    problems_of_plan,
    published_in,
    repeated_id,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = NDArray[np.int64]
MEMORY = 1 << 30  # bytes that an index may take before it is cut into shards
BYTES_A_PREDICATE = 600  # of an index, about
PUBLISHED, ROWS, BOUNDS = "published", "rows", "bound"  # kinds of entries of the cache
TABLE = "table.parquet"
T = TypeVar("T")


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
        self._crossings: dict[tuple[Path, bytes, str], Crossings] = {}
        self._caches: dict[Path, Cache] = {}

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
        kept = self.remembered(scenario, PUBLISHED, self._checked_now, shape=tuple[list[int], int, int])
        self._logs[scenario.folder] = Published(np.array(kept[0], np.int64), *kept[1:])
        self._checked.add(scenario.folder)

    def _checked_now(self, scenario: Scenario) -> tuple[list[int], int, int]:
        with self.clock.step(CHECK), as_ours(f"reading the events of {scenario.folder}"):
            problems = problems_of_filters(scenario)
            log, found = published_in(self.events(scenario), scenario)
        if problems or found:
            raise DataError(f"the scenario {scenario.folder} is not right:", problems + found)
        return log.publishers.tolist(), log.bytes, log.largest

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
        """What ``compute`` gives, or gave when it was last asked the same. ``shape`` is a type that JSON can hold."""
        cache = self._cache(scenario)
        if cache is None:
            return compute(scenario)
        key = cache.key(kind, *depends_on)
        found = cache.find_value(key, shape)
        if found is None:
            found = compute(scenario)
            cache.keep_value(key, found)
        return found

    def summary(self, scenario: Scenario) -> dict[str, int]:
        """Validates the scenario, and counts what is in it."""
        self.validate(scenario)
        predicates = Predicates()
        predicates.numbers(scenario.subscriptions["filter"])
        with as_ours("counting events"):
            events = self.events(scenario).count()
        return {
            "distinct filters": len(predicates),
            "events": events,
            "publishers": len(self.publishers(scenario)),
            "changes": scenario.changes.num_rows,
        }

    def publishers(self, scenario: Scenario) -> Ints:
        self.validate(scenario)
        return self._logs[scenario.folder].publishers

    def predicates(self, scenario: Scenario) -> Ints:
        return Predicates().numbers(scenario.subscriptions["filter"])

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        """For planners: what they may learn from, and select on."""
        self.validate(scenario)
        predicates = Predicates()
        predicates.numbers(scenario.subscriptions["filter"])
        rows = self.reduce(scenario, predicates)
        with self._step("sampling events"):
            return sample_of(rows, attachments, scenario.network, most)

    def reduce(
        self, scenario: Scenario, predicates: Predicates, brokers: tuple[Ints, Ints] | None = None
    ) -> "DataFrame":
        """Match, and reduce: kept, for the next plan that asks about the same predicates."""
        asks_for_broker = predicates.uses(BROKER)
        theirs = brokers[1].tobytes() if brokers is not None and asks_for_broker else b""
        key = (scenario.folder, theirs, *predicates.texts)
        if key not in self._reduced:
            cache = self._cache(scenario)
            name = "" if cache is None else cache.key(ROWS, theirs, self._shards(predicates), *predicates.texts)
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
            raise DataError(f"the scenario {scenario.folder} is not right:", [problem])
        return reduced(self.spark, events, indexes, brokers)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        with self.clock.step(name), as_ours(name):
            yield

    def score(self, scenario: Scenario, plan: Plan, effort: int = EFFORT) -> Score:
        """The meter, on the whole log."""
        known, rows, totals = self._counted(scenario, plan)
        bound = self.bound(scenario, plan, known, rows, effort)
        return Score(*scorecard(scenario, plan, known, totals, entries_of(plan, known), bound))

    def score_steiner(self, scenario: Scenario, base: Plan, tree_effort: str, effort: int = EFFORT) -> Scorecard:
        """What it would cost if every event took a Steiner tree of its own, with clients attached as in ``base``."""
        known, rows, totals = self._counted(scenario, base)
        crossings = self.steiner(scenario, base.attachments, tree_effort)
        return card_of(scenario, base, known, totals, crossings, self.bound(scenario, base, known, rows, effort))

    def _counted(self, scenario: Scenario, plan: Plan) -> "tuple[Metered, DataFrame, Totals]":
        publishers = self.publishers(scenario)
        with self.clock.step("checking the plan"):
            problems = problems_of_plan(scenario, plan, publishers)
            if problems:
                raise DataError("the plan breaks the law:", problems)
            known = metered(scenario, plan, publishers)
        rows = self.reduce(scenario, known.predicates, (known.publishers, known.publisher_brokers))
        with self._step("counting traffic"):
            totals = totals_of(rows, known)
        busiest = max(int(counts.sum(axis=0).max(initial=0)) for counts in (totals.link_frames, totals.group_copies))
        check_headroom(self._logs[scenario.folder], plan.flows.num_rows, busiest)
        return known, rows, totals

    def bursts(self, scenario: Scenario, plan: Plan, top: int, threshold: float) -> list[Burst]:
        """Subscriptions whose removal would uncover most others: see ``bursts``."""
        check(top, threshold)
        publishers = self.publishers(scenario)
        problems = problems_of_plan(scenario, plan, publishers)
        if problems:
            raise DataError("the plan breaks the law:", problems)

        def rows_for(known: Metered) -> "DataFrame":
            return self.reduce(scenario, known.predicates, (known.publishers, known.publisher_brokers))

        with self._step("predicting bursts"):
            return bursts_of(scenario, plan, publishers, rows_for, top, threshold)

    def steiner(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Crossings:
        """A Steiner tree for each event: kept, as a reference and a planner may both ask for it."""
        key = (scenario.folder, fingerprint_of(attachments), tree_effort)
        if key not in self._crossings:
            known = metered(scenario, without_links(scenario, attachments), self.publishers(scenario))
            rows = self.reduce(scenario, known.predicates, (known.publishers, known.publisher_brokers))
            folder = Path(tempfile.mkdtemp(dir=self._folder.name))
            with self._step("growing Steiner trees"):
                self._crossings[key] = crossings_of(rows, known, scenario.network, tree_effort, folder)
        return self._crossings[key]

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        """For planners: the bytes of the part to fit that cross each link, if each event takes a Steiner tree."""
        found: Ints = self.steiner(scenario, attachments, tree_effort).bytes[FIT]
        return found

    def bound(self, scenario: Scenario, plan: Plan, known: Metered, rows: "DataFrame", effort: int) -> Bound:
        """Depends on the attachments alone, so it is kept for the next plan that has the same."""
        key = (scenario.folder, fingerprint_of(plan.attachments), effort)
        if key not in self._bounds:

            def bound_now(scenario: Scenario) -> list[str]:
                with self._step(BOUND):
                    return bound_of(rows, known, scenario.network, effort).as_texts()

            # With less effort than all takes, it depends on how many rows there are, and so on what is asked as well
            depends_on = (*key[1:], self._shards(known.predicates), *known.predicates.texts)
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
