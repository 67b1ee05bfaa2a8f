"""The header of a steered frame: which links it still has to take, in the encoding of ``kernels.steering``.

The first byte has five bits that tell one network from another, and three that count detours: how often a broker before
a link that was down has found another way for what lay behind it. A header from a broker that knows another network is
not read, because its ports would lead elsewhere. A frame that has made ``MOST_DETOURS`` is dropped at the next cut:
what a broker believes of distant links may be old, and two brokers with old beliefs could send a frame to and fro.
"""

import hashlib

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.steering import NO_LINK, OTHER_NETWORK, TOO_LONG, TRUNCATED, TWICE

DETOUR_BITS = 3
MOST_DETOURS = (1 << DETOUR_BITS) - 1
DIGESTS = 1 << (8 - DETOUR_BITS)

UNKNOWN_FLOW = OTHER_NETWORK + 1  # what kernels cannot know to be wrong

# What is said of a header that is not followed
FAULTS = {
    TRUNCATED: "the header is truncated",
    NO_LINK: "the header names a link that is not there",
    TWICE: "the header names a broker twice",
    TOO_LONG: "the header goes on after its end",
    OTHER_NETWORK: "the header was written for another network",
    UNKNOWN_FLOW: "the header is of a flow that is not known",
}


def digest_of(ids: Array, offsets: Array, targets: Array) -> int:
    """A number that two brokers have in common if they know the same brokers and links."""
    content = b"".join(np.ascontiguousarray(array, np.int64).tobytes() for array in (ids, offsets, targets))
    return hashlib.sha256(content).digest()[0] & (DIGESTS - 1)


def first_byte(digest: int, detours: int = 0) -> int:
    """The byte that a header begins with."""
    return digest << DETOUR_BITS | detours


def detours_of(byte: int) -> int:
    """How many detours a frame has made, by the first byte of its header."""
    return byte & MOST_DETOURS
