"""The trees of steered flows that take the cheapest paths: of each event, the union of the paths to its ends."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room


@kernel
def path_links(
    last_link: Array, sources: Array, seen: Array, stamp: int, ends: Array, links: Array
) -> tuple[int, Array]:
    """The links of the cheapest paths to these ends, each behind those that lead to it: how many, and which.

    ``last_link`` has, by broker, the last link on the way to it, and NONE where the way begins. ``seen`` is by broker,
    and nothing in it is ``stamp``.
    """
    count = 0
    for end in ends:
        broker, begin = end, count
        while last_link[broker] != NONE and seen[broker] != stamp:
            seen[broker] = stamp
            links = with_room(links, count + 1)
            links[count] = last_link[broker]
            broker = sources[last_link[broker]]
            count += 1
        for k in range((count - begin) // 2):  # from where the way leaves those before it
            links[begin + k], links[count - 1 - k] = links[count - 1 - k], links[begin + k]
    return count, links


@kernel
def path_trees_from(
    last_links: Array, lines: Array, sources: Array, offsets: Array, ends: Array
) -> tuple[Array, Array]:
    """The trees to many sets of ends, those between two offsets each: offsets of links, and links.

    Each set is reached from the broker of its line of ``last_links``.
    """
    link_offsets = np.zeros(len(offsets), np.int64)
    found, links = np.empty(64, np.int64), np.empty(256, np.int64)
    seen = np.full(last_links.shape[1], NONE, np.int64)
    for tree in range(len(offsets) - 1):
        some = ends[offsets[tree] : offsets[tree + 1]]
        count, found = path_links(last_links[lines[tree]], sources, seen, tree, some, found)
        total = link_offsets[tree]
        links = with_room(links, total + count)
        links[total : total + count] = found[:count]
        link_offsets[tree + 1] = total + count
    return link_offsets, links[: link_offsets[-1]]
