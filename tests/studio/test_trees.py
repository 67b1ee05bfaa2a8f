"""Which trees of a plan are drawn: the largest flows', with just the links and brokers that the plan's tables say."""

import random
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from overstory.model.network import Network
from overstory.studio.trees import FlowTree, joining, trees_of

from ..plans import random_plan, random_scenario


@pytest.mark.parametrize("seed", range(20))
def test_trees_are_those_of_the_plan(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "scenario")
    plan = random_plan(dice, scenario)
    network = scenario.network
    client_of = {row["id"]: row["client"] for row in scenario.subscriptions.to_pylist()}
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    kinds = {row["flow"]: (row["kind"] != "tree", row["events"]) for row in plan.flows.to_pylist()}
    found = trees_of(scenario, plan, most=100)
    assert sorted(tree.flow for tree in found) == sorted(kinds)
    filter_of = {row["id"]: row["filter"] for row in scenario.subscriptions.to_pylist()}
    for tree in found:
        members = [row["subscription"] for row in plan.members.to_pylist() if row["flow"] == tree.flow]
        links = {(row["source"], row["target"]) for row in plan.trees.to_pylist() if row["flow"] == tree.flow}
        assert tree.members == len(members)
        wanted = Counter(filter_of[each] for each in members)
        assert list(tree.wants) == sorted(wanted, key=lambda text: (-wanted[text], text))[:5]
        assert tree.wanted == len(wanted)
        assert set(network.ids[tree.brokers].tolist()) == {broker_of[client_of[each]] for each in members}
        assert set(_ends(network, network.ids, tree)) == links
        assert (tree.steered, tree.events) == kinds[tree.flow]
    order = [(-tree.members, tree.flow) for tree in found]
    assert order == sorted(order)
    assert [tree.flow for tree in trees_of(scenario, plan, most=2)] == [tree.flow for tree in found[:2]]


def _ends(network: Network, names: np.ndarray, tree: FlowTree) -> list[tuple[int, int]]:
    sources, targets = names[network.sources[tree.links]], names[network.targets[tree.links]]
    return list(zip(sources.tolist(), targets.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_the_links_between_members_are_those_of_the_paths_between_them(seed: int) -> None:
    dice, size = random.Random(seed), 30
    graph = nx.Graph([(at, dice.randrange(at)) for at in range(1, size)])
    one, other = np.array(graph.edges).T
    sources, targets = np.concatenate([one, other]), np.concatenate([other, one])
    network = Network.between(np.arange(size), sources, targets, np.ones(2 * (size - 1)), np.ones(2 * (size - 1)))
    members = dice.sample(range(size), dice.randint(0, 6))
    tree = FlowTree(0, len(members), network.link_between(one, other), np.array(members, np.int64))
    between = {
        frozenset(link) for each in members for link in nx.utils.pairwise(nx.shortest_path(graph, members[0], each))
    }
    links = joining(network, tree)
    ends = zip(network.sources[links].tolist(), network.targets[links].tolist(), strict=True)
    assert set(map(frozenset, ends)) == between
