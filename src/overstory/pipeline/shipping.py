"""Tables of ways travel to Spark's workers as files, which these map into memory: one copy a host, however many workers
it has, where a broadcast would give each its own."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.metering import NO_WAYS, Ways
from overstory.pipeline.match import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Shipped(NamedTuple):
    row: NDArray[np.int64]
    file: str | None  # the name of the table's


def shipped(spark: "SparkSession", ways: Ways) -> Shipped:
    """A file is named by its content: what was sent for one plan is there for the next. It stays with Spark's own, as
    executors that start later fetch it too."""
    from pyspark import SparkFiles

    if not ways.link.size:
        return Shipped(ways.row, None)
    name = hashlib.blake2b(ways.link.data, digest_size=16).hexdigest()
    path = Path(SparkFiles.getRootDirectory(), "sent", f"{name}.npy")
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        np.save(path, ways.link)
        ship(spark, path)
    return Shipped(ways.row, path.name)


def arrived(ways: Shipped) -> Ways:
    """Opens, in a worker of Spark, what was shipped there."""
    from pyspark import SparkFiles

    if ways.file is None:
        return NO_WAYS
    # Not read-only, since kernels are compiled for arrays that can be written to; nobody does.
    return Ways(ways.row, np.asarray(np.load(SparkFiles.get(ways.file), mmap_mode="c")))
