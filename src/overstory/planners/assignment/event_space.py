"""Event space as a grid, cut where rectangles begin and end, with the weight of the log's events in it.

Weights are bytes of the events that planners may see. A grid has at most MOST_EDGES edges in each dimension; where
rectangles have more, some are left out, and rectangles are taken to reach to the next edge that is left: they are never
narrower than what subscribers want.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overstory.errors import UsageError
from overstory.model.network import Floats, Ints
from overstory.model.scenario import Scenario
from overstory.planners.steps import Boxes, Steps

MOST_EDGES = 1024
DIMENSIONS = 2
NUMBERS = 0  # the kind of a range of numbers


class EventSpace(NamedTuple):
    """Rectangles are four cells each: see ``kernels.volumes``."""

    names: tuple[str, ...]  # of the attributes
    edges: tuple[Floats, ...]  # of each; cell i + 1 begins at edge i, and the last cell is for events without it
    sums: Floats  # weights of all cells before, in both dimensions
    rectangles: Ints
    visible: int  # bytes of all events that planners may see

    def filter_of(self, boxes: Ints) -> str:
        """A filter that is the union of some boxes, as a text."""
        return " OR ".join(self._box(box.tolist()) for box in boxes)

    def _box(self, box: Sequence[int]) -> str:
        said = []
        for at, (name, edges) in enumerate(zip(self.names, self.edges, strict=True)):
            first, last = box[2 * at], box[2 * at + 1]
            if first > 0:
                said.append(f'"{name}" >= {float(edges[first - 1])!r}')
            if last <= len(edges):
                said.append(f'"{name}" < {float(edges[last - 1])!r}')
            elif last == len(edges) + 1 and first == 0:
                said.append(f'"{name}" IS NOT NULL')
        return " AND ".join(said) or "TRUE"


def event_space(scenario: Scenario, pipeline: Steps, sets: Ints) -> EventSpace:
    """``sets`` are rows of numbers of filters, -1 for none: each row is what a subscriber wants."""
    boxes = pipeline.boxes(scenario)
    low, high, absent = _hulls(boxes)
    low, high, absent = _together(low, high, absent, sets)
    edges = tuple(_edges(low[:, at], high[:, at]) for at in range(low.shape[1]))
    rectangles = _cells(low, high, absent, edges)
    weights = _weights(scenario, pipeline, boxes.names, edges)
    sums = np.zeros((weights.shape[0] + 1, weights.shape[1] + 1))
    sums[1:, 1:] = weights.cumsum(axis=0).cumsum(axis=1)
    if not sums[-1, -1] > 0:
        raise UsageError(
            "event space is empty: the log has no events that a planner may see, so that no filter has one"
        )
    return EventSpace(boxes.names, edges, sums, rectangles, int(sums[-1, -1]))


def _hulls(boxes: Boxes) -> tuple[Floats, Floats, np.ndarray]:
    """By filter and attribute: from where up to where it may be, and whether the attribute may be absent."""
    if len(boxes.names) > DIMENSIONS or not len(boxes.names):
        raise UsageError(
            f"subscriptions speak of {len(boxes.names):,} attributes ({', '.join(boxes.names[:5])}); planners of "
            f"assignment take one or two, such as x >= 1 AND x < 2 AND y >= 0 AND y < 5"
        )
    if (boxes.kind != NUMBERS).any():
        raise UsageError("planners of assignment take subscriptions to ranges of numbers alone")
    starts, ends, open_low, open_high = boxes.ends()
    count, width = len(boxes.offsets) - 1, len(boxes.names)
    owner = np.repeat(np.arange(count), np.diff(boxes.offsets))
    box = np.repeat(np.arange(len(owner)), np.diff(boxes.range_offsets))
    low, high = np.full((len(owner), width), -np.inf), np.full((len(owner), width), np.inf)
    absent = np.ones((len(owner), width), bool)
    low[box, boxes.attribute] = np.where(open_low, np.nextafter(starts, np.inf), starts)
    high[box, boxes.attribute] = np.where(open_high | np.isinf(ends), ends, np.nextafter(ends, np.inf))
    absent[box, boxes.attribute] = False
    hull_low, hull_high = np.full((count, width), np.inf), np.full((count, width), -np.inf)
    may_lack = np.zeros((count, width), bool)
    np.minimum.at(hull_low, owner, low)
    np.maximum.at(hull_high, owner, high)
    np.logical_or.at(may_lack, owner, absent)
    return hull_low, hull_high, may_lack


def _together(low: Floats, high: Floats, absent: np.ndarray, sets: Ints) -> tuple[Floats, Floats, np.ndarray]:
    if sets.shape[1] == 1:
        return low[sets[:, 0]], high[sets[:, 0]], absent[sets[:, 0]]
    given = (sets >= 0)[:, :, None]
    return (
        np.where(given, low[sets], np.inf).min(axis=1),
        np.where(given, high[sets], -np.inf).max(axis=1),
        (given & absent[sets]).any(axis=1),
    )


def _edges(low: Floats, high: Floats) -> Floats:
    every: Floats = np.unique(np.concatenate([low, high]))
    every = every[np.isfinite(every)]
    if len(every) > MOST_EDGES:
        every = every[np.unique(np.round(np.linspace(0, len(every) - 1, MOST_EDGES)).astype(np.int64))]
    return every


def _cells(low: Floats, high: Floats, absent: np.ndarray, edges: tuple[Floats, ...]) -> Ints:
    found = np.zeros((len(low), 2 * DIMENSIONS), np.int64)
    found[:, 1::2] = 1
    for at, cuts in enumerate(edges):
        found[:, 2 * at] = np.searchsorted(cuts, low[:, at], "right")
        last = np.minimum(np.searchsorted(cuts, high[:, at], "left") + 1, len(cuts) + 1)
        found[:, 2 * at + 1] = np.where(absent[:, at], len(cuts) + 2, last)
        found[absent[:, at], 2 * at] = 0
    return found


def _weights(scenario: Scenario, pipeline: Steps, names: tuple[str, ...], edges: tuple[Floats, ...]) -> Floats:
    grid = {name: cuts.tolist() for name, cuts in zip(names, edges, strict=True)}
    histogram = pipeline.histograms(scenario, grid)
    shape = [len(cuts) + 2 for cuts in edges]
    found = np.bincount(histogram.channel, histogram.bytes.astype(np.float64), int(np.prod(shape)))
    return np.asarray(found, np.float64).reshape(shape if len(shape) == DIMENSIONS else (shape[0], 1))
