"""What ways cost that a broker may have to know when it moves clients by itself: between brokers, and to clients."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from overstory.model.access import ClientLinks, access_of
from overstory.model.scenario import Scenario

Floats = NDArray[np.float64]


class Terrain:
    """The brokers of a network by their positions, in the order of their numbers."""

    def __init__(
        self, brokers: Sequence[int], far: Floats, capacity: Floats, links: ClientLinks | None, price: float = 1.0
    ) -> None:
        """``far`` has what a byte costs from one broker to another, ``capacity`` the bytes a second that clients of
        each may have; ``links`` and ``price`` say what access costs: without ``links`` nothing."""
        self.brokers, self.far, self.capacity = list(brokers), far, capacity
        self._places = {broker: place for place, broker in enumerate(self.brokers)}
        self._links, self._price = links, price

    def __contains__(self, broker: int) -> bool:
        return broker in self._places

    def position(self, broker: int) -> int:
        """The position of a broker."""
        return self._places[broker]

    def access(self, client: int, places: Sequence[int], got: float, sent: float) -> Floats:
        """What so many bytes to and from a client cost at brokers. A client that the scenario does not know costs the
        same everywhere: nothing."""
        brokers = np.array([self.brokers[place] for place in places], np.int64)
        links = self._links
        if links is None or client not in links.ids[np.searchsorted(links.ids, client) :][:1]:
            return np.zeros(len(brokers))
        clients = np.full(len(brokers), client)
        prices = links.up(clients, brokers).prices * sent + links.down(clients, brokers).prices * got
        return np.asarray(prices * self._price)


def terrain_of(scenario: Scenario) -> Terrain:
    """What a scenario says."""
    network, prices = scenario.network, scenario.settings.prices
    links = csr_array((network.prices, (network.sources, network.targets)), shape=(len(network), len(network)))
    far = shortest_path(links, method="D") * prices.core
    capacity = scenario.brokers.sort_by("id")["capacity"].to_numpy()
    room = np.where(np.isnan(capacity), np.inf, capacity)
    return Terrain(network.ids.tolist(), far, room, access_of(scenario), prices.access)
