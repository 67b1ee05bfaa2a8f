"""One hash of 64 bits, for tables and sets alike: the finalizer of Appleby's MurmurHash3."""

import numpy as np

from overstory.kernels.compiling import Array, kernel


@kernel
def mixed(value: int) -> int:
    """A hash in which every bit depends on every bit."""
    x = np.uint64(value)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    x ^= x >> np.uint64(33)
    return np.int64(x)


@kernel
def mix_all(values: Array) -> None:
    """Puts the hash of each value in its place."""
    for i in range(len(values)):
        values[i] = mixed(values[i])
