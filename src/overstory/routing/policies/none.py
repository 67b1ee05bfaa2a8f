"""No covering: every subscription goes to every neighbour that sent a matching advertisement."""

from overstory.routing import policy

NAME = "none"
SUMMARY = "every subscription is forwarded, covered or not"


class Policy(policy.Policy):
    covering = False
