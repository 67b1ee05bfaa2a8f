"""Covering: the boxes that enclose a given one, and those that it encloses. Only ranges are compared.

The tree is that of ``tree``. A box that encloses another reaches as far on both sides, so it is looked for as an event
is, with an interval in the place of each value. A box that is enclosed starts and ends within: the threshold of a node
tells on which side it cannot be, and so do the bins at the ends.

Both take the arrays of a Store one by one, and the ranges, each as attribute, low and high, behind them: a call takes
longer to look at tuples of arrays.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import (
    BINS,
    IN_USE,
    SETS,
    WIDEST,
    bin_of,
    bins_size,
    box_of,
    first_bins,
    first_row,
    lowest_bit,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.records import ranges_of
from overstory.kernels.store import (
    ATTRIBUTES,
    BLOCK,
    EITHER,
    HIGH,
    LOW,
    ROOT,
    TOKENS_USED,
    Store,
    with_room,
)
from overstory.kernels.texts import NUMBER


@kernel
def enclosing(*arrays: Array) -> Array:
    """Filters with a box whose every range holds the range here."""
    return _found(Store(*arrays[:10]), arrays[10], True)


@kernel
def enclosed(*arrays: Array) -> Array:
    """Filters with a box that has, for each range here, one within it."""
    return _found(Store(*arrays[:10]), arrays[10], False)


@kernel
def _found(store: Store, ranges: Array, outward: bool) -> Array:
    words, (lows, highs) = store.words, _spread(store, ranges)
    rows = np.empty(WIDEST, np.int64)
    found = np.empty(16, np.int64)
    count = 0
    waiting, height = _tops(store, ranges, outward)
    while height:
        height -= 1
        node = store.nodes[waiting[height]]
        if node.kind <= BLOCK:
            if node.kind == BLOCK:
                first, start = first_row(words, node.threshold), node.threshold
                if outward:
                    width = _rows_reaching(words, start, lows, highs, rows)
                else:
                    width = _rows_within(words, start, lows, highs, rows)
            else:
                first, width = node.threshold, 1
                rows[0] = (1 << node.left) - 1
            for word in range(width):
                left = rows[word]
                while left:
                    at = first + 2 * (64 * word + lowest_bit(left))
                    left &= left - 1
                    record = words[at + 1]
                    if _encloses(words, record, lows, highs) if outward else _is_enclosed(words, record, ranges):
                        found, count = _add_filters(store, box_of(words[at]), found, count)
            continue
        waiting = with_room(waiting, height + 2)
        low, high = lows[node.attribute], highs[node.attribute]
        to_left = to_right = True
        if node.kind != EITHER and outward:
            to_left = node.left_low <= low and high <= node.left_high
            to_right = node.right_low <= low and high <= node.right_high
        elif node.kind != EITHER and low != LEAST:
            to_left = node.left_low <= high and low <= node.left_high and (node.kind != LOW or low < node.threshold)
            to_right = (
                node.right_low <= high and low <= node.right_high and (node.kind != HIGH or high >= node.threshold)
            )
        if to_left:
            waiting[height] = node.left
            height += 1
        if to_right:
            waiting[height] = node.right
            height += 1
    return found[:count]


@kernel
def _tops(store: Store, ranges: Array, outward: bool) -> tuple[Array, int]:
    """The nodes to begin at, in a list with room for more, and how many: the root and those below tokens. A box that
    encloses the ranges asks for no number that they do not have; one that is enclosed may ask for any."""
    waiting = np.empty(64, np.int64)
    waiting[0] = ROOT
    height = 1
    for i in range(0, len(ranges), 3) if outward else range(store.counts[TOKENS_USED]):
        token = store.attributes[ranges[i]].facts[NUMBER] if outward else i
        if token != NONE and store.tokens[token].uses and store.tokens[token].child != NONE:
            waiting = with_room(waiting, height + 1)
            waiting[height] = store.tokens[token].child
            height += 1
    return waiting, height


@kernel
def _spread(store: Store, ranges: Array) -> tuple[Array, Array]:
    """By attribute: where the range begins and ends; the open one where there is none."""
    count = max(store.counts[ATTRIBUTES], 1)
    lows, highs = np.full(count, LEAST, np.int64), np.full(count, MOST, np.int64)
    for i in range(0, len(ranges), 3):
        lows[ranges[i]], highs[ranges[i]] = ranges[i + 1], ranges[i + 2]
    return lows, highs


@kernel
def _rows_reaching(words: Array, start: int, lows: Array, highs: Array, rows: Array) -> int:
    """Writes down the rows of a block that are, for each of its attributes, in both the bin where the range begins and
    the one where it ends. Returns how many words that takes: none if there are none."""
    width, at = words[start], first_bins(words, start)
    for word in range(width):
        rows[word] = words[start + IN_USE + word]
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        first = last = at + SETS
        if low != LEAST:
            first += width * (1 + bin_of(words, at, low))
            last += width * (1 + bin_of(words, at, high))
        some = 0
        for word in range(width):
            rows[word] &= words[first + word] & words[last + word]
            some |= rows[word]
        if some == 0:
            return 0
        at += bins_size(width)
    return width


@kernel
def _rows_within(words: Array, start: int, lows: Array, highs: Array, rows: Array) -> int:
    """Writes down the rows of a block that are, for each of its attributes, in some bin of the range, and neither in
    the one before nor in the one behind: the bins of a row have no gaps. Returns how many words that takes."""
    width, at = words[start], first_bins(words, start)
    for word in range(width):
        rows[word] = words[start + IN_USE + word]
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        if low != LEAST:
            bins = at + SETS + width
            first, last = bin_of(words, at, low), bin_of(words, at, high)
            some = 0
            for word in range(width):
                inside, outside = 0, words[at + SETS + word]
                for i in range(first, last + 1):
                    inside |= words[bins + width * i + word]
                if first > 0:
                    outside |= words[bins + width * (first - 1) + word]
                if last < BINS - 1:
                    outside |= words[bins + width * (last + 1) + word]
                rows[word] &= inside & ~outside
                some |= rows[word]
            if some == 0:
                return 0
        at += bins_size(width)
    return width


@kernel
def _encloses(words: Array, record: int, lows: Array, highs: Array) -> bool:
    at = record + 1
    for _ in range(ranges_of(words[record])):
        if lows[words[at]] < words[at + 1] or highs[words[at]] > words[at + 2]:
            return False
        at += 3
    return True


@kernel
def _is_enclosed(words: Array, record: int, ranges: Array) -> bool:
    last = record + 1 + 3 * ranges_of(words[record])
    for i in range(0, len(ranges), 3):
        at = record + 1
        while at < last and words[at] != ranges[i]:
            at += 3
        if at == last or words[at + 1] < ranges[i + 1] or words[at + 2] > ranges[i + 2]:
            return False
    return True


@kernel
def _add_filters(store: Store, box: int, found: Array, count: int) -> tuple[Array, int]:
    link = store.boxes[box].link
    while link != NONE:
        found = with_room(found, count + 1)
        found[count] = store.links[link].filter
        count += 1
        link = store.links[link].next
    return found, count
