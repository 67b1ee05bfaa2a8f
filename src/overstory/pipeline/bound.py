"""A certified lower bound on core: no plan with these attachments carries the log for less.

Every event must reach the brokers of all who want it, so it costs at least the cheapest set of links that joins them to
its publisher. Dual ascent bounds that from below (``kernels.ascent``). Prices are rounded down to integers, so that no
rounding lifts the bound. Rows beyond the effort given, the lightest, are bounded by the distance of their farthest
terminal; of rows with the same weight their hashes choose, so that the bound does not depend on their order.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.ascent import ascent_bounds
from overstory.kernels.metering import PARTS, Rules
from overstory.kernels.paths import cheapest_paths
from overstory.kernels.travel import terminal_sets
from overstory.model.network import Network
from overstory.pipeline.match import HELD_OUT
from overstory.pipeline.rows import rows_of
from overstory.pipeline.rules import Metered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
EFFORT = 10**8  # rows times brokers that dual ascent is run for: some ten seconds on two cores
FINEST = 2**20  # that a price of 1 is counted in, at most


class Bound(NamedTuple):
    whole: float
    held_out: float


class Scaled(NamedTuple):
    """Prices as integers: the unit is one ``scale``-th."""

    offsets: Ints
    targets: Ints
    prices: Ints
    scale: int


class Heaviest(NamedTuple):
    """Which rows dual ascent is run for: heavier ones than this weight, and a share of those that have it."""

    weight: int
    share: int  # of 2 ** 32

    def among(self, weights: Ints, hashes: Ints) -> NDArray[np.bool_]:
        lucky = (hashes & (2**32 - 1)) < self.share
        chosen: NDArray[np.bool_] = (weights > self.weight) | ((weights == self.weight) & lucky)
        return chosen


ALL, NONE = Heaviest(-1, 0), Heaviest(2**63 - 1, 0)


def heaviest(weights: Ints, counts: Ints, most: int) -> Heaviest:
    """At most so many rows, about, of which there are ``counts`` with each of the weights, descending."""
    total = np.cumsum(counts)
    over = np.flatnonzero(total > most)
    if not len(over):
        return ALL
    border = over[0]
    left = most - int(total[border] - counts[border])
    return Heaviest(int(weights[border]), (left << 32) // int(counts[border]))


def scaled(network: Network, bytes_in_all: int) -> Scaled:
    """As fine as can be without the sum of all bounds leaving 63 bits."""
    whole = np.all(network.prices == np.floor(network.prices))
    most = max(1.0, float(network.prices.sum())) * max(bytes_in_all, 1)
    scale = 1 if whole else min(FINEST, 1 << max(int(2**61 / most).bit_length() - 1, 0))  # so that products are exact
    return Scaled(network.offsets, network.targets, np.floor(network.prices * scale).astype(np.int64), scale)


def bound_of(rows: "DataFrame", metered: Metered, network: Network, effort: int = EFFORT) -> Bound:
    """Runs on Spark."""
    from pyspark.sql import functions as sql

    sizes = rows.groupBy("bytes").agg(sql.count("*").alias("rows")).orderBy(sql.desc("bytes")).toArrow()
    weights, counts = np.asarray(sizes["bytes"]), np.asarray(sizes["rows"])
    graph = scaled(network, int((weights * counts).sum()))
    chosen = heaviest(weights, counts, effort // len(network))
    context = rows.sparkSession.sparkContext
    given = context.broadcast((metered.rules, metered.publishers, graph))

    def bounds(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules, publishers, graph = given.value
        found = bounded(batches, rules, publishers, graph, chosen)
        yield pa.RecordBatch.from_pydict({f"part{part}": [found[part]] for part in range(PARTS)})

    columns = ", ".join(f"part{part} bigint" for part in range(PARTS))
    sums = rows.repartition(2 * context.defaultParallelism).mapInArrow(bounds, columns).toArrow()
    parts = [sum(sums[f"part{part}"].to_pylist()) for part in range(PARTS)]
    return Bound(sum(parts) / graph.scale, parts[HELD_OUT] / graph.scale)


def bounded(
    batches: Iterable[pa.RecordBatch], rules: Rules, publishers: Ints, graph: Scaled, chosen: Heaviest = ALL
) -> list[int]:
    """Sums of bounds times bytes, by part, in units of the scaled price."""
    parts = [0] * PARTS
    for batch in batches:
        rows = rows_of(batch, publishers)
        roots, offsets, terminals = terminal_sets(rules, rows)
        heavy = chosen.among(rows.bytes, np.asarray(batch.column("high")))
        bounds = np.zeros(len(roots), np.int64)
        for some, kernel in ((np.flatnonzero(heavy), _ascent), (np.flatnonzero(~heavy), _farthest)):
            if len(some):
                bounds[some] = kernel(graph, roots[some], *_picked(offsets, terminals, some))
        for part in range(PARTS):
            here = rows.part == part
            parts[part] += int((bounds[here] * rows.bytes[here]).sum())
    return parts


def _picked(offsets: Ints, values: Ints, some: Ints) -> tuple[Ints, Ints]:
    """Some of many lists."""
    lengths = np.diff(offsets)[some]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return ends, values[np.repeat(offsets[some] - ends[:-1], lengths) + np.arange(ends[-1])]


def _ascent(graph: Scaled, roots: Ints, offsets: Ints, terminals: Ints) -> Ints:
    found = np.zeros(len(roots), np.int64)
    ascent_bounds(graph.offsets, graph.targets, graph.prices, roots, offsets, terminals, found)
    return found


def _farthest(graph: Scaled, roots: Ints, offsets: Ints, terminals: Ints) -> Ints:
    """From one root after the other, so that there is never a table of all distances."""
    found = np.zeros(len(roots), np.int64)
    sources, which = np.unique(roots, return_inverse=True)
    row_of = np.repeat(np.arange(len(roots)), np.diff(offsets))
    distances = np.empty((1, len(graph.offsets) - 1))
    before = np.empty((1, len(graph.offsets) - 1), np.int64)
    order = np.argsort(which[row_of], kind="stable")
    starts = np.searchsorted(which[row_of][order], np.arange(len(sources) + 1))
    for number in range(len(sources)):
        mine = order[starts[number] : starts[number + 1]]
        cheapest_paths(
            graph.offsets,
            graph.targets,
            graph.prices.astype(np.float64),
            sources[number : number + 1],
            distances,
            before,
        )
        np.maximum.at(found, row_of[mine], distances[0, terminals[mine]].astype(np.int64))
    return found
