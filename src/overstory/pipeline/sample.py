"""Sample: rows of the reduced log for planners, few enough for one process."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.network import Network
from overstory.pipeline.match import HELD_OUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]


class Sample(NamedTuple):
    """Distinct rows of the log, by publishing broker and set of filters that match; events that nobody wants are not
    among them."""

    part: Ints
    broker: Ints  # the publishing one, by position in the network
    offsets: Ints
    predicates: Ints  # those of row i are between offsets i and i + 1, ascending
    bytes: Ints
    share: float  # of all rows that there are in these parts


def sample_of(rows: "DataFrame", attachments: pa.Table, network: Network, most: int) -> Sample:
    """Of the parts fit and choose, in an order that depends on nothing but their content; if there are more than
    ``most`` rows, those whose hashes are lowest. Runs on Spark."""
    from pyspark.sql import functions as sql

    theirs = rows.sparkSession.createDataFrame(attachments.select(["client", "broker"]))
    at_brokers = (
        rows.where((sql.col("part") < HELD_OUT) & (sql.size("predicates") > 0))
        .join(sql.broadcast(theirs), rows["publisher"] == theirs["client"])
        .groupBy("part", "broker", "high", "low")
        .agg(sql.first("predicates").alias("predicates"), sql.sum("bytes").alias("bytes"))
    ).persist()
    count = at_brokers.count()
    ordered = at_brokers.orderBy("high", "low", "broker", "part")
    # A limit that is not needed would still make Spark ask for room for as many rows.
    found = (ordered.limit(most) if most < count else ordered).drop("high", "low").toArrow()
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
    found = pa.table(
        {
            "part": distinct[3],
            "broker": distinct[2],
            "predicates": kept["predicates"].take(pa.array(first)),
            "bytes": sizes,
        }
    )
    return _sample(found.slice(0, most), network, len(sizes), most)


def _sample(found: pa.Table, network: Network, count: int, most: int) -> Sample:
    found = found.combine_chunks()
    sets = found["predicates"].combine_chunks()
    values = np.asarray(sets.flatten()).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(sets.value_lengths()))]).astype(np.int64)
    return Sample(
        np.asarray(found["part"]),
        network.positions(np.asarray(found["broker"])),
        offsets,
        values,
        np.asarray(found["bytes"]),
        min(1.0, most / count) if count else 1.0,
    )
