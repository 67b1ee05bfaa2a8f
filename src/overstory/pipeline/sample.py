"""Sample: rows of the reduced log for planners, few enough for one process.

If there are too many rows, this is a *priority sample* (Duffield, Lund and Thorup, 2007). Every row draws a number by
the hash of all that makes it distinct, and the rows with the least draw per byte are taken.

1. Draws are independent from row to row. In particular, that a set of filters is in the part to fit says nothing about
   the part to choose by, so choosing does show what was merely remembered.
2. A row of b bytes is taken with a probability of min(1, b / unit), where ``unit`` follows from the first row that is
   left out. It then stands for max(b, unit) bytes, so all sums over the sample are right on average: heavy rows are
   surely there, and the many light ones share what is left.
3. What a row stands for is given in units, rounded: a sample of a long log is like a shorter log of single events.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.network import Network
from overstory.pipeline.match import HELD_OUT
from overstory.pipeline.xxhash import hashes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
KEY = ("high", "low", "broker", "part")  # what makes a row distinct, and the order of all rows
DRAWN_BITS = 53  # as many as a float holds, so that Spark and NumPy divide alike


class Sample(NamedTuple):
    """Distinct rows of the log, by publishing broker and set of filters that match; events that nobody wants are not
    among them."""

    part: Ints
    broker: Ints  # the publishing one, by position in the network
    offsets: Ints
    predicates: Ints  # those of row i are between offsets i and i + 1, ascending
    bytes: Ints  # of row i; where rows are left out, how many units of bytes it stands for
    share: float  # of all rows that there are in these parts


def sample_of(rows: "DataFrame", attachments: pa.Table, network: Network, most: int) -> Sample:
    """At most so many rows of the parts fit and choose, in an order that depends on nothing but their content. Runs on
    Spark."""
    from pyspark.sql import functions as sql

    theirs = rows.sparkSession.createDataFrame(attachments.select(["client", "broker"]))
    drawn = sql.shiftrightunsigned(sql.xxhash64(*KEY), 64 - DRAWN_BITS) + 1
    at_brokers = (
        rows.where((sql.col("part") < HELD_OUT) & (sql.size("predicates") > 0))
        .join(sql.broadcast(theirs), rows["publisher"] == theirs["client"])
        .groupBy(*KEY)
        .agg(sql.first("predicates").alias("predicates"), sql.sum("bytes").alias("bytes"))
        .withColumn("priority", drawn / sql.greatest("bytes", sql.lit(1)))
    ).persist()
    count = at_brokers.count()
    # A limit that is not needed would still make Spark ask for room for as many rows.
    taken = at_brokers.orderBy("priority", *KEY).limit(most + 1) if most < count else at_brokers
    found = taken.toArrow()
    at_brokers.unpersist()
    return _sample(found, network, count, most)


def sampled(rows: pa.RecordBatch, attachments: pa.Table, network: Network, most: int) -> Sample:
    """The same without Spark, of rows of the reduced log in one batch."""
    part, predicates = np.asarray(rows.column("part")), rows.column("predicates")
    kept = pa.table(rows.filter(pa.array((part < HELD_OUT) & (np.asarray(predicates.value_lengths()) > 0))))
    clients, brokers = (attachments[name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(clients)
    broker = brokers[order][np.searchsorted(clients[order], kept["publisher"].to_numpy())]
    columns = np.stack([kept["high"].to_numpy(), kept["low"].to_numpy(), broker, kept["part"].to_numpy()])
    distinct, first, which = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    sizes = np.zeros(distinct.shape[1], np.int64)
    np.add.at(sizes, which.reshape(-1), kept["bytes"].to_numpy())
    drawn = (hashes_of(*distinct).view(np.uint64) >> np.uint64(64 - DRAWN_BITS)).astype(np.int64) + 1
    found = pa.table(
        {
            **dict(zip(KEY, distinct, strict=True)),
            "predicates": kept["predicates"].take(pa.array(first)),
            "bytes": sizes,
            "priority": drawn / np.maximum(sizes, 1),
        }
    )
    return _sample(found, network, len(sizes), most)


def _sample(found: pa.Table, network: Network, count: int, most: int) -> Sample:
    """Of all rows that there are, or at least of those with the ``most + 1`` least priorities."""
    found, unit = _taken(found, most) if most < count else (found, 1.0)
    found = found.sort_by([(name, "ascending") for name in KEY]).combine_chunks()
    sets = found["predicates"].combine_chunks()
    values = np.asarray(sets.flatten()).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(sets.value_lengths()))]).astype(np.int64)
    return Sample(
        np.asarray(found["part"]),
        network.positions(np.asarray(found["broker"])),
        offsets,
        values,
        _in_units(np.asarray(found["bytes"]), unit),
        min(1.0, most / count) if count else 1.0,
    )


def _taken(found: pa.Table, most: int) -> tuple[pa.Table, float]:
    """The rows with the least priorities, and the unit, which the next one gives."""
    ordered = found.sort_by([(name, "ascending") for name in ("priority", *KEY)])
    return ordered.slice(0, most), 2.0**DRAWN_BITS / ordered["priority"][most].as_py()


def _in_units(sizes: Ints, unit: float) -> Ints:
    """What each row stands for. Rows without bytes stand for nothing, however many there are."""
    return np.where(sizes > 0, np.maximum(np.rint(sizes / unit), 1), 0).astype(np.int64)
