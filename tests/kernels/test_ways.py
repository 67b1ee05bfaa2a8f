"""The ways of steered flows are those that the law takes, whether links cost the same or not."""

import random

import numpy as np
import pytest

from overstory.kernels.nothing import NONE
from overstory.kernels.ways import ways_from
from overstory.model.network import Network
from overstory.routing.law import steered_tree


def random_network(dice: random.Random, prices: list[float]) -> Network:
    brokers = dice.randint(1, 12)
    pairs = {(i, dice.randrange(i)) for i in range(1, brokers)}
    pairs |= {(dice.randrange(brokers), dice.randrange(brokers)) for _ in range(2 * brokers)}
    links = sorted({link for u, v in pairs if u != v for link in ((u, v), (v, u))})
    source, target = np.array(links, np.int64).reshape(-1, 2).T
    paid = np.array([dice.choice(prices) for _ in links], float)
    return Network.between(np.arange(brokers), source, target, paid, np.zeros(len(links)))


@pytest.mark.parametrize("prices", [[1.0], [0.5], [0.0], [0.0, 1.0, 2.0], [1.0, 2.0]])
def test_the_ways_of_the_law(prices: list[float]) -> None:
    dice = random.Random(5)
    for _ in range(60):
        network = random_network(dice, prices)
        brokers = len(network)
        entries = np.array(sorted(dice.sample(range(brokers), dice.randint(1, brokers))), np.int64)
        ways = ways_from(network.offsets, network.targets, network.prices, entries)
        assert np.flatnonzero(ways.row != NONE).tolist() == entries.tolist()
        ends = zip(network.sources.tolist(), network.targets.tolist(), strict=True)
        priced = dict(zip(ends, network.prices.tolist(), strict=True))
        for entry in entries.tolist():
            last = ways.link[ways.row[entry]]
            assert last[entry] == NONE
            there = np.flatnonzero(last != NONE)
            assert network.targets[last[there]].tolist() == there.tolist()
            tree = steered_tree(priced, entry, set(range(brokers)))
            ours = {frozenset(link) for link in zip(network.sources[last[there]].tolist(), there.tolist(), strict=True)}
            assert ours == {frozenset((u, v)) for u in tree for v in tree[u]}
