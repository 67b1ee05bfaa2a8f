"""A topic-connected overlay (Chockler et al., 2007): links between users, so that those who want a topic are joined by
links among themselves. Greedy merging takes the link that joins most pieces of topics, again and again."""

import numpy as np

from overstory.kernels.compiling import Array, kernel


@kernel
def greedy_links(offsets: Array, topics: Array) -> Array:
    """Both ends of each link, in the order in which they are taken. Of equals the lowest ends go first, level by
    level: a link's worth can only fall, so one that still has the highest is taken at once."""
    users = len(offsets) - 1
    piece = np.arange(len(topics))  # of each interest: a link to another of the same piece
    worth = np.zeros((users, users), np.int16)
    highest = 0
    for one in range(users):
        for other in range(one + 1, users):
            worth[one, other] = _joined(offsets, topics, piece, one, other, False)
            highest = max(highest, worth[one, other])
    links = np.empty((len(topics) + 1, 2), np.int64)
    count = 0
    for level in range(highest, 0, -1):
        for one in range(users):
            for other in range(one + 1, users):
                if worth[one, other] == level:
                    now = _joined(offsets, topics, piece, one, other, False)
                    if now == level:
                        _joined(offsets, topics, piece, one, other, True)
                        links[count, 0], links[count, 1] = one, other
                        count += 1
                        now = 0
                    worth[one, other] = now
    return links[:count]


@kernel
def _joined(offsets: Array, topics: Array, piece: Array, one: int, other: int, join: bool) -> int:
    """How many topics of both are in different pieces; which are then joined, if asked."""
    i, j, found = offsets[one], offsets[other], 0
    while i < offsets[one + 1] and j < offsets[other + 1]:
        if topics[i] < topics[j]:
            i += 1
        elif topics[i] > topics[j]:
            j += 1
        else:
            here, there = _top(piece, i), _top(piece, j)
            if here != there:
                found += 1
                if join:
                    piece[max(here, there)] = min(here, there)
            i += 1
            j += 1
    return found


@kernel
def _top(piece: Array, at: int) -> int:
    while piece[at] != at:
        piece[at] = piece[piece[at]]
        at = piece[at]
    return at
