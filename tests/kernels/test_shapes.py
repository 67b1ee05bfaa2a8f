"""Faults of trees, against networkx."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.shapes import CIRCLE, FINE, LACKING, PIECES, tree_faults

NODES = 6
ENDS = st.integers(0, NODES - 1)
LINKS = st.lists(st.tuples(ENDS, ENDS).filter(lambda ends: ends[0] != ends[1]), max_size=NODES)
SETS = st.lists(st.tuples(LINKS, st.sets(ENDS, max_size=3)), max_size=4)


def fault_of(links: list[tuple[int, int]], wanted: set[int]) -> int:
    graph = nx.MultiGraph(links)
    if not links:
        return LACKING if len(wanted) > 1 else FINE
    if not nx.is_forest(graph):
        return CIRCLE
    if not nx.is_connected(graph):
        return PIECES
    return FINE if wanted <= set(graph) else LACKING


@given(SETS)
def test_faults(sets: list[tuple[list[tuple[int, int]], set[int]]]) -> None:
    links = np.array([ends for some, _ in sets for ends in some], np.int64).reshape(-1, 2)
    wanted = np.array([node for _, some in sets for node in sorted(some)], np.int64)
    sizes = [[len(each) for each in some] for some in ([links for links, _ in sets], [some for _, some in sets])]
    offsets = [np.concatenate([[0], np.cumsum(some, dtype=np.int64)]) for some in sizes]
    faults = np.empty(len(sets), np.int64)
    ends = np.ascontiguousarray(links[:, 0]), np.ascontiguousarray(links[:, 1])
    tree_faults(offsets[0], *ends, offsets[1], wanted, NODES, faults)
    assert faults.tolist() == [fault_of(*each) for each in sets]
