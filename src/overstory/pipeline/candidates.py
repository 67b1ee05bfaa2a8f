"""Candidates: the brokers within reach of each client, as bits.

A broker is within reach if an event that comes through it is at the client in time: what it took to the broker
(``before``), and the access link's delay, are together at most what the client allows. Or, by price, if a byte on the
access link costs at most so much. A million clients times a thousand brokers is never a table of numbers: clients go
through in blocks, and of each pair one bit is left.
"""

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.access import ClientLinks, access_of
from overstory.model.delays import MICRO, in_micros
from overstory.model.scenario import Scenario
from overstory.pipeline.session import spark_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
DELAY, PRICE = "delay", "price"
WORD = 64
PAIRS_AT_ONCE = 1 << 21  # of a client and a broker, whose numbers are in memory together


class Candidates(NamedTuple):
    """Of client i, bit b % 64 of word b // 64 of row i tells whether broker b, by its position, is within reach."""

    clients: Ints  # in the order of the table
    words: Words


class Reach(NamedTuple):
    """What it takes to tell who is within reach."""

    links: ClientLinks
    brokers: Ints  # their ids
    before: Floats  # by broker
    by: str
    only_known: bool  # whether only links that the scenario lists, and a client's own broker, lead anywhere
    listed: Ints  # then: pairs of a client and a broker, as one number (see ``_pairs``), ascending


def reach_of(scenario: Scenario, before: Floats | None, by: str) -> Reach:
    if by not in (DELAY, PRICE):
        raise UsageError(f"by={by}: it is {DELAY} or {PRICE}")
    network = scenario.network
    if before is not None and len(before) != len(network):
        raise UsageError(f"before has {len(before)} values, and there are {len(network)} brokers")
    only_known = scenario.settings.access.metric == "none"
    links = access_of(scenario)
    return Reach(
        links,
        network.ids,
        np.zeros(len(network)) if before is None else before,
        by,
        only_known,
        _listed(scenario, links.ids) if only_known else np.empty(0, np.int64),
    )


def _listed(scenario: Scenario, every: Ints) -> Ints:
    """Pairs of a client and a broker between which there is a link, or where the client is attached."""
    ids, clients = scenario.network.ids, scenario.clients
    source, target = (scenario.links[name].to_numpy() for name in ("source", "target"))
    outward, inward = np.isin(source, ids), np.isin(target, ids)
    client = np.concatenate([target[outward & ~inward], source[inward & ~outward]])
    broker = np.concatenate([source[outward & ~inward], target[inward & ~outward]])
    placed = np.asarray(clients["broker"].is_valid())
    client = np.concatenate([client, clients["id"].to_numpy()[placed]])
    broker = np.concatenate([broker, clients["broker"].drop_null().to_numpy()])
    return np.unique(_pairs(every, client, len(ids)) + np.searchsorted(ids, broker))


def _pairs(every: Ints, clients: Ints, brokers: int) -> Ints:
    """Of clients and the first broker, as numbers: with another broker it is so many more."""
    return np.searchsorted(every, clients) * brokers


def limits_of(scenario: Scenario, limit: float | None) -> Floats:
    """By client: what it allows itself, else ``limit``; infinite if neither says anything."""
    usual = np.inf if limit is None else limit
    clients = scenario.clients
    if "latest" not in clients.column_names:
        return np.full(clients.num_rows, usual)
    return np.asarray(clients["latest"].fill_null(usual).to_numpy(), np.float64)


def words_of(reach: Reach, clients: Ints, limits: Floats) -> Words:
    """The bit masks of the brokers in reach, worked out for one block of clients after the other."""
    width = -(-len(reach.brokers) // WORD)
    found = np.zeros((len(clients), width), np.uint64)
    before = in_micros(reach.before)
    block = max(1, PAIRS_AT_ONCE // len(reach.brokers))
    for start in range(0, len(clients), block):
        some = clients[start : start + block]
        toll = reach.links.down(some[:, None], reach.brokers)
        numbers = toll.prices if reach.by == PRICE else (before + in_micros(toll.delays)) / MICRO
        near = numbers <= limits[start : start + block, None]
        if reach.only_known:
            first = _pairs(reach.links.ids, some, len(reach.brokers))
            near &= np.isin(first[:, None] + np.arange(len(reach.brokers)), reach.listed)
        bits = np.zeros((len(some), width * WORD), bool)
        bits[:, : len(reach.brokers)] = near
        found[start : start + block] = np.packbits(bits, axis=1, bitorder="little").view("<u8")
    return found


def candidates_here(scenario: Scenario, reach: Reach, limits: Floats) -> Candidates:
    clients = scenario.clients["id"].to_numpy()
    return Candidates(clients, words_of(reach, clients, limits))


def candidates_on(spark: "SparkSession", scenario: Scenario, reach: Reach, limits: Floats, folder: Path) -> Candidates:
    """The same, in Spark's workers."""
    clients = scenario.clients["id"].to_numpy()
    known = spark.sparkContext.broadcast(reach)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            row, client, limit = (np.asarray(batch.column(name)) for name in ("row", "client", "limit"))
            words = words_of(known.value, client, limit)
            yield pa.RecordBatch.from_pydict({"found": [pickle.dumps((row, words))]})

    found = np.zeros((len(clients), -(-len(reach.brokers) // WORD)), np.uint64)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "clients.parquet"
        pq.write_table(pa.table({"row": np.arange(len(clients)), "client": clients, "limit": limits}), path)
        rows = spark.read.parquet(spark_path(path)).repartition(2 * spark.sparkContext.defaultParallelism)
        for part in rows.mapInArrow(look, "found binary").toArrow()["found"].to_pylist():
            row, words = pickle.loads(part)
            found[row] = words
    return Candidates(clients, found)
