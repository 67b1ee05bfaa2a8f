"""What the layer weighs: subscriptions that have to be kept against events that are delivered."""

from typing import NamedTuple


class Prices(NamedTuple):
    """The price of a subscription for an interval, of an event that is delivered to one client, and of a topic's place
    in a cluster for an interval; and how many seconds an interval has."""

    subscription: float = 1.0
    event: float = 1.0
    association: float = 1.0
    interval: float = 60.0


OBSERVED = 2.0  # seconds that nobody may publish a topic without the layer before anyone relies on a cluster for it
