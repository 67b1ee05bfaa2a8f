"""How kernels are compiled, and kept compiled between runs.

Numba's cache compares a kernel with the one file that it stands in, and would go on using old code of functions that
it calls in other files. So the cache is thrown away as a whole when any kernel file has changed.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
HERE = Path(__file__).parent
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    compiled: Any = numba.njit(cache=True, error_model="numpy")(function)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """For what is called in the innermost loops and hands an array on: a call would count its owners each time."""
    compiled: Any = numba.njit(inline="always", error_model="numpy")(function)
    return cast(Function, compiled)


def drop_stale_cache(folder: Path = HERE) -> bool:
    """Returns whether the kernels have to be compiled anew, which takes a minute or two."""
    sources = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        if path.name != "plain.py":  # the twins, which are not compiled
            sources.update(path.read_bytes())
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == sources.hexdigest():
        return False
    try:
        cache.mkdir(exist_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for path in cache.glob(pattern):
                path.unlink(missing_ok=True)
        stamp.write_text(sources.hexdigest())
    except OSError:
        pass  # a read-only installation: Numba then keeps its cache elsewhere, under a name of its own
    return True


MUST_COMPILE = drop_stale_cache()
