"""How kernels are compiled that are called very often, with arrays, and make none.

They count no owners of arrays: they borrow those that they are given. Counting takes longer than most of them do. What
they call is compiled in the same way, so that it must make no arrays either.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def borrowing(function: Function) -> Function:
    compile_it: Any = numba.njit  # whose stubs do not know the option that switches counting off
    return cast(Function, compile_it(cache=True, nogil=True, error_model="numpy", _nrt=False)(function))
