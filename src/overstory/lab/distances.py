"""The brokers that are closest to others, by hops."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from overstory.model.network import Ints

BLOCK = 256  # searches at once: what is in memory is this many times the brokers


def closest(adjacency: csr_array, roots: Ints, count: int, draw: np.random.Generator) -> NDArray[np.int32]:
    """For each root the ``count`` brokers closest to it, itself among them, in the order of their positions. Which of
    those at the border, all equally far, is left to chance."""
    found = np.empty((len(roots), count), np.int32)
    for start in range(0, len(roots), BLOCK):
        hops = hops_from(adjacency, roots[start : start + BLOCK], count)
        rank = hops + draw.random(hops.shape)
        nearest = np.argpartition(rank, count - 1, axis=1)[:, :count]
        found[start : start + BLOCK] = np.sort(nearest, axis=1)
    return found


def hops_from(adjacency: csr_array, roots: Ints, enough: int) -> NDArray[np.int32]:
    """Hops from each root to every broker, as far as is needed to reach ``enough`` of them; what is beyond counts as
    farther than anything else. All searches go one level at a time, as one product with the adjacency."""
    brokers = adjacency.shape[0]
    hops = np.full((brokers, len(roots)), brokers, np.int32)
    front = np.zeros(hops.shape, np.float32)
    front[roots, np.arange(len(roots))] = 1
    level = 0
    while True:
        hops[front > 0] = level
        level += 1
        seen = hops < brokers
        if seen.sum(axis=0).min() >= enough:
            return hops.T
        front = adjacency @ front
        front[seen] = 0
        if not front.any():
            return hops.T
