"""Densities: how much each publisher publishes in each channel of a grid, where that is said instead of counted.

1. The table ``densities`` says it: so many bytes of a client, evenly spread over what a filter allows.
2. An advertisement says where a client publishes, and not how much. What a client has announced at the first event is
   taken for even, too, with as many bytes as the client has in the log; one that is not in the log is taken for the
   mean of those that are. Whoever has announced nothing is summarised from the log.
3. Even means by volume, over the attributes of the grid: of whole numbers each counts alike, of others a single value
   counts only where a filter allows nothing else. Where a filter has no end, it goes on to the last end that the grid
   or any of these filters has. Other attributes are not looked at.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import DataError, UsageError
from overstory.model.folders import problems_at
from overstory.model.scenario import Scenario
from overstory.model.tables import DENSITIES
from overstory.pipeline.boxes import ABSENT, Boxes
from overstory.pipeline.histograms import Histogram
from overstory.pipeline.history import timeline_of
from overstory.pipeline.match import SHARES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Grid = Mapping[str, Sequence[float]]
DENSITY, ADVERTISEMENTS = SOURCES = ("density", "advertisements")
SEEN = SHARES[1] / 100  # of the log, by planners


class Rates(NamedTuple):
    """One row for each publisher and channel, in this order."""

    publisher: Ints  # its id
    channel: Ints
    bytes: Floats  # in a window as long as that of the log


class Said(NamedTuple):
    """What clients say: bytes of a client, spread over one of some filters."""

    client: Ints  # its id
    filter: Ints
    bytes: Floats


def given_texts(scenario: Scenario) -> pa.ChunkedArray:
    """The filters of the table. Raises a ``UsageError`` where there is none."""
    if not scenario.densities.num_rows:
        raise UsageError(
            f"traffic={DENSITY}: the scenario has no table {DENSITIES.name}, which says what clients publish; write "
            f"one, or take traffic=log"
        )
    return scenario.densities["filter"]


def announced_texts(scenario: Scenario) -> tuple[Ints, pa.ChunkedArray]:
    """The clients that have announced something at the first event, and what. Raises a ``UsageError`` if none has."""
    announced = timeline_of(scenario).announced
    if not announced:
        raise UsageError(
            f"traffic={ADVERTISEMENTS}: no client has announced anything before the first event; add rows to the table "
            f"changes, or take traffic=log"
        )
    clients = sorted(announced)
    texts = [str(announced[client]) for client in clients]
    return np.array(clients, np.int64), pa.chunked_array([pa.array(texts, pa.string())])


def rates_given(scenario: Scenario, codes: Ints, boxes: Boxes, grid: Grid) -> Rates:
    """By the table ``densities``; ``boxes`` are those of its distinct filters, ``codes`` their numbers by row."""
    rows = scenario.densities
    nothing = np.diff(boxes.offsets)[codes] == 0
    if nothing.any():
        problems = problems_at(
            np.flatnonzero(nothing).tolist(), DENSITIES.name, "filter", lambda _: "no event can match it"
        )
        raise DataError.about(f"the scenario {scenario.folder}", problems)
    return _spread_rates(Said(rows["client"].to_numpy(), codes, rows["bytes"].to_numpy()), scenario, boxes, grid)


def rates_announced(
    scenario: Scenario, clients: Ints, codes: Ints, boxes: Boxes, grid: Grid, counted: Histogram
) -> Rates:
    """By advertisements, with the bytes of the log. Clients that announced that they publish nothing do not."""
    publishers, which = np.unique(counted.publisher, return_inverse=True)
    by_publisher = np.bincount(which.reshape(-1), counted.bytes, len(publishers)) / SEEN
    usual = float(by_publisher.mean()) if len(publishers) else 1.0
    at = np.minimum(np.searchsorted(publishers, clients), max(len(publishers) - 1, 0))
    known = publishers[at] == clients if len(publishers) else np.zeros(len(clients), bool)
    amount = np.where(known, by_publisher[at] if len(publishers) else usual, usual)
    said = _spread_rates(Said(clients, codes, amount), scenario, boxes, grid)
    silent = ~np.isin(counted.publisher, clients)
    return _summed(
        np.concatenate([said.publisher, counted.publisher[silent]]),
        np.concatenate([said.channel, counted.channel[silent]]),
        np.concatenate([said.bytes, counted.bytes[silent] / SEEN]),
    )


def _spread_rates(said: Said, scenario: Scenario, boxes: Boxes, grid: Grid) -> Rates:
    whole = {name for name, type_ in scenario.attributes.items() if pa.types.is_integer(type_)}
    offsets, channel, share = spread(boxes, grid, whole)
    count = np.diff(offsets)[said.filter]
    at = np.repeat(offsets[said.filter] - (np.cumsum(count) - count), count) + np.arange(count.sum())
    return _summed(np.repeat(said.client, count), channel[at], np.repeat(said.bytes, count) * share[at])


def _summed(publisher: Ints, channel: Ints, size: Floats) -> Rates:
    """Equal publishers and channels become one row; those without bytes are left out."""
    some = size > 0
    ids, who = np.unique(publisher[some], return_inverse=True)
    width = int(channel.max(initial=0)) + 1
    keys, which = np.unique(who.reshape(-1) * width + channel[some], return_inverse=True)
    sums = np.bincount(which.reshape(-1), size[some], len(keys)).astype(np.float64)
    return Rates(ids[keys // width], keys % width, sums)


def spread(boxes: Boxes, grid: Grid, whole: AbstractSet[str] = frozenset()) -> tuple[Ints, Ints, Floats]:
    """Of filter i, between offsets i and i + 1, the channels that it allows something of, and which share of all that
    it allows is there. ``whole`` are attributes whose values are whole numbers."""
    count = len(boxes.range_offsets) - 1
    box, channel, share = np.arange(count), np.zeros(count, np.int64), np.ones(count)
    weight, points = np.ones(count), np.zeros(count, np.int64)
    for name, cuts in grid.items():
        edges = np.asarray(cuts, np.float64)
        edges = np.ceil(edges) if name in whole else edges
        low, high, absent = _sides(boxes, name, edges, name in whole)
        width = np.where(absent, 1.0, high - low)
        weight *= np.where(width > 0, width, 1.0)
        points += width == 0
        first = np.where(absent, len(edges) + 1, np.searchsorted(edges, low, "right"))
        last = np.maximum(first, np.where(absent, first, np.searchsorted(edges, high, "left")))
        many = (last - first + 1)[box]
        bins = np.repeat(first[box] - (np.cumsum(many) - many), many) + np.arange(many.sum())
        box = np.repeat(box, many)
        channel = np.repeat(channel, many) * (len(edges) + 2) + bins
        share = np.repeat(share, many) * _overlap(edges, low[box], high[box], bins)
    return _by_filter(boxes, box, channel, share * _weights(boxes, weight, points)[box])


def _sides(boxes: Boxes, name: str, edges: Floats, whole: bool) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """By box where its range of an attribute begins and ends, and whether it wants the attribute to be absent. Ranges
    of whole numbers end before the next one."""
    count = len(boxes.range_offsets) - 1
    mine = np.flatnonzero(boxes.attribute == boxes.names.index(name)) if name in boxes.names else np.empty(0, np.int64)
    begins, ends, open_low, open_high = (values[mine] for values in boxes.ends())
    if whole:
        begins = np.where(open_low, np.floor(begins) + 1, np.ceil(begins))
        ends = np.where(open_high, np.ceil(ends), np.floor(ends) + 1)
    known = np.concatenate([edges, begins[np.isfinite(begins)], ends[np.isfinite(ends)]])
    least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    low, high, absent = np.full(count, least), np.full(count, most), np.zeros(count, bool)
    box = np.repeat(np.arange(count), np.diff(boxes.range_offsets))[mine]
    low[box] = np.where(np.isfinite(begins), begins, least)
    high[box] = np.where(np.isfinite(ends), ends, most)
    absent[box] = boxes.kind[mine] == ABSENT
    return low, high, absent


def _overlap(edges: Floats, low: Floats, high: Floats, bins: Ints) -> Floats:
    """The share of ranges that is in a bin; ranges of a single value, and events without the attribute, are in one."""
    begins, ends = np.concatenate([[-np.inf], edges, [-np.inf]]), np.concatenate([edges, [np.inf, np.inf]])
    width = high - low
    inside = np.minimum(high, ends[bins]) - np.maximum(low, begins[bins])
    spread_out = (width > 0) & (bins <= len(edges))
    found: Floats = np.where(spread_out, np.maximum(inside, 0.0) / np.where(width > 0, width, 1.0), 1.0)
    return found


def _weights(boxes: Boxes, weight: Floats, points: Ints) -> Floats:
    """By box: its share of the filter's volume. Only boxes with the fewest attributes of a single value count."""
    filter_ = np.repeat(np.arange(len(boxes.offsets) - 1), np.diff(boxes.offsets))
    fewest = np.full(len(boxes.offsets) - 1, np.iinfo(np.int64).max)
    np.minimum.at(fewest, filter_, points)
    counts = np.where(points == fewest[filter_], weight, 0.0)
    total = np.bincount(filter_, counts, len(fewest))
    found: Floats = counts / np.where(total > 0, total, 1.0)[filter_]
    return found


def _by_filter(boxes: Boxes, box: Ints, channel: Ints, share: Floats) -> tuple[Ints, Ints, Floats]:
    filter_ = np.searchsorted(boxes.offsets, box, "right") - 1
    width = int(channel.max(initial=0)) + 1
    keys, which = np.unique(filter_[share > 0] * width + channel[share > 0], return_inverse=True)
    shares = np.bincount(which.reshape(-1), share[share > 0], len(keys)).astype(np.float64)
    offsets = np.searchsorted(keys, np.arange(len(boxes.offsets)) * width).astype(np.int64)
    return offsets, keys % width, shares
