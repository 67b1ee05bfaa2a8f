"""Cells: events as they come, one cell for each attribute that the index knows, turned into keys and tokens."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import EXACT, LEAST, key_of_bits
from overstory.kernels.match import Events, Scratch, filters_of, match, opaque_among
from overstory.kernels.nothing import NONE
from overstory.kernels.store import Store, sort_few, with_room
from overstory.kernels.texts import (
    EQUAL,
    LIST,
    NUMBER,
    PREFIX,
    PRESENT,
    STRING,
    WORD,
    find,
    finished,
    hash_byte,
    seed_of,
)

# Kinds of cells
MISSING, KEY, TEXT, WORDS, FACELESS, UNTYPED = 0, 1, 2, 3, 4, 5

POWERS = 10.0 ** np.arange(23)  # all exact


# A cell. ``key`` is for KEY and UNTYPED, ``start`` and ``stop`` for TEXT and UNTYPED (bytes of ``data``) and for WORDS
# (entries of ``words``, each the start of a word that ends at the next).
CELL = np.dtype([(name, np.int64) for name in ("attribute", "kind", "key", "start", "stop")])


class Cells(NamedTuple):
    """The cells of event i stand between offsets i and i + 1."""

    offsets: Array
    rows: Array
    words: Array
    data: Array


@kernel
def match_cells(*arrays: Array) -> tuple[Array, Array, Array]:
    """Given the arrays of a Store, of Cells and of a Scratch: which boxes that hold an event have an opaque test, and
    offsets and boxes as of ``match``; if none has, offsets and filters as of ``filters_of``.

    All in one, since for a single event it is the calls that take most of the time, and the arrays one by one, since a
    call takes longer to look at tuples of them.
    """
    store, cells, scratch = Store(*arrays[:10]), Cells(*arrays[10:14]), Scratch(*arrays[14:17])
    offsets, found = match(store, encode(store, cells), scratch)
    opaque = opaque_among(store, found)
    if len(opaque) == 0:
        offsets, found = filters_of(store.boxes, store.links, scratch.stamps, scratch.tally, offsets, found, opaque)
    return opaque, offsets, found


@kernel
def encode(store: Store, cells: Cells) -> Events:
    count = len(cells.offsets) - 1
    key_offsets, token_offsets = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    attributes, keys = np.empty(len(cells.rows), np.int32), np.empty(len(cells.rows), np.int64)
    tokens = np.empty(4 * len(cells.rows) + 16, np.int32)
    key_total, total = 0, 0
    for event in range(count):
        for cell in range(cells.offsets[event], cells.offsets[event + 1]):
            here = cells.rows[cell]
            kind, attribute = here.kind, here.attribute
            if kind == MISSING:
                continue
            row = store.attributes[attribute]
            start, stop = here.start, here.stop
            room = 4 + row.lengths + (stop - start if kind == WORDS else 0)
            tokens = with_room(tokens, total + room)
            total = _add(tokens, total, row.facts[PRESENT])
            if (kind == KEY or kind == UNTYPED) and here.key != LEAST:
                attributes[key_total], keys[key_total] = attribute, here.key
                key_total += 1
                total = _add(tokens, total, row.facts[NUMBER])
            if kind == TEXT or kind == UNTYPED:
                total = _add(tokens, total, row.facts[STRING])
                total = _add_text(store, attribute, cells.data, start, stop, tokens, total)
            elif kind == WORDS:
                total = _add(tokens, total, row.facts[LIST])
                for i in range(start, stop):
                    word = _find_whole(store, attribute, WORD, cells.data, cells.words[i], cells.words[i + 1])
                    total = _add(tokens, total, word)
        total = _in_order(tokens, token_offsets[event], total)
        key_offsets[event + 1], token_offsets[event + 1] = key_total, total
    return Events(key_offsets, attributes[:key_total], keys[:key_total], token_offsets, tokens[:total])


@kernel
def _in_order(tokens: Array, start: int, stop: int) -> int:
    """Sorts a few tokens and drops those that come again; returns where they now end."""
    sort_few(tokens[start:stop])
    kept = start
    for i in range(start, stop):
        if i == start or tokens[i] != tokens[kept - 1]:
            tokens[kept] = tokens[i]
            kept += 1
    return kept


@kernel
def _add(tokens: Array, total: int, token: int) -> int:
    if token == NONE:
        return total
    tokens[total] = token
    return total + 1


@kernel
def _find_whole(store: Store, attribute: int, kind: int, data: Array, start: int, stop: int) -> int:
    running = seed_of(store, attribute)
    for i in range(start, stop):
        running = hash_byte(running, data[i])
    return find(store, attribute << 3 | kind, finished(running, kind), data, start, stop - start)


@kernel
def _add_text(store: Store, attribute: int, data: Array, start: int, stop: int, tokens: Array, total: int) -> int:
    """The tokens of the text itself and of those prefixes of it that some filter names, in one pass."""
    row = store.attributes[attribute]
    running = seed_of(store, attribute)
    at = start
    for i in range(row.lengths):
        length = store.words[row.prefixes + 2 * i]
        if start + length > stop:
            break
        while at < start + length:
            running = hash_byte(running, data[at])
            at += 1
        token = find(store, attribute << 3 | PREFIX, finished(running, PREFIX), data, start, length)
        total = _add(tokens, total, token)
    while at < stop:
        running = hash_byte(running, data[at])
        at += 1
    token = find(store, attribute << 3 | EQUAL, finished(running, EQUAL), data, start, stop - start)
    return _add(tokens, total, token)


@kernel
def read_numbers(cells: Cells, floats: Array, truths: Array) -> Array:
    """Gives UNTYPED cells the keys of the JSON numbers and booleans that they are.

    ``floats`` is scratch of length one, ``truths`` the keys of false and true. Returned are the cells with numbers that
    are not as easily read as most, for the caller to read.
    """
    hard = np.empty(len(cells.rows), np.int64)
    count = 0
    for cell in range(len(cells.rows)):
        here = cells.rows[cell]
        if here.kind == UNTYPED:
            here.key = LEAST
            start, stop, data = here.start, here.stop, cells.data
            state, value = _read(data, start, stop)
            if state == EASY:
                floats[0] = value
                here.key = key_of_bits(floats.view(np.int64)[0])
            elif state == HARD:
                hard[count] = cell
                count += 1
            elif _is(data, start, stop, b"false"):
                here.key = truths[0]
            elif _is(data, start, stop, b"true"):
                here.key = truths[1]
    return hard[:count]


NOT_A_NUMBER, EASY, HARD = 0, 1, 2


@kernel
def _is(data: Array, start: int, stop: int, text: bytes) -> bool:
    if stop - start != len(text):
        return False
    for i in range(len(text)):
        if data[start + i] != text[i]:
            return False
    return True


@kernel
def _read(data: Array, start: int, stop: int) -> tuple[int, float]:
    """A JSON number. It is easy if its digits make an exact float that one exact power of ten scales."""
    at, digits, scale, exponent = start, 0, 0, 0
    hard = False
    negative = at < stop and data[at] == 45
    at += negative
    first = at
    while at < stop and 48 <= data[at] <= 57:
        hard |= digits > EXACT // 10 - 1
        digits = digits if hard else digits * 10 + data[at] - 48
        at += 1
    if at == first or (data[first] == 48 and at > first + 1):
        return NOT_A_NUMBER, 0.0
    if at < stop and data[at] == 46:
        at += 1
        first = at
        while at < stop and 48 <= data[at] <= 57:
            hard |= digits > EXACT // 10 - 1
            digits = digits if hard else digits * 10 + data[at] - 48
            scale -= 1
            at += 1
        if at == first:
            return NOT_A_NUMBER, 0.0
    if at < stop and (data[at] == 101 or data[at] == 69):
        at += 1
        minus = at < stop and data[at] == 45
        at += at < stop and (data[at] == 45 or data[at] == 43)
        first = at
        while at < stop and 48 <= data[at] <= 57:
            exponent = min(exponent * 10 + data[at] - 48, 99999)
            at += 1
        if at == first:
            return NOT_A_NUMBER, 0.0
        scale += -exponent if minus else exponent
    if at != stop:
        return NOT_A_NUMBER, 0.0
    if hard or abs(scale) > 22:
        return HARD, 0.0
    value = float(digits)
    value = value / POWERS[-scale] if scale < 0 else value * POWERS[scale]
    return EASY, -value if negative else value
