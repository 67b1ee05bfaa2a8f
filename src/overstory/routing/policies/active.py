"""Active covering: a neighbour holds exactly the subscriptions that no other covers.

A new one that covers some that were sent is sent, and they are withdrawn. When it goes, they are all sent again at
once: the burst that the paper is about.
"""

from overstory.routing import policy
from overstory.routing.messages import Key
from overstory.routing.outlet import Order, Outlet

NAME = "active"
SUMMARY = "a covered subscription is not forwarded, and is withdrawn if it was"


class Policy(policy.Policy):
    def tidied(self, outlet: Outlet, key: Key) -> list[Order]:
        orders = []
        for each in outlet.covered_by(key):
            orders.append(policy.unsay(outlet, each, withdrawn=True))
            if each in outlet.left_over:
                outlet.drop(each)
        return orders
