"""The overlay problem as arrays: what planners that attach users to brokers decide on."""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from overstory.errors import InfeasibleError
from overstory.kernels.overlay_state import Given
from overstory.model.access import access_of
from overstory.model.network import Network
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS
from overstory.planners.defaults import brokers_that_take
from overstory.planners.overlay.reach import Reach, reach_of
from overstory.planners.overlay.traffic import LOG, Traffic, traffic_of
from overstory.planners.steps import Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
RESERVE, MOST_RESERVED, PER_ROOT = 0.02, 0.2, 4.0  # of a capacity: see ``reserve_for``
MOST_DENSE = 1 << 28  # entries of tables of users times brokers, or of users times channels


class Ways(NamedTuple):
    """By two brokers: the price of the cheapest way, and the broker before the last on it."""

    far: Floats
    before: Ints


def ways_of(network: Network) -> Ways:
    far, before = shortest_path(network.weighted(network.prices), return_predecessors=True)
    return Ways(far, before.astype(np.int64))


class Instance:
    """A scenario's traffic, what access costs within reach, ways between brokers and capacities."""

    def __init__(
        self, scenario: Scenario, pipeline: Steps, channels: object, fine: bool = False, traffic: object = LOG
    ) -> None:
        self.scenario, self.pipeline = scenario, pipeline
        self.traffic: Traffic = traffic_of(scenario, pipeline, channels, fine, traffic)
        self.network = scenario.network
        capacity = scenario.brokers.sort_by("id")["capacity"].to_numpy()
        self.room: Floats = np.where(np.isnan(capacity), np.inf, capacity)
        self.capacity: Floats = self.room * (1 - reserve_for(self.traffic.seen))
        self._check_capacity()

    def _check_capacity(self) -> None:
        """Raises an ``InfeasibleError`` where all brokers together, or each alone, have too little room."""
        taking = self.network.positions(brokers_that_take(self.scenario))
        room, demand = self.room[taking], self.traffic.demand
        if demand.sum() > room.sum():
            raise InfeasibleError(
                f"capacity: clients send and get about {demand.sum():,.0f} bytes, and brokers have room for "
                f"{room.sum():,.0f}; raise capacities, or take them out of brokers"
            )
        if len(room) and demand.max(initial=0.0) > room.max():
            worst = int(demand.argmax())
            raise InfeasibleError(
                f"capacity: client {self.traffic.users[worst]} alone sends and gets about {demand[worst]:,.0f} bytes, "
                f"and no broker has room for more than {room.max():,.0f}"
            )

    @cached_property
    def reach(self) -> Reach:
        traffic = self.traffic
        return reach_of(self.scenario, self.pipeline, traffic.users, traffic.sent, traffic.got)

    @cached_property
    def nearest(self) -> Reach:
        """The same for few brokers, where these are enough to begin with."""
        traffic = self.traffic
        return reach_of(self.scenario, self.pipeline, traffic.users, traffic.sent, traffic.got, most=FIRST)

    @cached_property
    def ways(self) -> Ways:
        return ways_of(self.network)

    @cached_property
    def given(self) -> Given:
        """For kernels; core is priced as a link's price says, times the price of core."""
        traffic, price = self.traffic, self.scenario.settings.prices.core
        far = self.ways.far * price if price else np.zeros_like(self.ways.far)
        return Given(
            far,
            (far + far.T) / 2,
            np.ones(1),
            traffic.kind,
            traffic.wants.offsets,
            traffic.wants.items,
            traffic.sends.offsets,
            traffic.sends.items,
            traffic.sends.weights,
            self.reach.brokers,
            self.reach.costs,
            traffic.demand,
            self.capacity,
            traffic.total,
        )

    @cached_property
    def prices(self) -> Floats:
        """By user and broker: of a byte on the access link, the mean of both directions; infinite out of reach."""
        users, brokers = self.traffic.users, self.network.ids
        check_dense(len(users) * len(brokers), "users times brokers")
        links = access_of(self.scenario)
        found = (links.up(users[:, None], brokers).prices + links.down(users[:, None], brokers).prices) / 2
        known = np.zeros(found.shape, bool)
        reach = self.reach.brokers
        rows = np.repeat(np.arange(len(users)), reach.shape[1])[reach.ravel() >= 0]
        known[rows, reach.ravel()[reach.ravel() >= 0]] = True
        return np.where(known, found, np.inf)

    def access_at(self, at: Ints) -> Floats:
        """By user: what its access costs at a broker, by position."""
        traffic, links = self.traffic, access_of(self.scenario)
        brokers, price = self.network.ids[at], self.scenario.settings.prices.access
        up, down = links.up(traffic.users, brokers).prices, links.down(traffic.users, brokers).prices
        return (up * traffic.sent + down * traffic.got) * price

    def wants_matrix(self) -> Floats:
        """By user and channel: 1 where it wants something of the channel."""
        traffic = self.traffic
        check_dense(len(traffic.users) * traffic.channels, "users times channels")
        by_kind = np.zeros((len(traffic.wants.offsets) - 1, traffic.channels))
        by_kind[np.repeat(np.arange(len(by_kind)), np.diff(traffic.wants.offsets)), traffic.wants.items] = 1.0
        return by_kind[traffic.kind]

    def rates_matrix(self) -> Floats:
        """By user and channel: the bytes that it publishes."""
        traffic = self.traffic
        check_dense(len(traffic.users) * traffic.channels, "users times channels")
        found = np.zeros((len(traffic.users), traffic.channels))
        rows = np.repeat(np.arange(len(traffic.users)), np.diff(traffic.sends.offsets))
        found[rows, traffic.sends.items] = traffic.sends.weights
        return found

    def attachments(self, at: Ints) -> pa.Table:
        rows = {"client": self.traffic.users, "broker": self.network.ids[at]}
        return pa.table(rows, schema=ATTACHMENTS.schema)


FIRST = 8  # brokers that are looked at for each user before all others


def reserve_for(events: int | None) -> float:
    """The share of each capacity that planners leave free: rates of the whole log are estimated from so many events,
    and the estimate errs by the inverse of their root. Densities that are given are taken at their word."""
    if events is None:
        return RESERVE
    return min(max(PER_ROOT / math.sqrt(max(events, 1)), RESERVE), MOST_RESERVED)


def check_dense(entries: int, what: str) -> None:
    if entries > MOST_DENSE:
        raise InfeasibleError(f"{entries:,} {what} are too many for this planner; overlay-search takes them")


def room_for(instance: Instance, at: Ints) -> tuple[str, ...]:
    """In words: which capacities do not hold, as far as the planner can tell."""
    load = np.bincount(at, instance.traffic.demand, len(instance.network))
    over = np.flatnonzero(load > instance.room)
    if not len(over):
        return ()
    worst = over[np.argmax(load[over] - instance.capacity[over])]
    more = f" ({len(over):,} brokers are)" if len(over) > 1 else ""
    return (f"capacity: broker {instance.network.ids[worst]} is given more than it has room for{more}",)
