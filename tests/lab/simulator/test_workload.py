"""The topologies and the workload have the numbers that the paper gives."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from overstory.lab.simulator.topology import default_topology, tiered_topology
from overstory.lab.simulator.workload import covering_degree, far_reaching, make_publications, make_subscriptions
from overstory.matching import ContainmentGraph


def test_the_default_topology() -> None:
    topology = default_topology()
    graph = nx.Graph(topology.links)
    assert nx.is_tree(graph)
    assert len(graph) == 55
    assert (len(topology.core), len(topology.core) + len(topology.inner)) == (5, 23)
    assert all(graph.has_edge(topology.core[-1], each) for each in topology.publishers)
    edges = {each for each in graph if graph.degree(each) == 1}
    assert edges == {*topology.publishers, *topology.subscribers}
    assert (len(edges), len(topology.publishers)) == (32, 3)
    assert all(2 <= len(region) <= 4 for region in topology.regions)
    assert sorted(each for region in topology.regions for each in region) == sorted(topology.subscribers)


def test_the_tiered_topology() -> None:
    topology = tiered_topology()
    graph = nx.Graph(topology.links)
    assert nx.is_tree(graph)
    assert [len(tier) for tier in topology.tiers] == [1, 4, 12, 36]
    for tier, brokers in enumerate(topology.tiers):
        assert {nx.shortest_path_length(graph, 0, each) for each in brokers} == {tier}
    assert len(topology.regions) == 4


def test_next_hops_lead_to_the_target() -> None:
    topology = default_topology()
    towards = topology.next_hops(topology.publishers[0])
    for broker in topology.brokers:
        hops = 0
        while broker != topology.publishers[0]:
            broker, hops = towards[broker], hops + 1
            assert hops < len(topology.brokers)


@pytest.mark.parametrize("degree", [10, 30, 50])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_covering_degree_is_as_asked(degree: int, clustered: bool) -> None:
    topology = default_topology()
    made = make_subscriptions(topology, 1000, degree, np.random.default_rng(degree), clustered)
    assert covering_degree(made) == degree
    graph = ContainmentGraph(made.filter(number) for number in range(len(made.low)))
    assert sorted(graph.roots()) == np.flatnonzero(made.is_root).tolist()
    roots = graph.roots()
    assert sum(len(graph.remove(root)) for root in roots) == degree * len(roots)


def test_clustered_families_stay_in_their_region() -> None:
    topology = default_topology()
    made = make_subscriptions(topology, 2000, 30, np.random.default_rng(5), clustered=True)
    region_of = {broker: region for region in topology.regions for broker in region}
    for family in np.unique(made.family).tolist():
        assert len({region_of[broker] for broker in made.broker[made.family == family].tolist()}) == 1


def test_publications_are_wanted_by_as_many_as_the_paper_has() -> None:
    topology = default_topology()
    dice = np.random.default_rng(1)
    made = make_subscriptions(topology, 30_000, 30, dice)
    families = int(made.family.max()) + 1
    wanting = [made.wanting(x) for x in make_publications(200, families, dice).tolist()]
    assert 44 < np.mean([len(each) for each in wanting]) < 51
    far = far_reaching(made, 300, families, dice)
    reached = [len(np.unique(made.broker[made.wanting(x)])) for x in far.tolist()]
    assert min(reached) >= 27  # of 29
    assert Counter(made.is_root.tolist())[True] == families == 967
