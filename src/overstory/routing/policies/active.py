"""Active covering: a neighbour holds exactly the subscriptions that no other covers.

A new subscription that covers some that were sent is sent, and these are withdrawn. When it ends, they are all sent
again at once: this is the burst that the paper is about.
"""

from overstory.routing import policy
from overstory.routing.messages import Key
from overstory.routing.outlet import Order, Outlet

NAME = "active"
SUMMARY = "a covered subscription is not forwarded, and is withdrawn if it was"


class Policy(policy.Policy):
    """Active covering: a neighbour holds exactly the subscriptions that no other covers."""

    def tidied(self, outlet: Outlet, key: Key) -> list[Order]:
        """Withdraws the sent subscriptions that this one covers, and forgets the left-overs among them."""
        orders = []
        for covered in outlet.covered_by(key):
            orders.append(policy.unsay(outlet, covered, withdrawn=True))
            if covered in outlet.left_over:
                outlet.drop(covered)
        return orders
