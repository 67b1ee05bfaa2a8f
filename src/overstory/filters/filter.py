"""A filter: what a subscriber wants, as syntax to evaluate and as boxes to compare."""

from collections.abc import Mapping
from typing import TypeVar

from overstory.errors import UsageError
from overstory.filters.boxes import Box, simplified_in_part
from overstory.filters.evaluate import Test, compile_condition
from overstory.filters.printing import print_boxes
from overstory.filters.relations import Union, box_covers, exact_between
from overstory.filters.syntax import Condition, Or
from overstory.filters.volume import Distribution, volume
from overstory.model.values import Attributes

T = TypeVar("T")


def checked_filter(wanted: T) -> T:
    """Returns the filter that is given. Raises UsageError for anything else, such as a filter's text."""
    if not isinstance(wanted, Filter):
        advice = "; make one with parse_filter" if isinstance(wanted, (str, bytes)) else ""
        raise UsageError(f"a Filter is wanted, not {type(wanted).__name__}{advice}")
    return wanted


class Filter:
    """An immutable predicate over events, made by ``parse_filter`` and ``union``. Equal boxes make filters equal."""

    __slots__ = ("_hash", "_ready", "_test", "_text", "boxes", "condition", "hulls")

    def __init__(self, condition: Condition, boxes: tuple[Box, ...]) -> None:
        self.condition = condition
        self.boxes = boxes
        self._test: Test | None = None
        self._ready: Union | None = None
        self._hash: int | None = None
        self._text: str | None = None
        self.hulls: object = None  # what ``matching.covering`` files it by, made once for all indexes that it is in

    def evaluate(self, attributes: Attributes) -> bool | None:
        """The truth of the filter for an event: True, False, or None for unknown."""
        if self._test is None:
            self._test = compile_condition(self.condition)
        return self._test(attributes)

    def matches(self, attributes: Attributes) -> bool:
        return self.evaluate(attributes) is True

    def covers(self, other: "Filter") -> bool:
        """Whether every event that matches ``other`` matches this one. Exact on boxes. Elsewhere it may miss a yes."""
        theirs = checked_filter(other).boxes
        if len(self.boxes) == 1 and len(theirs) == 1:  # what is asked most
            return box_covers(self.boxes[0], theirs[0])
        return self._union().covers(other._union())

    def leaves_out(self, other: "Filter") -> bool:
        """Whether some event surely matches ``other`` and not this one. It may miss a yes."""
        return self.is_exact_with(other) and not self._union().covers(other._union(), if_too_much=True)

    def intersects(self, other: "Filter") -> bool:
        """Whether some event matches both. Exact on boxes. Elsewhere it may say yes too often."""
        return self._union().intersects(checked_filter(other)._union())

    def equals(self, other: "Filter") -> bool:
        """Whether both match the same events, as far as ``covers`` can tell."""
        return self.covers(other) and other.covers(self)

    def union(self, *others: "Filter") -> "Filter":
        conditions: list[Condition] = []
        filters = (self, *map(checked_filter, others))
        for wanted in filters:
            # Flat, so that a union of unions does not grow deeper and deeper
            conditions += wanted.condition.operands if isinstance(wanted.condition, Or) else (wanted.condition,)
        boxes = [box for wanted in filters for box in wanted.boxes]
        return Filter(Or(tuple(conditions)), simplified_in_part(boxes))

    def volume(self, distributions: Mapping[str, Distribution]) -> float:
        """The probability that an event with these independent attributes matches; residuals are taken as true."""
        return volume(self.boxes, distributions)

    def is_exact_with(self, other: "Filter") -> bool:
        """Whether ``covers`` and ``intersects`` between the two are exact, not only safe."""
        return exact_between(self.boxes, checked_filter(other).boxes)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Filter) and self._key() == other._key())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def _union(self) -> Union:
        if self._ready is None:
            self._ready = Union(self.boxes)
        return self._ready

    def _key(self) -> frozenset[object]:
        return frozenset(box.key() for box in self.boxes)

    def __reduce__(self) -> tuple[type, tuple[Condition, tuple[Box, ...]]]:
        return Filter, (self.condition, self.boxes)  # what is made on first use is not pickled

    def __str__(self) -> str:
        if self._text is None:
            self._text = print_boxes(self.boxes)
        return self._text

    def __repr__(self) -> str:
        return f"parse_filter({str(self)!r})"
