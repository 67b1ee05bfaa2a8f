"""Leaves of the tree, and blocks: where the boxes stand.

A leaf is a list of a few rows. A block is a leaf with bins: for the attributes that most of its boxes constrain, cut
where their ranges start and end, and for each bin the set of rows whose ranges reach into it.

Words of a block: the width of a set of rows, how many attributes have bins, the set of rows in use, the rows, and for
each of these attributes its number, where the bins after the first begin, the set of rows without a range in it, and
the set of each bin.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.records import range_of, ranges_of
from overstory.kernels.store import (
    BLOCK,
    LEAF,
    LIVE_LEAVES,
    NODES,
    Store,
    class_of,
    give_row,
    give_words,
    size_of,
    take_row,
    take_words,
)

WIDEST = 4  # words of a set of rows
CAPACITY = 64 * WIDEST  # rows of a block
BINS = 32  # of an attribute in a block
MOST_BINNED = 8  # attributes of a block
STALE = 256  # changes after which a block's bins are chosen anew

IN_USE = 2
STARTS, SETS = 1, BINS

# An unsigned index cannot count from the end, which the compiled code then need not look for: that takes a fifth off
# the innermost loops. Numba makes a float of unsigned and signed, so all of the sum has to be unsigned.
unsigned = np.uint64
ONE, TWO, THREE, FOUR, SEVEN, EIGHT, FIFTEEN, SIXTEEN = map(unsigned, (1, 2, 3, 4, 7, 8, 15, 16))


@kernel
def first_row(words: Array, block: int) -> int:
    return block + IN_USE + words[block]


@kernel
def first_bins(words: Array, block: int) -> int:
    return block + IN_USE + words[block] * (1 + 2 * 64)


@kernel
def bins_size(width: int) -> int:
    return SETS + (1 + BINS) * width


@kernel
def row_at(store: Store, leaf: int, row: int) -> int:
    node = store.nodes[leaf]
    return 2 * row + (first_row(store.words, node.threshold) if node.kind == BLOCK else node.threshold)


@kernel
def box_of(entry: int) -> int:
    return entry & 0x7FFFFFFF


@kernel
def entries_of(store: Store, leaf: int) -> Array:
    """The first words of all rows of a leaf or block."""
    node, words = store.nodes[leaf], store.words
    found = np.empty(node.left, np.int64)
    if node.kind == LEAF:
        for i in range(node.left):
            found[i] = words[node.threshold + 2 * i]
        return found
    count = 0
    for word in range(words[node.threshold]):
        used = words[node.threshold + IN_USE + word]
        while used:
            found[count] = words[row_at(store, leaf, 64 * word + lowest_bit(used))]
            used &= used - 1
            count += 1
    return found


LOWEST = np.zeros(64, np.int64)  # by a product that is different for each single bit
for _bit in range(64):
    LOWEST[((0x03F79D71B4CB0A89 << _bit) % 2**64) >> 58] = _bit


@kernel
def lowest_bit(bits: int) -> int:
    return LOWEST[(((bits & -bits) * 0x03F79D71B4CB0A89) >> 58) & 63]


# Leaves: lists of rows


@kernel
def new_leaf(store: Store, parent: int, token: int) -> int:
    node = take_row(store, NODES, store.nodes["left"])
    store.nodes[node].parent, store.nodes[node].token = parent, token
    make_leaf(store, node, 1)
    return node


@kernel
def make_leaf(store: Store, node: int, rows: int) -> None:
    row = store.nodes[node]
    row.kind, row.left, row.right = LEAF, 0, class_of(2 * rows)
    row.threshold = take_words(store, row.right)
    store.counts[LIVE_LEAVES] += 1


@kernel
def free_words(store: Store, node: int) -> None:
    give_words(store, store.nodes[node].threshold, store.nodes[node].right)
    store.counts[LIVE_LEAVES] -= 1


@kernel
def free_node(store: Store, node: int) -> None:
    give_row(store, NODES, store.nodes["left"], node)


@kernel
def append(store: Store, leaf: int, entry: int) -> None:
    node, words = store.nodes[leaf], store.words
    if 2 * node.left + 2 > size_of(node.right):
        start, used = node.threshold, 2 * node.left
        size_class = class_of(used + 2)
        fresh = take_words(store, size_class)
        words[fresh : fresh + used] = words[start : start + used]
        give_words(store, start, node.right)
        node.threshold, node.right = fresh, size_class
    at = node.threshold + 2 * node.left
    words[at], words[at + 1] = entry, store.boxes[box_of(entry)].record
    store.places[entry >> 32].leaf, store.places[entry >> 32].row = leaf, node.left
    node.left += 1


# Blocks: rows with bins


@kernel
def seal(store: Store, node: int) -> None:
    """Makes a block of a leaf, with some room to grow."""
    entries = entries_of(store, node)
    free_words(store, node)
    boxes = entries & 0x7FFFFFFF
    attributes = attributes_of(store, boxes)[:MOST_BINNED]
    width = 1
    while 64 * width < len(entries) + 1 and width < WIDEST:
        width *= 2
    row, words, size = store.nodes[node], store.words, bins_size(width)
    row.kind, row.attribute = BLOCK, 0
    row.right = class_of(IN_USE + width * (1 + 2 * 64) + size * len(attributes))
    row.threshold = start = take_words(store, row.right)
    store.counts[LIVE_LEAVES] += 1
    words[start], words[start + 1] = width, len(attributes)
    words[start + IN_USE : start + IN_USE + width] = 0
    ends = np.empty(2 * len(entries), np.int64)
    for i in range(len(attributes)):
        at, count = first_bins(words, start) + size * i, 0
        words[at] = attributes[i]
        words[at + SETS : at + size] = 0
        for box in boxes:
            low, high = range_of(store, box, attributes[i])
            if low != LEAST:
                ends[count], ends[count + 1] = low, min(high, MOST - 1) + 1
                count += 2
        known = np.sort(ends[:count])
        for j in range(BINS - 1):
            words[at + STARTS + j] = known[(j + 1) * count // BINS]
    row.left = 0
    for entry in entries:
        settle(store, node, entry)
    _sharpest_first(words, start)


@kernel
def _sharpest_first(words: Array, start: int) -> None:
    """Orders the attributes of a block by how few boxes their bins have on average."""
    count, size, first = words[start + 1], bins_size(words[start]), first_bins(words, start)
    boxes = np.zeros(count, np.int64)
    for i in range(count):
        for j in range(first + size * i + SETS + words[start], first + size * i + size):
            left = words[j]
            while left:
                left &= left - 1
                boxes[i] += 1
    bins = words[first : first + size * count].copy()
    order = np.argsort(boxes)
    for i in range(count):
        words[first + size * i : first + size * (i + 1)] = bins[size * order[i] : size * (order[i] + 1)]


@kernel
def has_free_row(store: Store, block: int) -> bool:
    return store.nodes[block].left < 64 * store.words[store.nodes[block].threshold]


@kernel
def settle(store: Store, block: int, entry: int) -> None:
    """Puts a box into a free row of a block, and into its bins."""
    node, words = store.nodes[block], store.words
    start, box = node.threshold, box_of(entry)
    width, word = words[start], 0
    while words[start + IN_USE + word] == -1:
        word += 1
    row = 64 * word + lowest_bit(~words[start + IN_USE + word])
    bit = np.int64(1) << (row & 63)
    words[start + IN_USE + word] |= bit
    node.left += 1
    at = first_row(words, start) + 2 * row
    words[at], words[at + 1] = entry, store.boxes[box].record
    store.places[entry >> 32].leaf, store.places[entry >> 32].row = block, row
    at = first_bins(words, start)
    for _ in range(words[start + 1]):
        low, high = range_of(store, box, words[at])
        if low == LEAST:
            words[at + SETS + word] |= bit
        for i in range(bin_of(words, at, low), bin_of(words, at, high) + 1):
            words[at + SETS + (1 + i) * width + word] |= bit
        at += bins_size(width)


@kernel
def bin_of(words: Array, at: int, key: int) -> int:
    """The number of starts up to the key, by halving: there are thirty-one."""
    found = unsigned(at + STARTS)
    found += SIXTEEN * unsigned(words[found + FIFTEEN] <= key)
    found += EIGHT * unsigned(words[found + SEVEN] <= key)
    found += FOUR * unsigned(words[found + THREE] <= key)
    found += TWO * unsigned(words[found + ONE] <= key)
    found += unsigned(words[found] <= key)
    return np.int64(found) - at - STARTS


@kernel
def unsettle(store: Store, block: int, row: int) -> None:
    node, words = store.nodes[block], store.words
    start, others = node.threshold, ~(np.int64(1) << (row & 63))
    width, word = words[start], row >> 6
    words[start + IN_USE + word] &= others
    node.left -= 1
    at = first_bins(words, start)
    for _ in range(words[start + 1]):
        for i in range(1 + BINS):
            words[at + SETS + i * width + word] &= others
        at += bins_size(width)


@kernel
def unseal(store: Store, node: int) -> None:
    """Makes a leaf of a block."""
    entries = entries_of(store, node)
    free_words(store, node)
    make_leaf(store, node, len(entries) + 1)
    for entry in entries:
        append(store, node, entry)


@kernel
def attributes_of(store: Store, boxes: Array) -> Array:
    """Those that at least an eighth of the boxes have a range in, the most frequent first."""
    seen = np.empty(64, np.int64)
    often = np.zeros(64, np.int64)
    count = 0
    for box in boxes:
        record = store.boxes[box].record
        for i in range(ranges_of(store.words[record])):
            attribute = store.words[record + 1 + 3 * i]
            at = 0
            while at < count and seen[at] != attribute:
                at += 1
            if at == count:
                if count == len(seen):
                    continue
                seen[at] = attribute
                count += 1
            often[at] += 1
    order = np.argsort(-often[:count])
    return seen[:count][order][often[:count][order] * 8 >= len(boxes)]


@kernel
def count_change(store: Store, block: int) -> None:
    store.nodes[block].attribute += 1
    if store.nodes[block].attribute >= STALE:
        unseal(store, block)
        seal(store, block)
