"""Links that no cheapest tree has, because some third node is nearer to both of their ends than these to each other.

If such a node is one of those that a tree joins, the link may be replaced by a cheaper one, from that node to one of
the ends. So of a network where all nodes are linked to each other, and nearly all are joined, few links matter: those
that have no more such nodes (the *lune* of the link) than there are nodes that need not be joined.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel


@kernel
def lune_sizes(near: Array, most: int, out: Array) -> None:
    """Sets ``out[u, v]`` to the number of nodes that are nearer to u and to v than these to each other, or to
    ``most + 1`` if there are more. ``near`` has whole numbers, the same both ways."""
    size = len(near)
    for u in range(size):
        out[u, u] = 0
        for v in range(u):
            apart, found = near[u, v], 0
            for w in range(size):
                if max(near[u, w], near[v, w]) < apart and w != u and w != v:
                    found += 1
                    if found > most:
                        break
            out[u, v] = out[v, u] = found


def plain_lune_sizes(near: Array) -> Array:
    """The same without a limit, from all triples at once."""
    size = len(near)
    farther = np.maximum(near[:, None, :], near[None, :, :])
    ends = np.arange(size)
    farther[ends, :, ends] = farther[:, ends, ends] = np.iinfo(np.int64).max
    return np.asarray((farther < near[:, :, None]).sum(axis=2))
