"""Boxes and the filters made of them: equal boxes are kept once, however many filters have them."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.nothing import NONE
from overstory.kernels.records import clauses_of, first_clause, ranges_of
from overstory.kernels.room import has_room
from overstory.kernels.store import (
    BOXES,
    FREE,
    LINKS,
    LIVE_BOXES,
    LIVE_FILTERS,
    OPAQUE_BOXES,
    ROOT,
    TOKENS_USED,
    Store,
    class_of,
    drop,
    first_slot,
    give_row,
    give_words,
    put,
    sort_few,
    take_row,
    take_words,
    with_room,
)
from overstory.kernels.texts import NUMBER, intern, release
from overstory.kernels.tree import file_box, split_all
from overstory.kernels.unfiling import unfile_box

EQUAL_BOXES = 1  # the table of the store
OPAQUE = 1 << 48  # in the header of a record: the last word is the number of an opaque test


@kernel
def add_filters(store: Store, message: Array, data: Array, splitting: bool) -> tuple[int, Array]:
    """Makes filters of boxes. Returned are the room that is wanted, if there is not enough (and then nothing is done),
    and the opaque tests of boxes that are new.

    The message tells how many filters and how many texts there are, the number of each filter, the count of its boxes,
    of each text the attribute and kind and how many bytes of ``data`` it has, and then all records, each after its
    size. In the clauses of a record stand numbers of texts, not yet tokens. It is one array because each one costs a
    call its time. Without ``splitting`` leaves only grow, for ``split_leaves`` to split.
    """
    filters, texts = message[0], message[1]
    size = len(message) + 8 * texts + len(data)
    if not has_room(store, size):
        return size, message[:0]
    numbers, counts = message[2 : 2 + filters], message[2 + filters : 2 + 2 * filters]
    at = 2 + 2 * filters
    tokens = np.empty(texts, np.int64)
    start = 0
    for i in range(texts):
        tag, length = message[at], message[at + 1]
        tokens[i] = intern(store, tag >> 3, tag & 7, data[start : start + length])
        start += length
        at += 2
    opaque = np.empty(counts.sum(), np.int64)
    new = 0
    for i in range(filters):
        store.filters[numbers[i]].link = NONE
        store.counts[LIVE_FILTERS] += 1
        for _ in range(counts[i]):
            record = message[at + 1 : at + 1 + message[at]]
            at += 1 + message[at]
            _put_tokens(record, tokens)
            number, is_new = _box_with(store, record, splitting)
            _link(store, numbers[i], number)
            if is_new and store.boxes[number].opaque != NONE:
                opaque[new] = store.boxes[number].opaque
                new += 1
    return 0, opaque[:new]


@kernel
def _put_tokens(record: Array, tokens: Array) -> None:
    """Replaces the texts of each clause by their tokens, in order."""
    at = first_clause(record, 0)
    for _ in range(clauses_of(record[0])):
        size = record[at] >> 1
        for i in range(at + 1, at + 1 + size):
            record[i] = tokens[record[i]]
        sort_few(record[at + 1 : at + 1 + size])
        at += 1 + size


@kernel
def _box_with(store: Store, record: Array, splitting: bool) -> tuple[int, bool]:
    """The box that has this record, and whether it had to be made."""
    hashed = _hash_of(record)
    box = _find(store, hashed, record)
    if box != NONE:
        return box, False
    box = _new_box(store, hashed, record)
    file_box(store, box, splitting)
    return box, True


@kernel
def split_leaves(store: Store) -> None:
    split_all(store, ROOT)
    for token in range(store.counts[TOKENS_USED]):
        if store.tokens[token].uses and store.tokens[token].child != NONE:
            split_all(store, store.tokens[token].child)


@kernel
def remove_filter(store: Store, filter_number: int) -> tuple[int, Array]:
    """Also its boxes that no other filter has. Returned are the room that is wanted, as of ``add_filters``, and the
    opaque tests of those boxes."""
    opaque = np.empty(4, np.int64)
    if not has_room(store, 1):
        return 1, opaque[:0]
    link = store.filters[filter_number].link
    store.filters[filter_number].link = FREE
    store.counts[LIVE_FILTERS] -= 1
    count = 0
    while link != NONE:
        following, box = store.links[link].sibling, store.links[link].box
        _unlink(store, link)
        if store.boxes[box].link == NONE:
            if store.boxes[box].opaque != NONE:
                opaque = with_room(opaque, count + 1)
                opaque[count] = store.boxes[box].opaque
                count += 1
            unfile_box(store, box)
            _forget_box(store, box)
        link = following
    return 0, opaque[:count]


@kernel
def _hash_of(record: Array) -> int:
    running = np.int64(len(record))
    for word in record:
        running = mixed(running ^ word) + word
    return running


@kernel
def _find(store: Store, hashed: int, record: Array) -> int:
    _, start, mask, slot = first_slot(store, EQUAL_BOXES, hashed)
    if mask < 0:
        return NONE
    words = store.words
    while True:
        row = words[start + 2 * slot + 1]
        if row == 0:
            return NONE
        if words[start + 2 * slot] == hashed:
            box = store.boxes[row - 1]
            if box.size == len(record) and np.all(words[box.record : box.record + box.size] == record):
                return row - 1
        slot = (slot + 1) & mask


@kernel
def _new_box(store: Store, hashed: int, record: Array) -> int:
    box = take_row(store, BOXES, store.boxes["link"])
    row = store.boxes[box]
    row.hash, row.size, row.link, row.place, row.opaque = hashed, len(record), NONE, NONE, NONE
    row.record = take_words(store, class_of(len(record)))
    store.words[row.record : row.record + row.size] = record
    store.counts[LIVE_BOXES] += 1
    if record[0] & OPAQUE:
        row.opaque = record[len(record) - 1]
        store.counts[OPAQUE_BOXES] += 1
    put(store, EQUAL_BOXES, hashed, box)
    _use_tokens(store, row.record, 1)
    return box


@kernel
def _forget_box(store: Store, box: int) -> None:
    row = store.boxes[box]
    _use_tokens(store, row.record, -1)
    drop(store, EQUAL_BOXES, row.hash, box)
    if row.opaque != NONE:
        store.counts[OPAQUE_BOXES] -= 1
    give_words(store, row.record, class_of(row.size))
    give_row(store, BOXES, store.boxes["link"], box)
    store.counts[LIVE_BOXES] -= 1


@kernel
def _use_tokens(store: Store, record: int, change: int) -> None:
    words = store.words
    for i in range(ranges_of(words[record])):
        attribute = words[record + 1 + 3 * i]
        token = store.attributes[attribute].facts[NUMBER]
        if token == NONE:
            token = intern(store, attribute, NUMBER, np.empty(0, np.uint8))
        _use(store, token, change)
    at = first_clause(words, record)
    for _ in range(clauses_of(words[record])):
        size = words[at] >> 1
        for i in range(size):
            _use(store, words[at + 1 + i], change)
        at += 1 + size


@kernel
def _use(store: Store, token: int, change: int) -> None:
    store.tokens[token].uses += change
    if store.tokens[token].uses == 0:
        release(store, token)


@kernel
def _link(store: Store, filter_number: int, box: int) -> None:
    links = store.links
    link = take_row(store, LINKS, links["next"])
    row, following = links[link], store.boxes[box].link
    row.filter, row.box, row.next, row.before = filter_number, box, following, NONE
    row.sibling = store.filters[filter_number].link
    store.filters[filter_number].link = link
    store.boxes[box].link = link
    if following != NONE:
        links[following].before = link


@kernel
def _unlink(store: Store, link: int) -> None:
    links = store.links
    row = links[link]
    before, following = row.before, row.next
    if before == NONE:
        store.boxes[row.box].link = following
    else:
        links[before].next = following
    if following != NONE:
        links[following].before = before
    give_row(store, LINKS, links["next"], link)


@kernel
def add_plain(*arrays: Array) -> int:
    """As ``add_filters`` of a message without texts and opaque tests, with splitting; returns the room that is wanted.

    The arrays of the Store come one by one: a call takes longer to look at tuples of arrays.
    """
    needed, _ = add_filters(Store(*arrays[:10]), arrays[10], arrays[11], True)
    return needed


@kernel
def remove_plain(*arrays: Array) -> int:
    """As ``remove_filter`` of the one filter whose number follows the Store; returns the room that is wanted."""
    needed, _ = remove_filter(Store(*arrays[:10]), arrays[10][0])
    return needed
