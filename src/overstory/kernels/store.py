"""The memory of an index: a few tables of fixed rows, and one pool of 64-bit words for all that varies in size.

Two rules. A row or a block of words that is given back heads a list of free ones and is the next to be given out. And
kernels never grow anything: whoever calls one that adds sees to it first that there is room (``has_room``).

What stands in the pool:

record of a box    header; per range attribute, low, high; per list of intervals attribute, number of cuts, cuts;
                   per clause number of tokens * 2 + negated, tokens; the number of its opaque test if it has one
rows of a leaf     place << 32 | box, and where the record of the box stands
block              set of rows in use, number of its bins' attributes, rows, bins (see ``leaves``)
table of a node    token << 32 | child + 1, open addressing
text of a token    UTF-8, eight bytes a word
table of a shard   hash, row + 1, open addressing
prefix lengths     of an attribute: length, number of tokens
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel

# Kinds of nodes. Boxes stand in a LEAF, which is a list, or in a BLOCK, which has bins. A LOW node has on its left the
# boxes whose range starts below the threshold, a HIGH node those whose range ends there; an EITHER node has boxes on
# both sides alike. A TOKENS node has a child for each of some tokens, and one for boxes that stand under none of them.
LEAF, BLOCK, LOW, HIGH, EITHER, TOKENS = 0, 1, 2, 3, 4, 5

# One cache line: what a match reads of a node. A LEAF or BLOCK uses left as its number of rows, right as the size class
# of its words and threshold as their start, a BLOCK attribute as the number of changes since its bins were chosen. A
# TOKENS node uses left as the logarithm of the size of its table, right as the number of children in it, threshold as
# its start and attribute as the child for boxes under none of the tokens.
NODE = np.dtype(
    [
        *[("kind", "i4"), ("attribute", "i4"), ("left", "i4"), ("right", "i4"), ("threshold", "i8")],
        *[("left_low", "i8"), ("left_high", "i8"), ("right_low", "i8"), ("right_high", "i8")],
        *[("parent", "i4"), ("token", "i4")],
    ]
)
BOX = np.dtype([("record", "i8"), ("hash", "i8"), ("size", "i4"), ("link", "i4"), ("place", "i4"), ("opaque", "i4")])
LINK = np.dtype([("filter", "i4"), ("box", "i4"), ("next", "i4"), ("before", "i4"), ("sibling", "i4")])
PLACE = np.dtype([("box", "i4"), ("leaf", "i4"), ("row", "i4"), ("next", "i4")])
# ``child`` is the token's node below the root.
TOKEN = np.dtype([("hash", "i8"), ("text", "i8"), ("length", "i4"), ("tag", "i4"), ("uses", "i4"), ("child", "i4")])
ATTRIBUTE = np.dtype([("facts", "i4", (4,)), ("prefixes", "i8"), ("lengths", "i4"), ("size", "i4")])
SHARD = np.dtype([("start", "i8"), ("size", "i4"), ("used", "i4")])
FILTER = np.dtype([("link", "i4")])  # the first of its boxes, NONE if it has none, FREE if there is no such filter
FREE = -2

# Counters: rows in use from the start, and the head + 1 of the list of free rows, of each table.
NODES, BOXES, LINKS, PLACES, TOKENS_USED, ATTRIBUTES, FILTERS, WORDS = 0, 1, 2, 3, 4, 5, 6, 7
FREE_ROWS = 8
LIVE_BOXES, LIVE_FILTERS, LIVE_LEAVES, OPAQUE_BOXES, SEED = 16, 17, 18, 19, 20
FREE_WORDS = 32
COUNTERS = 128

ROOT = 0  # the node for boxes that stand under no token at all
SHARDS = 512  # of each of the two tables, so that none is ever large enough for its growth to be felt


class Store(NamedTuple):
    nodes: Array
    boxes: Array
    links: Array
    places: Array
    tokens: Array
    attributes: Array
    filters: Array
    words: Array
    shards: Array  # first those of the texts, then those of the boxes
    counts: Array


_TYPES = (NODE, BOX, LINK, PLACE, TOKEN, ATTRIBUTE, FILTER, np.dtype("i8"), SHARD, np.dtype("i8"))
TYPES = dict(zip(Store._fields, _TYPES, strict=True))


@inlined
def with_room(array: Array, size: int) -> Array:
    """The array, or a larger one that starts with it."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def sort_few(values: Array) -> None:
    """In place, and fast for few."""
    if len(values) > 64:
        values.sort()
        return
    for i in range(1, len(values)):
        value, j = values[i], i
        while j and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@kernel
