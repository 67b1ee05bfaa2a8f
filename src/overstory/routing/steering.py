"""Where steered events go: one pure function of the publishing broker, the ends and the links that are down.

The *ends* of an event are the brokers where it is to stay. Its tree is the union of the cheapest paths to them
(``paths``), or a Steiner tree (``steiner``) with the prices of links in the direction of the event. The same network,
broker, ends and links give the same tree at every broker, in every run.

The tree is found once, where the event is published, and travels in the header of its frames (``wire.steering``). A hop
never computes it anew, because a Steiner tree of the ends that are left need not be the rest of the tree. Only a broker
before a link that is down finds another way for what lies behind it.
"""

from collections.abc import Iterable, Mapping, Set
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.graphs import moderate_prices
from overstory.kernels.nothing import NONE
from overstory.kernels.steered import path_trees_from
from overstory.kernels.steering import Ports, ports_of
from overstory.kernels.steiner_router import Router, links_of, prepare, without
from overstory.kernels.ways import ways_from
from overstory.model.network import Network
from overstory.model.tables import PATHS
from overstory.wire.steering import digest_of

Ints = NDArray[np.int64]
Link = tuple[int, int]  # source, target


class Steering:
    """The trees of steered events on one network, of which some links may be down."""

    def __init__(self, network: Network, whole: "Steering | None" = None, down: Set[Link] = frozenset()) -> None:
        """``whole`` is the steering on the same network with nothing down, from whose tables others are made."""
        self.network, self.down = network, frozenset(down)
        self._whole = self if whole is None else whole

    @classmethod
    def on(cls, prices: Mapping[Link, float]) -> "Steering":
        """On a network that is given by the prices of its links."""
        return cls(network_of(prices))

    def without(self, down: Set[Link]) -> "Steering":
        """The same network, with just these links down."""
        if down == self.down:
            return self
        return Steering(self.network, self._whole, down) if down else self._whole

    def tree(self, kind: str, entry: int, ends: Iterable[int]) -> list[Link]:
        """The links from a broker to those ends that can be reached, each behind those that lead to it; all by id."""
        sought = self.network.positions(np.array(sorted(set(ends) - {entry}), np.int64))
        root = int(self.network.positions(np.array([entry]))[0])
        reached = sought[self.reaches(root, sought)]
        _, links = self.trees(kind, root, np.array([0, len(reached)]), reached)
        sources, targets = self.network.ids[self.network.sources[links]], self.network.ids[self.network.targets[links]]
        return list(zip(sources.tolist(), targets.tolist(), strict=True))

    def reaches(self, root: int, ends: Ints) -> NDArray[np.bool_]:
        """Whether there is a way from the root to each of these brokers; all by position."""
        found: NDArray[np.bool_] = (self._last_links(root)[ends] != NONE) | (ends == root)
        return found

    def trees(self, kind: str, root: int, offsets: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Trees from one broker to many sets of ends, ascending and without the root; all by position.

        The ends of set i are between offsets i and i + 1. So are the links of its tree, each behind those that lead to
        it, between the offsets that are returned. Every end must be within reach.
        """
        if kind == PATHS:
            lines = np.zeros(len(offsets) - 1, np.int64)
            return path_trees_from(self._last_links(root)[None], lines, self.network.sources, offsets, ends)
        return links_of(self._router.trees(np.full(len(offsets) - 1, root), offsets, ends))

    @cached_property
    def ports(self) -> Ports:
        """The ports of the network, with the links that are down."""
        return ports_of(self.network.offsets, self.network.targets)

    @cached_property
    def digest(self) -> int:
        """What headers say of the network."""
        return digest_of(self.network.ids, self.network.offsets, self.network.targets)

    @cached_property
    def _kept(self) -> Ints:
        """The links that are up."""
        network = self.network
        if not self.down:
            return np.arange(len(network.targets))
        ends = np.array(sorted(self.down), np.int64)
        gone = network.link_between(network.positions(ends[:, 0]), network.positions(ends[:, 1]))
        return np.setdiff1d(np.arange(len(network.targets)), gone)

    @cached_property
    def _up(self) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """The network of the links that are up: offsets, targets and prices."""
        network, kept = self.network, self._kept
        offsets = np.searchsorted(kept, network.offsets)
        return offsets, network.targets[kept], network.prices[kept]

    @cached_property
    def _router(self) -> Router:
        """Makes Steiner trees of the links that are up."""
        known = self.network.offsets, self.network.targets, moderate_prices(self.network.prices)
        if not self.down:
            return Router(prepare(*known))
        down = np.ones(len(known[1]), bool)
        down[self._kept] = False
        return Router(without(*known, self._whole._router.ways.distances, down))

    @cached_property
    def _known(self) -> dict[int, Ints]:
        return {}

    def _last_links(self, root: int) -> Ints:
        """By broker: the last link on the cheapest path to it, NONE at the root and where there is no way."""
        if root not in self._known:
            offsets, targets, prices = self._up
            found = ways_from(offsets, targets, prices, np.array([root])).link[0]
            self._known[root] = np.where(found == NONE, NONE, self._kept[found] if len(self._kept) else NONE)
        return self._known[root]


_KNOWN: list[tuple[Mapping[Link, float], Steering]] = []  # the last few that were asked for
MOST_KNOWN = 4


def steering_on(prices: Mapping[Link, float]) -> Steering:
    """The steering on a network. All brokers of one process that are given the same prices share its tables."""
    for known, steering in _KNOWN:
        if known is prices:
            return steering
    _KNOWN.insert(0, (prices, Steering.on(prices)))
    del _KNOWN[MOST_KNOWN:]
    return _KNOWN[0][1]


def network_of(prices: Mapping[Link, float]) -> Network:
    """The network that has these links and no others. It knows no delays."""
    ends = np.array(sorted(prices), np.int64).reshape(-1, 2)
    ids = np.unique(ends)
    paid = np.array([prices[source, target] for source, target in ends.tolist()], np.float64)
    sources, targets = np.searchsorted(ids, ends[:, 0]), np.searchsorted(ids, ends[:, 1])
    return Network.between(ids, sources, targets, paid, np.zeros(len(paid)))
