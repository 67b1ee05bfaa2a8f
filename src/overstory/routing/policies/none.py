"""No covering: every subscription goes to every neighbour that events for it may come from."""

from overstory.routing import policy

NAME = "none"
SUMMARY = "every subscription is forwarded, covered or not"


class Policy(policy.Policy):
    """No covering: every subscription goes to every neighbour that events for it may come from."""

    covering = False
