"""A Steiner tree for each event: what the log would cost if every event took a tree of its own.

Nobody can install that, but plans are measured against it, and Algorithm 1 of the routing-trees paper begins with the
bytes that cross each link. Trees are approximate (``kernels.steiner``), made once for all rows of a batch that have the
same root and terminals. What is counted is an integer for each link; prices are applied on the driver.

Distances travel to Spark's workers as files, which these map into memory: one copy a host.
"""

import pickle
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.distances import Distances, distances_to
from overstory.kernels.graphs import Graph, graph_of
from overstory.kernels.metering import DUPLICATES, FALSE_POSITIVES, PARTS, Rules, Totals
from overstory.kernels.steiner import distinct_instances, steiner_trees
from overstory.kernels.travel import terminal_sets
from overstory.model.network import Network
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard
from overstory.model.tables import FLOWS, MEMBERS, TREE
from overstory.pipeline.bound import Bound
from overstory.pipeline.entries import Entries
from overstory.pipeline.match import ship
from overstory.pipeline.rows import rows_of
from overstory.pipeline.rules import Metered
from overstory.pipeline.score import scorecard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
Batches = Iterable[pa.RecordBatch]
FAMILIAR = 60  # powers of two, up or down, in which prices are taken as they are


class Crossings(NamedTuple):
    """By part of the log and directed link: what the trees of all events send over it."""

    frames: Ints
    bytes: Ints


def without_links(scenario: Scenario, attachments: pa.Table) -> Plan:
    """Who is where, and no way to anybody: all that Steiner trees need of a plan."""
    subscriptions = scenario.subscriptions["id"]
    size = len(subscriptions)
    flow = {"flow": [0], "kind": [TREE], "events": [EVERYTHING], "associations": [0]}
    members = {"flow": np.zeros(size, np.int64), "subscription": subscriptions, "part": pa.nulls(size, pa.string())}
    tables = {
        "attachments": attachments,
        "flows": pa.table(flow, schema=FLOWS.schema),
        "members": pa.table(members, schema=MEMBERS.schema),
    }
    return Plan.of(Header("", scenario.fingerprint), tables)


def crossings_of(rows: "DataFrame", metered: Metered, network: Network, tree_effort: str, folder: Path) -> Crossings:
    """Grows a Steiner tree for each distinct event, on Spark.

    Files for the workers are put into the folder, under names that no other folder's have."""
    graph, distances = ground_of(network, metered.rules)
    names = []
    for name in ("far", "first"):
        path = folder / f"{folder.name}-{name}.npy"
        np.save(path, getattr(distances, name))
        names.append(ship(rows.sparkSession, path))
    context = rows.sparkSession.sparkContext
    given = context.broadcast((metered.rules, metered.publishers, graph, distances.row_of))

    def cross(batches: Batches) -> Iterator[pa.RecordBatch]:
        rules, publishers, graph, row_of = given.value
        found = crossed(batches, rules, publishers, graph, Distances(row_of, *map(_mapped, names)), tree_effort)
        yield pa.RecordBatch.from_pydict({"counts": [pickle.dumps(tuple(found))]})

    parts = rows.repartition(2 * context.defaultParallelism).mapInArrow(cross, "counts binary").toArrow()
    total = _nothing(graph)
    for counts in parts["counts"].to_pylist():
        for ours, theirs in zip(total, pickle.loads(counts), strict=True):
            ours += theirs
    return total


def card_of(
    scenario: Scenario,
    base: Plan,
    metered: Metered,
    totals: Totals,
    crossings: Crossings,
    bound: Bound,
    least_total: Fraction = Fraction(0),
) -> Scorecard:
    """A reference: core traffic is that of the trees; clients send and get what they do under ``base``, which must be
    exact. Nothing is installed, so there is nothing to keep up; delays are not known."""
    counts = totals.counts.copy()
    counts[:, [DUPLICATES, FALSE_POSITIVES]] = 0
    ours = totals._replace(link_frames=crossings.frames, link_bytes=crossings.bytes, counts=counts)
    card, _ = scorecard(scenario, base, metered, ours, Entries(0, 0, 0), bound, least_total)
    return msgspec.structs.replace(card, flows=0, mean_delay=None, max_delay=None, exceeded=())


def ground_of(network: Network, rules: Rules) -> tuple[Graph, Distances]:
    """The network, and the distances to all brokers that publish or want something. Prices are only compared."""
    known = network.offsets, network.targets, _in_reach(network.prices)
    return graph_of(*known), distances_to(*known, np.union1d(rules.group_broker, rules.publisher_broker))


def _in_reach(prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """In another unit of money where the dearest link is so dear or so cheap that a table of distances, which has short
    floats, could not hold it."""
    _, exponent = np.frexp(prices.max(initial=0.0))
    return prices if abs(int(exponent)) <= FAMILIAR else np.ldexp(prices, -int(exponent))


def crossed(
    batches: Batches, rules: Rules, publishers: Ints, graph: Graph, distances: Distances, tree_effort: str
) -> Crossings:
    """Without Spark: what rows of the reduced log come to."""
    total = _nothing(graph)
    for batch in batches:
        rows = rows_of(batch, publishers)
        distinct = distinct_instances(*terminal_sets(rules, rows))
        trees = steiner_trees(graph, distances, *distinct[:3], tree_effort)
        for part in range(PARTS):
            here = rows.part == part
            for counts, weights in ((total.frames, rows.events), (total.bytes, rows.bytes)):
                weight = np.zeros(len(distinct.roots), np.int64)
                np.add.at(weight, distinct.which[here], weights[here])
                np.add.at(counts[part], trees.links, np.repeat(weight, np.diff(trees.offsets)))
    return total


def _nothing(graph: Graph) -> Crossings:
    shape = PARTS, len(graph.targets)
    return Crossings(np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def _mapped(name: str) -> NDArray[np.generic]:
    """Maps, in a worker of Spark, a table that was shipped there.

    Not read-only, since kernels are compiled for arrays that can be written to; nobody does."""
    from pyspark import SparkFiles

    return np.asarray(np.load(SparkFiles.get(name), mmap_mode="c"))
