"""How much of the log is bounded by dual ascent, where the effort given does not suffice for all of it.

Half of the effort goes to the heaviest sets of brokers. The other half is drawn from the rest by the sets' hashes, so
that the choice depends neither on the order of rows nor on partitions. Every bound that is found counts as certified.
What was drawn also tells how far the bounds of the rest, by distance, fall short; scaled up, that is an estimate.

Weights are known by their *rank*, their logarithm in steps: there are never more than some hundred ranks.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]
RANK = "rank"
STEPS = 8  # ranks for each doubling of the weight
HASHES = 2**32


class Chosen(NamedTuple):
    """Which sets dual ascent is run for."""

    rank: int  # all that have this rank or a higher one
    share: int  # of the others, out of ``HASHES``

    def among(self, ranks: Ints, hashes: Ints) -> tuple[Truths, Truths]:
        """Those that are heavy, and those that are drawn from the others."""
        heavy: Truths = ranks >= self.rank
        return heavy, ~heavy & ((hashes & (HASHES - 1)) < self.share)


ALL, NONE = Chosen(0, 0), Chosen(2**63 - 1, 0)


def chosen_from(ranks: Ints, counts: Ints, most: int) -> Chosen:
    """At most so many sets, about, of which there are ``counts`` with each rank; ranks descend."""
    total = np.cumsum(counts)
    if not len(total) or total[-1] <= most:
        return ALL
    heavy = int(np.searchsorted(total, most // 2, side="right"))  # ranks that are taken whole
    many = int(total[heavy - 1]) if heavy else 0
    share = (most - many) * HASHES // (int(total[-1]) - many)
    return Chosen(int(ranks[heavy - 1]) if heavy else 2**63 - 1, share)


def chosen_for(instances: "DataFrame", rows: int, most: int) -> Chosen:
    """Runs on Spark, if there may be more sets than that: there are no more than rows."""
    from pyspark.sql import functions as sql

    if rows <= most:
        return ALL
    sets = instances.groupBy("high", "low").agg(_rank(sql.sum("bytes")).alias(RANK))
    found = sets.groupBy(RANK).agg(sql.count("*").alias("sets")).orderBy(sql.desc(RANK)).toArrow()
    return chosen_from(found[RANK].to_numpy(), found["sets"].to_numpy(), most)


def ranked(instances: "DataFrame") -> "DataFrame":
    """Each with the rank of its set."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    return instances.withColumn(RANK, _rank(sql.sum("bytes").over(Window.partitionBy("high", "low"))))


def _rank(weight: "Column") -> "Column":
    from pyspark.sql import functions as sql

    return sql.floor(sql.log2(weight.cast("double") + 1) * STEPS).cast("long")
