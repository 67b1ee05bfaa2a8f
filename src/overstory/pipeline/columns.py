"""Arrow batches of events as batches of the index, without copying their values."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.matching.batch import Batch, Column, Lists, Numbers, Texts


def batch_of(events: pa.RecordBatch, extra: dict[str, NDArray[np.int64]] | None = None) -> Batch:
    """The attributes of the events, and ``extra`` ones."""
    columns: dict[str, object] = {}
    for name in events.schema.names:
        if not name.startswith("$"):
            columns[name] = column_of(events.column(name))
    return Batch(columns | (extra or {}), events.num_rows)


def column_of(values: pa.Array) -> Column:
    present = None if values.null_count == 0 else np.asarray(values.is_valid())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        data, offsets = _text(values)
        return Texts(data, offsets, present)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        offsets = np.asarray(values.offsets).astype(np.int64)
        words, word_offsets = _text(values.values)
        if values.values.null_count:  # a list with an absent word in it is no list of words
            whole = np.concatenate([[0], np.cumsum(np.asarray(values.values.is_null()))])
            clean = whole[offsets[1:]] == whole[offsets[:-1]]
            present = clean if present is None else present & clean
        return Lists(offsets, Texts(words, word_offsets), present)
    filled = values.fill_null(False) if pa.types.is_boolean(values.type) else values.fill_null(0)
    return Numbers(np.asarray(filled), present)


def texts_of(values: pa.Array) -> Texts:
    """A column of strings."""
    found = column_of(values)
    assert isinstance(found, Texts)
    return found


def _text(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.zeros(0, np.uint8), np.zeros(len(values) + 1, np.int64)
    every = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), every
