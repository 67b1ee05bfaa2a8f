"""Hashes of sets, by which Spark brings equal ones together."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.hashing import mixed

FIRST, SECOND = np.int64(0x243F6A8885A308D3), np.int64(0x13198A2E03707344)  # digits of pi


@kernel
def hash_sets(offsets: Array, values: Array) -> tuple[Array, Array]:
    """128 bits for each list of values between two offsets, as two columns."""
    high, low = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.int64)
    for i in range(len(high)):
        one, other = FIRST, SECOND
        for j in range(offsets[i], offsets[i + 1]):
            one = mixed(one ^ values[j]) + values[j]
            other = mixed(other + values[j]) ^ one
        high[i], low[i] = one, other
    return high, low


@kernel
def sort_lists(offsets: Array, values: Array) -> None:
    """Sorts the values between each two offsets, in place: lists that hold the same then have the same hash."""
    for i in range(len(offsets) - 1):
        values[offsets[i] : offsets[i + 1]].sort()
