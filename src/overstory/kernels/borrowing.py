"""How kernels are compiled that are called very often, with arrays, and make none.

They count no owners of arrays: they borrow those that they are given. Counting takes longer than most of them do. What
they call is compiled in the same way, so that it must make no arrays either.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def borrowing(function: Function) -> Function:
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return cast(Function, compiled)
