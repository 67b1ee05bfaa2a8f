"""Trees of channels against networkx: they span, and a flood costs what walking the tree says."""

import random

import networkx
import numpy as np
from numpy.typing import NDArray

from overstory.kernels.channels import Lists, channel_tree, counts_below, flood_costs
from overstory.model.network import Network
from overstory.planners.trees.channels import links_of

Ints = NDArray[np.int64]


def random_network(dice: random.Random) -> Network:
    size = dice.randint(1, 14)
    pairs = {(i, dice.randrange(i)) for i in range(1, size)}
    pairs |= {(max(p), min(p)) for _ in range(size) if size > 1 and (p := dice.sample(range(size), 2))}
    links = [(u, v) for pair in sorted(pairs) for u, v in (pair, pair[::-1])]
    links += [(0, size - 1)] * (size > 1)  # maybe without a way back: then in no tree
    prices = np.array([dice.choice([0.0, 0.25, 1.0, 1.0, 2.0]) for _ in links])
    ends = np.array(links, np.int64).reshape(-1, 2).T
    return Network.between(np.arange(size), ends[0], ends[1], prices, np.zeros(len(links)))


def grown(network: Network, members: Ints) -> tuple[Ints, NDArray[np.float64]]:
    parent, total = np.empty(len(network), np.int64), np.empty(len(network))
    channel_tree(links_of(network), members, parent, total)
    return parent, total


def test_a_flood_costs_what_its_links_cost() -> None:
    dice = random.Random(3)
    for _ in range(300):
        network = random_network(dice)
        members = np.array(dice.sample(range(len(network)), dice.randint(1, len(network))))
        parent, total = grown(network, members)
        links = dict(zip(zip(network.sources.tolist(), network.targets.tolist()), network.prices.tolist()))  # noqa: B905
        tree = networkx.Graph([(node, above) for node, above in enumerate(parent.tolist()) if above >= 0])
        tree.add_nodes_from(range(len(network)))
        assert networkx.is_tree(tree)
        assert all((u, v) in links and (v, u) in links for u, v in tree.edges)
        for root in range(len(network)):
            ways = networkx.single_source_shortest_path(tree, root)
            crossed = {step for member in members.tolist() for step in zip(ways[member], ways[member][1:])}  # noqa: B905
            assert total[root] == sum(links[step] for step in crossed)


def test_members_are_joined_by_cheapest_paths() -> None:
    """Two of them, where both directions cost the same: no tree is cheaper."""
    dice = random.Random(8)
    for _ in range(200):
        network = random_network(dice)
        both = np.where(network.back >= 0, (network.prices + network.prices[network.back]) / 2, 1.0)
        network = Network.between(network.ids, network.sources, network.targets, both, network.delays)
        if len(network) < 2:
            continue
        one, other = dice.sample(range(len(network)), 2)
        graph = networkx.Graph()
        mutual = network.back >= 0
        graph.add_weighted_edges_from(
            zip(network.sources[mutual].tolist(), network.targets[mutual].tolist(), both[mutual].tolist(), strict=True)
        )
        _, total = grown(network, np.array([one, other]))
        assert total[one] == networkx.dijkstra_path_length(graph, one, other)


def test_many_sets_at_once() -> None:
    dice = random.Random(5)
    network = random_network(dice)
    sets = [dice.sample(range(len(network)), size) for size in (1, 3, 2)]
    roots = [[0], [], [1, 2, 3]]
    offsets = [np.concatenate([[0], np.cumsum([len(each) for each in lists])]) for lists in (sets, roots)]
    out = np.empty(4)
    flood_costs(
        links_of(network),
        Lists(offsets[0], np.concatenate([np.array(each, np.int64) for each in sets])),
        Lists(offsets[1], np.concatenate([np.array(each, np.int64) for each in roots])),
        out,
    )
    assert out.tolist() == [
        grown(network, np.array(s))[1][r] for s, some in zip(sets, roots, strict=True) for r in some
    ]


def test_counting_below() -> None:
    parent = np.array([-1, 0, 0, 1, 1])
    assert counts_below(parent, np.array([3, 4, 2])).tolist() == [3, 2, 1, 1, 1]
    assert counts_below(parent, np.empty(0, np.int64)).tolist() == [0] * 5
