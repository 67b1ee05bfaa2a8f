"""Algorithm 3 of the overlay paper: users join a tree one after the other, the nearest over any broker first."""

import numpy as np
import pytest
from numpy.typing import NDArray

from overstory.kernels.overlay_paper import grow_to_users

Floats = NDArray[np.float64]


def plain(prices: Floats, far: Floats, root: int) -> tuple[list[int], int]:
    """The broker of each user, and how many brokers the tree has; ``prices`` are by broker and user."""
    tree, at = {root}, dict[int, int]()
    while len(at) < prices.shape[1]:
        _, user, broker = min(
            (prices[broker, user] + min(far[inside, broker] for inside in tree), user, broker)
            for user in range(prices.shape[1])
            if user not in at
            for broker in range(len(far))
        )
        at[user] = broker
        tree.add(broker)
    return [at[user] for user in range(prices.shape[1])], len(tree)


@pytest.mark.parametrize("seed", range(20))
def test_users_join_in_the_order_of_their_ways(seed: int) -> None:
    draw = np.random.default_rng(seed)
    brokers, users = int(draw.integers(1, 7)), int(draw.integers(1, 12))
    places, homes = draw.random((brokers, 2)), draw.random((users, 2))
    far = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    prices = np.hypot(*(places[:, None] - homes[None]).transpose(2, 0, 1)) * draw.choice([0.5, 1.5, 4.0])
    if seed % 2:
        prices = draw.random(prices.shape)
    found = np.empty(users, np.int64)
    size = grow_to_users(prices, far, 0, found, np.empty(users))
    assert (found.tolist(), size) == plain(prices, far, 0)
