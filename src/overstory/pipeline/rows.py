"""Rows of the reduced log, as Arrow has them and as kernels read them."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.metering import Rows

SCATTER = np.uint64(0x9E3779B97F4A7C15)


def rows_of(batch: pa.RecordBatch, publishers: NDArray[np.int64]) -> Rows:
    sets = batch.column("predicates")
    return Rows(
        np.asarray(batch.column("part")),
        np.searchsorted(publishers, np.asarray(batch.column("publisher"))),
        np.asarray(sets.offsets).astype(np.int64),
        np.asarray(sets.values),
        np.asarray(batch.column("events")),
        np.asarray(batch.column("bytes")),
    )


def alike_together(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that match the same first predicate travel along the same links: one after the other they find those in the
    fast memory. Those that match the same predicates and are of the same part may even travel together."""
    sets = batch.column("predicates")
    offsets, values = np.asarray(sets.offsets), np.append(np.asarray(sets.values), -1)
    first = np.where(np.diff(offsets) > 0, values[offsets[:-1]], -1)
    scattered = (values.astype(np.uint64) + np.uint64(2)) ** np.uint64(3) * SCATTER
    sums = np.cumsum(scattered) - scattered
    alike = np.diff(sums[offsets])  # the same for equal sets, wherever they are
    return batch.take(pa.array(np.lexsort((np.asarray(batch.column("part")), alike, first))))
