"""Tokens: what a filter can say about an event other than by numbers.

A token is an attribute together with a text that it may equal, a text that it may start with, or a word that it may
contain; or the bare fact that the attribute is a number, a string, a list, or there at all. A filter is about tokens
that an event must, or must not, have. An event has those of its tokens that some filter speaks of.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.nothing import NONE
from overstory.kernels.store import (
    SEED,
    TOKENS_USED,
    Store,
    class_of,
    drop,
    first_slot,
    give_row,
    give_words,
    put,
    size_of,
    take_row,
    take_words,
)

NUMBER, STRING, LIST, PRESENT, EQUAL, PREFIX, WORD = 0, 1, 2, 3, 4, 5, 6  # the first four are facts, without a text
TEXTS = 0  # the table of the store


@kernel
def seed_of(store: Store, attribute: int) -> int:
    return mixed(attribute + 1) ^ store.counts[SEED]


@kernel
def hash_byte(running: int, byte: int) -> int:
    return (running ^ byte) * 1099511628211


@kernel
def finished(running: int, kind: int) -> int:
    return mixed(running + kind)


@kernel
def has_text(store: Store, token: int, data: Array, start: int, length: int) -> bool:
    if store.tokens[token].length != length:
        return False
    text = store.tokens[token].text
    for i in range(length):
        if ((store.words[text + (i >> 3)] >> (8 * (i & 7))) & 255) != data[start + i]:
            return False
    return True


@kernel
def find(store: Store, tag: int, hashed: int, data: Array, start: int, length: int) -> int:
    _, begin, mask, slot = first_slot(store, TEXTS, hashed)
    if mask < 0:
        return NONE
    words = store.words
    while True:
        row = words[begin + 2 * slot + 1]
        if row == 0:
            return NONE
        if words[begin + 2 * slot] == hashed:
            token = row - 1
            if store.tokens[token].tag == tag and has_text(store, token, data, start, length):
                return token
        slot = (slot + 1) & mask


@kernel
def intern(store: Store, attribute: int, kind: int, data: Array) -> int:
    """The token, made if it is new. It lives for as long as boxes use it."""
    length = len(data)
    running = seed_of(store, attribute)
    for i in range(length):
        running = hash_byte(running, data[i])
    hashed = finished(running, kind)
    tag = attribute << 3 | kind
    token = find(store, tag, hashed, data, 0, length)
    if token != NONE:
        return token
    tokens, words = store.tokens, store.words
    token = take_row(store, TOKENS_USED, tokens["child"])
    size = (length + 7) >> 3
    text = take_words(store, class_of(size))
    words[text : text + size] = 0
    for i in range(length):
        words[text + (i >> 3)] |= np.int64(data[i]) << (8 * (i & 7))
    row = tokens[token]
    row.hash, row.text, row.length, row.tag, row.uses, row.child = hashed, text, length, tag, 0, NONE
    put(store, TEXTS, hashed, token)
    if kind < EQUAL:
        store.attributes[attribute].facts[kind] = token
    elif kind == PREFIX:
        _count_length(store, attribute, length, 1)
    return token


@kernel
def release(store: Store, token: int) -> None:
    """Forgets a token that no box uses any more."""
    row = store.tokens[token]
    attribute, kind, length = row.tag >> 3, row.tag & 7, row.length
    if kind < EQUAL:
        store.attributes[attribute].facts[kind] = NONE
    elif kind == PREFIX:
        _count_length(store, attribute, length, -1)
    drop(store, TEXTS, row.hash, token)
    give_words(store, row.text, class_of((length + 7) >> 3))
    give_row(store, TOKENS_USED, store.tokens["child"], token)


@kernel
def _count_length(store: Store, attribute: int, length: int, change: int) -> None:
    """Keeps the lengths of an attribute's prefixes, in order, with the number of tokens of each."""
    row, words = store.attributes[attribute], store.words
    at = 0
    while at < row.lengths and words[row.prefixes + 2 * at] < length:
        at += 1
    if at == row.lengths or words[row.prefixes + 2 * at] != length:
        if row.size == 0 or 2 * row.lengths + 2 > size_of(row.size - 1):
            size_class = class_of(2 * row.lengths + 2)
            start = take_words(store, size_class)
            words[start : start + 2 * row.lengths] = words[row.prefixes : row.prefixes + 2 * row.lengths]
            if row.size:
                give_words(store, row.prefixes, row.size - 1)
            row.prefixes, row.size = start, size_class + 1
        for i in range(row.lengths - 1, at - 1, -1):
            words[row.prefixes + 2 * i + 2] = words[row.prefixes + 2 * i]
            words[row.prefixes + 2 * i + 3] = words[row.prefixes + 2 * i + 1]
        words[row.prefixes + 2 * at] = length
        words[row.prefixes + 2 * at + 1] = 0
        row.lengths += 1
    words[row.prefixes + 2 * at + 1] += change
    if words[row.prefixes + 2 * at + 1] == 0:
        for i in range(at, row.lengths - 1):
            words[row.prefixes + 2 * i] = words[row.prefixes + 2 * i + 2]
            words[row.prefixes + 2 * i + 1] = words[row.prefixes + 2 * i + 3]
        row.lengths -= 1
