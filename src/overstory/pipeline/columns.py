"""Arrow batches of events as batches of the index, without copying their values."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.matching.batch import Batch, Column, Lists, Numbers, Texts
from overstory.model.topics import LEVELS, SEPARATOR, TOPIC, level_place


def batch_of(
    events: pa.RecordBatch, extra: dict[str, NDArray[np.int64]] | None = None, asked: Iterable[str] = ()
) -> Batch:
    """The attributes of the events, and ``extra`` ones. ``asked`` names the attributes that filters ask for: of a
    topic's levels only those are worked out."""
    columns: dict[str, object] = {}
    for name in events.schema.names:
        if not name.startswith("$"):
            columns[name] = column_of(events.column(name))
    return Batch(columns | levels_of(events, asked) | (extra or {}), events.num_rows)


def levels_of(events: pa.RecordBatch, asked: Iterable[str]) -> dict[str, object]:
    """The levels of the events' topics that filters ask for, and their number, as a broker has them."""
    wanted = [name for name in asked if name == LEVELS or level_place(name) is not None]
    if not wanted or TOPIC not in events.schema.names or not is_text(events.schema.field(TOPIC).type):
        return {}
    levels = pc.split_pattern(events.column(TOPIC).fill_null(""), SEPARATOR)
    present = np.asarray(events.column(TOPIC).is_valid())
    offsets, texts = np.asarray(levels.offsets).astype(np.int64), levels.values
    sizes = np.diff(offsets)
    found: dict[str, object] = {}
    for name in wanted:
        place = level_place(name)
        if place is None:
            found[name] = Numbers(sizes, present)
        else:
            missing = (sizes < place) | ~present
            at = np.where(missing, 0, offsets[:-1] + place - 1)
            found[name] = column_of(texts.take(pa.array(at, mask=missing)))
    return found


def is_text(type_: pa.DataType) -> bool:
    """Whether values of this type are strings."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def column_of(values: pa.Array) -> Column:
    present = None if values.null_count == 0 else np.asarray(values.is_valid())
    if is_text(values.type):
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
