"""Covering: the boxes that enclose a given one, and those that it encloses. Only ranges are compared.

The tree is that of ``tree``. A box that encloses another reaches as far on both sides, so it is looked for as an event
is, with an interval in the place of each value. A box that is enclosed starts and ends within: the threshold of a node
tells on which side it cannot be, and so do the bins outside.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.store import ATTRIBUTES, BLOCK, EITHER, HIGH, LOW, NONE, ROOT, TOKENS_USED, Store, with_room
from overstory.kernels.texts import NUMBER
from overstory.kernels.tree import (
    BINNED,
    FIRST_BINS,
    OPEN,
    ROWS,
    SETS,
    bin_of,
    box_of,
    lowest_bit,
    range_of,
    ranges_of,
)


@kernel
def enclosing(store: Store, ranges: Array) -> Array:
    """Filters with a box whose every range holds the range here; ``ranges`` are attribute, low, high."""
    lows, highs = _spread(store, ranges)
    found = np.empty(16, np.int64)
    count = 0
    waiting = np.empty(64, np.int64)
    waiting[0] = ROOT
    height = 1
    for i in range(0, len(ranges), 3):
        token = store.attributes[ranges[i]].facts[NUMBER]
        if token != NONE and store.tokens[token].child != NONE:
            waiting = with_room(waiting, height + 1)
            waiting[height] = store.tokens[token].child
            height += 1
    while height:
        height -= 1
        node = store.nodes[waiting[height]]
        if node.kind <= BLOCK:
            rows = store.words[node.threshold] if node.kind == BLOCK else (np.int64(1) << node.left) - 1
            if node.kind == BLOCK:
                rows = _reaching(store.words, node.threshold, rows, lows, highs)
            first = node.threshold + (ROWS if node.kind == BLOCK else 0)
            while rows:
                at = first + 2 * lowest_bit(rows)
                rows &= rows - 1
                if _encloses(store.words, store.words[at + 1], lows, highs):
                    found, count = _add_filters(store, box_of(store.words[at]), found, count)
            continue
        waiting = with_room(waiting, height + 2)
        low, high = lows[node.attribute], highs[node.attribute]
        if node.kind == EITHER or (node.left_low <= low and high <= node.left_high):
            waiting[height] = node.left
            height += 1
        if node.kind == EITHER or (node.right_low <= low and high <= node.right_high):
            waiting[height] = node.right
            height += 1
    return found[:count]


@kernel
def enclosed(store: Store, ranges: Array) -> Array:
    """Filters with a box that has, for each range here, one within it."""
    lows, highs = _spread(store, ranges)
    found = np.empty(16, np.int64)
    count = 0
    waiting = np.empty(64, np.int64)
    waiting[0] = ROOT
    height = 1
    for token in range(store.counts[TOKENS_USED]):
        if store.tokens[token].uses and store.tokens[token].child != NONE:
            waiting = with_room(waiting, height + 1)
            waiting[height] = store.tokens[token].child
            height += 1
    while height:
        height -= 1
        node = store.nodes[waiting[height]]
        if node.kind <= BLOCK:
            rows = store.words[node.threshold] if node.kind == BLOCK else (np.int64(1) << node.left) - 1
            if node.kind == BLOCK:
                rows = _within(store.words, node.threshold, rows, lows, highs)
            first = node.threshold + (ROWS if node.kind == BLOCK else 0)
            while rows:
                at = first + 2 * lowest_bit(rows)
                rows &= rows - 1
                box = box_of(store.words[at])
                if _is_enclosed(store, box, ranges):
                    found, count = _add_filters(store, box, found, count)
            continue
        waiting = with_room(waiting, height + 2)
        low, high = lows[node.attribute], highs[node.attribute]
        anywhere = low == LEAST or node.kind == EITHER
        if anywhere or (node.left_low <= high and low <= node.left_high and (node.kind != LOW or low < node.threshold)):
            waiting[height] = node.left
            height += 1
        if anywhere or (
            node.right_low <= high and low <= node.right_high and (node.kind != HIGH or high >= node.threshold)
        ):
            waiting[height] = node.right
            height += 1
    return found[:count]


@kernel
def _spread(store: Store, ranges: Array) -> tuple[Array, Array]:
    """By attribute: where the range begins and ends; the open one where there is none."""
    count = max(store.counts[ATTRIBUTES], 1)
    lows, highs = np.full(count, LEAST, np.int64), np.full(count, MOST, np.int64)
    for i in range(0, len(ranges), 3):
        lows[ranges[i]], highs[ranges[i]] = ranges[i + 1], ranges[i + 2]
    return lows, highs


@kernel
def _reaching(words: Array, start: int, rows: int, lows: Array, highs: Array) -> int:
    """The rows that are in both the bin where the range begins and the one where it ends."""
    at = start + FIRST_BINS
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        if low == LEAST:
            rows &= words[at + OPEN]
        else:
            rows &= words[at + SETS + bin_of(words, at, low)] & words[at + SETS + bin_of(words, at, high)]
        at += BINNED
    return rows


@kernel
def _within(words: Array, start: int, rows: int, lows: Array, highs: Array) -> int:
    """The rows that are in no bin outside of the range."""
    at = start + FIRST_BINS
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        if low != LEAST:
            rows &= ~words[at + OPEN]
            for i in range(bin_of(words, at, low)):
                rows &= ~words[at + SETS + i]
            for i in range(bin_of(words, at, high) + 1, BINNED - SETS):
                rows &= ~words[at + SETS + i]
        at += BINNED
    return rows


@kernel
def _encloses(words: Array, record: int, lows: Array, highs: Array) -> bool:
    at = record + 1
    for _ in range(ranges_of(words[record])):
        if lows[words[at]] < words[at + 1] or highs[words[at]] > words[at + 2]:
            return False
        at += 3
    return True


@kernel
def _is_enclosed(store: Store, box: int, ranges: Array) -> bool:
    for i in range(0, len(ranges), 3):
        low, high = range_of(store, box, ranges[i])
        if low < ranges[i + 1] or high > ranges[i + 2]:
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
