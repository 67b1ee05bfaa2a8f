"""Spans of bytes: compared and copied by the system's own functions, and read eight bytes at a time.

They are written into a kernel in their place, so that no array is handed over and nobody counts its owners: a loop over
a few bytes in a function of its own takes less time than that. Whoever calls one sees to it that the spans are within
their arrays.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from overstory.kernels.compiling import Array, inlined
from overstory.kernels.hashing import mixed

BYTE, WORD, INT = ir.IntType(8), ir.IntType(64), ir.IntType(32)
build: Any = cgutils


def written_in_place(function: Callable[..., Any]) -> Any:
    """For functions that say how a kernel does something, in the compiler's own terms."""
    return numba.extending.intrinsic(function)


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """The address of a place in an array of bytes."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


@written_in_place
def copy_span(_: Any, out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
    """Copies bytes from one array to another."""

    def written(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        to = _place(context, builder, signature.args[0], given[0], given[1])
        source = _place(context, builder, signature.args[2], given[2], given[3])
        build.raw_memcpy(builder, to, source, given[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), written


@written_in_place
def same_span(_: Any, data: Any, start: Any, other: Any, other_start: Any, size: Any) -> Any:
    """Whether two spans of one size hold the same bytes."""

    def written(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        one = _place(context, builder, signature.args[0], given[0], given[1])
        two = _place(context, builder, signature.args[2], given[2], given[3])
        pointer = BYTE.as_pointer()
        known = ir.FunctionType(INT, [pointer, pointer, WORD])
        compare = build.get_or_insert_function(builder.module, known, "memcmp")
        found = builder.call(compare, [builder.bitcast(one, pointer), builder.bitcast(two, pointer), given[4]])
        return builder.icmp_signed("==", found, INT(0))

    return types.boolean(data, types.int64, other, types.int64, types.int64), written


@written_in_place
def word_at(_: Any, data: Any, at: Any) -> Any:
    """Eight bytes as one integer, the first one the lowest."""

    def written(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, signature.args[0], given[0], given[1])
        return builder.load(builder.bitcast(place, WORD.as_pointer()), align=1)

    return types.int64(data, types.int64), written


@inlined
def hash_span(data: Array, start: int, stop: int) -> int:
    """A hash of some bytes: equal for equal ones. The last word overlaps the one before, if they are no whole words."""
    running, at = stop - start, start
    while at + 8 <= stop:
        running = mixed(running ^ word_at(data, at))
        at += 8
    if at < stop and stop - start >= 8:
        return mixed(running ^ word_at(data, stop - 8))
    while at < stop:
        running = running << 8 ^ data[at]
        at += 1
    return mixed(running)
