"""Slices of the events of a steered flow, in each of which few boxes say more.

A box is a product: what it allows of one attribute, it allows together with all that it allows of another. So a box
that holds two rectangles at different places holds the two places across from them as well. Slices are the diagonals of
a square of cells over two attributes: in a slice no two cells are in the same row or column. The places across from two
cells are in other slices, and one box of a slice tells its cells apart: it has a product of its own in each of them.

Each slice is a flow of its own, with a summary of its own for each host. An event is in one slice, and so on one tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overstory.filters.box import Box
from overstory.filters.printing import print_boxes
from overstory.filters.value_sets import Numbers
from overstory.model.network import Floats, Ints
from overstory.model.values import Attributes


@dataclass(frozen=True)
class Slices:
    """As many as there are bands of either attribute; the cell of bands i and j is in slice i + j, counted round."""

    names: tuple[str, str]
    ends: tuple[tuple[float, ...], tuple[float, ...]]  # of all bands but the last; a band does not hold its end

    @property
    def count(self) -> int:
        return len(self.ends[0]) + 1

    def events(self) -> list[str]:
        """By slice, a filter that says which events it has."""
        (one, rows), (other, columns) = self._bands()
        cells = [
            [Box({one: row, other: columns[(number - at) % self.count]}) for at, row in enumerate(rows)]
            for number in range(self.count)
        ]
        return [print_boxes(some) for some in cells]

    def of_events(self, events: Sequence[Attributes]) -> Ints:
        """By event, its slice; one that lacks a number, and that no box holds, counts as if that were high."""
        at = np.zeros(len(events), np.int64)
        for name, ends in zip(self.names, self.ends, strict=True):
            at += np.searchsorted(np.array(ends), numbers_of(events, name), "right")
        return at % self.count

    def of_box(self, box: Box) -> list[int]:
        """The slices that a box meets, ascending."""
        met = [
            [at for at, band in enumerate(bands) if box.intersect(Box({name: band})) is not None]
            for name, bands in self._bands()
        ]
        return sorted({(one + other) % self.count for one in met[0] for other in met[1]})

    def _bands(self) -> list[tuple[str, list[Numbers]]]:
        return [(name, _bands(ends)) for name, ends in zip(self.names, self.ends, strict=True)]


def slices_of(boxes: Sequence[Box], events: Sequence[Attributes], count: int) -> Slices | None:
    """Slices by two numbers that all boxes constrain, those with most different limits; bands hold about as many events
    each. None if there are no two such numbers, or those of events do not differ enough."""
    limits: dict[str, set[Numbers]] = {name: set() for name in (boxes[0].sets if boxes else ())}
    for name in limits:
        for box in boxes:
            allowed = box.sets.get(name)
            if not isinstance(allowed, Numbers):
                limits[name] = set()
                break
            limits[name].add(allowed)
    names = sorted((name for name, found in limits.items() if found), key=lambda name: (-len(limits[name]), name))
    if len(names) < 2 or count < 2:
        return None
    ends = _ends(numbers_of(events, names[0]), count), _ends(numbers_of(events, names[1]), count)
    return Slices((names[0], names[1]), ends) if all(len(found) == count - 1 for found in ends) else None


def numbers_of(events: Sequence[Attributes], name: str) -> Floats:
    """By event, what an attribute has for a number, or not a number."""
    return np.array([_number(event.get(name)) for event in events], np.float64)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else np.nan


def _ends(values: Floats, count: int) -> tuple[float, ...]:
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return ()
    found = np.unique(known[np.arange(1, count) * len(known) // count])
    return tuple(found[found > known[0]].tolist())


def _bands(ends: tuple[float, ...]) -> list[Numbers]:
    low, high = (-np.inf, *ends), (*ends, None)
    return [
        Numbers(((start, 0),) if stop is None else ((start, 0), (stop, 0)))
        for start, stop in zip(low, high, strict=True)
    ]
