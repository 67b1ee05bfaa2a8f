"""What the links between clients and brokers cost: a row of ``links`` says it, else the metric, else they are free.

A million clients times a thousand brokers is never a table, so pairs are asked for, as many at once as one likes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overstory.model.network import Floats, Ints
from overstory.model.scenario import Scenario
from overstory.model.settings import Access

BOTH_WAYS = np.minimum, np.maximum
MASK = (1 << 64) - 1


class Toll(NamedTuple):
    """What crossing links costs and how long it takes, in one direction."""

    prices: Floats  # of a byte
    delays: Floats  # milliseconds


@dataclass(frozen=True, eq=False)
class ClientLinks:
    """Brokers and clients stand in the order of their ids, so that a pair of them is one number, its key. Of several
    rows between the same two ends only the cheapest is kept (the quickest, if they cost the same)."""

    metric: Access
    ids: Ints
    places: Floats  # by broker or client: its coordinates, NaN where one is missing
    keys: Ints  # of the rows, ascending
    rows: Toll

    def up(self, clients: Ints, brokers: Ints) -> Toll:
        """From clients to brokers, given by their ids: arrays of one shape, or that NumPy broadcasts to one."""
        return self._between(self._positions(clients), self._positions(brokers))

    def down(self, clients: Ints, brokers: Ints) -> Toll:
        """The way back, from brokers to clients."""
        return self._between(self._positions(brokers), self._positions(clients))

    def _positions(self, ids: Ints) -> Ints:
        return np.searchsorted(self.ids, ids)

    def _between(self, sources: Ints, targets: Ints) -> Toll:
        prices, delays = self._measured(sources, targets)
        if not len(self.keys):
            return Toll(prices, delays)
        wanted = sources * len(self.ids) + targets
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        known = self.keys[at] == wanted
        return Toll(np.where(known, self.rows.prices[at], prices), np.where(known, self.rows.delays[at], delays))

    def _measured(self, sources: Ints, targets: Ints) -> Toll:
        free = np.zeros(np.broadcast_shapes(np.shape(sources), np.shape(targets)))
        if self.metric.metric == "none":
            return Toll(free, free)
        if self.metric.metric == "independent":
            # The same both ways
            distance = _drawn(self.metric.seed, *(each(self.ids[sources], self.ids[targets]) for each in BOTH_WAYS))
        else:
            distance = self._distance(sources, targets)
        return Toll(*[distance * each if each else free for each in (self.metric.price, self.metric.delay)])

    def _distance(self, sources: Ints, targets: Ints) -> Floats:
        """One coordinate after the other, so that many pairs need no more room than their distances."""
        distance: Floats = np.zeros(np.broadcast_shapes(np.shape(sources), np.shape(targets)))
        for column in self.places.T:
            distance = np.hypot(distance, column[sources] - column[targets])
        return np.where(np.isnan(distance), np.inf, distance)  # nobody knows where it is: never the cheapest


def _drawn(seed: int, one: Ints, other: Ints) -> Floats:
    """A number from 0 to 1 of each pair, by a hash (splitmix64) of its ids and the seed: 10⁹ prices without a table."""
    mixed = _mixed(
        _mixed(np.asarray(one).astype(np.uint64) + _mixed(np.uint64(seed & MASK))) ^ np.asarray(other).astype(np.uint64)
    )
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def _mixed(numbers: Any) -> Any:
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return numbers ^ (numbers >> np.uint64(31))


def access_of(scenario: Scenario) -> ClientLinks:
    brokers, clients = scenario.brokers, scenario.clients
    ids: Ints = np.concatenate([brokers["id"].to_numpy(), clients["id"].to_numpy()])
    places = np.concatenate([_places(scenario.settings.access.metric, rows) for rows in (brokers, clients)])
    order = np.argsort(ids)
    ids = ids[order]
    keys, rows = _cheapest(ids, brokers["id"].to_numpy(), scenario.links)
    return ClientLinks(scenario.settings.access, ids, places[order], keys, rows)


def _places(metric: str, rows: pa.Table) -> Floats:
    if metric == "places":
        places = rows["place"].combine_chunks()
        return np.asarray(places.flatten()).reshape(len(places), -1)
    return np.stack([rows["x"].to_numpy(), rows["y"].to_numpy()], axis=1)


def _cheapest(ids: Ints, brokers: Ints, links: pa.Table) -> tuple[Ints, Toll]:
    """The keys of the rows between a broker and a client, and what they say."""
    source, target = links["source"].to_numpy(), links["target"].to_numpy()
    outer = np.isin(source, brokers) != np.isin(target, brokers)
    keys = np.searchsorted(ids, source[outer]) * len(ids) + np.searchsorted(ids, target[outer])
    prices, delays = links["price"].to_numpy()[outer], links["delay"].to_numpy()[outer]
    order = np.lexsort((delays, prices, keys))
    keys, first = np.unique(keys[order], return_index=True)
    return keys, Toll(prices[order][first], delays[order][first])
