"""What link frames hold beside the packets of events, in msgpack: integers, bytes and lists, read and written in place.

Whoever reads is told where the next value begins, or NONE if there is no whole one of that kind. What is written is
what ``msgspec`` writes: the shortest form. Arrays of integers are bytes in msgpack, each integer with its lowest byte
first; an array whose items are all the same has one (``wire.frames``).
"""

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array
from overstory.kernels.nothing import NONE

NIL, EMPTY_LIST = 0xC0, 0x90
BYTES_1, BYTES_2, BYTES_4 = 0xC4, 0xC5, 0xC6  # by the bytes of their length
UNSIGNED_1, UNSIGNED_2, UNSIGNED_4, UNSIGNED_8 = 0xCC, 0xCD, 0xCE, 0xCF
SIGNED_1, SIGNED_2, SIGNED_4, SIGNED_8 = 0xD0, 0xD1, 0xD2, 0xD3
LIST_2, LIST_4 = 0xDC, 0xDD
LEAST = 0xE0  # small negative integers begin here


@borrowing
def highest_first(data: Array, at: int, size: int) -> int:
    """The value of some bytes, the first one the highest."""
    value = 0
    for i in range(at, at + size):
        value = value << 8 | int(data[i])
    return value


@borrowing
def lowest_first(data: Array, at: int, size: int) -> int:
    """The value of some bytes, the first one the lowest."""
    value = 0
    for i in range(at + size - 1, at - 1, -1):
        value = value << 8 | int(data[i])
    return value


@borrowing
def read_integer(data: Array, at: int, stop: int) -> tuple[int, int]:
    if at >= stop:
        return 0, NONE
    first = int(data[at])
    if first < EMPTY_LIST - 16:
        return first, at + 1
    if first >= LEAST:
        return first - 256, at + 1
    if not UNSIGNED_1 <= first <= SIGNED_8:
        return 0, NONE
    size = 1 << (first & 3)
    if at + 1 + size > stop:
        return 0, NONE
    value = highest_first(data, at + 1, size)
    if first >= SIGNED_1:
        if size < 8 and value >> (8 * size - 1):
            value -= 1 << (8 * size)
    elif value < 0:  # it has more bits than we
        return 0, NONE
    return value, at + 1 + size


@borrowing
def read_bytes(data: Array, at: int, stop: int) -> tuple[int, int]:
    """Where bytes begin, and where they end: there the next value begins."""
    if at >= stop:
        return 0, NONE
    first = int(data[at])
    if not BYTES_1 <= first <= BYTES_4:
        return 0, NONE
    size = 1 << (first - BYTES_1)
    if at + 1 + size > stop:
        return 0, NONE
    begin = at + 1 + size
    end = begin + highest_first(data, at + 1, size)
    return begin, NONE if end > stop else end


@borrowing
def read_list(data: Array, at: int, stop: int) -> tuple[int, int]:
    """How many values a list has, and where the first one begins."""
    if at >= stop:
        return 0, NONE
    first = int(data[at])
    if EMPTY_LIST <= first < EMPTY_LIST + 16:
        return first - EMPTY_LIST, at + 1
    if first != LIST_2 and first != LIST_4:
        return 0, NONE
    size = 2 if first == LIST_2 else 4
    if at + 1 + size > stop:
        return 0, NONE
    return highest_first(data, at + 1, size), at + 1 + size


@borrowing
def put_highest_first(out: Array, at: int, value: int, size: int) -> int:
    """Writes the last bytes of a value. Returns where they end, as all that follow do."""
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 255
    return at + size


@borrowing
def put_lowest_first(out: Array, at: int, value: int, size: int) -> int:
    for i in range(size):
        out[at + i] = (value >> (8 * i)) & 255
    return at + size


@borrowing
def put_integer(out: Array, at: int, value: int) -> int:
    if 0 <= value < 128 or -32 <= value < 0:
        out[at] = value & 255
        return at + 1
    first, bits = (UNSIGNED_1, 8) if value > 0 else (SIGNED_1, 7)
    size = 1
    while size < 8 and not -(1 << bits) <= value < 1 << bits:
        first, bits, size = first + 1, bits + 8 * size, 2 * size
    out[at] = first
    return put_highest_first(out, at + 1, value, size)


@borrowing
def put_bytes(out: Array, at: int, size: int) -> int:
    """Writes that so many bytes follow."""
    if size < 1 << 8:
        out[at] = BYTES_1
        return put_highest_first(out, at + 1, size, 1)
    if size < 1 << 16:
        out[at] = BYTES_2
        return put_highest_first(out, at + 1, size, 2)
    out[at] = BYTES_4
    return put_highest_first(out, at + 1, size, 4)


@borrowing
def put_list(out: Array, at: int, count: int) -> int:
    """Writes that so many values follow, as a list."""
    if count < 16:
        out[at] = EMPTY_LIST + count
        return at + 1
    if count < 1 << 16:
        out[at] = LIST_2
        return put_highest_first(out, at + 1, count, 2)
    out[at] = LIST_4
    return put_highest_first(out, at + 1, count, 4)
