"""Paced forwarding: active covering, with a bucket of tokens for the subscriptions that an unsubscription uncovers.

Each uncovered subscription takes a token. The unsubscription waits until all of them have been sent. So no event is
lost and there is no burst. In return the neighbour learns of the unsubscription late, and false positives come until
then. New subscriptions take no token. The bucket is filled only now and then, so that the uncovered subscriptions are
looked up once for several tokens.
"""

from collections.abc import Sequence

from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policies.active import Policy as Active
from overstory.routing.policy import replaced, say

NAME = "paced"
SUMMARY = "active covering, but what an unsubscription uncovers is sent at a limited rate"
RATE = 0.5  # tokens in a second
BURST = 10.0  # tokens that the bucket holds
FILLED_EVERY = 10.0  # seconds


class Policy(Active):
    """Paced forwarding: active covering, but uncovered subscriptions are sent at a limited rate."""

    waits = FILLED_EVERY

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self.rate, self.burst = rate, burst

    def removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None) -> list[Order]:
        """Unsubscribes at once if that uncovers nothing, and else keeps a left-over that leaves bit by bit."""
        if not outlet.leave(key):
            return []
        if key not in outlet.sent or not outlet.exposed_by(key):
            return replaced(outlet, key)
        outlet.keep(key)
        outlet.leaving[key] = False
        return []

    def tick(self, outlet: Outlet, now: float) -> list[Order]:
        """Fills the bucket, and sends as many uncovered subscriptions as there are tokens."""
        outlet.tokens = min(self.burst, outlet.tokens + self.rate * (now - outlet.filled))
        outlet.filled = now
        orders: list[Order] = []
        for key, withdrawn in list(outlet.leaving.items()):
            for exposed in outlet.exposed_by(key):
                if outlet.tokens < 1:
                    return orders
                outlet.tokens -= 1
                orders.append(say(outlet, exposed, triggered=True))
            *others, last = replaced(outlet, key)
            orders += [*others, last._replace(withdrawn=withdrawn)]
        return orders
