"""Conditions on one attribute of an event log, drawn so that about a wanted share of its events meets them.

A column is kept as codes into its different values, the most frequent first, so that whether each event meets a
condition is one lookup. Absent values have the code of a last value that no condition takes.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from overstory.filters.like import like_prefix
from overstory.filters.printing import print_choice, print_like, print_literal, print_name
from overstory.model.network import Floats, Ints

Truths = NDArray[np.bool_]
MOST_CHOICES = 8  # values in an IN or a HAS ANY
LONGEST_TEXT = 100  # characters of a value that a person would write into a filter
FEW_NUMBERS = 50  # so many different ones are codes rather than quantities
LEAST_SHARE, MOST_SHARE = 1e-6, 1 - 1e-6


class Term(NamedTuple):
    text: str
    met: Truths  # by each event of the sample


class Column(Protocol):
    def draw(self, share: float, dice: np.random.Generator) -> Term:
        """A condition that about this share of the events meets, as far as the attribute allows."""


class Choices:
    """Equality and sets: of strings, of few numbers, and of the words of lists."""

    def __init__(self, name: str, values: Sequence[Any], codes: Ints, rows: Ints, events: int) -> None:
        self.name, self.values, self.codes, self.rows, self.events = print_name(name), values, codes, rows, events
        self.shares: Floats = np.bincount(codes, minlength=len(values)) / events
        self.likely: Floats = self.shares / self.shares.sum()

    def draw(self, share: float, dice: np.random.Generator) -> Term:
        """Frequent values are drawn more often, as subscribers would; then as many as the share has room for."""
        most = min(MOST_CHOICES, len(self.values))
        drawn = dice.choice(len(self.values), most, replace=False, p=self.likely)
        first = _nearest(self.shares[drawn[: 1 + most // 2]], share)
        order = np.concatenate((drawn[first : first + 1], np.delete(drawn, first)))
        room = np.cumsum(self.shares[order]) <= share * 1.1
        room[0] = True
        chosen = np.sort(order[np.cumprod(room, dtype=bool)])
        return Term(self.text([self.values[value] for value in chosen]), self.met(chosen))

    def text(self, chosen: list[Any]) -> str:
        return print_choice(self.name, [print_literal(value) for value in chosen])

    def met(self, chosen: Ints) -> Truths:
        wanted = np.zeros(len(self.values), bool)
        wanted[chosen] = True
        met = np.zeros(self.events, bool)
        met[self.rows[wanted[self.codes]]] = True
        return met


class Words(Choices):
    """Lists: an event counts once for each of its words, so shares of several words may overlap."""

    def text(self, chosen: list[Any]) -> str:
        return f"{self.name} HAS ANY ({', '.join(map(print_literal, chosen))})"


class Strings(Choices):
    """As choices, and sometimes a prefix: that of a frequent value, as long as the share wants it."""

    def __init__(self, name: str, values: Sequence[str], codes: Ints, rows: Ints, events: int) -> None:
        super().__init__(name, values, codes, rows, events)
        self.order = sorted(range(len(values)), key=values.__getitem__)
        self.sorted = [values[at] for at in self.order]
        self.below: Floats = np.concatenate(([0], np.cumsum(self.shares[self.order])))

    def draw(self, share: float, dice: np.random.Generator) -> Term:
        if dice.random() < 0.5:
            return super().draw(share, dice)
        model: str = self.values[dice.choice(len(self.values), p=self.likely)]
        spans = [self._span(model[:length]) for length in range(1, len(model) + 1)]
        if not spans:
            return super().draw(share, dice)
        length = _nearest(np.array([self.below[stop] - self.below[start] for start, stop in spans]), share)
        start, stop = spans[length]
        text = f"{self.name} LIKE {print_like(like_prefix(model[: length + 1]))}"
        return Term(text, self.met(np.array(self.order[start:stop])))

    def _span(self, prefix: str) -> tuple[int, int]:
        """Where the values that begin so are among the sorted ones."""
        last = len(prefix)
        start = bisect_left(self.sorted, prefix)
        stop = bisect_left(self.sorted, True, lo=start, key=lambda value: value[:last] != prefix)
        return start, stop


class Quantities:
    """A column of numbers, of which terms want ranges between quantiles.

    Half of the ranges lie anywhere, half tend to where this attribute has its fashion.
    """

    def __init__(self, name: str, values: NDArray[Any], present: Truths, dice: np.random.Generator) -> None:
        self.name, self.values, self.present = print_name(name), values, present
        self.sorted = np.sort(values[present & np.isfinite(values)])
        self.known = len(self.sorted) / len(values)
        self.fashion = dice.choice([(1.0, 4.0), (4.0, 1.0), (4.0, 4.0)])

    def draw(self, share: float, dice: np.random.Generator) -> Term:
        share = min(share / self.known, MOST_SHARE)
        skew = self.fashion if dice.random() < 0.5 else (1.0, 1.0)
        start = dice.beta(*skew) * (1 - share)
        kind = dice.choice(4)
        if kind == 0:
            low = self._at(1 - share)
            return Term(f"{self.name} >= {print_literal(low)}", self.present & (self.values >= low))
        if kind == 1:
            high = self._at(share)
            return Term(f"{self.name} <= {print_literal(high)}", self.present & (self.values <= high))
        low, high = self._at(start), self._at(start + share)
        text = f"{self.name} BETWEEN {print_literal(low)} AND {print_literal(high)}"
        return Term(text, self.present & (self.values >= low) & (self.values <= high))

    def _at(self, quantile: float) -> Any:
        return self.sorted[min(int(quantile * len(self.sorted)), len(self.sorted) - 1)].item()


class Truth:
    def __init__(self, name: str, yes: Truths, no: Truths) -> None:
        self.terms = [
            Term(text, met) for text, met in ((print_name(name), yes), (f"NOT {print_name(name)}", no)) if met.any()
        ]
        self.shares: Floats = np.array([term.met.mean() for term in self.terms])

    def draw(self, share: float, dice: np.random.Generator) -> Term:
        return self.terms[_nearest(self.shares, share)]


def column_of(name: str, values: pa.ChunkedArray, dice: np.random.Generator) -> Column | None:
    """None if no condition can be drawn: nothing is there, or of a type that filters do not know."""
    array = values.combine_chunks()
    if pt.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if len(array) == array.null_count:
        return None
    if pt.is_boolean(array.type):
        known = np.asarray(pc.is_valid(array))
        yes = np.asarray(array.fill_null(False))
        return Truth(name, yes, known & ~yes)
    if _is_text(array.type):
        return _coded(Strings, name, array, np.arange(len(array)), len(array))
    if pt.is_list(array.type) and _is_text(array.type.value_type):
        rows, words = pc.list_parent_indices(array), pc.list_flatten(array)
        different = pa.table({"row": rows, "word": words}).group_by(["row", "word"], use_threads=False).aggregate([])
        rows, words = np.asarray(different["row"]), different["word"].combine_chunks()
        return _coded(Words, name, words, rows, len(array)) if len(words) else None
    if pt.is_integer(array.type) or pt.is_floating(array.type):
        return _number_column(name, array, dice)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _number_column(name: str, array: pa.Array, dice: np.random.Generator) -> Column | None:
    if pt.is_uint64(array.type):  # of which some fit no literal
        array = array.cast(pa.float64(), safe=False)
    if pt.is_integer(array.type) and len(pc.unique(array)) <= FEW_NUMBERS:
        return _coded(Choices, name, array, np.arange(len(array)), len(array))
    numbers, present = np.asarray(array.fill_null(0)), np.asarray(pc.is_valid(array))
    return Quantities(name, numbers, present, dice) if (present & np.isfinite(numbers)).any() else None


def _coded(kind: type[Choices], name: str, array: pa.Array, rows: Ints, events: int) -> Choices | None:
    """Values, the most frequent first (the lower of equally frequent ones), and the events that have them."""
    usable = pc.is_valid(array)
    if _is_text(array.type):
        usable = pc.and_(usable, pc.less_equal(pc.utf8_length(array), LONGEST_TEXT).fill_null(False))
    coded = array.filter(usable).dictionary_encode()
    codes, values = np.asarray(coded.indices).astype(np.int64), coded.dictionary.to_pylist()
    if not values:
        return None
    counts = np.bincount(codes)
    order = sorted(range(len(values)), key=lambda code: (-counts[code], values[code]))
    rank = np.argsort(order)
    return kind(name, [values[code] for code in order], rank[codes], rows[np.asarray(usable)], events)


def _nearest(shares: Floats, wanted: float) -> int:
    """By ratio: a tenth of what is wanted is as far from it as ten times as much."""
    return int(np.abs(np.log(np.maximum(shares, LEAST_SHARE)) - np.log(max(wanted, LEAST_SHARE))).argmin())
