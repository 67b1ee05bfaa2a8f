"""What it costs to reach every broker along the tree, against walking it from each of them."""

import random
from fractions import Fraction

import networkx
import numpy as np
import pytest

from overstory.model.network import Network
from overstory.model.spanning import minimum_spanning_tree
from overstory.pipeline.flood import flood_cost, flood_prices


def random_network(dice: random.Random, size: int) -> Network:
    pairs = {(i, dice.randrange(i)) for i in range(1, size)}
    pairs |= {(max(u, v), min(u, v)) for u, v in (dice.choices(range(size), k=2) for _ in range(size)) if u != v}
    links = np.array([link for u, v in sorted(pairs) for link in ((u, v), (v, u))], np.int64).reshape(-1, 2)
    prices = np.array([dice.choice([0, 0.25, 0.1, 1 / 3, 9e-11, 3, 2e6, 1e200]) for _ in links], np.float64)
    ids = np.array(sorted(dice.sample(range(1000), size)), np.int64)
    return Network.between(ids, links[:, 0], links[:, 1], prices, prices)


@pytest.mark.parametrize("seed", range(24))
def test_flood_prices(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(5):
        network = random_network(dice, dice.randint(1, 15))
        price = dict(
            zip(zip(network.sources.tolist(), network.targets.tolist(), strict=True), network.prices, strict=True)
        )
        tree = networkx.Graph(zip(*(ends.tolist() for ends in minimum_spanning_tree(network)), strict=True))
        tree.add_nodes_from(range(len(network)))
        expected = [
            sum(Fraction(price[link]) for link in networkx.dfs_edges(tree, each)) for each in range(len(network))
        ]
        assert flood_prices(network) == expected
        brokers = np.array(dice.choices(range(len(network)), k=4))
        sizes = np.array(dice.choices(range(100), k=4))
        assert flood_cost(network, brokers, sizes) == sum(
            expected[broker] * size for broker, size in zip(brokers.tolist(), sizes.tolist(), strict=True)
        )


def test_a_path_too_deep_to_walk_by_recursion() -> None:
    size = 5000
    up, down = np.arange(size - 1), np.arange(1, size)
    network = Network.between(
        np.arange(size),
        np.concatenate([up, down]),
        np.concatenate([down, up]),
        np.concatenate([np.full(size - 1, 1.0), np.full(size - 1, 3.0)]),
        np.zeros(2 * size - 2),
    )
    assert flood_prices(network) == [size - 1 + 2.0 * broker for broker in range(size)]
