"""Interests: which topics each client wants, how often each topic has an event, and which are wanted together.

A subscription to topics is ``topic = 'a'`` or ``topic IN ('a', 'b')``, however it is spelled. Texts in the usual
spelling are read as columns; the others become boxes. Events are counted by Spark, and so are common interests: workers
map the interests into memory, and each counts for some of the topics.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.errors import DataError, Problem
from overstory.filters.value_sets import NEXT
from overstory.kernels.co_interest import partners_of
from overstory.model.scenario import Scenario
from overstory.model.topics import TOPIC
from overstory.pipeline.boxes import TEXTS, Boxes, boxes_of
from overstory.pipeline.match import HELD_OUT
from overstory.pipeline.shipping import arrived, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
USUAL = r"^topic (IN \('[^']*'(, '[^']*')*\)|= '[^']*')$"
SURELY_WITHIN = 16_000  # bytes: a list of topics of this length has no more characters and tokens than a filter may
MOST_NAMED = 20  # problems


class Interests(NamedTuple):
    """Of subscription i, in the order of the table, the topics between ``offsets`` i and i + 1, ascending."""

    names: tuple[str, ...]  # of topics that someone wants or that have an event, ascending
    offsets: Ints
    topics: NDArray[np.int32]
    bytes: Floats  # by topic: of its events in the whole log, estimated from the parts that planners see


class Partners(NamedTuple):
    """By topic those others that most of its users want as well, and how many do; -1 where there are fewer."""

    topics: Ints
    shared: Ints


def all_plain(filters: pa.ChunkedArray) -> bool:
    """Whether all filters are lists of topics in the usual spelling, within all limits: then each of them parses, and
    none has to be read into boxes to know that."""
    short = pc.less_equal(pc.binary_length(filters), SURELY_WITHIN)
    return bool(pc.all(pc.and_(short, pc.match_substring_regex(filters, USUAL)), skip_nulls=False).as_py())


def wanted_topics(scenario: Scenario) -> tuple[Ints, pa.Array]:
    """By subscription the topics that it wants: of i between offsets i and i + 1. Raises a ``DataError`` that names the
    subscriptions that are none to topics."""
    texts = scenario.subscriptions["filter"].combine_chunks()
    usual = pc.match_substring_regex(texts, USUAL)
    unusual = np.flatnonzero(~np.asarray(usual))
    inner = pc.replace_substring_regex(texts.filter(usual), r"^topic (?:IN \(|= )'", "")
    lists = pc.split_pattern(pc.replace_substring_regex(inner, r"'\)?$", ""), "', '")
    counts = np.zeros(len(texts), np.int64)
    counts[np.asarray(usual)] = np.asarray(pc.list_value_length(lists))
    names = lists.flatten()
    if not len(unusual):
        return np.concatenate([[0], np.cumsum(counts)]), names
    odd = _read_in_boxes(scenario, boxes_of(texts.take(unusual)), unusual)
    return _interleaved(counts, names, unusual, odd)


def _interleaved(counts: Ints, names: pa.Array, unusual: Ints, odd: list[list[str]]) -> tuple[Ints, pa.Array]:
    """Puts the topics of the few that were read otherwise where they belong."""
    counts[unusual] = [len(each) for each in odd]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    is_odd = np.zeros(len(counts), bool)
    is_odd[unusual] = True
    from_odd = np.repeat(is_odd, counts)
    place = np.where(from_odd, np.cumsum(from_odd) - 1 + len(names), np.cumsum(~from_odd) - 1)
    both = pa.concat_arrays([names, pa.array([name for each in odd for name in each], pa.string())])
    return offsets, both.take(pa.array(place))


def _read_in_boxes(scenario: Scenario, boxes: Boxes, rows: Ints) -> list[list[str]]:
    """The topics of filters in other spellings."""
    found, problems = [], []
    for number, row in enumerate(rows.tolist()):
        names = _topics_in(boxes, number)
        if names is None:
            text = scenario.subscriptions["filter"][row].as_py()[:80]
            what = f"is no subscription to topics, such as topic IN ('a', 'b'): {text}"
            problems.append(Problem("subscriptions", row + 1, "filter", what))
        found.append(names or [])
    if problems:
        raise DataError.about(f"the scenario {scenario.folder}", problems[:MOST_NAMED])
    return found


def _topics_in(boxes: Boxes, number: int) -> list[str] | None:
    """The topics that a filter says, if it says nothing else."""
    found = []
    for box in range(boxes.offsets[number], boxes.offsets[number + 1]):
        first, last = boxes.range_offsets[box : box + 2].tolist()
        if last - first != 1 or not boxes.exact[box] or boxes.kind[first] != TEXTS:
            return None
        low, high = int(boxes.low[first]), int(boxes.high[first])
        if boxes.names[boxes.attribute[first]] != TOPIC or high < 0 or boxes.texts[high] != boxes.texts[low] + NEXT:
            return None
        found.append(boxes.texts[low])
    return sorted(set(found))


def interests_from(scenario: Scenario, counted: pa.Table) -> Interests:
    """From how many bytes each topic has in the parts of the log that planners see (``topic``, ``bytes``), and which
    share of all events these are (``share``)."""
    offsets, wanted = wanted_topics(scenario)
    coded = wanted.dictionary_encode() if len(wanted) else pa.array([], pa.string()).dictionary_encode()
    told = dict(zip(*(counted[each].to_pylist() for each in ("topic", "bytes")), strict=True))
    share = counted["share"][0].as_py() if counted.num_rows else 1.0
    names = sorted({*coded.dictionary.to_pylist(), *(name for name in told if name is not None)})
    number = {name: at for at, name in enumerate(names)}
    renumbered = np.array([number[name] for name in coded.dictionary.to_pylist()], np.int32)
    topics = renumbered[np.asarray(coded.indices)] if len(wanted) else np.empty(0, np.int32)
    order = np.lexsort((topics, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
    sizes = np.array([float(told.get(name, 0)) for name in names]) / max(share, 1e-12)
    return Interests(tuple(names), offsets, topics[order], sizes)


def counted_on(events: "DataFrame") -> pa.Table:
    """The bytes of each topic in the parts that planners see, and their share of all events, by Spark."""
    from pyspark.sql import functions as sql

    if TOPIC not in events.columns:
        return counted_here(pa.table({TOPIC: pa.array([], pa.string()), "$bytes": pa.array([], pa.int64())}), 1.0)
    seen = sql.when(sql.col("`$part`") < HELD_OUT, 1).otherwise(0)
    by_topic = events.groupBy(TOPIC).agg(
        sql.sum(sql.col("`$bytes`") * seen).alias("bytes"),
        sql.sum(seen).alias("seen"),
        sql.count("*").alias("events"),
    )
    found = by_topic.toArrow()
    share = (pc.sum(found["seen"]).as_py() or 0) / max(pc.sum(found["events"]).as_py() or 0, 1)
    return found.select(["topic", "bytes"]).append_column("share", pa.array(np.full(found.num_rows, share)))


def counted_here(events: pa.Table, share: float) -> pa.Table:
    """The same of events in memory, those that planners see."""
    summed = events.select([TOPIC, "$bytes"]).group_by(TOPIC).aggregate([("$bytes", "sum")])
    rows = {"topic": summed[TOPIC], "bytes": summed["$bytes_sum"], "share": np.full(summed.num_rows, share)}
    return pa.table(rows)


Csr = tuple[Ints, NDArray[np.int32], Ints, NDArray[np.int32]]  # topics of users, users of topics


def partners_here(interests: Csr, most: int) -> Partners:
    """How many users each topic shares with those that it shares most with."""
    offsets, topics, fan_offsets, fans = interests
    return Partners(*partners_of(np.arange(len(fan_offsets) - 1), offsets, topics, fan_offsets, fans, most))


def partners_on(spark: "SparkSession", interests: Csr, most: int) -> Partners:
    """The same by Spark's tasks, of which each takes some topics."""
    count = len(interests[2]) - 1
    known = shipped(spark, interests)

    def count_for(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = arrived(known)
        for batch in batches:
            chosen = np.asarray(batch.column("id"))
            offsets, topics, fan_offsets, fans = here
            found, shared = partners_of(chosen, offsets, topics, fan_offsets, fans, most)
            rows = {"topic": np.repeat(chosen, most), "other": found.ravel(), "shared": shared.ravel()}
            yield pa.RecordBatch.from_pydict(rows)

    parts = 4 * spark.sparkContext.defaultParallelism
    rows = spark.range(0, count, 1, parts).mapInArrow(count_for, "topic long, other long, shared long").toArrow()
    order = np.argsort(rows["topic"].to_numpy(), kind="stable")
    found, shared = (rows[name].to_numpy()[order].reshape(count, most) for name in ("other", "shared"))
    return Partners(found, shared)
