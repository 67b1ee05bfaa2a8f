"""The overlay as arrays: brokers by position, links between brokers by direction."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Network:
    """Brokers stand in the order of their ids. The links that leave broker i are between offsets i and i + 1, by
    target; of several between the same two brokers only the cheapest is kept (the quickest, if they cost the same)."""

    ids: Ints
    offsets: Ints
    targets: Ints
    prices: Floats
    delays: Floats  # milliseconds

    @classmethod
    def of(cls, brokers: pa.Table, links: pa.Table) -> "Network":
        ids = np.sort(brokers["id"].to_numpy())
        source, target = links["source"].to_numpy(), links["target"].to_numpy()
        inner = np.isin(source, ids) & np.isin(target, ids) & (source != target)
        return cls.between(
            ids,
            np.searchsorted(ids, source[inner]),
            np.searchsorted(ids, target[inner]),
            links["price"].to_numpy()[inner],
            links["delay"].to_numpy()[inner],
        )

    @classmethod
    def between(cls, ids: Ints, sources: Ints, targets: Ints, prices: Floats, delays: Floats) -> "Network":
        """From links by the positions of their ends."""
        order = np.lexsort((delays, prices, targets, sources))
        sources, targets = sources[order], targets[order]
        first = np.ones(len(order), bool)
        first[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(np.bincount(sources[first], minlength=len(ids)), out=offsets[1:])
        return cls(ids, offsets, targets[first], prices[order][first], delays[order][first])

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def sources(self) -> Ints:
        return np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))

    @cached_property
    def back(self) -> Ints:
        """For each link the one that leads back, -1 if there is none: then it is in no tree."""
        return self.link_between(self.targets, self.sources)

    def positions(self, ids: Ints) -> Ints:
        """Of brokers, by their ids; all must be known."""
        return np.searchsorted(self.ids, ids)

    def link_between(self, sources: Ints, targets: Ints) -> Ints:
        """The numbers of directed links, by the positions of their ends; -1 where there is none."""
        size = len(self.ids)
        keys = self.sources * size + self.targets
        wanted = np.asarray(sources) * size + np.asarray(targets)
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        if not len(keys):
            return np.full(len(wanted), -1)
        return np.where(keys[at] == wanted, at, -1)

    def weighted(self, weights: Floats) -> csr_array:
        """A matrix for scipy's graph functions, which take an entry of 0 for no link: give them something tiny."""
        size = len(self.ids)
        return csr_array((np.maximum(weights, 1e-12), self.targets, self.offsets), shape=(size, size))

    def unreached(self) -> Ints:
        """Brokers that cannot be reached from the first one and back over the same links."""
        if len(self.ids) == 0:
            return np.empty(0, np.int64)
        both = self.back >= 0
        ends = (np.ones(both.sum()), (self.sources[both], self.targets[both]))
        _, component = connected_components(csr_array(ends, shape=(len(self), len(self))), directed=False)
        return np.flatnonzero(component != component[0])
