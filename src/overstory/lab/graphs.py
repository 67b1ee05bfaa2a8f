"""A broker network before it is part of a scenario: brokers by position, undirected links.

Every generator and reader returns a ``Topology`` that is simple (no loops, no parallel links) and connected, and the
same one for the same arguments.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from overstory.errors import UsageError
from overstory.model.network import Floats, Ints
from overstory.model.tables import BROKERS, LINKS

MadeBy = dict[str, str | int | float | bool]  # what ``scenario.toml`` says of it
HOP = 1.0  # the price and the delay, in milliseconds, of a link that has none of its own


@dataclass(frozen=True, eq=False)
class Topology:
    brokers: int
    sources: Ints  # each link stands once, from the lower to the higher position
    targets: Ints
    names: list[str] | None = None
    x: Floats | None = None
    y: Floats | None = None
    prices: Floats | None = None
    delays: Floats | None = None  # milliseconds
    made_by: MadeBy = field(default_factory=dict)
    back_prices: Floats | None = None  # from the higher to the lower position, where they differ
    back_delays: Floats | None = None
    ids: list[str] | None = None  # what the file calls its brokers beside their names
    notes: tuple[str, ...] = ()  # in words: what was taken for what, and what was left out

    def adjacency(self) -> csr_array:
        """Ones in both directions. In float32, in which scipy multiplies fastest."""
        return adjacency(self.brokers, self.sources, self.targets)


def adjacency(brokers: int, sources: Ints, targets: Ints) -> csr_array:
    ends = np.concatenate((sources, targets)), np.concatenate((targets, sources))
    return csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(brokers, brokers))


def components(brokers: int, sources: Ints, targets: Ints) -> Ints:
    """Which connected component each broker is in."""
    found: NDArray[np.int32] = connected_components(adjacency(brokers, sources, targets), directed=False)[1]
    return found.astype(np.int64)


def is_connected(brokers: int, sources: Ints, targets: Ints) -> bool:
    return not components(brokers, sources, targets).any()


def simple_links(brokers: int, sources: Ints, targets: Ints, lengths: Floats) -> Ints:
    """Which links remain when loops go and only the shortest of parallel ones stays, in the order of their ends."""
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    order = np.lexsort((lengths, high, low))
    order = order[low[order] != high[order]]
    _, first = np.unique((low * brokers + high)[order], return_index=True)
    kept: Ints = order[first]
    return kept


def from_links(
    brokers: int,
    sources: Ints,
    targets: Ints,
    made_by: MadeBy,
    names: list[str] | None = None,
    x: Floats | None = None,
    y: Floats | None = None,
) -> Topology:
    """A topology without prices of its own, from links in any order and direction, perhaps several times."""
    keep = simple_links(brokers, sources, targets, np.zeros(len(sources)))
    low, high = np.minimum(sources, targets)[keep], np.maximum(sources, targets)[keep]
    return Topology(brokers, low, high, names, x, y, made_by=made_by)


def as_tables(topology: Topology) -> dict[str, pa.Table]:
    """``brokers`` with the ids 0 to n - 1, and ``links`` in both directions."""
    count, links = topology.brokers, len(topology.sources)
    prices = np.full(links, HOP) if topology.prices is None else topology.prices
    delays = np.full(links, HOP) if topology.delays is None else topology.delays
    sources = np.concatenate((topology.sources, topology.targets))
    targets = np.concatenate((topology.targets, topology.sources))
    order = np.lexsort((targets, sources))
    brokers: dict[str, object] = {"id": np.arange(count)}
    for name in ("name", "x", "y"):
        values = topology.names if name == "name" else getattr(topology, name)
        brokers[name] = pa.nulls(count, BROKERS.schema.field(name).type) if values is None else values
    back_prices = prices if topology.back_prices is None else topology.back_prices
    back_delays = delays if topology.back_delays is None else topology.back_delays
    tolls = [np.concatenate((prices, back_prices))[order], np.concatenate((delays, back_delays))[order]]
    columns = [sources[order], targets[order], *tolls]
    return {
        "brokers": pa.table(brokers, BROKERS.schema),
        "links": pa.table(dict(zip(LINKS.schema.names, columns, strict=True)), LINKS.schema),
    }


def dice(seed: int) -> np.random.Generator:
    if seed < 0:
        raise UsageError(f"a seed must be 0 or more, not {seed}")
    return np.random.default_rng(seed)


def checked_brokers(brokers: int) -> int:
    if brokers < 1:
        raise UsageError(f"a network needs at least 1 broker, not {brokers}")
    return brokers


def checked_probability(name: str, value: float) -> float:
    if not 0 < value <= 1:
        raise UsageError(f"{name} must be more than 0 and at most 1, not {value}")
    return value
