"""Arithmetic that filters compare, such as ``high - low > 3``, worked out for many events at once.

Comparisons that differ only in their constants have one *shape*, so whatever events they are asked of, they are one
piece of work on columns of floats.

The law: an answer is that of ``filters.evaluate``, or there is none and Python is asked. Floats give what integers do
for as long as nothing reaches 2^53, so where something does there is no answer; nor where a value is no plain number.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters.boxes import Box
from overstory.filters.operators import COMPARISONS
from overstory.filters.syntax import Arithmetic, Attribute, Compare, Literal, Signed, Value
from overstory.kernels.keys import EXACT
from overstory.matching.batch import Batch, Column, Numbers

Floats = NDArray[np.float64]  # NaN where unknown
Mask = NDArray[np.bool_]
Shape = tuple[object, ...]  # the operator and what it works on: shapes, names, and places of constants

FEW = 16  # questions of one shape that Python answers faster
OPERATORS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


class Comparison(NamedTuple):
    shape: Shape
    constants: tuple[float, ...]


def comparison_of(box: Box) -> Comparison | None:
    """The comparison of numbers that the box asks for; None if it asks for anything else."""
    if box.sets or len(box.residuals) != 1:
        return None
    (residual,) = box.residuals
    # Two bare attributes may also be equal as texts.
    if not isinstance(residual, Compare) or (
        isinstance(residual.left, Attribute) and isinstance(residual.right, Attribute)
    ):
        return None
    constants: list[float] = []
    left, right = _shape_of(residual.left, constants), _shape_of(residual.right, constants)
    if left is None or right is None:
        return None
    return Comparison((residual.operator, left, right), tuple(constants))


def _shape_of(value: Value, constants: list[float]) -> Shape | str | int | None:
    if isinstance(value, Attribute):
        return value.name
    if isinstance(value, Literal):
        if isinstance(value.value, (bool, str)):
            return None
        constants.append(float(value.value))
        return len(constants) - 1
    if isinstance(value, Signed):
        operand = _shape_of(value.operand, constants)
        return None if operand is None else (value.sign, operand)
    if isinstance(value, Arithmetic):
        left, right = _shape_of(value.left, constants), _shape_of(value.right, constants)
        return None if left is None or right is None else (value.operator, left, right)
    return None


def answers(
    comparisons: list[Comparison | None], which: NDArray[np.int64], events: NDArray[np.int64], batch: Batch
) -> tuple[Mask, Mask]:
    """Which questions have an answer here, and which of those are yes. A question is a comparison and an event."""
    answered, yes = np.zeros(len(which), np.bool_), np.zeros(len(which), np.bool_)
    shapes: dict[Shape, list[int]] = {}
    for number, comparison in enumerate(comparisons):
        if comparison is not None:
            shapes.setdefault(comparison.shape, []).append(number)
    group = np.full(len(comparisons), -1)
    for number, members in enumerate(shapes.values()):
        group[members] = number
    of_question = group[which]
    for number, (shape, members) in enumerate(shapes.items()):
        asked = np.flatnonzero(of_question == number)
        if len(asked) >= FEW:
            constants = np.array([comparisons[member].constants for member in members])  # type: ignore[union-attr]
            rows = np.searchsorted(members, which[asked])
            work = _Work(batch.columns, events[asked], constants[rows])
            truth = work.compared(shape)
            answered[asked], yes[asked] = work.sure, truth
    return answered, yes


class _Work:
    """One shape and all events that it is asked of, with the constants of each question."""

    def __init__(self, columns: Mapping[str, Column], events: NDArray[np.int64], constants: Floats) -> None:
        self.columns, self.events, self.constants = columns, events, constants
        self.sure = np.ones(len(events), np.bool_)

    def compared(self, shape: Shape) -> Mask:
        operator, left, right = shape
        with np.errstate(all="ignore"):
            x, y = self._values(left), self._values(right)
            holds: Any = COMPARISONS[str(operator)].holds  # on arrays, element by element
            truth: Mask = holds(x, y) & ~np.isnan(x) & ~np.isnan(y)
            return truth

    def _values(self, shape: Any) -> Floats:
        if isinstance(shape, str):
            values = self._column(shape)
        elif isinstance(shape, int):
            values = self.constants[:, shape]
        elif len(shape) == 2:
            values = self._values(shape[1])
            values = -values if shape[0] == "-" else values
        else:
            values = OPERATORS[shape[0]](self._values(shape[1]), self._values(shape[2]))
        self.sure &= ~(np.abs(values) >= EXACT)
        return values

    def _column(self, name: str) -> Floats:
        column = self.columns.get(name)
        if column is None:
            return np.full(len(self.events), np.nan)
        if not isinstance(column, Numbers) or column.values.dtype.kind not in "fiu" or column.values.itemsize > 8:
            self.sure[:] = False
            return np.zeros(len(self.events))
        values = column.values[self.events].astype(np.float64)
        if column.present is not None:
            values[~column.present[self.events]] = np.nan
        return values
