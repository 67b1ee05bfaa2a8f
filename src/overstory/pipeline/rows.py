"""Rows of the reduced log, as Arrow has them and as kernels read them."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.metering import Rows

AT_ONCE = 1 << 25  # predicates of rows that are brought together


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
    fast memory. Those that match the same predicates, by their hash, and are of the same part may even travel
    together."""
    sets = batch.column("predicates")
    offsets, values = np.asarray(sets.offsets), np.append(np.asarray(sets.values), -1)
    first = np.where(np.diff(offsets) > 0, values[offsets[:-1]], -1)
    part, low, high = (np.asarray(batch.column(name)) for name in ("part", "low", "high"))
    return batch.take(pa.array(np.lexsort((part, low, high, first))))


def in_large_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches. Spark's are small where rows match many predicates, and then few rows of a batch
    match the same ones."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        more = len(batch.column("predicates").values)
        if waiting and size + more > AT_ONCE:
            yield _joined(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += more
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined[0] if joined else batches[0]
