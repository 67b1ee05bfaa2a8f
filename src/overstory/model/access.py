"""What the links between clients and brokers cost: a row of ``links`` says it, else the metric, else they are free.

A million clients times a thousand brokers is never a table, so pairs are asked for, as many at once as one likes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.model.network import Floats, Ints
from overstory.model.scenario import Scenario
from overstory.model.settings import Access


class Toll(NamedTuple):
    """Of crossing links in one direction."""

    prices: Floats  # of a byte
    delays: Floats  # milliseconds


@dataclass(frozen=True, eq=False)
class ClientLinks:
    """Brokers and clients stand in the order of their ids, so that a pair of them is one number, its key. Of several
    rows between the same two ends only the cheapest is kept (the quickest, if they cost the same)."""

    metric: Access
    ids: Ints
    x: Floats  # NaN where a coordinate is missing
    y: Floats
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
        distance = np.hypot(self.x[sources] - self.x[targets], self.y[sources] - self.y[targets])
        distance = np.where(np.isnan(distance), np.inf, distance)  # nobody knows where it is: never the cheapest
        return Toll(*[distance * each if each else free for each in (self.metric.price, self.metric.delay)])


def access_of(scenario: Scenario) -> ClientLinks:
    brokers, clients = scenario.brokers, scenario.clients
    ids: Ints = np.concatenate([brokers["id"].to_numpy(), clients["id"].to_numpy()])
    x, y = (np.concatenate([brokers[name].to_numpy(), clients[name].to_numpy()]) for name in ("x", "y"))
    order = np.argsort(ids)
    ids = ids[order]
    keys, rows = _cheapest(ids, brokers["id"].to_numpy(), scenario.links)
    return ClientLinks(scenario.settings.access, ids, x[order], y[order], keys, rows)


def _cheapest(ids: Ints, brokers: Ints, links: pa.Table) -> tuple[Ints, Toll]:
    """The keys of the rows between a broker and a client, and what they say."""
    source, target = links["source"].to_numpy(), links["target"].to_numpy()
    outer = np.isin(source, brokers) != np.isin(target, brokers)
    keys = np.searchsorted(ids, source[outer]) * len(ids) + np.searchsorted(ids, target[outer])
    prices, delays = links["price"].to_numpy()[outer], links["delay"].to_numpy()[outer]
    order = np.lexsort((delays, prices, keys))
    keys, first = np.unique(keys[order], return_index=True)
    return keys, Toll(prices[order][first], delays[order][first])
