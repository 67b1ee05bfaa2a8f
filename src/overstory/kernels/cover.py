"""Covering: the boxes that enclose a given one, and those that it encloses. Only ranges are compared.

The tree is that of ``tree``. A box that encloses another reaches as far on both sides, so it is looked for as an event
is, with an interval in the place of each value. A box that is enclosed starts and ends within: the threshold of a node
tells on which side it cannot be, and so do the bins outside.
"""

from typing import Any

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import BINS, IN_USE, SETS, bin_of, bins_size, box_of, first_bins, lowest_bit, row_at
from overstory.kernels.records import range_of, ranges_of
from overstory.kernels.store import (
    ATTRIBUTES,
    BLOCK,
    EITHER,
    HIGH,
    LEAF,
    LOW,
    NONE,
    ROOT,
    TOKENS_USED,
    Store,
    with_room,
)
from overstory.kernels.texts import NUMBER


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
        number = waiting[height]
        node = store.nodes[number]
        if node.kind <= BLOCK:
            width = store.words[node.threshold] if node.kind == BLOCK else 1
            for word in range(width):
                rows = _rows_reaching(store.words, node, word, lows, highs)
                first = row_at(store, number, 64 * word)
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
        number = waiting[height]
        node = store.nodes[number]
        if node.kind <= BLOCK:
            width = store.words[node.threshold] if node.kind == BLOCK else 1
            for word in range(width):
                rows = _rows_within(store.words, node, word, lows, highs)
                first = row_at(store, number, 64 * word)
                while rows:
                    box = box_of(store.words[first + 2 * lowest_bit(rows)])
                    rows &= rows - 1
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
def _rows_reaching(words: Array, node: Any, word: int, lows: Array, highs: Array) -> int:
    """The rows of a word that are in both the bin where the range begins and the one where it ends."""
    if node.kind == LEAF:
        return (1 << node.left) - 1
    start = node.threshold
    width, rows, at = words[start], words[start + IN_USE + word], first_bins(words, start)
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        if low == LEAST:
            rows &= words[at + SETS + word]
        else:
            first, last = bin_of(words, at, low), bin_of(words, at, high)
            rows &= words[at + SETS + width * (1 + first) + word] & words[at + SETS + width * (1 + last) + word]
        at += bins_size(width)
    return rows


@kernel
def _rows_within(words: Array, node: Any, word: int, lows: Array, highs: Array) -> int:
    """The rows of a word that are in no bin outside of the range."""
    if node.kind == LEAF:
        return (1 << node.left) - 1
    start = node.threshold
    width, rows, at = words[start], words[start + IN_USE + word], first_bins(words, start)
    for _ in range(words[start + 1]):
        low, high = lows[words[at]], highs[words[at]]
        if low != LEAST:
            rows &= ~words[at + SETS + word]
            first, last = bin_of(words, at, low), bin_of(words, at, high)
            for i in range(BINS):
                if i < first or i > last:
                    rows &= ~words[at + SETS + width * (1 + i) + word]
        at += bins_size(width)
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
