"""Bounds from every broker at once: never above the cheapest tree, wherever clients are attached."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from overstory.kernels.joint_ascent import NO_LINK, bounds_by_root

Ints = NDArray[np.int64]


def arborescence(core: Ints, root: int, ends: set[int]) -> int:
    """The cheapest set of links from a root to all ends, by trying all sets of links of up to as many as brokers."""
    links = [(u, v) for u, v in product(range(len(core)), repeat=2) if u != v and core[u, v] < NO_LINK]
    best = NO_LINK
    for count in range(len(core)):
        for some in combinations(links, count):
            reached, before = {root}, -1
            while len(reached) != before:
                before = len(reached)
                reached |= {v for u, v in some if u in reached}
            if ends <= reached:
                best = min(best, sum(int(core[u, v]) for u, v in some))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_no_tree_is_cheaper_than_its_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    brokers, clients = 4, int(draw.integers(1, 4))
    core = draw.integers(0, 40, (brokers, brokers))
    core[draw.random(core.shape) < 0.2] = NO_LINK
    down = draw.integers(0, 30, (clients, brokers))
    down[draw.random(down.shape) < 0.2] = NO_LINK
    down[:, 0] = 25
    found = np.zeros((1, brokers), np.int64)
    left = down.copy()
    bounds_by_root(core.T.copy(), left, np.array([0, clients]), found)
    assert (left >= 0).all()
    down = np.where(down < NO_LINK, down - left, NO_LINK)  # what is left has no part in the bound
    trees = {ends: [arborescence(core, root, set(ends)) for root in range(brokers)] for ends in _sets(brokers)}
    for root in range(brokers):
        exact = min(
            (
                sum(int(down[client, broker]) for client, broker in enumerate(at)) + trees[tuple(sorted(set(at)))][root]
                for at in product(range(brokers), repeat=clients)
                if all(down[client, broker] < NO_LINK for client, broker in enumerate(at))
            ),
            default=NO_LINK,
        )
        if exact < NO_LINK:
            assert found[0, root] <= exact
            assert clients > 1 or found[0, root] == exact  # of one client it is the distance


def _sets(count: int) -> list[tuple[int, ...]]:
    return [some for size in range(1, count + 1) for some in combinations(range(count), size)]
