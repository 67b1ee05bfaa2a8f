"""Boxes: filters as arrays, for what asks all of them the same question at once.

A filter is a union of boxes, and a box a conjunction of *ranges*, one for each attribute that it speaks of: of numbers
and booleans by their keys (``kernels.keys``), of strings by the texts where it begins and ends, or just whether the
attribute is there. A set of several intervals makes several boxes. What ranges cannot say (arithmetic, patterns, words
of lists, very many intervals) makes a box that is not *exact*: it is wider than what the filter says.
"""

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import FilterError
from overstory.filters import Filter, parse_filter
from overstory.filters.box import Box
from overstory.filters.cuts import intervals
from overstory.filters.value_sets import NEXT, Booleans, Numbers, Presence, Strings, ValueSet
from overstory.kernels.keys import SMALLEST, TOP
from overstory.kernels.nothing import NONE
from overstory.kernels.reading import NOTHING, TEXT
from overstory.matching.encoding import said_by
from overstory.matching.reading import Reading
from overstory.pipeline.columns import texts_of
from overstory.pipeline.session import spark_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]
KEYS, TEXTS, PRESENT, ABSENT = 0, 1, 2, 3  # kinds of ranges
ENDLESS = NONE  # instead of the text where a range of strings ends
MOST_PIECES = 256  # boxes that a box is cut into where attributes have several intervals
AT_ONCE = 1 << 15  # texts that are parsed here, as Spark would take longer to begin


class Boxes(NamedTuple):
    """Of filter i the boxes between ``offsets`` i and i + 1, of box j the ranges between ``range_offsets`` j and j + 1,
    in the order of their attributes. Both ends of a range of keys are within; of texts the last one is not."""

    names: tuple[str, ...]  # of attributes, ascending
    texts: tuple[str, ...]  # where ranges of strings begin and end, ascending
    offsets: Ints
    exact: Truths  # by box
    range_offsets: Ints
    attribute: NDArray[np.int32]
    kind: NDArray[np.int8]
    low: Ints
    high: Ints
    wrong: dict[int, str]  # by filter: why it does not parse; it then has no boxes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def pure(self) -> Truths:
        """By filter: whether its boxes say just what it says."""
        inexact = np.concatenate([[0], np.cumsum(~self.exact)])
        found: Truths = inexact[self.offsets[1:]] == inexact[self.offsets[:-1]]
        return found

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64], Truths, Truths]:
        """Of ranges of numbers: where they begin and end, infinite if they do not, and whether the ends themselves are
        outside. NaN for all other ranges; truths are 0 and 1, and stand above all numbers."""
        numbers = (self.kind == KEYS) & (self.low <= TOP)
        open_low, open_high = numbers & (self.low % 2 != 0), numbers & (self.high % 2 != 0)
        unbounded = numbers & (self.low == -TOP), numbers & (self.high == TOP)
        low, high = _numbers_of(self.low - open_low), _numbers_of(self.high + open_high)
        low[~numbers], high[~numbers] = np.nan, np.nan
        low[unbounded[0]], high[unbounded[1]] = -np.inf, np.inf
        return low, high, open_low & ~unbounded[0], open_high & ~unbounded[1]