def size_of(size_class: int) -> int:
    """4, 6, 8, 12, 16, 24, ... words"""
    return (6 if size_class & 1 else 4) << (size_class >> 1)


@kernel
def class_of(size: int) -> int:
    size_class = 0
    while size_of(size_class) < size:
        size_class += 1
    return size_class


@kernel
def take_words(store: Store, size_class: int) -> int:
    counts = store.counts
    free = counts[FREE_WORDS + size_class]
    if free:
        counts[FREE_WORDS + size_class] = store.words[free - 1]
        return free - 1
    start = counts[WORDS]
    counts[WORDS] = start + size_of(size_class)
    return start


@kernel
def give_words(store: Store, start: int, size_class: int) -> None:
    store.words[start] = store.counts[FREE_WORDS + size_class]
    store.counts[FREE_WORDS + size_class] = start + 1


@kernel
def take_row(store: Store, table: int, chain: Array) -> int:
    """``chain`` is the column in which free rows of the table name the next one."""
    free = store.counts[FREE_ROWS + table]
    if free:
        store.counts[FREE_ROWS + table] = chain[free - 1]
        return free - 1
    row = store.counts[table]
    store.counts[table] = row + 1
    return row


@kernel
def give_row(store: Store, table: int, chain: Array, row: int) -> None:
    chain[row] = store.counts[FREE_ROWS + table]
    store.counts[FREE_ROWS + table] = row + 1


# Two tables from hashes to rows, that of the texts and that of the boxes, each in many shards that grow by themselves.


@kernel
def first_slot(store: Store, table: int, hashed: int) -> tuple[int, int, int, int]:
    """The shard, its start and mask, and the slot where the search begins."""
    shard = table * SHARDS + (hashed & (SHARDS - 1))
    row = store.shards[shard]
    mask = row.size - 1
    return shard, row.start, mask, (hashed >> 20) & mask


@kernel
def put(store: Store, table: int, hashed: int, row: int) -> None:
    shard, start, mask, slot = first_slot(store, table, hashed)
    if mask < 0 or store.shards[shard].used * 3 > mask * 2:
        _grow(store, shard)
        shard, start, mask, slot = first_slot(store, table, hashed)
    while store.words[start + 2 * slot + 1]:
        slot = (slot + 1) & mask
    store.words[start + 2 * slot] = hashed
    store.words[start + 2 * slot + 1] = row + 1
    store.shards[shard].used += 1


@kernel
def _grow(store: Store, shard: int) -> None:
    words = store.words
    old, old_size = store.shards[shard].start, store.shards[shard].size
    size = max(8, 2 * old_size)
    start = take_words(store, class_of(2 * size))
    words[start : start + 2 * size] = 0
    mask = size - 1
    for i in range(old_size):
        if words[old + 2 * i + 1]:
            slot = (words[old + 2 * i] >> 20) & mask
            while words[start + 2 * slot + 1]:
                slot = (slot + 1) & mask
            words[start + 2 * slot] = words[old + 2 * i]
            words[start + 2 * slot + 1] = words[old + 2 * i + 1]
    if old_size:
        give_words(store, old, class_of(2 * old_size))
    store.shards[shard].start = start
    store.shards[shard].size = size


@kernel
def drop(store: Store, table: int, hashed: int, row: int) -> None:
    """Takes the row out; those behind it move up, so that no search ends too early."""
    words = store.words
    shard, start, mask, slot = first_slot(store, table, hashed)
    while words[start + 2 * slot + 1] != row + 1:
        slot = (slot + 1) & mask
    store.shards[shard].used -= 1
    hole = slot
    while True:
        slot = (slot + 1) & mask
        if words[start + 2 * slot + 1] == 0:
            break
        home = (words[start + 2 * slot] >> 20) & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            words[start + 2 * hole] = words[start + 2 * slot]
            words[start + 2 * hole + 1] = words[start + 2 * slot + 1]
            hole = slot
    words[start + 2 * hole] = 0
    words[start + 2 * hole + 1] = 0
