"""python -m overstory.matching: compiles the kernels and keeps them, so that no later run has to wait for that."""

import numpy as np

from overstory.filters.parse import parse_filter
from overstory.matching.batch import Batch, Numbers, Texts
from overstory.matching.covering import CoveringIndex
from overstory.matching.index import FilterIndex
from overstory.model.values import Untyped

FILTERS = (
    "price > 1",
    "price < 9 AND symbol IN ('A', 'B')",
    "symbol LIKE 'A%'",
    "high - low > 1",
    "tags HAS ANY ('a')",
)


def use_every_kernel() -> None:
    filters = [parse_filter(text) for text in FILTERS]
    index = FilterIndex(filters)
    index.match({"price": 2, "symbol": "A", "tags": ["a"], "high": Untyped("5"), "low": 1})
    index.match_batch(Batch({"price": Numbers([2.5, 3.5]), "high": [1, 2], "symbol": Texts.of(["A", "B"])}))
    index.match_batch(Batch({"price": Numbers([2, 3])}))
    index.match_batch(Batch({"price": Numbers(np.frombuffer(bytes(16), np.int64))}))  # read-only, as Arrow's are
    index.add(filters[0])
    index.remove(0)
    covering = CoveringIndex(filters)
    covering.covering(filters[0])
    covering.covered(filters[0])
    covering.remove(covering.add(filters[0]))  # only ranges: it has kernels of its own


if __name__ == "__main__":
    use_every_kernel()
