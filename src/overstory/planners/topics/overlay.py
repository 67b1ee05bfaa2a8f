"""What a topic-connected overlay of the users themselves costs: TCO-GM, a reference that is no plan of ours.

Its links are kept alive once for all topics that they carry, nobody forwards what it does not want, and each event
reaches each interested user once. It needs users that connect to each other, so there is nothing to install.
"""

import numpy as np

from overstory.errors import UsageError
from overstory.kernels.topic_overlay import greedy_links
from overstory.planners.topics.clustering import Overall
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand

MOST_USERS = 6000  # of whom every pair is looked at


def overlay_cost(demand: Demand, costs: Costs) -> Overall:
    """A link costs what a subscription does: its keep-alives."""
    if demand.users > MOST_USERS:
        raise UsageError(f"a topic-connected overlay looks at all pairs of users: at most {MOST_USERS:,}")
    links = greedy_links(demand.offsets, demand.topics)
    each = float(costs.maintain[1] - costs.maintain[0])
    events = float(np.sum(demand.rates * (costs.notify + costs.deliver[demand.popularity])))
    return Overall(each * len(links), events)
