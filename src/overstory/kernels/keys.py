"""Numbers as keys: every integer and float on one line of 64-bit integers, so that kernels compare only those.

A float that is zero, or neither tiny nor huge (2^-511 <= |x| < 2^512), has an even key, in order; what lies between
two neighbours, such as the integer 2^53 + 1, has the odd key between theirs. Whatever is beyond the last of them has
the key ``TOP`` or ``-TOP``. So a value compares exactly with every constant that has an even key; others, which
hardly ever occur, are not left to kernels. An interval includes its first and its last key: "greater than x" begins at
``key(x) + 1``.

Booleans stand above all numbers. ``LEAST`` is the key of a value that is neither; only the open interval from
``LEAST`` to ``MOST``, which is no constraint at all, holds it.
"""

import struct
from fractions import Fraction

import numpy as np

from overstory.kernels.compiling import Array, kernel

LEAST, MOST = -(2**63), 2**63 - 1
SMALLEST = 512 << 52  # the bits of 2^-511
BEYOND = 1535 << 52  # the bits of 2^512
TOP = 2 * (BEYOND - SMALLEST) + 1
FALSE, TRUE = MOST - 3, MOST - 2
EXACT = 2**53  # integers up to here are floats
LOWEST_USUAL = 2.0**-511
ABOVE_INT64 = 9223372036854775808.0
MAGNITUDE = MOST


@kernel
def key_of_bits(bits: int) -> int:
    magnitude = bits & MAGNITUDE
    if magnitude == 0:
        return 0
    if magnitude < SMALLEST:
        key = 1
    elif magnitude < BEYOND:
        key = 2 * (magnitude - SMALLEST + 1)
    elif magnitude <= 2047 << 52:
        key = TOP
    else:
        return LEAST  # not a number
    return key if bits >= 0 else -key


@kernel
def keys_of_floats(values: Array, keys: Array) -> None:
    bits = values.view(np.int64)
    for i in range(len(bits)):
        keys[i] = key_of_bits(bits[i])


@kernel
def keys_of_integers(values: Array, keys: Array) -> None:
    floats = values.astype(np.float64)
    bits = floats.view(np.int64)
    for i in range(len(values)):
        value, near, key = values[i], floats[i], key_of_bits(bits[i])
        if near == ABOVE_INT64:
            key -= 1  # rounded up from an integer just below
        elif abs(near) >= EXACT:
            whole = np.int64(near)
            key += 1 if whole < value else -1 if whole > value else 0
        keys[i] = key


def key_of_number(value: int | float | Fraction) -> int:
    """For one number of any size, in Python."""
    try:
        near = float(value)
    except OverflowError:
        return TOP if value > 0 else -TOP
    bits: int = _bits_of(_float_bytes(near))[0]
    if SMALLEST <= bits < BEYOND:
        key = 2 * (bits - SMALLEST + 1)
    elif SMALLEST <= bits & MAGNITUDE < BEYOND:
        key = -2 * ((bits & MAGNITUDE) - SMALLEST + 1)
    elif near != near:
        return LEAST
    elif abs(near) > 1:
        return TOP if near > 0 else -TOP
    elif near:
        return 1 if near > 0 else -1  # tiny: between zero and the first that has a key of its own
    else:
        key = 0
    return key if near == value else key + (1 if near < value else -1)


def keys_of_ends(low: int | float, high: int | float) -> tuple[int, int]:
    """Of an interval, the lower one first. Both at once is faster for ends that are neither negative, tiny nor huge."""
    if low >= LOWEST_USUAL and high <= EXACT:
        first, last = _two_bits_of(_two_float_bytes(low, high))
        return 2 * (first - SMALLEST + 1), 2 * (last - SMALLEST + 1)
    return key_of_number(low), key_of_number(high)


_float_bytes, _bits_of = struct.Struct("<d").pack, struct.Struct("<q").unpack
_two_float_bytes, _two_bits_of = struct.Struct("<dd").pack, struct.Struct("<qq").unpack
