"""Co-interest: how many users want two topics, of each topic those others that most of its users want as well."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


@kernel
def partners_of(
    chosen: Array, offsets: Array, topics: Array, fan_offsets: Array, fans: Array, most: int
) -> tuple[Array, Array]:
    """By chosen topic at most so many others, those with most common users first, of equals the lower number; and how
    many users they share. NONE where there are fewer. ``topics`` are those of users, ``fans`` the users of topics."""
    count = len(fan_offsets) - 1
    found, shared = np.full((len(chosen), most), NONE), np.zeros((len(chosen), most), np.int64)
    common, seen = np.zeros(count, np.int64), np.empty(count, np.int64)
    for row in range(len(chosen)):
        near = 0
        for i in range(fan_offsets[chosen[row]], fan_offsets[chosen[row] + 1]):
            for k in range(offsets[fans[i]], offsets[fans[i] + 1]):
                if common[topics[k]] == 0:
                    seen[near] = topics[k]
                    near += 1
                common[topics[k]] += 1
        common[chosen[row]] = 0
        order = np.argsort(-common[seen[:near]] * count + seen[:near])
        for i in range(min(most, near)):
            other = seen[order[i]]
            if common[other] > 0:
                found[row, i], shared[row, i] = other, common[other]
        for i in range(near):
            common[seen[i]] = 0
    return found, shared
