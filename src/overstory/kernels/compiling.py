"""How kernels are compiled, and kept compiled between runs.

Numba's cache compares a kernel with the one file that it stands in, and would go on using old code of functions that
it calls in other files. So what is kept of a file is thrown away when any file that it imports has changed.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
HERE = Path(__file__).parent
IMPORTED = re.compile(r"^from overstory\.kernels\.(\w+) import", re.MULTILINE)
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Kernels let other threads run meanwhile."""
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """For what is called in the innermost loops and takes or gives arrays: a call would hand each of them over, and
    count its owners."""
    compiled: Any = numba.njit(inline="always", error_model="numpy")(function)
    return cast(Function, compiled)


def drop_stale_cache(folder: Path = HERE) -> bool:
    """Returns whether kernels have to be compiled anew, which takes a minute or two."""
    sources = {path.stem: path.read_bytes() for path in folder.glob("*.py") if path.name != "plain.py"}  # not compiled
    fresh = {name: _digest(name, sources) for name in sorted(sources)}
    cache = folder / "__pycache__"
    stamp = cache / "kernels.json"
    try:
        known = json.loads(stamp.read_text())
    except (OSError, ValueError):
        known = {}
    stale = [name for name, digest in fresh.items() if known.get(name) != digest]
    if not stale:
        return False
    try:
        cache.mkdir(exist_ok=True)
        for name in stale:
            for path in cache.glob(f"{name}.*.nb?"):
                path.unlink(missing_ok=True)
        stamp.write_text(json.dumps(fresh))
    except OSError:
        pass  # a read-only installation: Numba then keeps its cache elsewhere, under a name of its own
    return True


def _digest(name: str, sources: dict[str, bytes]) -> str:
    """Of a kernel file and of all that it imports from the others."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in reached and each in sources:
            reached.add(each)
            waiting += IMPORTED.findall(sources[each].decode())
    return hashlib.sha256(b"".join(sources[each] for each in sorted(reached))).hexdigest()


MUST_COMPILE = drop_stale_cache()
