"""Sets of small numbers as the bits of words."""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from overstory.kernels.compiling import Array, inlined
from overstory.kernels.spans import written_in_place

WORD = 64


@written_in_place
def lowest(_: Any, word: Any) -> Any:
    """The place of the lowest bit that is set in a word; there has to be one."""

    def written(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), written


@inlined
def bit_of(at: int) -> Any:
    """A word with the bit of a number in it."""
    return np.uint64(1) << np.uint64(at % WORD)


@inlined
def has_bit(words: Array, at: int) -> bool:
    return (words[at // WORD] >> np.uint64(at % WORD)) & np.uint64(1) != np.uint64(0)
