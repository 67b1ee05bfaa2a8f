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

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import (
    CAPACITY,
    append,
    attributes_of,
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
    unsettle,
)
from overstory.kernels.records import clauses_of, first_clause, range_of, ranges_of
from overstory.kernels.store import (
    BLOCK,
    EITHER,
    HIGH,
    LEAF,
    LIVE_BOXES,
    LOW,
    NONE,
    PLACES,
    ROOT,
    TOKENS,
    Store,
    class_of,
    give_row,
    give_words,
    mixed,
    take_row,
    take_words,
    with_room,
)
from overstory.kernels.texts import EQUAL, NUMBER

FEW = 8  # rows for which bins are not worth their words
SAMPLE = 64  # boxes that a split is chosen by
MOST_COPIES = 8  # of a box: under how many tokens it may stand
RARE = 8  # a fact is worth standing under if at most one box in so many asks for it
MOST_REBUILT = 4096  # boxes; keeps the slowest addition short
TIGHTENED = 320  # boxes looked at to draw in the bounds of a node
GAIN = 0.9  # a split is worth it if at most this share of the boxes is still met

# Tables of TOKENS nodes


@kernel
def child_under(store: Store, node: int, token: int) -> int:
    words, row = store.words, store.nodes[node]
    mask = (1 << row.left) - 1
    slot = mixed(token) & mask
    while True:
        entry = words[row.threshold + slot]
        if entry == 0:
            return NONE
        if entry >> 32 == token:
            return (entry & 0xFFFFFFFF) - 1
        slot = (slot + 1) & mask


@kernel
def _enter(store: Store, node: int, token: int, child: int) -> None:
    words, row = store.words, store.nodes[node]
    if 2 * (row.right + 1) > (1 << row.left):
        old, old_size = row.threshold, 1 << row.left
        row.left += 1
        row.threshold = take_words(store, class_of(1 << row.left))
        words[row.threshold : row.threshold + (1 << row.left)] = 0
        for i in range(old_size):
            if words[old + i]:
                _place_entry(words, row.threshold, (1 << row.left) - 1, words[old + i])
        give_words(store, old, class_of(old_size))
    row.right += 1
    _place_entry(words, row.threshold, (1 << row.left) - 1, np.int64(token) << 32 | (child + 1))


@kernel
def _place_entry(words: Array, start: int, mask: int, entry: int) -> None:
    slot = mixed(entry >> 32) & mask
    while words[start + slot]:
        slot = (slot + 1) & mask
    words[start + slot] = entry


@kernel
def _leave(store: Store, node: int, token: int) -> None:
    words, row = store.words, store.nodes[node]
    mask = (1 << row.left) - 1
    slot = mixed(token) & mask
    while words[row.threshold + slot] >> 32 != token:
        slot = (slot + 1) & mask
    row.right -= 1
    hole = slot
    while True:
        slot = (slot + 1) & mask
        entry = words[row.threshold + slot]
        if entry == 0:
            break
        if ((slot - mixed(entry >> 32)) & mask) >= ((slot - hole) & mask):
            words[row.threshold + hole] = entry
            hole = slot
    words[row.threshold + hole] = 0


# Choosing where a box stands


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
        _enter(store, node, token, child)
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
    met, kind, attribute, threshold = _best_range(store, some)
    by_token = met > 0.3 and _met_under_tokens(store, some, leaf) < min(met, GAIN)
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


@kernel
def _best_range(store: Store, boxes: Array) -> tuple[float, int, int, int]:
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
def _met_under_tokens(store: Store, boxes: Array, leaf: int) -> float:
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
        _gather(store, chosen)
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
def _gather(store: Store, top: int) -> None:
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


# Removing


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
        _leave(store, parent, token)
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
    _gather(store, parent)
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
