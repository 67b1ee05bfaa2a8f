"""Where a box should stand in the tree, and how a leaf that is full should be split.

Both ask the same: under what would an event meet the fewest boxes that do not hold it? The boxes themselves are the
best guess at what events have.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import attributes_of
from overstory.kernels.nothing import NONE
from overstory.kernels.records import clauses_of, first_clause, range_of, ranges_of
from overstory.kernels.store import HIGH, LIVE_BOXES, LOW, Store
from overstory.kernels.texts import EQUAL, NUMBER

MOST_COPIES = 8  # of a box: under how many tokens it may stand
RARE = 8  # a fact is worth standing under if at most one box in so many asks for it


@kernel
def best_clause(store: Store, box: int, node: int) -> int:
    """Where in the pool the clause stands under whose tokens the box should; NONE if under none.

    ``node`` is NONE at the top. Below, only clauses of one token are asked, so that copies do not multiply, and not
    those that led to ``node``, nor facts.
    """
    words, record = store.words, store.boxes[box].record
    most = MOST_COPIES if node == NONE else 1
    at, best, least = first_clause(words, record), NONE, np.int64(MOST)
    for _ in range(clauses_of(words[record])):
        size = words[at] >> 1
        if not words[at] & 1 and size <= most:
            uses, fitting = 0, True
            for i in range(size):
                token = words[at + 1 + i]
                uses += store.tokens[token].uses
                if store.tokens[token].tag & 7 < EQUAL:
                    fitting &= node == NONE and uses * RARE <= store.counts[LIVE_BOXES]
                fitting &= node == NONE or not _is_below(store, node, token)
            if fitting and uses < least:
                best, least = at, uses
        at += 1 + size
    return best


@kernel
def _is_below(store: Store, node: int, token: int) -> bool:
    while node != NONE:
        if store.nodes[node].token == token:
            return True
        node = store.nodes[node].parent
    return False


@kernel
def rarest_number(store: Store, box: int) -> int:
    """The token of a fact that few boxes ask for: that the attribute of one of the box's ranges is there."""
    words, record = store.words, store.boxes[box].record
    best, least = NONE, store.counts[LIVE_BOXES] // RARE
    for i in range(ranges_of(words[record])):
        token = store.attributes[words[record + 1 + 3 * i]].facts[NUMBER]
        if store.tokens[token].uses <= least:
            best, least = token, store.tokens[token].uses
    return best


@kernel
def best_range(store: Store, boxes: Array) -> tuple[float, int, int, int]:
    """The split by a number that leaves the smallest share of boxes to be met, and that share.

    Events are taken to have values where the ranges of these boxes start and end.
    """
    size = len(boxes)
    best, best_kind, best_attribute, best_threshold = 1.0, LOW, 0, 0
    lows, highs, ends = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(2 * size, np.int64)
    for attribute in attributes_of(store, boxes):
        count = 0
        for i in range(size):
            lows[i], highs[i] = range_of(store, boxes[i], attribute)
            if lows[i] != LEAST:
                ends[count], ends[count + 1] = lows[i], highs[i]
                count += 2
        known = np.sort(ends[:count])
        for kind in (LOW, HIGH):
            starts = lows if kind == LOW else highs
            ordered = np.sort(starts)
            for eighth in range(2, 7):
                threshold = ordered[size * eighth // 8]
                if threshold == ordered[0] or (eighth > 2 and threshold == ordered[size * (eighth - 1) // 8]):
                    continue
                met = _share_met(starts, threshold, lows, highs, known)
                if met < best:
                    best, best_kind, best_attribute, best_threshold = met, kind, attribute, threshold
    return best, best_kind, best_attribute, best_threshold


@kernel
def _share_met(starts: Array, threshold: int, lows: Array, highs: Array, known: Array) -> float:
    left_low, left_high, right_low, right_high, left = MOST, LEAST, MOST, LEAST, 0
    for i in range(len(starts)):
        if starts[i] < threshold:
            left += 1
            left_low, left_high = min(left_low, lows[i]), max(left_high, highs[i])
        else:
            right_low, right_high = min(right_low, lows[i]), max(right_high, highs[i])
    to_left = np.searchsorted(known, left_high, "right") - np.searchsorted(known, left_low)
    to_right = np.searchsorted(known, right_high, "right") - np.searchsorted(known, right_low)
    return (left * to_left + (len(starts) - left) * to_right) / (len(starts) * len(known))


@kernel
def met_under_tokens(store: Store, boxes: Array, leaf: int) -> float:
    """The share of boxes to be met if each stands under its best token, events having tokens as often as boxes do."""
    chosen = np.empty(len(boxes), np.int64)
    count, open_boxes = 0, 0
    for box in boxes:
        clause = best_clause(store, box, leaf)
        if clause == NONE:
            open_boxes += 1
        else:
            chosen[count] = store.words[clause + 1]
            count += 1
    if count == 0:
        return 1.0
    ordered = np.sort(chosen[:count])
    pairs, start = 0, 0
    for i in range(1, count + 1):
        if i == count or ordered[i] != ordered[start]:
            pairs += (i - start) ** 2
            start = i
    return (open_boxes + pairs / count) / len(boxes)
