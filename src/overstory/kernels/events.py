"""From framed messages to what an index can match: which of them look alike, and the cells of each that does not.

An index knows attributes by numbers. ``wanted`` says which it knows, in one row of integers: the number of the
attribute ``topic``, of ``$levels``, of ``$broker``, the key of this broker, and whether properties matter at all; then
how many levels follow and the number of each; then how many names of user properties follow, and of each the number of
its attribute, its declared type, and where its bytes stand in ``names``. A number below 0 says that no filter asks.
"""

from typing import Any

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.cells import CELL, KEY, MISSING, TEXT, UNTYPED, Cells, encode, read_numbers
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed
from overstory.kernels.keys import FALSE, LEAST, TRUE
from overstory.kernels.match import Scratch, filters_of, match, opaque_among
from overstory.kernels.mqtt import JSON, MOST_LEVELS, SLASH
from overstory.kernels.nothing import NONE
from overstory.kernels.spans import hash_span, same_span
from overstory.kernels.store import Store, with_room

TOPIC, LEVELS, BROKER, BROKER_KEY, WITH_PROPERTIES, LEVEL_COUNT, FIRST_LEVEL = 0, 1, 2, 3, 4, 5, 6
FREE_TYPE, STRING_TYPE, NUMBER_TYPE, BOOLEAN_TYPE, LIST_TYPE = 0, 1, 2, 3, 4
COUNT_KEYS = 2 * (np.arange(MOST_LEVELS + 2, dtype=np.float64).view(np.int64) - (512 << 52) + 1)  # of whole numbers


@kernel
def alike(data: Array, frames: Array, with_properties: bool) -> tuple[Array, Array]:
    """Messages that no filter can tell apart: the first of each kind, and of each message its kind."""
    count = len(frames)
    size = 4
    while size < 2 * count:
        size *= 2
    table = np.zeros(size, np.int64)
    firsts, kinds = np.empty(count, np.int64), np.empty(count, np.int64)
    total = _tell_apart(data, frames, with_properties, table, firsts, kinds)
    return firsts[:total], kinds


@borrowing
def _tell_apart(data: Array, frames: Array, with_properties: bool, table: Array, firsts: Array, kinds: Array) -> int:
    """Says of each message its kind, and of each kind the first message. Returns how many kinds there are."""
    total, last = 0, len(table) - 1
    for event in range(len(frames)):
        here = frames[event]
        running = hash_span(data, here.topic, here.topic_end)
        if with_properties:
            running ^= mixed(hash_span(data, here.props, here.props_end))
        slot = running & last
        while table[slot] and not _same(data, here, frames[firsts[table[slot] - 1]], with_properties):
            slot = (slot + 1) & last
        if table[slot] == 0:
            firsts[total] = event
            total += 1
            table[slot] = total
        kinds[event] = table[slot] - 1
    return total


@borrowing
def _same(data: Array, a: Any, b: Any, with_properties: bool) -> bool:
    if a.marks & JSON or b.marks & JSON:  # their payloads may tell them apart
        return False
    if not _equal(data, a.topic, a.topic_end, data, b.topic, b.topic_end):
        return False
    return not with_properties or _equal(data, a.props, a.props_end, data, b.props, b.props_end)


@borrowing
def _equal(data: Array, start: int, stop: int, other: Array, other_start: int, other_stop: int) -> bool:
    return stop - start == other_stop - other_start and same_span(data, start, other, other_start, stop - start)


@kernel
def serve(*arrays: Array) -> tuple[Array, int]:
    """Given the Store and the Scratch of an index of flows, what it wants and its names, the bytes, the frames and a
    scratch array: of each kind of message which filters match, as bytes of 0 and 1; and how many kinds were read."""
    store, scratch = Store(*arrays[0:10]), Scratch(*arrays[10:13])
    wanted, names, data, frames, floats = arrays[13:18]
    firsts, _ = alike(data, frames, wanted[WITH_PROPERTIES] > 0)
    cells, read = cells_of(data, frames, firsts, wanted, names, floats)
    offsets, found = match(store, encode(store, cells), scratch)
    opaque = opaque_among(store, found)
    if len(opaque):
        return np.zeros((0, 0), np.uint8), 0
    offsets, places = filters_of(store.boxes, store.links, scratch.stamps, scratch.tally, offsets, found, opaque)
    served = np.zeros((len(firsts), len(store.filters)), np.uint8)
    for kind in range(read):
        for i in range(offsets[kind], offsets[kind + 1]):
            served[kind, places[i]] = 1
    return served, read


