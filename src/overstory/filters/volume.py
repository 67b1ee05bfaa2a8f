"""Volume: the probability that an event matches, given the distribution of each attribute.

Attributes are taken to be independent. The union is summed attribute by attribute: a distribution splits its values
into cells by which boxes allow them, and what remains is the same question about the other attributes and the
boxes still possible. Overlaps are counted once and no box is ever cut. Residuals are taken as true, so with them
the volume is an upper bound.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Protocol

import msgspec

from overstory.errors import DistributionError
from overstory.filters.boxes import Box
from overstory.filters.value_sets import Numbers, ValueSet


class Distribution(Protocol):
    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        """Probabilities, and for each the sets (bit i for ``sets[i]``) that allow it; None allows everything."""


class Uniform(msgspec.Struct, frozen=True):
    """A number, all values from ``low`` to ``high`` being equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise DistributionError(f"Uniform({self.low}, {self.high}) is empty; low must be less than high")

    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        inside = {self.low, self.high}
        for allowed in sets:
            if isinstance(allowed, Numbers):
                inside.update(cut[0] for cut in allowed.cuts if self.low < cut[0] < self.high)
        for start, stop in pairwise(sorted(inside)):
            yield (stop - start) / (self.high - self.low), _allowing(sets, start + (stop - start) / 2)


class Discrete(msgspec.Struct, frozen=True):
    """Finitely many values with their weights; None stands for absence."""

    weights: Mapping[object, float]

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights.values()) < 0 or not sum(self.weights.values()) > 0:
            raise DistributionError("Discrete needs weights that are not negative and not all zero")

    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        total = sum(self.weights.values())
        for value, weight in self.weights.items():
            yield weight / total, _allowing(sets, value)


def volume(boxes: Sequence[Box], distributions: Mapping[str, Distribution]) -> float:
    names = sorted({name for box in boxes for name in box.sets})
    unknown = [name for name in names if name not in distributions]
    if unknown:
        raise DistributionError(f"no distribution is given for the attribute {unknown[0]!r}; add one")
    splits = [_split(distributions[name], [box.sets.get(name) for box in boxes]) for name in names]

    @cache
    def probability(depth: int, possible: int) -> float:
        if not possible or depth == len(splits):
            return 1.0 if possible else 0.0
        parts: defaultdict[int, float] = defaultdict(float)
        for allowing, weight in splits[depth].items():
            parts[possible & allowing] += weight
        return sum(weight * probability(depth + 1, left) for left, weight in parts.items())

    return min(1.0, probability(0, (1 << len(boxes)) - 1))


def _split(distribution: Distribution, sets: Sequence[ValueSet | None]) -> dict[int, float]:
    weights: defaultdict[int, float] = defaultdict(float)
    for weight, allowing in distribution.cells(sets):
        weights[allowing] += weight
    return dict(weights)


def _allowing(sets: Sequence[ValueSet | None], value: object) -> int:
    return sum(1 << i for i, allowed in enumerate(sets) if allowed is None or allowed.contains(value))
