"""The tree: boxes filed so that an event meets few that do not hold it.

A box stands first under the rarest token that it asks for: under each one of a clause of few, since any of them will
do; without one, under the root. Within such a set of boxes the tree splits at numbers. A node parts the boxes by where
their range of one attribute starts (or ends), and knows for either side how far the ranges reach; an event goes to a
side only if its value lies within. At the end of the way stands a block of up to 256 boxes. For the attributes that
most of them constrain it has bins, cut where their ranges start and end, and for each bin the set of boxes that reach
into it, as the bits of a few words: the sets for an event's values have few boxes in common, and only those are looked
at. What is full splits in the way that promises the fewest boxes met. So tree and bins are finest where the filters
are, and follow them when they drift.

1. A box stands in the left child of a LOW node iff its range there starts below the threshold; a box without a range
   in the attribute has the open one. Likewise HIGH and ends.
2. The bounds of a child hold the ranges of all boxes below it. They are widened at once by what is added, and drawn in
   again, near the leaves, when what reached furthest is removed.
3. A box stands once under each token of one of its clauses, or once in all.
"""

import numpy as np

from overstory.kernels.compiling import kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import (
    CAPACITY,
    append,
    box_of,
    count_change,
    entries_of,
    free_node,
    free_words,
    has_free_row,
    make_leaf,
    new_leaf,
    seal,
    settle,
    unseal,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.records import range_of
from overstory.kernels.split_choice import best_clause, best_range, met_under_tokens, rarest_number
from overstory.kernels.store import (
    BLOCK,
    EITHER,
    LEAF,
    LOW,
    PLACES,
    ROOT,
    TOKENS,
    Store,
    class_of,
    take_row,
    take_words,
    with_room,
)
from overstory.kernels.token_table import child_under, enter

FEW = 8  # rows for which bins are not worth their words
SAMPLE = 64  # boxes that a split is chosen by
MOST_REBUILT = 4096  # boxes; keeps the slowest addition short
GAIN = 0.9  # a split is worth it if at most this share of the boxes is still met


@kernel
def file_box(store: Store, box: int, splitting: bool) -> None:
    """Gives the box its places in the tree. Without ``splitting`` leaves only grow, for ``split_all`` to split."""
    store.boxes[box].place = NONE
    clause = best_clause(store, box, NONE)
    token = rarest_number(store, box)
    if clause != NONE and token != NONE:
        uses = 0
        for i in range(store.words[clause] >> 1):
            uses += store.tokens[store.words[clause + 1 + i]].uses
        if store.tokens[token].uses < uses:
            clause = NONE
    if clause != NONE:
        for i in range(store.words[clause] >> 1):
            _file_below(store, box, _child_of_token(store, store.words[clause + 1 + i]), splitting)
    elif token != NONE:
        _file_below(store, box, _child_of_token(store, token), splitting)
    else:
        _file_below(store, box, ROOT, splitting)


@kernel
def _child_of_token(store: Store, token: int) -> int:
    if store.tokens[token].child == NONE:
        store.tokens[token].child = new_leaf(store, NONE, token)
    return store.tokens[token].child


@kernel
def _file_below(store: Store, box: int, node: int, splitting: bool) -> None:
    depth = 0
    while store.nodes[node].kind > BLOCK:
        node = _child_for(store, node, box) if store.nodes[node].kind == TOKENS else _side_for(store, node, box)
        depth += 1
    place = take_row(store, PLACES, store.places["next"])
    store.places[place].box = box
    store.places[place].next = store.boxes[box].place
    store.boxes[box].place = place
    entry = np.int64(place) << 32 | box
    row = store.nodes[node]
    if row.kind == BLOCK and has_free_row(store, node):
        settle(store, node, entry)
        count_change(store, node)
        return
    if row.kind == BLOCK:
        unseal(store, node)
    append(store, node, entry)
    if splitting:
        split_all(store, node)
        if depth > 12:
            _rebalance(store, node)


@kernel
def _child_for(store: Store, node: int, box: int) -> int:
    """The child of a TOKENS node that a box belongs to, made if there is none."""
    clause = best_clause(store, box, node)
    if clause == NONE:
        return store.nodes[node].attribute
    token = store.words[clause + 1]
    child = child_under(store, node, token)
    if child == NONE:
        child = new_leaf(store, node, token)
        enter(store, node, token, child)
    return child


@kernel
def _side_for(store: Store, node: int, box: int) -> int:
    """The child that a box belongs to, with its bounds widened to hold it."""
    row = store.nodes[node]
    if row.kind == EITHER:
        return row.left if mixed(box + node) & 1 else row.right
    low, high = range_of(store, box, row.attribute)
    if (low if row.kind == LOW else high) < row.threshold:
        row.left_low, row.left_high = min(row.left_low, low), max(row.left_high, high)
        return row.left
    row.right_low, row.right_high = min(row.right_low, low), max(row.right_high, high)
    return row.right


# Splitting


@kernel
def split_all(store: Store, first: int) -> None:
    """Splits what is too large for a block, here and below, and makes blocks of the rest."""
    waiting = np.empty(64, np.int64)
    waiting[0] = first
    count = 1
    while count:
        count -= 1
        node = waiting[count]
        if store.nodes[node].kind == LEAF:
            if store.nodes[node].left > CAPACITY:
                _split(store, node)
            elif store.nodes[node].left > FEW:
                seal(store, node)
        row = store.nodes[node]
        if row.kind <= BLOCK:
            continue
        children = 1 + (1 << row.left) if row.kind == TOKENS else 2
        waiting = with_room(waiting, count + children)
        if row.kind != TOKENS:
            waiting[count], waiting[count + 1] = row.left, row.right
            count += 2
            continue
        waiting[count] = row.attribute
        count += 1
        for slot in range(1 << row.left):
            if store.words[row.threshold + slot]:
                waiting[count] = (store.words[row.threshold + slot] & 0xFFFFFFFF) - 1
                count += 1


@kernel
def _split(store: Store, leaf: int) -> None:
    """Makes a leaf an inner node in the way that promises most."""
    entries = entries_of(store, leaf)
    some = entries[:: (len(entries) + SAMPLE - 1) // SAMPLE] & 0x7FFFFFFF
    met, kind, attribute, threshold = best_range(store, some)
    by_token = met > 0.3 and met_under_tokens(store, some, leaf) < min(met, GAIN)
    free_words(store, leaf)
    if by_token:
        _make_tokens(store, leaf)
    elif met < GAIN:
        _make_sides(store, leaf, kind, attribute, threshold)
    else:
        _make_sides(store, leaf, EITHER, 0, 0)
    for entry in entries:
        box = box_of(entry)
        append(store, _child_for(store, leaf, box) if by_token else _side_for(store, leaf, box), entry)


@kernel
def _make_sides(store: Store, node: int, kind: int, attribute: int, threshold: int) -> None:
    left, right = new_leaf(store, node, NONE), new_leaf(store, node, NONE)
    row = store.nodes[node]
    row.kind, row.attribute, row.threshold, row.left, row.right = kind, attribute, threshold, left, right
    row.left_low, row.left_high, row.right_low, row.right_high = MOST, LEAST, MOST, LEAST


@kernel
def _make_tokens(store: Store, node: int) -> None:
    rest, table = new_leaf(store, node, NONE), take_words(store, class_of(8))
    store.words[table : table + 8] = 0
    row = store.nodes[node]
    row.kind, row.attribute, row.threshold, row.left, row.right = TOKENS, rest, table, 3, 0


# Keeping the tree in shape


@kernel
def _rebalance(store: Store, node: int) -> None:
    """Makes anew the largest part above ``node``, up to a limit, that has become much deeper than it need be.

    Boxes that come in order would else make a tree like a list.
    """
    chosen, height = NONE, 0
    while store.nodes[node].parent != NONE:
        node = store.nodes[node].parent
        height += 1
        if store.nodes[node].kind == TOKENS:
            break
        size = _boxes_below(store, node)
        if size > MOST_REBUILT:
            break
        if (1 << ((height - 1) // 2)) * CAPACITY > 4 * size:
            chosen = node
    if chosen != NONE:
        gather(store, chosen)
        split_all(store, chosen)


@kernel
def _boxes_below(store: Store, first: int) -> int:
    """Up to ``MOST_REBUILT``, else more; a node with tokens counts as more."""
    waiting = np.empty(MOST_REBUILT + 8, np.int64)
    waiting[0] = first
    count, total = 1, 0
    while count:
        count -= 1
        row = store.nodes[waiting[count]]
        if row.kind <= BLOCK:
            total += row.left
        elif row.kind == TOKENS or count + 2 > MOST_REBUILT:
            return MOST_REBUILT + 1
        else:
            waiting[count], waiting[count + 1] = row.left, row.right
            count += 2
        if total > MOST_REBUILT:
            break
    return total


@kernel
def gather(store: Store, top: int) -> None:
    """Makes the node a leaf with all rows below it."""
    waiting = np.empty(MOST_REBUILT + 8, np.int64)
    waiting[0], waiting[1] = store.nodes[top].left, store.nodes[top].right
    make_leaf(store, top, CAPACITY)
    count = 2
    while count:
        count -= 1
        node = waiting[count]
        if store.nodes[node].kind <= BLOCK:
            for entry in entries_of(store, node):
                append(store, top, entry)
            free_words(store, node)
        else:
            waiting[count], waiting[count + 1] = store.nodes[node].left, store.nodes[node].right
            count += 2
        free_node(store, node)