@kernel
def cells_of(
    data: Array, frames: Array, firsts: Array, wanted: Array, names: Array, floats: Array
) -> tuple[Cells, int]:
    """The cells of the first message of each kind, and how many kinds could be read before one that could not."""
    offsets = np.zeros(len(firsts) + 1, np.int64)
    levels = wanted[LEVEL_COUNT]
    properties = FIRST_LEVEL + levels
    width = 3 + levels + wanted[properties]
    rows = np.zeros(max(16, len(firsts) * min(width, 16)), CELL)
    total = 0
    for kind in range(len(firsts)):
        here = frames[firsts[kind]]
        if total + width > len(rows):
            rows = with_room(rows, total + width)
        total = _topic_cells(data, here, wanted, rows, total)
        if wanted[properties]:
            start = total
            if here.marks & JSON:
                return _cells(offsets[: kind + 1], rows[:start], data), kind
            total = _property_cells(data, here, wanted, names, rows, start)
            if total < 0 or not _read(rows[start:total], data, floats, wanted, properties):
                return _cells(offsets[: kind + 1], rows[:start], data), kind
        offsets[kind + 1] = total
    return _cells(offsets, rows[:total], data), len(firsts)


@kernel
def _cells(offsets: Array, rows: Array, data: Array) -> Cells:
    return Cells(offsets, rows, np.zeros(1, np.int64), data)


@borrowing
def _topic_cells(data: Array, here: Any, wanted: Array, rows: Array, total: int) -> int:
    """The topic, its levels and their number, and the publishing broker."""
    if wanted[TOPIC] >= 0:
        total = _text_cell(rows, total, wanted[TOPIC], here.topic, here.topic_end)
    level, start, count = 0, here.topic, wanted[LEVEL_COUNT]
    for i in range(here.topic, here.topic_end + 1):
        if i == here.topic_end or data[i] == SLASH:
            if level < count and wanted[FIRST_LEVEL + level] >= 0:
                total = _text_cell(rows, total, wanted[FIRST_LEVEL + level], start, i)
            level += 1
            start = i + 1
    if wanted[LEVELS] >= 0:
        total = _key_cell(rows, total, wanted[LEVELS], COUNT_KEYS[level])
    if wanted[BROKER] >= 0:
        total = _key_cell(rows, total, wanted[BROKER], wanted[BROKER_KEY])
    return total


@borrowing
def _text_cell(rows: Array, total: int, attribute: int, start: int, stop: int) -> int:
    row = rows[total]
    row.attribute, row.kind, row.key, row.start, row.stop = attribute, TEXT, LEAST, start, stop
    return total + 1


@borrowing
def _key_cell(rows: Array, total: int, attribute: int, key: int) -> int:
    row = rows[total]
    row.attribute, row.kind, row.key, row.start, row.stop = attribute, KEY, key, 0, 0
    return total + 1


@borrowing
def _property_cells(data: Array, here: Any, wanted: Array, names: Array, rows: Array, first: int) -> int:
    """The user properties that filters ask for; -1 if one is there twice, which makes it a list."""
    total = first
    at, end = here.props, here.props_end
    while at < end and data[at] >= 128:  # the length
        at += 1
    at += 1
    while at < end:
        kind = data[at]
        at += 1
        if kind == 0x26:
            name, name_end = at + 2, at + 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
            at = name_end
            start, at = at + 2, at + 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
            attribute = _named(data, name, name_end, wanted, names)
            if attribute != NONE:
                for i in range(first, total):
                    if rows[i].attribute == attribute:
                        return -1
                total = _text_cell(rows, total, attribute, start, at)
                rows[total - 1].kind = UNTYPED
        elif kind == 1:
            at += 1
        elif kind == 2:
            at += 4
        else:
            at += 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
    return total


@borrowing
def _named(data: Array, start: int, stop: int, wanted: Array, names: Array) -> int:
    """The attribute of this name, NONE if no filter asks for it."""
    at = FIRST_LEVEL + wanted[LEVEL_COUNT]
    count = wanted[at]
    for i in range(count):
        place = at + 1 + 4 * i
        if _equal(data, start, stop, names, wanted[place + 2], wanted[place + 3]):
            return wanted[place]
    return NONE


@kernel
def _read(rows: Array, data: Array, floats: Array, wanted: Array, at: int) -> bool:
    """Gives user properties the faces that their types allow. False if one holds a number that is hard to read, or is a
    list."""
    truths = np.empty(2, np.int64)
    truths[0], truths[1] = FALSE, TRUE
    if len(read_numbers(Cells(truths[:1], rows, truths[:1], data), floats, truths)):
        return False
    for i in range(len(rows)):
        row = rows[i]
        for name in range(wanted[at]):
            place = at + 1 + 4 * name
            if wanted[place] != row.attribute or wanted[place + 1] == FREE_TYPE:
                continue
            if wanted[place + 1] == LIST_TYPE:
                return False
            is_boolean = row.key == FALSE or row.key == TRUE
            if wanted[place + 1] == STRING_TYPE:
                row.kind, row.key = TEXT, LEAST
            elif row.key == LEAST or is_boolean != (wanted[place + 1] == BOOLEAN_TYPE):
                row.kind, row.key = MISSING, LEAST
            else:
                row.kind = KEY
    return True
