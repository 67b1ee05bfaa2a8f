"""Histograms: how much each publisher publishes in each channel, for planners that group events.

Channels are a partition of all events. They are filters, of which every event matches one; or a grid: attributes that
are numbers, each cut at some edges. A bin of an attribute begins at an edge, which is within it; the first one has what
is below all edges, the last but one what is above, and the last one events that do not have the attribute. Bins of
several attributes make channels as digits make numbers, the last attribute changing fastest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.errors import DataError, UsageError
from overstory.kernels.nothing import NONE
from overstory.matching.matcher import Matcher
from overstory.model.scenario import Scenario
from overstory.pipeline.columns import batch_of
from overstory.pipeline.match import BROKER, HELD_OUT, ddl
from overstory.pipeline.names import mapped
from overstory.pipeline.predicates import problems_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Channels: TypeAlias = Sequence[str] | Mapping[str, Sequence[float]]  # filters, or the edges of each attribute
NOWHERE, SEVERAL = NONE, NONE - 1  # instead of the channel of an event
KEYS = ("part", "publisher", "channel")
COLUMNS = pa.schema([(name, pa.int64()) for name in (*KEYS, "events", "bytes")])
Batches = Iterable[pa.RecordBatch]
ChannelOf = Callable[[pa.RecordBatch], Ints]


class Histogram(NamedTuple):
    """One row for each part of the log, publisher and channel that has events, in this order."""

    part: Ints
    publisher: Ints  # its id
    channel: Ints
    events: Ints
    bytes: Ints


def check_channels(scenario: Scenario, channels: Channels) -> None:
    if isinstance(channels, Mapping):
        for name, edges in channels.items():
            type_ = scenario.attributes.get(name)
            if type_ is None or not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
                raise UsageError(f"a grid needs numbers, and {name!r} is no attribute that is a number")
            if not np.all(np.diff(np.asarray(edges, np.float64)) > 0):
                raise UsageError(f"the edges of {name!r} do not ascend")
        return
    column = pa.chunked_array([pa.array(channels, pa.string())])
    problems = problems_with(column, "channels", "filter", reserved=BROKER)
    if problems:
        raise DataError("the channels are not right:", problems)


def told_of(channels: Channels) -> list[str]:
    """All that channels say, as texts."""
    if not isinstance(channels, Mapping):
        return ["filters", *channels]
    return ["grid", *(f"{name} {[*map(float, edges)]}" for name, edges in channels.items())]


def grid_channels(edges: Mapping[str, Sequence[float]]) -> ChannelOf:
    """By event, its channel of a grid."""
    ends = {name: np.asarray(some, np.float64) for name, some in edges.items()}

    def channel_of(batch: pa.RecordBatch) -> Ints:
        found = np.zeros(batch.num_rows, np.int64)
        for name, cuts in ends.items():
            column = batch.column(name)
            values = np.asarray(pc.cast(column, pa.float64(), safe=False).fill_null(np.nan))
            bins = np.searchsorted(cuts, values, "right")
            bins[np.isnan(values)] = len(cuts) + 1
            found = found * (len(cuts) + 2) + bins
        return found

    return channel_of


def filter_channels(index: Matcher) -> ChannelOf:
    """By event, the number of the one filter of an index that it matches."""

    def channel_of(batch: pa.RecordBatch) -> Ints:
        offsets, found = index.match_batch(batch_of(batch, asked=index.numbers))
        counts = np.diff(offsets)
        channel = np.where(counts > 1, SEVERAL, NOWHERE)
        channel[counts == 1] = found[offsets[:-1][counts == 1]]
        return channel

    return channel_of


def counted(batch: pa.RecordBatch, channel: Ints) -> pa.RecordBatch:
    """One row for each part, publisher and channel of a batch."""
    part, publisher, size = (np.asarray(batch.column(name)) for name in ("$part", "$publisher", "$bytes"))
    order = np.lexsort((channel, publisher, part))
    keys = [column[order] for column in (part, publisher, channel)]
    first = np.ones(len(order), bool)
    first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(order)))
    sums = np.add.reduceat(size[order], starts) if len(starts) else size
    return pa.RecordBatch.from_arrays(
        [*(pa.array(key[starts]) for key in keys), pa.array(counts), sums], schema=COLUMNS
    )


def histogram_of(events: "DataFrame", channels_in_worker: Callable[[], ChannelOf]) -> Histogram:
    """Counts events by publisher and channel on Spark. Each worker makes its own function of events, so that what it
    needs is opened there."""
    from pyspark.sql import functions as sql

    def count(batches: Batches) -> Iterator[pa.RecordBatch]:
        channel_of = channels_in_worker()
        for batch in batches:
            yield counted(batch, channel_of(batch))

    shown = events.where(sql.col("`$part`") < HELD_OUT)
    sums = [sql.sum(name).alias(name) for name in ("events", "bytes")]
    return checked(mapped(shown, count, ddl(COLUMNS)).groupBy(*KEYS).agg(*sums).toArrow())


def histogram_here(events: pa.RecordBatch, channel_of: ChannelOf) -> Histogram:
    """Without Spark, of events that planners may see."""
    return checked(pa.Table.from_batches([counted(events, channel_of(events))]))


def checked(table: pa.Table) -> Histogram:
    """Raises a ``UsageError`` if the channels are no partition of the events."""
    ordered = table.sort_by([(name, "ascending") for name in KEYS])
    found = Histogram(*(ordered[name].to_numpy() for name in COLUMNS.names))
    lost, twice = (int(found.events[found.channel == wrong].sum()) for wrong in (NOWHERE, SEVERAL))
    if lost or twice:
        raise UsageError(f"the channels are no partition: {lost:,} events match none of them, and {twice:,} several")
    return found
