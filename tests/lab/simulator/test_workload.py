"""The topologies and the workload have the numbers that the paper gives."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from overstory.lab.simulator.topology import default_topology, tiered_topology
from overstory.lab.simulator.workload import (
    LENGTHS,
    Subscriptions,
    covering_degree,
    far_reaching,
    make_publications,
    make_subscriptions,
)
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
@pytest.mark.parametrize("workload", sorted(LENGTHS))
def test_the_covering_degree_is_as_asked(degree: int, clustered: bool, workload: str) -> None:
    topology = default_topology()
    made = make_subscriptions(topology, 1000, degree, np.random.default_rng(degree), clustered, workload)
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
    wanting = [made.wanting(x) for x in make_publications(made, 200, dice).tolist()]
    assert 44 < np.mean([len(each) for each in wanting]) < 51
    far = far_reaching(made, 300, dice)
    reached = [len(np.unique(made.broker[made.wanting(x)])) for x in far.tolist()]
    assert min(reached) >= 27  # of 29
    assert Counter(made.is_root.tolist())[True] == made.families == 967


def test_when_all_roots_have_left_dense_publications_are_wanted_almost_everywhere_and_sparse_ones_are_not() -> None:
    dense, sparse = (brokers_without_roots(full_size(workload)) for workload in ("dense", "sparse"))
    assert 22 < dense.mean() < 24  # of 29
    assert np.quantile(dense, 0.01) >= 18
    assert 2.6 < sparse.mean() < 3.1
    assert 0.04 < (sparse == 0).mean() < 0.06


def test_each_threshold_has_its_own_critical_broker_on_the_sparse_workload() -> None:
    """By core broker: the share of what a root behind A gets that somebody else wants who is behind that one, or
    behind one further from the publishers."""
    made = full_size("sparse")
    behind = nearest_core()
    roots = [number for number in np.flatnonzero(made.is_root).tolist() if behind[int(made.broker[number])] == 0]
    shares = [shared(made, number, behind) for number in roots]
    assert np.mean(shares, axis=0) == pytest.approx([0.68, 0.90, 0.95, 0.97], abs=0.01)


def full_size(workload: str) -> Subscriptions:
    return make_subscriptions(default_topology(), 30_000, 30, np.random.default_rng(1), workload=workload)


def brokers_without_roots(made: Subscriptions) -> NDArray[np.int64]:
    """At how many brokers each of many publications is wanted when all roots have left."""
    values = make_publications(made, 1000, np.random.default_rng(2))
    wanting = [made.wanting(x) for x in values.tolist()]
    return np.array([len(np.unique(made.broker[who[~made.is_root[who]]])) for who in wanting])


def nearest_core() -> dict[int, int]:
    """Of each broker with subscribers."""
    topology = default_topology()
    paths = nx.single_source_shortest_path(nx.Graph(topology.links), topology.core[-1])
    return {broker: max(paths[broker], key=lambda on: (on in topology.core, -on)) for broker in topology.subscribers}


def shared(made: Subscriptions, root: int, behind: dict[int, int]) -> list[float]:
    """As far as each of four core brokers: the share of points in the root's interval that somebody else wants."""
    found = np.zeros(4)
    points = np.linspace(made.low[root], made.high[root], 50)
    for x in points.tolist():
        others = [behind[int(made.broker[each])] for each in made.wanting(x).tolist() if each != root]
        found += [any(core <= last for core in others) for last in range(4)]
    return list(map(float, found / len(points)))
