"""Whether sets of links are trees, and hold the nodes that they must."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE

FINE, CIRCLE, PIECES, LACKING = range(4)


@kernel
def tree_faults(
    link_offsets: Array, one: Array, other: Array, wanted_offsets: Array, wanted: Array, nodes: int, faults: Array
) -> None:
    """Sets ``faults[i]`` to what is wrong with the links between offsets i and i + 1: they have a circle, are in
    pieces, or have no end at a node that is wanted; a set without links is fine if no more than one node is wanted."""
    seen = np.full(nodes, NONE, np.int64)  # by node: the last set that has it
    above = np.empty(nodes, np.int64)  # towards the node that stands for its piece
    for i in range(len(faults)):
        faults[i] = FINE
        links, found = link_offsets[i + 1] - link_offsets[i], 0
        for at in range(link_offsets[i], link_offsets[i + 1]):
            for end in (one[at], other[at]):
                if seen[end] != i:
                    seen[end], above[end] = i, end
                    found += 1
            here, there = _standing_for(above, one[at]), _standing_for(above, other[at])
            if here == there:
                faults[i] = CIRCLE
                break
            above[here] = there
        if faults[i] == FINE and links and found != links + 1:
            faults[i] = PIECES
        if faults[i] == FINE:
            for at in range(wanted_offsets[i], wanted_offsets[i + 1]):
                if (links and seen[wanted[at]] != i) or (not links and wanted[at] != wanted[wanted_offsets[i]]):
                    faults[i] = LACKING


@kernel
def _standing_for(above: Array, node: int) -> int:
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node
