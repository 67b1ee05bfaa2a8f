"""The links that summaries travel along, against ways that networkx finds one by one."""

from itertools import pairwise

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.model.network import Network
from overstory.pipeline.entering import may_enter
from overstory.pipeline.summaries import LateTree

TREES = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        st.permutations(range(size)), st.tuples(*(st.integers(0, max(at - 1, 0)) for at in range(size)))
    )
)


def network_of(order: list[int], parents: tuple[int, ...]) -> tuple[Network, networkx.Graph]:
    """A tree whose brokers stand in any order."""
    links = [(order[at], order[parents[at]]) for at in range(1, len(order))]
    ends = np.array([*links, *(link[::-1] for link in links)], np.int64).reshape(-1, 2)
    size = len(ends)
    network = Network.between(np.arange(len(order)), ends[:, 0], ends[:, 1], np.ones(size), np.zeros(size))
    graph = networkx.Graph(links)
    graph.add_nodes_from(order)
    return network, graph


@settings(max_examples=300, deadline=None)
@given(TREES, st.lists(st.integers(0, 11), max_size=8))
def test_links_from_a_host_to_all_that_publish(tree: tuple[list[int], tuple[int, ...]], drawn: list[int]) -> None:
    network, graph = network_of(*tree)
    publishing = [broker % len(network) for broker in drawn]
    found = LateTree(network).links(np.array(publishing, np.int64), np.arange(len(network)))
    for host in range(len(network)):
        ways = [networkx.shortest_path(graph, host, broker) for broker in publishing]
        assert found[host] == len({link for way in ways for link in pairwise(way)})


def test_brokers_that_may_publish() -> None:
    assert may_enter("TRUE", [3, 4, 5]) == [3, 4, 5]
    assert may_enter("$broker IN (4, 9)", [3, 4, 5]) == [4]
    assert may_enter("$broker NOT IN (4, 9) AND price > 1", [3, 4, 5]) == [3, 5]
    assert may_enter("$broker = 4 OR price > 1", [3, 4, 5]) == [3, 4, 5]
