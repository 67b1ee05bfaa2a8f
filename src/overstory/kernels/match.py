"""Matching: events in, boxes that hold them out; and from boxes to the filters that they belong to.

Events go through the tree together. A node is read once, and parts the list of events that have come to it into those
for either side; a block is read once for all events that reach it. So what is read stays in the fast memory, and a
single event is just the smallest batch.
"""

from typing import Any, NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST
from overstory.kernels.leaves import (
    IN_USE,
    ONE,
    SETS,
    THREE,
    TWO,
    WIDEST,
    bin_of,
    bins_size,
    box_of,
    first_bins,
    first_row,
    lowest_bit,
    unsigned,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.records import clauses_of, lists_of, ranges_of
from overstory.kernels.store import ATTRIBUTES, BLOCK, EITHER, ROOT, TOKENS, Store, sort_few, with_room
from overstory.kernels.token_table import child_under

MOST_TOGETHER = 4096  # events
MOST_VALUES = 1 << 18  # of all events that go together


class Events(NamedTuple):
    """Events as an index sees them: of event i the keys and the tokens between offsets i and i + 1.

    The tokens of an event are in ascending order, each once.
    """

    key_offsets: Array
    attributes: Array
    keys: Array
    token_offsets: Array
    tokens: Array


class Scratch(NamedTuple):
    """What a match writes on while it works."""

    groups: Array  # by token: all zero between matches
    stamps: Array  # by filter: the last event, counted over all matches, that it was given out for
    tally: Array


# The tally: events, events at nodes, events at boxes of leaves and blocks, boxes looked at as a whole, boxes found;
# the number of the last stamp; and what has no use but that a loop is not left out.
TALLY_EVENTS, TALLY_NODES, TALLY_ROWS, TALLY_CANDIDATES, TALLY_BOXES, TALLY_STAMPS, TALLY_TOUCHED = range(7)
TALLIES = 8


class Together(NamedTuple):
    """Some events on their way through the tree; ``first`` is the number of the first of them."""

    first: int
    size: int
    values: Array  # by attribute and event: the key, LEAST for none
    token_offsets: Array
    tokens: Array


@kernel
def match(store: Store, events: Events, scratch: Scratch) -> tuple[Array, Array]:
    """Offsets by event, and the boxes that hold it; one that stands under several of its tokens may come again."""
    count = len(events.key_offsets) - 1
    attributes = store.counts[ATTRIBUTES]
    most = max(1, min(count, MOST_TOGETHER, MOST_VALUES // max(attributes, 1)))
    values = np.full(max(attributes, 1) * most, LEAST, np.int64)
    offsets = np.zeros(count + 1, np.int64)
    found = np.empty(8 * count + 64, np.int64)
    pairs = np.empty(256, np.int64)  # event << 32 | box
    total = 0
    for first in range(0, count, most):
        together = Together(first, min(most, count - first), values, events.token_offsets, events.tokens)
        last = first + together.size
        _set_values(events, together, True)
        pair_count, pairs = _match_together(store, together, scratch.groups, pairs, scratch.tally)
        _set_values(events, together, False)
        found = with_room(found, total + pair_count)
        for i in range(pair_count):
            offsets[first + (pairs[i] >> 32) + 1] += 1
        for event in range(first, last):
            offsets[event + 1] += offsets[event]
        for i in range(pair_count):
            event = first + (pairs[i] >> 32)
            found[offsets[event]] = pairs[i] & 0x7FFFFFFF
            offsets[event] += 1
        for event in range(last - 1, first - 1, -1):
            offsets[event + 1] = offsets[event]
        offsets[first] = total
        total += pair_count
    scratch.tally[TALLY_EVENTS] += count
    scratch.tally[TALLY_BOXES] += total
    return offsets, found[:total]


@kernel
def _set_values(events: Events, together: Together, on: bool) -> None:
    for event in range(together.size):
        for i in range(events.key_offsets[together.first + event], events.key_offsets[together.first + event + 1]):
            together.values[events.attributes[i] * together.size + event] = events.keys[i] if on else LEAST


@kernel
def _match_together(store: Store, together: Together, groups: Array, pairs: Array, tally: Array) -> tuple[int, Array]:
    """Takes events down the tree, and writes what they find over ``pairs``.

    The lists of events that wait at nodes stand one behind the other. The node that is taken next is the last one, so
    whatever stands behind its list is done with.
    """
    height, waiting, lists = _at_the_entrances(store, together, groups)
    sets = np.empty(WIDEST * together.size, np.int64)
    words, total = store.words, 0
    while height:
        height -= 3
        number, begin, end = waiting[height], waiting[height + 1], waiting[height + 2]
        size = end - begin
        node = store.nodes[number]
        tally[TALLY_NODES] += size
        if node.kind <= BLOCK:
            tally[TALLY_ROWS] += size * node.left
            pairs = with_room(pairs, total + size * node.left)
            if node.kind == BLOCK:
                total = _try_block(words, together, node.threshold, lists[begin:end], sets, pairs, total, tally)
            else:
                total = _try_leaf(words, together, node.threshold, node.left, lists[begin:end], pairs, total, tally)
        elif node.kind == TOKENS:
            below = _children_of(store, together, number, lists[begin:end])
            lists = with_room(lists, end + len(below))
            waiting = with_room(waiting, height + 3 + 3 * len(below))
            height = _wait(waiting, height, node.attribute, begin, end)
            start = end
            for i in range(len(below)):
                lists[end + i] = below[i] & 0xFFFFFFFF
                if i + 1 == len(below) or below[i] >> 32 != below[i + 1] >> 32:
                    height = _wait(waiting, height, below[i] >> 32, start, end + i + 1)
                    start = end + i + 1
        else:
            lists = with_room(lists, end + 2 * size)
            waiting = with_room(waiting, height + 6)
            to_right, to_left = _part(lists, begin, end, together, node)
            height = _wait(waiting, height, node.right, end, to_right)
            height = _wait(waiting, height, node.left, end + size, to_left)
    return total, pairs


@kernel
def _at_the_entrances(store: Store, together: Together, groups: Array) -> tuple[int, Array, Array]:
    """All events wait at the root, and at each token under which boxes stand those that have it."""
    offsets, tokens = together.token_offsets, together.tokens
    begin, end = offsets[together.first], offsets[together.first + together.size]
    distinct = np.empty(end - begin, np.int64)
    count, total = 0, together.size
    for i in range(begin, end):
        token = tokens[i]
        if store.tokens[token].child != NONE:
            if groups[token] == 0:
                distinct[count] = token
                count += 1
            groups[token] += 1
            total += 1
    lists = np.empty(4 * total + 64, np.int64)
    lists[: together.size] = np.arange(together.size)
    waiting = np.empty(3 * count + 256, np.int64)  # of each node its number, and where its list begins and ends
    height = _wait(waiting, 0, ROOT, 0, together.size)
    start = together.size
    for i in range(count):
        token = distinct[i]
        height = _wait(waiting, height, store.tokens[token].child, start, start + groups[token])
        start += groups[token]
        groups[token] = start - groups[token]
    for event in range(together.size):
        for i in range(offsets[together.first + event], offsets[together.first + event + 1]):
            token = tokens[i]
            if store.tokens[token].child != NONE:
                lists[groups[token]] = event
                groups[token] += 1
    for i in range(count):
        groups[distinct[i]] = 0
    return height, waiting, lists


@kernel
def _wait(waiting: Array, height: int, node: int, begin: int, end: int) -> int:
    if begin == end:
        return height
    waiting[height], waiting[height + 1], waiting[height + 2] = node, begin, end
    return height + 3


@kernel
def _part(lists: Array, begin: int, end: int, together: Together, node: Any) -> tuple[int, int]:
    """Behind the list of events at a node, copies those for the right side and, behind room for all, those for the
    left; returns where both end."""
    right, left = end, 2 * end - begin
    if node.kind == EITHER:
        for i in range(begin, end):
            lists[right], lists[left] = lists[i], lists[i]
            right += 1
            left += 1
        return right, left
    column = node.attribute * together.size
    left_low, left_high, right_low, right_high = node.left_low, node.left_high, node.right_low, node.right_high
    for i in range(begin, end):
        event = lists[unsigned(i)]
        value = together.values[unsigned(column + event)]
        lists[unsigned(right)] = event
        right += (right_low <= value) & (value <= right_high)
        lists[unsigned(left)] = event
        left += (left_low <= value) & (value <= left_high)
    return right, left


@kernel
def _children_of(store: Store, together: Together, node: int, members: Array) -> Array:
    """child << 32 | event, in order, for all events and those of their tokens that the node has a child for."""
    offsets, tokens = together.token_offsets, together.tokens
    found = np.empty(64, np.int64)
    count = 0
    for event in members:
        for i in range(offsets[together.first + event], offsets[together.first + event + 1]):
            child = child_under(store, node, tokens[i])
            if child != NONE:
                found = with_room(found, count + 1)
                found[count] = child << 32 | event
                count += 1
    return np.sort(found[:count])


@kernel
def _try_block(
    words: Array, together: Together, start: int, members: Array, sets: Array, pairs: Array, total: int, tally: Array
) -> int:
    width, first = words[start], first_row(words, start)
    count = _with_common_rows(words, together, start, members, sets)
    # Candidates wait where the pairs go that they may become: there are never fewer.
    end = total
    for i in range(count):
        for word in range(width):
            left = sets[i * width + word]
            while left:
                pairs[end] = members[i] << 32 | (64 * word + lowest_bit(left))
                left &= left - 1
                end += 1
    tally[TALLY_CANDIDATES] += end - total
    # All records are touched before one is read, so that the memory fetches them side by side.
    touched = 0
    for i in range(total, end):
        record = words[first + 2 * (pairs[i] & 0xFFFF) + 1]
        touched ^= words[record] ^ words[record + 8]
    tally[TALLY_TOUCHED] = touched
    for i in range(total, end):
        event, row = pairs[i] >> 32, first + 2 * (pairs[i] & 0xFFFF)
        if holds(words, words[row + 1], together, event):
            pairs[total] = event << 32 | box_of(words[row])
            total += 1
    return total


@kernel
def _with_common_rows(words: Array, together: Together, start: int, members: Array, sets: Array) -> int:
    """Keeps the events whose bins have rows in common, with the set of these rows; returns how many there are."""
    values, count, width = together.values, len(members), words[start]
    for i in range(count):
        for word in range(width):
            sets[i * width + word] = words[start + IN_USE + word]
    at = first_bins(words, start)
    for _ in range(words[start + 1]):
        column = words[at] * together.size
        kept = 0
        for i in range(count):
            event = members[unsigned(i)]
            value = values[unsigned(column + event)]
            of_bin = at + SETS + width * ((value != LEAST) + bin_of(words, at, value))
            if width == WIDEST:  # most are: by hand, since the compiler cannot know that the sets stand apart
                old, new, other = unsigned(4 * i), unsigned(4 * kept), unsigned(of_bin)
                a, b = sets[old] & words[other], sets[old + ONE] & words[other + ONE]
                c, d = sets[old + TWO] & words[other + TWO], sets[old + THREE] & words[other + THREE]
                sets[new], sets[new + ONE], sets[new + TWO], sets[new + THREE] = a, b, c, d
                some = a | b | c | d
            else:
                some = 0
                for word in range(width):
                    common = sets[i * width + word] & words[of_bin + word]
                    sets[kept * width + word] = common
                    some |= common
            members[kept] = event
            kept += some != 0
        count = kept
        if count == 0:
            break
        at += bins_size(width)
    return count


@kernel
def _try_leaf(
    words: Array, together: Together, start: int, rows: int, members: Array, pairs: Array, total: int, tally: Array
) -> int:
    for i in range(rows):
        for event in members:
            if holds(words, words[start + 2 * i + 1], together, event):
                pairs[total] = event << 32 | box_of(words[start + 2 * i])
                total += 1
    tally[TALLY_CANDIDATES] += rows * len(members)
    return total


@kernel
def holds(words: Array, record: int, together: Together, event: int) -> bool:
    """Whether a box holds the event, its opaque test aside."""
    values, count = together.values, together.size
    header = words[record]
    at = record + 1
    for _ in range(ranges_of(header)):
        value = values[words[at] * count + event]
        if value < words[at + 1] or value > words[at + 2]:
            return False
        at += 3
    for _ in range(lists_of(header)):
        if not np.searchsorted(words[at + 2 : at + 2 + words[at + 1]], values[words[at] * count + event], "right") & 1:
            return False
        at += 2 + words[at + 1]
    first, last = together.token_offsets[together.first + event], together.token_offsets[together.first + event + 1]
    for _ in range(clauses_of(header)):
        size, negated = words[at] >> 1, words[at] & 1
        if have_common(words, at + 1, at + 1 + size, together.tokens, first, last) == negated:
            return False
        at += 1 + size
    return True


@kernel
def have_common(a: Array, i: int, end_a: int, b: Array, j: int, end_b: int) -> bool:
    """Whether two ascending lists share a token. A long one is searched, two short ones are walked through."""
    if end_a - i > 16 * (end_b - j):
        for k in range(j, end_b):
            at = i + np.searchsorted(a[i:end_a], b[k])
            if at < end_a and a[at] == b[k]:
                return True
        return False
    if end_b - j > 16 * (end_a - i):
        for k in range(i, end_a):
            at = j + np.searchsorted(b[j:end_b], a[k])
            if at < end_b and b[at] == a[k]:
                return True
        return False
    while i < end_a and j < end_b:
        if a[i] == b[j]:
            return True
        if a[i] < b[j]:
            i += 1
        else:
            j += 1
    return False


@kernel
def opaque_among(store: Store, found: Array) -> Array:
    """Where the boxes stand that have an opaque test."""
    where = np.empty(len(found), np.int64)
    count = 0
    for i in range(len(found)):
        if store.boxes[found[i]].opaque != NONE:
            where[count] = i
            count += 1
    return where[:count]


@kernel
def filters_of(
    boxes: Array, links: Array, stamps: Array, tally: Array, offsets: Array, found: Array, refused: Array
) -> tuple[Array, Array]:
    """Offsets by event, and its filters in ascending order; boxes at the places in ``refused`` do not count. Only the
    arrays that it needs of the store and the scratch, since it is called for single events."""
    count = len(offsets) - 1
    ends = np.zeros(count + 1, np.int64)
    filters = np.empty(len(found) + 64, np.int64)
    total, skip = 0, 0
    stamp = tally[TALLY_STAMPS]
    for event in range(count):
        stamp += 1
        start = total
        for i in range(offsets[event], offsets[event + 1]):
            if skip < len(refused) and refused[skip] == i:
                skip += 1
                continue
            link = boxes[found[i]].link
            while link != NONE:
                number = links[link].filter
                if stamps[number] != stamp:
                    stamps[number] = stamp
                    filters = with_room(filters, total + 1)
                    filters[total] = number
                    total += 1
                link = links[link].next
        ends[event + 1] = total
        if total - start > 1:
            sort_few(filters[start:total])
    tally[TALLY_STAMPS] = stamp
    return ends, filters[:total]
