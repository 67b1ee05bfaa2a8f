"""Who wants which topics, and how often each has an event: what planners of topics see of a scenario."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.model.scenario import Scenario
from overstory.planners.steps import Csr, Interests, Steps
from overstory.planners.topics.costs import Costs, check_priced, costs_in

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Demand(NamedTuple):
    """Of user i the topics between ``offsets`` i and i + 1, ascending. ``rates`` are events in an interval."""

    offsets: Ints
    topics: NDArray[np.int32]
    rates: Floats

    @property
    def users(self) -> int:
        return len(self.offsets) - 1

    @property
    def user_of(self) -> Ints:
        """The user who has each interest, by interest."""
        return np.repeat(np.arange(self.users), np.diff(self.offsets))

    @property
    def popularity(self) -> Ints:
        """How many users want a topic, by topic."""
        return np.bincount(self.topics, minlength=len(self.rates))

    def wants(self) -> NDArray[np.bool_]:
        """Whether a user wants a topic, by user and topic."""
        found = np.zeros((self.users, len(self.rates)), bool)
        found[self.user_of, self.topics] = True
        return found

    def both_ways(self) -> Csr:
        """The topics of users, and the users of topics, ascending."""
        order = np.argsort(self.topics, kind="stable")
        fans = self.user_of[order].astype(np.int32)
        return self.offsets, self.topics, np.concatenate([[0], np.cumsum(self.popularity)]), fans


class Asked(NamedTuple):
    """What a scenario asks for. Users are the clients with a subscription, in the order of their ids."""

    demand: Demand
    costs: Costs
    interests: Interests
    user_of: Ints  # by subscription: its client, as a number of a user


def asked_in(scenario: Scenario, pipeline: Steps) -> Asked:
    """Rates are those of the parts of the log that planners see, scaled up to all of it."""
    check_priced(scenario)
    interests = pipeline.interests(scenario)
    clients, user_of = np.unique(scenario.subscriptions["client"].to_numpy(), return_inverse=True)
    topics = max(len(interests.names), 1)
    mine = np.repeat(user_of, np.diff(interests.offsets))
    keys = np.unique(mine * topics + interests.topics)
    user, topic = np.divmod(keys, topics)
    offsets = np.searchsorted(user, np.arange(len(clients) + 1))
    rates = interests.bytes / (scenario.settings.intervals or 1.0)
    demand = Demand(offsets, topic.astype(np.int32), rates)
    return Asked(demand, costs_in(scenario, len(clients), len(rates)), interests, user_of)


def lower_bound(demand: Demand, costs: Costs) -> float:
    """No clusters and no subscriptions can cost less: each interested user gets each event once, has at least one
    subscription, and every event is told to its topic's channel. It holds where no curve falls."""
    popularity = demand.popularity
    delivered = float(np.sum(demand.rates * (costs.notify + costs.deliver[popularity])))
    interested = int(np.sum(np.diff(demand.offsets) > 0))
    return delivered + float(costs.maintain[interested])
