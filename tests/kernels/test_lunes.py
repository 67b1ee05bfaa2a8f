"""Links that no cheapest tree has: counted as by the plain way, and trees are as cheap without them."""

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from overstory.kernels.lunes import lune_sizes, plain_lune_sizes


def drawn(seed: int, size: int) -> np.ndarray:
    """Some with many equal prices, some metric."""
    draw = np.random.default_rng(seed)
    if seed % 2:
        near = draw.integers(1, 6, (size, size))
    else:
        places = draw.random((size, 2))
        near = (1e6 * np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))).astype(np.int64)
    near = np.triu(near, 1)
    found: np.ndarray = near + near.T
    return found


@pytest.mark.parametrize("seed", range(8))
def test_lunes_are_counted_as_by_the_plain_way(seed: int) -> None:
    near = drawn(seed, 17)
    for most in (0, 3, 20):
        found = np.empty(near.shape, np.int64)
        lune_sizes(near, most, found)
        plain = plain_lune_sizes(near)
        np.fill_diagonal(plain, 0)
        assert np.array_equal(found, np.minimum(plain, most + 1))


@pytest.mark.parametrize("seed", range(12))
def test_trees_that_join_nearly_all_need_no_link_with_a_larger_lune(seed: int) -> None:
    size, missing = 7, 2
    near = drawn(seed, size)
    lunes = np.empty(near.shape, np.int64)
    lune_sizes(near, size, lunes)
    few = np.where(lunes <= missing, near, 0)
    for left_out in combinations(range(size), missing):
        joined = [node for node in range(size) if node not in left_out]
        assert cheapest(near, joined, left_out) == cheapest(few, joined, left_out)


def cheapest(near: np.ndarray, joined: list[int], others: tuple[int, ...]) -> float:
    """By the spanning trees of all sets of other nodes."""
    best = np.inf
    for count in range(len(others) + 1):
        for some in combinations(others, count):
            nodes = [*joined, *some]
            tree = minimum_spanning_tree(near[np.ix_(nodes, nodes)].astype(float))
            if tree.nnz == len(nodes) - 1:
                best = min(best, float(tree.sum()))
    return best