def _numbers_of(keys: Ints) -> NDArray[np.float64]:
    """Of even keys the floats: the other way round than ``kernels.keys.key_of_bits``."""
    magnitude = np.abs(keys)
    bits = np.where(magnitude == 0, 0, magnitude // 2 - 1 + SMALLEST)
    return np.where(keys < 0, -1.0, 1.0) * bits.view(np.float64)


class _Rows:
    """Boxes in the making, of filters that were parsed."""

    def __init__(self) -> None:
        self.box_filter: list[int] = []
        self.exact: list[bool] = []
        self.ranges: list[tuple[int, str, int, Any, Any]] = []  # box, name, kind, low, high
        self.wrong: dict[int, str] = {}

    def add(self, number: int, wanted: Filter) -> None:
        for box in wanted.boxes:
            pieces, exact = _pieces(box)
            for piece in pieces:
                self.ranges += [(len(self.exact), *one_range) for one_range in piece]
                self.box_filter.append(number)
                self.exact.append(exact)


Range = tuple[str, int, Any, Any]


def _pieces(box: Box) -> tuple[Iterable[Sequence[Range]], bool]:
    """The ranges of the boxes that a box is cut into, and whether they are exact."""
    exact, choices = not box.residuals, []
    room = MOST_PIECES
    for name, allowed in box.sets.items():
        ranges, sure = _ranges(name, allowed)
        if len(ranges) > room:
            ranges, sure = [(name, ranges[0][1], ranges[0][2], ranges[-1][3])], False
        room //= max(len(ranges), 1)
        exact &= sure
        choices.append(ranges)
    return product(*choices), exact


def _ranges(name: str, allowed: ValueSet) -> tuple[list[Range], bool]:
    """One of these ranges, and whether they say all of the set."""
    if isinstance(allowed, (Numbers, Booleans)):
        said = said_by(allowed)
        return [(name, KEYS, low, high) for low, high in said.intervals], said.exact
    if isinstance(allowed, Strings):
        return [(name, TEXTS, start, stop) for start, stop in intervals(allowed.cuts)], not allowed.likes
    if isinstance(allowed, Presence):
        return [(name, PRESENT if allowed.present else ABSENT, 0, 0)], True
    return [(name, PRESENT, 0, 0)], False


def boxes_of(column: pa.Array) -> Boxes:
    """Reads filters, given as texts without nulls, into boxes. Those that the kernel cannot read are parsed."""
    return _with_parsed(Reading(texts_of(column)))


def _with_parsed(reading: Reading) -> Boxes:
    parsed = _Rows()
    for number in np.flatnonzero(~reading.read).tolist():
        text = reading.text(number)
        try:
            parsed.add(number, _parse(text))
        except FilterError as error:
            parsed.wrong[number] = f"{error.summary()}: {text[:80]}"
    return _together(len(reading.texts), [*_read(reading), *_parsed(parsed)], parsed.wrong)


_parse = lru_cache(1 << 12)(parse_filter)  # a plan's rows are read to see if they parse, and again to compare them


class _Part(NamedTuple):
    """Some of the boxes, by filter in any order; names and texts are those of this part."""

    names: Sequence[str]
    texts: Sequence[str]
    box_filter: Ints
    exact: Truths
    range_box: Ints
    attribute: Ints
    kind: NDArray[np.int8]
    low: Ints
    high: Ints


def _read(reading: Reading) -> Iterator[_Part]:
    tests, read = reading.tests, reading.read
    boxes = np.flatnonzero(read & (tests.count != NOTHING))
    if not len(boxes):
        return
    counts = tests.count[boxes]
    at = np.repeat(reading.starts[boxes] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    kind = np.where(tests.kind[at] == TEXT, TEXTS, KEYS).astype(np.int8)
    low, high = tests.low[at], tests.high[at]
    texts, low[kind == TEXTS], high[kind == TEXTS] = _equal_texts(
        reading, tests.low[at][kind == TEXTS], tests.high[at][kind == TEXTS]
    )
    range_box = np.repeat(np.arange(len(boxes)), counts)
    attribute = tests.name[at].astype(np.int64)
    yield _Part(reading.names, texts, boxes, np.ones(len(boxes), bool), range_box, attribute, kind, low, high)


def _equal_texts(reading: Reading, starts: Ints, stops: Ints) -> tuple[list[str], Ints, Ints]:
    """Of strings in the data: where the range of just this one begins and ends, as numbers of texts."""
    lengths = stops - starts
    ends = np.concatenate([[0], np.cumsum(lengths)])
    data = reading.texts.data[np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])]
    buffers = pa.py_buffer(ends.tobytes()), pa.py_buffer(data.tobytes())
    coded = pa.LargeStringArray.from_buffers(len(starts), *buffers).dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    numbers = np.asarray(coded.indices).astype(np.int64)
    return [*distinct, *(text + NEXT for text in distinct)], numbers, numbers + len(distinct)


def _parsed(rows: _Rows) -> Iterator[_Part]:
    if not rows.exact:
        return
    names = {name: number for number, name in enumerate(dict.fromkeys(name for _, name, *_ in rows.ranges))}
    texts: dict[str, int] = {}
    low, high = np.zeros(len(rows.ranges), np.int64), np.zeros(len(rows.ranges), np.int64)
    for at, (_, _, kind, first, last) in enumerate(rows.ranges):
        if kind == TEXTS:
            low[at] = texts.setdefault(first, len(texts))
            high[at] = ENDLESS if last is None else texts.setdefault(last, len(texts))
        else:
            low[at], high[at] = first, last
    yield _Part(
        list(names),
        list(texts),
        np.array(rows.box_filter, np.int64),
        np.array(rows.exact, bool),
        np.array([box for box, *_ in rows.ranges], np.int64),
        np.array([names[name] for _, name, *_ in rows.ranges], np.int64),
        np.array([kind for _, _, kind, *_ in rows.ranges], np.int8),
        low,
        high,
    )


