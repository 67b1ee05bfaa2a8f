"""Filters read straight from their texts, by the million: conjunctions of comparisons of an attribute with a constant.

That is what nearly all filters are: ``x >= 0.5 AND x < 1 AND kind = 'a'``, ``x BETWEEN 1 AND 2``. The parser is the
oracle. Whatever it might read in another way than is done here (another operator, a number in another notation, a
parenthesis, a letter beyond ASCII outside of strings) is left to it, text by text.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.keys import TOP, key_of_bits
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room
from overstory.kernels.texts import EQUAL

NUMBERS, TEXT = 0, 1  # kinds of tests
UNREAD, NOTHING = NONE, NONE - 1  # instead of a count of tests: left to the parser; matches no event
MOST_TESTS = 16  # of a filter, after those of one attribute have become one
MOST_NAMES = 1024  # that are told apart; a log has fewer columns
MOST_BYTES = 4096  # of a text
MOST_MANTISSA = 1 << 53  # up to there, and up to ten to the power of 22, a quotient is rounded once, and so correctly
POWERS = 10.0 ** np.arange(23)

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUALS, BETWEEN = 0, 1, 2, 3, 4, 5
QUOTE, MINUS, DOT, ZERO, NINE, UNDERSCORE, DOLLAR = 39, 45, 46, 48, 57, 95, 36


class Tests(NamedTuple):
    """Of text i as many as ``count`` says, those of all texts one after the other. Of a TEXT ``low`` and ``high`` are
    where it begins and ends in the data, else they are keys, both within."""

    count: Array
    name: Array
    kind: Array
    low: Array
    high: Array
    name_start: Array  # where each name first stands
    name_stop: Array


@kernel
def read_texts(data: Array, offsets: Array) -> Tests:
    size = len(offsets) - 1
    count = np.full(size, UNREAD, np.int64)
    room = 4 * size + MOST_TESTS + 1
    name, kind = np.empty(room, np.int32), np.empty(room, np.int8)
    low, high = np.empty(room, np.int64), np.empty(room, np.int64)
    name_start, name_stop = np.empty(MOST_NAMES, np.int64), np.empty(MOST_NAMES, np.int64)
    known, bits = np.zeros(1, np.int64), np.empty(1, np.float64)
    place = 0
    for i in range(size):
        room = place + MOST_TESTS + 1
        name, kind, low, high = (
            with_room(name, room),
            with_room(kind, room),
            with_room(low, room),
            with_room(high, room),
        )
        tests = Tests(count, name[place:], kind[place:], low[place:], high[place:], name_start, name_stop)
        count[i] = _read_text(data, offsets[i], offsets[i + 1], tests, known, bits)
        place += max(count[i], 0)
    every = count, name[:place], kind[:place], low[:place], high[:place], name_start[: known[0]], name_stop[: known[0]]
    return Tests(*every)


@kernel
def _read_text(data: Array, at: int, stop: int, tests: Tests, known: Array, bits: Array) -> int:
    """Writes the tests of one text to the first places. Returns how many there are, or UNREAD, or NOTHING."""
    count = 0
    if stop - at > MOST_BYTES:
        return UNREAD
    while True:
        begin = _skip_blanks(data, at, stop)
        at = _skip_name(data, begin, stop)
        name = _name_number(data, begin, at, tests, known) if at > begin else NONE
        operator, at = _operator(data, _skip_blanks(data, at, stop), stop)
        if name == NONE or operator == NONE:
            return UNREAD
        kind, low, high, at = _constant(data, _skip_blanks(data, at, stop), stop, operator, bits)
        if at == NONE:
            return UNREAD
        place = 0
        while place < count and tests.name[place] != name:
            place += 1
        if place == MOST_TESTS or (place < count and (kind == TEXT or tests.kind[place] == TEXT)):
            return UNREAD
        if place < count:
            low, high = max(low, tests.low[place]), min(high, tests.high[place])
        tests.name[place], tests.kind[place], tests.low[place], tests.high[place] = name, kind, low, high
        count = max(count, place + 1)
        at = _skip_blanks(data, at, stop)
        if at == stop:
            break
        at = _skip_word(data, at, stop, "AND")
        if at == NONE:
            return UNREAD
    for place in range(count):
        if tests.kind[place] == NUMBERS and tests.low[place] > tests.high[place]:
            return NOTHING
    return count


@kernel
def _constant(data: Array, at: int, stop: int, operator: int, bits: Array) -> tuple[int, int, int, int]:
    """What a comparison with the constant here lets through: its kind, low and high; and the place behind it, NONE if
    it is anything else than a plain number or string."""
    if operator == EQUALS and at < stop and data[at] == QUOTE:
        behind = _skip_string(data, at, stop)
        return TEXT, at + 1, behind - 1, behind
    low, at = _number(data, at, stop, bits)
    high = low
    if operator == BETWEEN and at != NONE:
        at = _skip_word(data, _skip_blanks(data, at, stop), stop, "AND")
        if at != NONE:
            high, at = _number(data, _skip_blanks(data, at, stop), stop, bits)
    elif operator == LESS or operator == LESS_EQUAL:
        low, high = -TOP, high - (operator == LESS)
    elif operator == GREATER or operator == GREATER_EQUAL:
        low, high = low + (operator == GREATER), TOP
    return NUMBERS, low, high, at


@kernel
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 10 or byte == 12 or byte == 13


@kernel
def _is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@kernel
def _starts_name(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte == UNDERSCORE or byte == DOLLAR


@kernel
def _skip_blanks(data: Array, at: int, stop: int) -> int:
    while at < stop and _is_blank(data[at]):
        at += 1
    return at


@kernel
def _skip_name(data: Array, at: int, stop: int) -> int:
    """Behind a name; a dot may stand within. At the same place if there is none."""
    if at == stop or not _starts_name(data[at]):
        return at
    while at < stop:
        if data[at] == DOT and at + 1 < stop and (_starts_name(data[at + 1]) or _is_digit(data[at + 1])):
            at += 1
        elif not _starts_name(data[at]) and not _is_digit(data[at]):
            break
        at += 1
    return at


@kernel
def _name_number(data: Array, start: int, stop: int, tests: Tests, known: Array) -> int:
    """The number of a name, of which so many are known; NONE if there are too many."""
    starts, stops = tests.name_start, tests.name_stop
    for name in range(known[0]):
        if stops[name] - starts[name] == stop - start:
            i = 0
            while i < stop - start and data[starts[name] + i] == data[start + i]:
                i += 1
            if i == stop - start:
                return name
    if known[0] == len(starts):
        return NONE
    starts[known[0]], stops[known[0]] = start, stop
    known[0] += 1
    return known[0] - 1


@kernel
def _operator(data: Array, at: int, stop: int) -> tuple[int, int]:
    if at == stop:
        return NONE, at
    equal = at + 1 < stop and data[at + 1] == 61
    if data[at] == 60 and not (at + 1 < stop and data[at + 1] == 62):
        return (LESS_EQUAL, at + 2) if equal else (LESS, at + 1)
    if data[at] == 62:
        return (GREATER_EQUAL, at + 2) if equal else (GREATER, at + 1)
    if data[at] == 61:
        return EQUALS, at + 1
    behind = _skip_word(data, at, stop, "BETWEEN")
    return (NONE, at) if behind == NONE else (BETWEEN, behind)


@kernel
def _skip_word(data: Array, at: int, stop: int, word: str) -> int:
    """Behind a keyword and one blank; NONE if it does not stand there."""
    if stop - at <= len(word) or not _is_blank(data[at + len(word)]):
        return NONE
    for i in range(len(word)):
        if data[at + i] & 223 != ord(word[i]):
            return NONE
    return at + len(word) + 1


@kernel
def _skip_string(data: Array, at: int, stop: int) -> int:
    """Behind a string without quotes in it; NONE if it is never closed, or something else follows than a blank."""
    at += 1
    while at < stop and data[at] != QUOTE:
        at += 1
    if at == stop or (at + 1 < stop and not _is_blank(data[at + 1])):
        return NONE
    return at + 1


@kernel
def _number(data: Array, at: int, stop: int, bits: Array) -> tuple[int, int]:
    """The key of a plain decimal number, and the place behind it: NONE if it is anything else."""
    negative = at < stop and data[at] == MINUS
    at += negative
    start, dot, mantissa, digits = at, NONE, 0, 0
    while at < stop and (_is_digit(data[at]) or (data[at] == DOT and dot == NONE)):
        if data[at] == DOT:
            dot = at
        else:
            mantissa = 10 * mantissa + data[at] - ZERO
            digits += 1
        at += 1
        if mantissa > MOST_MANTISSA or digits > 40:
            return 0, NONE
    behind = 0 if dot == NONE else at - dot - 1
    octal = dot == NONE and digits > 1 and data[start] == ZERO
    if digits == 0 or behind > 22 or octal or (at < stop and not _is_blank(data[at])):
        return 0, NONE
    bits[0] = mantissa / POWERS[behind]
    key = key_of_bits(bits.view(np.int64)[0])
    return -key if negative else key, at


@kernel
def write_message(
    tests: Tests, starts: Array, chosen: Array, numbers: Array, attributes: Array, data: Array
) -> tuple[Array, Array]:
    """The message and the texts for ``boxes.add_filters`` of the texts ``chosen``, all of which were read. The tests of
    each begin where ``starts`` says. ``numbers`` are those of the filters, ``attributes`` those of the names."""
    ranges, clauses, size = _sizes(tests, starts, chosen)
    message, texts = np.empty(2 + 4 * len(chosen) + 3 * ranges + 4 * clauses, np.int64), np.empty(size, np.uint8)
    message[0], message[1] = len(chosen), clauses
    message[2 : 2 + len(chosen)] = numbers
    tag = 2 + 2 * len(chosen)
    at, text, said = tag + 2 * clauses, 0, 0
    for i in range(len(chosen)):
        count, first = tests.count[chosen[i]], starts[chosen[i]]
        message[2 + len(chosen) + i] = count != NOTHING
        if count == NOTHING:
            continue
        record = at
        at = _write_ranges(tests, first, first + count, attributes, message, at + 2)
        ours = (at - record - 2) // 3
        for test in range(first, first + count):
            if tests.kind[test] == TEXT:
                length = tests.high[test] - tests.low[test]
                message[tag], message[tag + 1] = attributes[tests.name[test]] << 3 | EQUAL, length
                texts[text : text + length] = data[tests.low[test] : tests.high[test]]
                message[at], message[at + 1] = 2, said  # one token, not negated
                tag, text, said, at = tag + 2, text + length, said + 1, at + 2
        message[record], message[record + 1] = at - record - 1, ours | (count - ours) << 32
    return message[:at], texts


@kernel
def _sizes(tests: Tests, starts: Array, chosen: Array) -> tuple[int, int, int]:
    """How many ranges and clauses there are, and the bytes of all texts."""
    ranges = clauses = size = 0
    for i in chosen:
        for test in range(starts[i], starts[i] + max(tests.count[i], 0)):
            if tests.kind[test] == TEXT:
                clauses += 1
                size += tests.high[test] - tests.low[test]
            else:
                ranges += 1
    return ranges, clauses, size


@kernel
def _write_ranges(tests: Tests, first: int, last: int, attributes: Array, message: Array, start: int) -> int:
    """In the order of their attributes. Returns the place behind."""
    at = start
    for test in range(first, last):
        if tests.kind[test] == NUMBERS:
            place, attribute = at, attributes[tests.name[test]]
            while place > start and message[place - 3] > attribute:
                for word in range(place, place + 3):
                    message[word] = message[word - 3]
                place -= 3
            message[place], message[place + 1], message[place + 2] = attribute, tests.low[test], tests.high[test]
            at += 3
    return at
