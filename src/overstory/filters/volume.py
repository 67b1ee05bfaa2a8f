"""Volume: the probability that an event matches, given the distribution of each attribute.

Attributes are taken to be independent. The union is summed attribute by attribute: a distribution splits its values
into cells by which boxes allow them. Overlaps are counted once and no box is ever cut. Residuals are taken as true, so
with them the volume is an upper bound.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Protocol

import msgspec

from overstory.errors import DistributionError
from overstory.filters.box import Box
from overstory.filters.value_sets import Numbers, ValueSet

MOST_STEPS = 750_000  # sets of boxes that may be met by cells, each well under a microsecond


class Distribution(Protocol):
    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        """The cells of values: how likely each is, and which sets allow it, bit i for ``sets[i]``. None allows all."""


class Uniform(msgspec.Struct, frozen=True):
    """A number, all values from ``low`` to ``high`` being equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and isfinite(self.high - self.low)):
            raise DistributionError(f"Uniform({self.low}, {self.high}): low must be less than high, and both finite")

    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        """Sweeps once over all cuts. At each cut, the sets that it belongs to begin or end."""
        allowing = 0
        changes: defaultdict[float, int] = defaultdict(int, {self.low: 0, self.high: 0})
        for i, allowed in enumerate(sets):
            if isinstance(allowed, Numbers):
                for number, _ in allowed.cuts:
                    if number < self.high:
                        changes[max(number, self.low)] ^= 1 << i
            elif allowed is None or allowed.contains(self.low):
                allowing |= 1 << i
        for start, stop in pairwise(sorted(changes)):
            allowing ^= changes[start]
            yield (stop - start) / (self.high - self.low), allowing


class Discrete(msgspec.Struct, frozen=True):
    """Finitely many values with their weights; None stands for absence."""

    weights: Mapping[object, float]

    def __post_init__(self) -> None:
        total = sum(self.weights.values())
        if not (total > 0 and isfinite(total) and min(self.weights.values()) >= 0):
            raise DistributionError("Discrete needs finite weights that are not negative and not all zero")

    def cells(self, sets: Sequence[ValueSet | None]) -> Iterable[tuple[float, int]]:
        total = sum(self.weights.values())
        for value, weight in self.weights.items():
            yield weight / total, _allowing(sets, value)


def volume(boxes: Sequence[Box], distributions: Mapping[str, Distribution]) -> float:
    """The probability that an event is in one of the boxes.

    Walks through the attributes and keeps the probability of each set of boxes that is still possible (bit i for box
    i). A set that holds a box with no attribute left to check is certain, and is kept no longer.
    """
    names = list(dict.fromkeys(name for box in boxes for name in box.sets))
    unknown = [name for name in names if name not in distributions]
    if unknown:
        raise DistributionError(f"no distribution is given for the attribute {unknown[0]!r}; add one")
    finished = _finished(boxes, names)
    steps = 0
    certain = 1.0 if finished[0] else 0.0
    possible: dict[int, float] = {} if finished[0] else {(1 << len(boxes)) - 1: 1.0}
    for name, complete in zip(names, finished[1:], strict=True):
        cells = _split(distributions[name], [box.sets.get(name) for box in boxes])
        steps += len(possible) * len(cells)
        if steps > MOST_STEPS:
            raise DistributionError(
                f"the volume of {len(boxes)} boxes over {len(names)} attributes is too hard to compute"
            )
        left: defaultdict[int, float] = defaultdict(float)
        for before, probability in possible.items():
            for allowing, weight in cells.items():
                left[before & allowing] += probability * weight
        certain += sum(probability for mask, probability in left.items() if mask & complete)
        possible = {mask: probability for mask, probability in left.items() if mask and not mask & complete}
    return min(1.0, certain)


def _finished(boxes: Sequence[Box], names: Sequence[str]) -> list[int]:
    """The boxes (as bits) with nothing left to check: before the first attribute, and after each one."""
    place = {name: i for i, name in enumerate(names, 1)}
    finished = [0] * (len(names) + 1)
    for i, box in enumerate(boxes):
        finished[max((place[name] for name in box.sets), default=0)] |= 1 << i
    return finished


def _split(distribution: Distribution, sets: Sequence[ValueSet | None]) -> dict[int, float]:
    weights: defaultdict[int, float] = defaultdict(float)
    for weight, allowing in distribution.cells(sets):
        weights[allowing] += weight
    return dict(weights)


def _allowing(sets: Sequence[ValueSet | None], value: object) -> int:
    return sum(1 << i for i, allowed in enumerate(sets) if allowed is None or allowed.contains(value))