def _together(count: int, parts: Sequence[_Part], wrong: dict[int, str]) -> Boxes:
    """Boxes by filter, ranges by attribute, names and texts in their own order: so it does not matter in which parts
    they came."""
    names, texts = sorted({n for part in parts for n in part.names}), sorted({t for part in parts for t in part.texts})
    name_number, text_number = ({key: at for at, key in enumerate(keys)} for keys in (names, texts))
    before = np.cumsum([0, *(len(part.exact) for part in parts)])
    box_filter = _joined([part.box_filter for part in parts])
    order = np.argsort(box_filter, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    range_box = place[_joined([part.range_box + start for part, start in zip(parts, before[:-1], strict=True)])]
    attribute = _joined([_numbered(part.names, name_number)[part.attribute] for part in parts])
    kind = _joined([part.kind for part in parts]).astype(np.int8)
    low, high = (_joined([_recoded(part, which, text_number) for part in parts]) for which in ("low", "high"))
    by_box = np.lexsort((attribute, range_box))
    used = np.zeros(len(names), bool)
    used[attribute] = True  # of what the kernel could not read it may know a name that nothing is asked of
    fewer = np.cumsum(used) - 1
    return Boxes(
        tuple(name for name, kept in zip(names, used.tolist(), strict=True) if kept),
        tuple(texts),
        np.searchsorted(box_filter[order], np.arange(count + 1)),
        _joined([part.exact for part in parts])[order].astype(bool),
        np.searchsorted(range_box[by_box], np.arange(len(order) + 1)),
        fewer[attribute[by_box]].astype(np.int32),
        kind[by_box],
        low[by_box],
        high[by_box],
        wrong,
    )


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _numbered(keys: Sequence[str], numbers: dict[str, int]) -> Ints:
    return np.array([numbers[key] for key in keys], np.int64)


def _recoded(part: _Part, which: str, numbers: dict[str, int]) -> Ints:
    values: Ints = getattr(part, which)
    texts = (part.kind == TEXTS) & (values != ENDLESS)
    if not texts.any():
        return values
    found = values.copy()
    found[texts] = _numbered(part.texts, numbers)[values[texts]]
    return found


def _part_of(boxes: Boxes, numbers: Ints) -> _Part:
    """Boxes whose filters have these numbers."""
    owner = numbers[np.repeat(np.arange(len(boxes)), np.diff(boxes.offsets))]
    range_box = np.repeat(np.arange(len(boxes.exact)), np.diff(boxes.range_offsets))
    said = boxes.attribute.astype(np.int64), boxes.kind, boxes.low, boxes.high
    return _Part(boxes.names, boxes.texts, owner, boxes.exact, range_box, *said)


def joined(several: Sequence[Boxes]) -> Boxes:
    """The filters of all, one after the other."""
    starts = np.cumsum([0, *map(len, several)])
    parts: list[_Part] = []
    wrong: dict[int, str] = {}
    for boxes, start in zip(several, starts[:-1].tolist(), strict=True):
        parts.append(_part_of(boxes, np.arange(start, start + len(boxes))))
        wrong |= {number + start: why for number, why in boxes.wrong.items()}
    return _together(int(starts[-1]), parts, wrong)


def boxes_on(spark: Callable[[], "SparkSession"], column: pa.Array, folder: Path) -> Boxes:
    """The same as ``boxes_of``; where more than a task's worth has to be parsed, Spark's workers do it. ``spark`` is
    called only then."""
    reading = Reading(texts_of(column))
    unread = np.flatnonzero(~reading.read)
    if len(unread) <= AT_ONCE:
        return _with_parsed(reading)
    parts = [*_read(reading)]
    wrong: dict[int, str] = {}
    for numbers, boxes in _parsed_on(spark(), pa.table({"number": unread, "text": column.take(unread)}), folder):
        parts.append(_part_of(boxes, numbers))
        wrong |= {int(numbers[at]): why for at, why in boxes.wrong.items()}
    return _together(len(column), parts, dict(sorted(wrong.items())))


def _parsed_on(spark: "SparkSession", texts: pa.Table, folder: Path) -> Iterator[tuple[Ints, Boxes]]:
    """Texts in any order, with their numbers, and their boxes."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = np.asarray(batch.column("number")), tuple(boxes_of(batch.column("text")))
            yield pa.RecordBatch.from_pydict({"boxes": [pickle.dumps(found)]})

    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "texts.parquet"
        pq.write_table(texts, path)
        rows = spark.read.parquet(spark_path(path)).repartition(2 * spark.sparkContext.defaultParallelism)
        found = rows.mapInArrow(parse, "boxes binary").toArrow()["boxes"].to_pylist()
    for numbers, boxes in map(pickle.loads, found):
        yield numbers, Boxes(*boxes)
