"""Sub-channels: the content space cut into a grid, so that rates are histograms and subscriptions are sets of cells.

1. Sub-channels are a partition of all events, in the numbering of the pipeline's histograms: bins of an attribute begin
   at an edge, one bin is below all edges, and the last one is of events without the attribute.
2. A subscription is its smallest cover: all sub-channels that it may want something of. Forwarding is exact, so a cover
   that is too wide only makes planning coarser. ``parts`` says how much of a cell a subscription takes, by its volume.
3. Where filters have few different ends, all of them are edges, and covers are exact. Else edges are spread evenly
   between the least and the greatest end (the paper's histogram), or by the quantiles of the ends.

Only attributes that are numbers are cut. Filters that speak of no number have one sub-channel, which is everything.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.subchannels import count_covers, cover
from overstory.planners.steps import Boxes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PRESENT, ABSENT = 2, 3  # kinds of ranges that say whether an attribute is there at all
MOST_CELLS = 1 << 20  # of a grid


class Covers(NamedTuple):
    """Of filter i the channels between offsets i and i + 1, ascending, and the part that it takes of each."""

    offsets: Ints
    channels: Ints
    parts: Floats


def grid_for(boxes: Boxes, count: int, even: bool) -> dict[str, Floats]:
    """The edges of each attribute that filters compare with numbers, for about ``count`` sub-channels in all."""
    low, high, open_low, open_high = boxes.ends()
    begins = np.where(open_low, np.nextafter(low, np.inf), low)
    ends = np.where(open_high, high, np.nextafter(high, np.inf))
    numbers = [
        (name, np.concatenate([side[(boxes.attribute == at) & np.isfinite(side)] for side in (begins, ends)]))
        for at, name in enumerate(boxes.names)
        if np.isfinite(low[boxes.attribute == at]).any() or np.isfinite(high[boxes.attribute == at]).any()
    ]
    each = max(round(min(count, MOST_CELLS) ** (1 / max(len(numbers), 1))), 1)
    return {name: _edges(points, each, even) for name, points in numbers}


def _edges(points: Floats, cells: int, even: bool) -> Floats:
    distinct = np.unique(points)
    if len(distinct) <= cells + 1:
        return distinct
    if even:
        return np.linspace(distinct[0], distinct[-1], cells + 1)
    return np.unique(np.quantile(points, np.linspace(0, 1, cells + 1), method="nearest"))


def size_of(grid: Mapping[str, Floats]) -> int:
    """How many sub-channels there are."""
    return int(np.prod([len(edges) + 2 for edges in grid.values()], dtype=np.int64))


def texts_of(grid: Mapping[str, Floats], channels: Ints) -> list[str]:
    """The predicates of some sub-channels; those of all of them are a partition."""
    found = []
    for channel in channels.tolist():
        terms: list[str] = []
        for name, edges in reversed(list(grid.items())):
            channel, bin_ = divmod(channel, len(edges) + 2)
            terms.append(_term(name, edges, bin_))
        found.append(" AND ".join(term for term in reversed(terms)) or "TRUE")
    return found


def _term(name: str, edges: Floats, bin_: int) -> str:
    if bin_ == len(edges) + 1:
        return f"{name} IS NULL"
    if not len(edges):
        return f"{name} IS NOT NULL"
    if bin_ == 0:
        return f"{name} < {edges[0].item()!r}"
    if bin_ == len(edges):
        return f"{name} >= {edges[-1].item()!r}"
    return f"{name} >= {edges[bin_ - 1].item()!r} AND {name} < {edges[bin_].item()!r}"


def covers_of(boxes: Boxes, grid: Mapping[str, Floats]) -> Covers:
    """The smallest cover of every filter."""
    count, dimensions = len(boxes.range_offsets) - 1, len(grid)
    sizes = np.array([len(edges) + 2 for edges in grid.values()], np.int64)
    first, last = np.zeros((count, dimensions), np.int64), np.tile(sizes - 1, (count, 1))
    first_part, last_part = np.ones((count, dimensions)), np.ones((count, dimensions))
    box_of_range = np.repeat(np.arange(count), np.diff(boxes.range_offsets))
    low, high, _, open_high = boxes.ends()
    for dimension, (name, edges) in enumerate(grid.items()):
        mine = np.flatnonzero(boxes.attribute == boxes.names.index(name))
        box, kind = box_of_range[mine], boxes.kind[mine]
        bins = _bins(edges, low[mine], high[mine], open_high[mine])
        present, absent = len(edges), len(edges) + 1
        last[box, dimension] = np.where(kind == ABSENT, absent, np.where(np.isnan(high[mine]), present, bins[1]))
        first[box, dimension] = np.where(kind == ABSENT, absent, np.where(np.isnan(low[mine]), 0, bins[0]))
        ends = _parts(edges, low[mine], high[mine], open_high[mine], *bins)
        first_part[box, dimension], last_part[box, dimension] = ends
    offsets = np.concatenate([[0], np.cumsum(count_covers(first, last))])
    parts = np.empty(offsets[-1])
    channels = cover(sizes, first, last, first_part, last_part, offsets, parts)
    return _together(boxes.offsets, offsets, channels, parts, size_of(grid))


def _bins(edges: Floats, low: Floats, high: Floats, open_high: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    first = np.searchsorted(edges, np.nan_to_num(low, nan=-np.inf), "right")
    end = np.nan_to_num(high, nan=np.inf)
    last = np.where(open_high, np.searchsorted(edges, end, "left"), np.searchsorted(edges, end, "right"))
    return first, np.maximum(first, np.where(np.isposinf(end), len(edges), last))


def _parts(
    edges: Floats, low: Floats, high: Floats, open_high: NDArray[np.bool_], first: Ints, last: Ints
) -> tuple[Floats, Floats]:
    """How much of its first and its last bin a range takes; of a bin without an end it takes all. A single value takes
    all of a bin that has no other; else an equal part of all the single values that filters name in its bin."""
    begins, ends = np.concatenate([[-np.inf], edges]), np.concatenate([edges, [np.inf]])
    beyond = np.where(open_high, high, np.nextafter(high, np.inf))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = [
            (np.minimum(beyond, ends[at]) - np.maximum(low, begins[at])) / (ends[at] - begins[at])
            for at in (first, last)
        ]
    one, other = (np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0) for part in found)
    single = low == high
    _, at = np.unique(low[single], return_index=True)
    named = np.bincount(first[single][at], minlength=len(edges) + 2)
    alike = np.where(single, 1.0 / np.maximum(named[first], 1), 0.0)
    return np.maximum(one, alike), np.maximum(other, alike)


def _together(of_filter: Ints, of_box: Ints, channels: Ints, parts: Floats, size: int) -> Covers:
    """Channels by filter instead of by box, each once; boxes of one filter are taken for apart from each other."""
    count = len(of_filter) - 1
    box = np.repeat(np.arange(len(of_box) - 1), np.diff(of_box))
    filter_ = np.searchsorted(of_filter, box, "right") - 1
    keys, which = np.unique(filter_ * size + channels, return_inverse=True)
    together = np.minimum(np.bincount(which.reshape(-1), parts, len(keys)), 1.0)
    offsets = np.searchsorted(keys, np.arange(count + 1) * size)
    return Covers(offsets, keys % size, together)
