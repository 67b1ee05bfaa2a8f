"""Large tables travel to Spark's workers as files, which these map into memory: one copy a host, however many workers
it has, where a broadcast would give each its own."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.pipeline.match import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 2**20  # bytes


class File(NamedTuple):
    """Stands for a table that was shipped."""

    name: str


def shipped(spark: "SparkSession", value: Any) -> Any:
    """A value, perhaps of nested tuples, in which a name stands for each large array."""
    if isinstance(value, np.ndarray):
        return _sent(spark, value) if value.nbytes >= LARGE else value
    if isinstance(value, tuple):
        return _like(value, [shipped(spark, part) for part in value])
    return value


def arrived(value: Any) -> Any:
    """Opens, in a worker of Spark, what was shipped there."""
    from pyspark import SparkFiles

    if isinstance(value, File):
        # Not read-only, since kernels are compiled for arrays that can be written to; nobody does.
        return np.asarray(np.load(SparkFiles.get(value.name), mmap_mode="c"))
    if isinstance(value, tuple):
        return _like(value, [arrived(part) for part in value])
    return value


def _like(value: tuple[Any, ...], parts: list[Any]) -> Any:
    """A tuple of the same type."""
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _sent(spark: "SparkSession", table: NDArray[Any]) -> File:
    """A file is named by its content: what was sent for one plan is there for the next. It stays with Spark's own, as
    executors that start later fetch it too."""
    from pyspark import SparkFiles

    table = np.ascontiguousarray(table)
    kind = f"{table.dtype}{table.shape}".encode()
    name = hashlib.blake2b(kind + table.tobytes(), digest_size=16).hexdigest()
    path = Path(SparkFiles.getRootDirectory(), "sent", f"{name}.npy")
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        np.save(path, table)
        ship(spark, path)
    return File(path.name)
