"""Arrays by keys: where those of each key stand, and what stands under a key."""

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.metering import NONE

Ints = NDArray[np.int64]


def offsets_of(sorted_keys: Ints, count: int) -> Ints:
    return np.searchsorted(sorted_keys, np.arange(count + 1)).astype(np.int64)


def looked_up(wanted: Ints, keys: Ints, values: Ints) -> Ints:
    """Of ascending keys; NONE where there is no such key."""
    if not len(keys):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], NONE)


def pairs_looked_up(wanted: tuple[Ints, Ints], keys: tuple[Ints, Ints], values: Ints) -> Ints:
    """The same for pairs, in any order."""
    seconds, second = np.unique(np.concatenate([keys[1], wanted[1]]), return_inverse=True)
    width = max(len(seconds), 1)
    known = keys[0] * width + second[: len(keys[1])]
    order = np.argsort(known)
    return looked_up(wanted[0] * width + second[len(keys[1]) :], known[order], values[order])
