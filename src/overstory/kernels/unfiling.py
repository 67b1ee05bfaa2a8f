"""Boxes out of the tree again: leaves that have become empty go, small ones merge, and bounds are drawn in."""

import numpy as np

from overstory.kernels.compiling import kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import CAPACITY, box_of, count_change, entries_of, free_node, free_words, unseal, unsettle
from overstory.kernels.nothing import NONE
from overstory.kernels.records import range_of
from overstory.kernels.store import (
    BLOCK,
    HIGH,
    LEAF,
    LOW,
    PLACES,
    ROOT,
    TOKENS,
    Store,
    class_of,
    give_row,
    give_words,
)
from overstory.kernels.token_table import leave
from overstory.kernels.tree import FEW, gather, split_all

TIGHTENED = 320  # boxes looked at to draw in the bounds of a node


@kernel
def unfile_box(store: Store, box: int) -> None:
    place = store.boxes[box].place
    while place != NONE:
        following = store.places[place].next
        _remove_row(store, store.places[place].leaf, store.places[place].row, box)
        give_row(store, PLACES, store.places["next"], place)
        place = following
    store.boxes[box].place = NONE


@kernel
def _remove_row(store: Store, leaf: int, row: int, box: int) -> None:
    node, words = store.nodes[leaf], store.words
    if node.kind == BLOCK:
        unsettle(store, leaf, row)
        if 2 * node.left <= FEW:
            unseal(store, leaf)
        else:
            count_change(store, leaf)
    else:
        node.left -= 1
        at, last = node.threshold + 2 * row, node.threshold + 2 * node.left
        words[at], words[at + 1] = words[last], words[last + 1]
        store.places[words[at] >> 32].row = row
    if node.left == 0:
        _detach(store, leaf)
    elif not _merge(store, leaf):
        _tighten(store, leaf, box)


@kernel
def _detach(store: Store, leaf: int) -> None:
    """Takes an empty leaf out of the tree; what is left beside it moves up."""
    parent, token = store.nodes[leaf].parent, store.nodes[leaf].token
    if leaf == ROOT:
        return
    if parent == NONE:
        store.tokens[token].child = NONE
    elif store.nodes[parent].kind != TOKENS:
        above = store.nodes[parent]
        _replace(store, parent, above.right if above.left == leaf else above.left)
    elif store.nodes[parent].attribute != leaf:
        leave(store, parent, token)
    else:
        return
    free_words(store, leaf)
    free_node(store, leaf)
    if parent != NONE and store.nodes[parent].kind == TOKENS and store.nodes[parent].right == 0:
        give_words(store, store.nodes[parent].threshold, class_of(1 << store.nodes[parent].left))
        _replace(store, parent, store.nodes[parent].attribute)
        if store.nodes[parent].kind == LEAF and store.nodes[parent].left == 0:
            _detach(store, parent)


@kernel
def _replace(store: Store, node: int, child: int) -> None:
    """Puts a child in the place, and under the number, of its parent."""
    parent, token = store.nodes[node].parent, store.nodes[node].token
    store.nodes[node] = store.nodes[child]
    row = store.nodes[node]
    row.parent, row.token = parent, token
    if row.kind <= BLOCK:
        for entry in entries_of(store, node):
            store.places[entry >> 32].leaf = node
    elif row.kind == TOKENS:
        store.nodes[row.attribute].parent = node
        for slot in range(1 << row.left):
            entry = store.words[row.threshold + slot]
            if entry:
                store.nodes[(entry & 0xFFFFFFFF) - 1].parent = node
    else:
        store.nodes[row.left].parent = node
        store.nodes[row.right].parent = node
    free_node(store, child)


@kernel
def _merge(store: Store, leaf: int) -> bool:
    """Joins a leaf or block with the one beside it if together they are less than half full."""
    parent = store.nodes[leaf].parent
    if parent == NONE or store.nodes[parent].kind == TOKENS:
        return False
    above = store.nodes[parent]
    other = above.right if above.left == leaf else above.left
    if store.nodes[other].kind > BLOCK or 2 * (store.nodes[leaf].left + store.nodes[other].left) > CAPACITY:
        return False
    gather(store, parent)
    split_all(store, parent)
    return True


@kernel
def _tighten(store: Store, leaf: int, box: int) -> None:
    """Draws in the bounds above a leaf where the box that was removed reached them."""
    node = leaf
    parent = store.nodes[node].parent
    while parent != NONE and (store.nodes[parent].kind == LOW or store.nodes[parent].kind == HIGH):
        row = store.nodes[parent]
        low, high = range_of(store, box, row.attribute)
        is_left = row.left == node
        at_low = low != LEAST and low == (row.left_low if is_left else row.right_low)
        at_high = high != MOST and high == (row.left_high if is_left else row.right_high)
        if at_low or at_high:  # open ranges are seldom the last of their kind
            known, low, high = _bounds_below(store, node, row.attribute)
            if not known:
                return
            if is_left:
                row.left_low, row.left_high = low, high
            else:
                row.right_low, row.right_high = low, high
        node, parent = parent, row.parent


@kernel
def _bounds_below(store: Store, first: int, attribute: int) -> tuple[bool, int, int]:
    waiting = np.empty(TIGHTENED + 8, np.int64)
    waiting[0] = first
    count, seen = 1, 0
    lowest, highest = MOST, LEAST
    while count:
        count -= 1
        node = waiting[count]
        row = store.nodes[node]
        if row.kind <= BLOCK:
            seen += row.left
            if seen > TIGHTENED:
                return False, lowest, highest
            for entry in entries_of(store, node):
                low, high = range_of(store, box_of(entry), attribute)
                lowest, highest = min(lowest, low), max(highest, high)
        elif row.kind == TOKENS or count + 2 > TIGHTENED:
            return False, lowest, highest
        else:
            waiting[count], waiting[count + 1] = row.left, row.right
            count += 2
    return True, lowest, highest
