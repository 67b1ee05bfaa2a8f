"""Events as columns: what an index matches many of at once.

A column is one attribute of all events: a NumPy array of numbers or booleans, ``Texts``, ``Lists`` of words, or a plain
Python list of any values. ``Texts`` and ``Lists`` are laid out as in Arrow: all bytes in a row, and offsets.
Where an attribute is absent, ``present`` is false; in a plain list the value is None.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.errors import UsageError
from overstory.kernels.cells import CELL, FACELESS, KEY, MISSING, TEXT, UNTYPED, WORDS, Cells, read_numbers
from overstory.kernels.keys import FALSE, LEAST, TRUE, key_of_number, keys_of_floats, keys_of_integers
from overstory.model.values import Attributes, Untyped, list_face, number_in, plain

Mask: TypeAlias = NDArray[np.bool_]
TRUTHS = np.array([FALSE, TRUE], np.int64)
NO_OFFSETS = np.zeros(1, np.int64)


class Texts:
    """A column of strings. With ``untyped`` they are values without a type, such as MQTT user properties."""

    def __init__(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], present: Mask | None = None, untyped: bool = False
    ) -> None:
        self.data, self.offsets, self.present, self.untyped = data, offsets, present, untyped

    @classmethod
    def of(cls, values: Sequence[str | None], untyped: bool = False) -> "Texts":
        encoded = [b"" if value is None else value.encode("utf-8", "surrogatepass") for value in values]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
        data = np.frombuffer(b"".join(encoded), np.uint8)
        missing = None in values
        present = np.array([value is not None for value in values]) if missing else None
        return cls(data, offsets, present, untyped)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def value(self, i: int) -> object:
        text = self.data[self.offsets[i] : self.offsets[i + 1]].tobytes().decode("utf-8", "surrogatepass")
        return Untyped(text) if self.untyped else text


class Lists:
    """A column of lists of words. List i has the words between offsets i and i + 1."""

    def __init__(self, offsets: NDArray[np.int64], words: Texts, present: Mask | None = None) -> None:
        self.offsets, self.words, self.present = offsets, words, present

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def value(self, i: int) -> object:
        return [self.words.value(j) for j in range(self.offsets[i], self.offsets[i + 1])]


class Numbers:
    """A column of numbers or booleans, of which some may be absent."""

    def __init__(self, values: ArrayLike, present: Mask | None = None) -> None:
        self.values, self.present = np.asarray(values), present
        if self.values.dtype.kind not in "fiub" or self.values.ndim != 1:
            raise UsageError(f"Numbers are one row of numbers or booleans, not {_described(self.values)}")
        if isinstance(values, np.ma.MaskedArray):
            unmasked = ~np.ma.getmaskarray(values)
            self.present = unmasked if present is None else present & unmasked

    def __len__(self) -> int:
        return len(self.values)

    def value(self, i: int) -> object:
        return plain(self.values.item(i))  # a longdouble's item is a longdouble


class Values:
    """A column of any values, one Python object each. It is slow, and the only way for mixed types."""

    def __init__(self, values: Sequence[object]) -> None:
        self.values = values
        self.present = None

    def __len__(self) -> int:
        return len(self.values)

    def value(self, i: int) -> object:
        return self.values[i]


Column: TypeAlias = Texts | Lists | Numbers | Values


class Batch:
    def __init__(self, columns: Mapping[str, object], size: int | None = None) -> None:
        self.columns: dict[str, Column] = {name: _column(name, values) for name, values in columns.items()}
        self.size = len(next(iter(self.columns.values()), ())) if size is None else size
        for name, column in self.columns.items():
            if len(column) != self.size:
                raise UsageError(f"column {name} has {len(column)} values where others have {self.size}")
            if column.present is not None and len(column.present) != self.size:
                raise UsageError(f"column {name} has {self.size} values, but says of {len(column.present)} if present")

    @classmethod
    def of(cls, events: Sequence[Attributes]) -> "Batch":
        names = dict.fromkeys(name for event in events for name in event)
        return cls({name: [event.get(name) for event in events] for name in names}, len(events))

    def __len__(self) -> int:
        return self.size

    def event(self, i: int) -> "Row":
        return Row(self.columns, i)

    def events(self) -> Iterable["Row"]:
        return map(self.event, range(self.size))

    def cells(self, numbers: Mapping[str, int]) -> Cells:
        """The cells of the batch, for an index that gives attributes these numbers."""
        known = [(numbers[name], column) for name, column in self.columns.items() if name in numbers]
        return _Table(self.size, known).cells()


class Row(Mapping[str, object]):
    """One event of a batch. A value is fetched only when it is asked for."""

    def __init__(self, columns: Mapping[str, Column], number: int) -> None:
        self._columns, self._number = columns, number

    def __getitem__(self, name: str) -> object:
        column = self._columns[name]
        if column.present is not None and not column.present[self._number]:
            raise KeyError(name)
        return column.value(self._number)

    def get(self, name: str, default: object = None) -> object:  # what conditions call, so without an exception
        column = self._columns.get(name)
        if column is None or (column.present is not None and not column.present[self._number]):
            return default
        return column.value(self._number)

    def __iter__(self) -> Iterator[str]:
        return (
            name for name, column in self._columns.items() if column.present is None or column.present[self._number]
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


def _column(name: str, values: object) -> Column:
    if isinstance(values, (Texts, Lists, Numbers, Values)):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1:
        if values.dtype.kind in "fiub":
            return Numbers(values)
        if values.dtype.kind == "U":
            return Texts.of(values.tolist())  # what is masked is None there
    if isinstance(values, (list, tuple)):
        return Values(values)
    raise UsageError(f"column {name}: an array of numbers, Texts, Lists or a list of values is wanted")


def _described(values: NDArray[np.generic]) -> str:
    return f"an array of {values.dtype}" if values.ndim == 1 else f"an array of {values.ndim} dimensions"


class _Table:
    """Cells in the making: a row for each event, a column for each attribute, texts gathered in one place."""

    def __init__(self, size: int, columns: Sequence[tuple[int, Column]]) -> None:
        self.size, self.width = size, len(columns)
        self.rows = np.zeros((size, self.width), CELL)
        self.attribute, self.kind, self.key = self.rows["attribute"], self.rows["kind"], self.rows["key"]
        self.start, self.stop = self.rows["start"], self.rows["stop"]
        self.data: list[NDArray[np.uint8]] = []
        self.words: list[NDArray[np.int64]] = []
        self.bytes = self.word_count = 0
        self.untyped = False
        for at, (attribute, column) in enumerate(columns):
            self.attribute[:, at] = attribute
            if isinstance(column, Numbers):
                self.kind[:, at] = KEY
                self.key[:, at] = _keys(column.values)
            elif isinstance(column, Texts):
                self._fill_texts(at, column)
            elif isinstance(column, Lists):
                self._fill_lists(at, column)
            else:
                self._fill_values(at, column.values)
            if column.present is not None:
                self.kind[~column.present, at] = MISSING

    def _fill_texts(self, at: int, column: Texts) -> None:
        self.kind[:, at] = UNTYPED if column.untyped else TEXT
        self.untyped |= column.untyped
        self.start[:, at] = column.offsets[:-1] + self.bytes
        self.stop[:, at] = column.offsets[1:] + self.bytes
        self._keep(column.data)

    def _fill_lists(self, at: int, column: Lists) -> None:
        self.kind[:, at] = WORDS
        self.start[:, at] = column.offsets[:-1] + self.word_count
        self.stop[:, at] = column.offsets[1:] + self.word_count
        self._keep_words(column.words)

    def _fill_values(self, at: int, values: Sequence[object]) -> None:
        texts: list[str] = []
        words: list[str] = []
        text_rows: list[int] = []
        for row, value in enumerate(map(plain, values)):
            if isinstance(value, bool):
                self.kind[row, at], self.key[row, at] = KEY, TRUE if value else FALSE
            elif isinstance(value, (int, float, Fraction)):
                self.kind[row, at], self.key[row, at] = KEY, key_of_number(value)
            elif isinstance(value, (str, Untyped)):
                untyped = isinstance(value, Untyped)
                self.kind[row, at] = UNTYPED if untyped else TEXT
                self.untyped |= untyped
                texts.append(value.text if isinstance(value, Untyped) else value)
                text_rows.append(row)
            elif value is not None:
                face = list_face(value)
                if face is None:
                    self.kind[row, at] = FACELESS
                else:
                    self.kind[row, at] = WORDS
                    self.start[row, at] = self.word_count + len(words)
                    words += face
                    self.stop[row, at] = self.word_count + len(words)
        if texts:
            column = Texts.of(texts)
            self.start[text_rows, at] = column.offsets[:-1] + self.bytes
            self.stop[text_rows, at] = column.offsets[1:] + self.bytes
            self._keep(column.data)
        if words:
            self._keep_words(Texts.of(words))

    def _keep_words(self, words: Texts) -> None:
        """Keeps the words of a column. A word ends where the next one starts, so the last one needs an offset more."""
        self.words.append(words.offsets + self.bytes)
        self.word_count += len(words.offsets)
        self._keep(words.data)

    def _keep(self, data: NDArray[np.uint8]) -> None:
        self.data.append(data)
        self.bytes += len(data)

    def cells(self) -> Cells:
        cells = Cells(
            np.arange(self.size + 1, dtype=np.int64) * self.width,
            self.rows.ravel(),
            np.concatenate(self.words) if self.words else NO_OFFSETS,
            np.concatenate(self.data) if self.data else np.zeros(0, np.uint8),
        )
        if self.untyped:
            read_untyped(cells)
        return cells


def read_untyped(cells: Cells) -> None:
    for cell in read_numbers(cells, np.empty(1), TRUTHS):
        row = cells.rows[cell]
        number = number_in(cells.data[row["start"] : row["stop"]].tobytes().decode("ascii"))
        row["key"] = LEAST if number is None else key_of_number(number)


def _keys(values: NDArray[Any]) -> NDArray[np.int64]:
    if values.dtype.kind == "b":
        return TRUTHS[values.astype(np.int64)]
    keys = np.empty(len(values), np.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        keys[:] = [key_of_number(int(value)) for value in values]
    elif values.dtype.kind == "f":
        with np.errstate(over="ignore"):  # beyond all floats is infinity, whose key is that of all that is so large
            near = np.ascontiguousarray(values, np.float64)
        keys_of_floats(near, keys)
        if values.dtype.itemsize > 8:
            apart = (keys % 2 == 0) & (keys != LEAST)  # an odd key is shared by all that lies between two floats
            keys += apart * (1 * (near < values) - 1 * (near > values))
    else:
        keys_of_integers(np.ascontiguousarray(values, np.int64), keys)
    return keys
