"""Which sub-channels of a grid a union of boxes needs: the smallest cover, and how much of each sub-channel it takes.

A box has for each dimension its first and its last bin, and how much of these two it takes; of those between it takes
all. Bins of several dimensions make channels as digits make numbers, the last dimension changing fastest.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel


@kernel
def count_covers(first: Array, last: Array) -> Array:
    """By box: how many channels it covers."""
    found = np.ones(len(first), np.int64)
    for box in range(len(first)):
        for dimension in range(first.shape[1]):
            found[box] *= max(last[box, dimension] - first[box, dimension] + 1, 0)
    return found


@kernel
def cover(
    sizes: Array, first: Array, last: Array, first_part: Array, last_part: Array, offsets: Array, parts: Array
) -> Array:
    """The channels of box i, from ``offsets[i]`` on, and into ``parts`` how much of each the box takes."""
    found = np.empty(offsets[-1], np.int64)
    dimensions = first.shape[1]
    digits = np.empty(dimensions, np.int64)
    for box in range(len(first)):
        digits[:] = first[box]
        for at in range(offsets[box], offsets[box + 1]):
            channel, part = 0, 1.0
            for dimension in range(dimensions):
                digit = digits[dimension]
                channel = channel * sizes[dimension] + digit
                if digit == first[box, dimension]:
                    part *= first_part[box, dimension]
                elif digit == last[box, dimension]:
                    part *= last_part[box, dimension]
            found[at], parts[at] = channel, part
            dimension = dimensions - 1
            while dimension >= 0 and digits[dimension] == last[box, dimension]:
                digits[dimension] = first[box, dimension]
                dimension -= 1
            if dimension >= 0:
                digits[dimension] += 1
    return found
